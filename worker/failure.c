#include "worker/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"

#define DELAY_BASE_S 15
#define JITTER_S     10
/* count^4 would be longer than a year from here on. */
#define DELAY_COUNT_MAX 75

void failure_set(struct failure *failure, const char *error_class, const char *format, ...)
{
    if (failure->error_class[0] != '\0')
        return;
    va_list arguments;
    snprintf(failure->error_class, sizeof failure->error_class, "%s", error_class);
    va_start(arguments, format);
    vsnprintf(failure->message, sizeof failure->message, format, arguments);
    va_end(arguments);
}

void failure_clear(struct failure *failure)
{
    failure->error_class[0] = '\0';
    failure->message[0] = '\0';
}

static unsigned next_count(const struct envelope *envelope)
{
    return envelope->was_retried ? envelope->retry_count + 1 : 0;
}

enum failure_fate failure_fate(const struct envelope *envelope)
{
    if (envelope->retry_off)
        return FAILURE_VANISHES;
    if (next_count(envelope) < envelope->retry_max)
        return FAILURE_RETRY;
    return envelope->dead_off ? FAILURE_VANISHES : FAILURE_DEAD;
}

int64_t failure_delay_ns(const struct envelope *envelope)
{
    int64_t count = next_count(envelope);
    if (count > DELAY_COUNT_MAX)
        count = DELAY_COUNT_MAX;
    int64_t jitter_ns = random_between(0, JITTER_S * (count + 1) * NS_PER_S - 1);
    return (count * count * count * count + DELAY_BASE_S) * NS_PER_S + jitter_ns;
}

static struct text_span span_of(const struct buffer *buffer)
{
    return (struct text_span){buffer->bytes, buffer->length};
}

void failure_write(const struct failure *failure, const struct envelope *envelope, const char *queue, const char *jid,
                   bool counts, struct wall_time now, struct buffer *out)
{
    struct buffer name = {0}, id = {0}, class_name = {0}, message = {0}, time = {0}, count = {0};
    envelope_append_string(&id, jid, strlen(jid));
    envelope_append_string(&name, queue, strlen(queue));
    envelope_append_string(&class_name, failure->error_class, strlen(failure->error_class));
    envelope_append_string(&message, failure->message, strlen(failure->message));
    envelope_append_time(&time, now);
    buffer_format(&count, "%u", next_count(envelope));
    struct envelope_change changes[] = {
        {"queue", span_of(&name)},
        {"jid", span_of(&id)},
        {"error_message", span_of(&message)},
        {"error_class", span_of(&class_name)},
        {envelope->was_retried ? "retried_at" : "failed_at", span_of(&time)},
        {"retry_count", span_of(&count)},
    };
    size_t uncounted = 4; /* the last two say that a try was made */
    envelope_rewrite(envelope, changes, counts ? sizeof changes / sizeof changes[0] : uncounted, out);
    buffer_fini(&name);
    buffer_fini(&id);
    buffer_fini(&class_name);
    buffer_fini(&message);
    buffer_fini(&time);
    buffer_fini(&count);
}
