/* The rules for failures in the job format. */
#include "worker/task/failure_outcome.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "base/utf8.h"
#include "worker/task/backtrace.h"

#define DELAY_BASE_S 15
#define JITTER_S     10
/* From here on count^4 seconds exceed a year. */
#define DELAY_COUNT_MAX 75

void failure_set_list(struct failure *failure, const char *error_class, const char *format, va_list arguments)
{
    if (failure->error_class[0] != '\0')
        return;
    snprintf(failure->error_class, sizeof failure->error_class, "%s", error_class);
    vsnprintf(failure->message, sizeof failure->message, format, arguments);
}

void failure_set(struct failure *failure, const char *error_class, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    failure_set_list(failure, error_class, format, arguments);
    va_end(arguments);
}

void failure_clear(struct failure *failure)
{
    failure->error_class[0] = '\0';
    failure->message[0] = '\0';
}

/* --- outcome ---------------------------------------------------------------------------------------------------- */

static int next_count(const struct envelope *envelope)
{
    return envelope->was_retried ? envelope->retry_count + 1 : 0;
}

/* Why the task is not retried, or NULL. */
static const char *end_of_retries(const struct envelope *envelope, const struct task_rules *rules, struct wall_time now)
{
    if (rules->at_most_once)
        return "it runs at most once";
    if (rules->retry_for_us >= 0) {
        struct wall_time first = envelope->failed_at.us != 0 ? envelope->failed_at : envelope->created_at;
        if (!envelope->was_retried)
            return NULL;
        if (first.us != 0)
            return now.us > first.us + rules->retry_for_us ? "its time for retries is over" : NULL;
    }
    if (next_count(envelope) < (int64_t)rules->retry_max)
        return NULL;
    return rules->retry_max == 0 ? "its first failure is final" : "its retries are used up";
}

enum failure_outcome failure_outcome(const struct envelope *envelope, const struct task_rules *rules,
                                     struct wall_time now, const char **reason)
{
    const char *end = rules->retry_off ? "it asks for no retry" : end_of_retries(envelope, rules, now);
    if (reason != NULL)
        *reason = end != NULL ? end : "it is tried again";
    if (end == NULL)
        return FAILURE_RETRY;
    return rules->retry_off || rules->dead_off ? FAILURE_VANISHES : FAILURE_DEAD;
}

int64_t failure_delay_ns(const struct envelope *envelope)
{
    int64_t count = next_count(envelope);
    if (count < 0)
        count = 0;
    if (count > DELAY_COUNT_MAX)
        count = DELAY_COUNT_MAX;
    int64_t jitter_ns = random_between(0, JITTER_S * (count + 1) * NS_PER_S - 1);
    return (count * count * count * count + DELAY_BASE_S) * NS_PER_S + jitter_ns;
}

/* --- the record ------------------------------------------------------------------------------------------------- */

/* The bytes of the message up to its last permitted character. An invalid byte counts as one character. */
static size_t message_length(const char *message)
{
    const char *at = message, *end = message + strlen(message);
    for (size_t characters = 0; at < end && characters < FAILURE_CHARACTERS_MAX; characters++) {
        size_t length = utf8_length(at, end);
        at += length > 0 ? length : 1;
    }
    return (size_t)(at - message);
}

/* Writes the backtrace of this failure, or none: an earlier one would mislead. */
static void backtrace_write(const struct failure_record *record, struct buffer *out)
{
    size_t lines =
        record->backtrace_count < record->rules->backtrace ? record->backtrace_count : record->rules->backtrace;
    if (lines == 0)
        return;
    buffer_append(out, "\"", 1);
    backtrace_encode(record->backtrace, lines, out);
    buffer_append(out, "\"", 1);
}

void failure_write(const struct failure *failure, const struct failure_record *record, struct wall_time now,
                   struct buffer *out)
{
    const struct task_rules *rules = record->rules;
    struct buffer backtrace = {0};
    backtrace_write(record, &backtrace);
    envelope_write_failure(
        record->envelope,
        &(struct envelope_failure){.queue = record->counts && rules->retry_queue[0] != '\0' ? rules->retry_queue
                                                                                            : record->queue,
                                   .jid = record->jid,
                                   .error_class = failure->error_class,
                                   .error_message = {failure->message, message_length(failure->message)},
                                   .counts = record->counts,
                                   .is_final = record->is_final,
                                   .expires_at = record->started ? (struct wall_time){0} : rules->expiry,
                                   .backtrace = text_span_of(&backtrace),
                                   .fence = record->fence,
                                   .unserved_at = record->unserved_at,
                                   .keep_ms = record->keep_ms},
        now, out);
    buffer_fini(&backtrace);
}
