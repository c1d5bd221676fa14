#include "queue/keys.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "queue/envelope.h"
#include "redis/request.h"

static char *key_join(const char *space, const char *name, const char *identity, const char *end)
{
    struct buffer text = {0};
    buffer_format(&text, "%s%s%s%s", space, name, identity, end);
    char *joined = memory_text(buffer_text(&text));
    buffer_fini(&text);
    return joined;
}

#define KEY(member, name)                                                                                              \
    {                                                                                                                  \
        offsetof(struct queue_keys, member), name, false, ""                                                           \
    }
#define OF_PROCESS(member, name, end)                                                                                  \
    {                                                                                                                  \
        offsetof(struct queue_keys, member), name, true, end                                                           \
    }
static const struct {
    size_t at;
    const char *name;
    bool has_identity;
    const char *end;
} rows[] = {
    KEY(queues, "queues"),
    KEY(schedule, "schedule"),
    KEY(retry, "retry"),
    KEY(dead, "dead"),
    KEY(paused, "paused"),
    KEY(listed, "processes"),
    OF_PROCESS(shown, "", ""),
    OF_PROCESS(work, "", ":work"),
    OF_PROCESS(workers, "", ":workers"),
    OF_PROCESS(signals, "", "-signals"),
    KEY(processed, "stat:processed"),
    KEY(failed, "stat:failed"),
    KEY(queue_prefix, "queue:"),
    KEY(iteration_prefix, "it-"),
    KEY(processes, QUEUE_SCHEME "processes"),
    KEY(walked, QUEUE_SCHEME "walked"),
    KEY(cancels, QUEUE_SCHEME "cancels"),
    KEY(periodic, QUEUE_SCHEME "periodic"),
    OF_PROCESS(process, QUEUE_SCHEME "process:", ""),
    OF_PROCESS(calls, QUEUE_SCHEME "calls:", ""),
    OF_PROCESS(beat, QUEUE_SCHEME "beat:", ""),
    OF_PROCESS(heard, QUEUE_SCHEME "heard:", ""),
    KEY(process_prefix, QUEUE_SCHEME "process:"),
    OF_PROCESS(bell_prefix, QUEUE_SCHEME "bell:", ":"),
    KEY(any_bell_prefix, QUEUE_SCHEME "bell:"),
    KEY(calls_prefix, QUEUE_SCHEME "calls:"),
    KEY(heard_prefix, QUEUE_SCHEME "heard:"),
    KEY(recovered_prefix, QUEUE_SCHEME "recovered:"),
    KEY(unique_prefix, QUEUE_SCHEME "unique:"),
    KEY(looked_prefix, QUEUE_SCHEME "looked:"),
    KEY(receipt_prefix, QUEUE_SCHEME "receipt:"),
    KEY(dropped_prefix, QUEUE_SCHEME "dropped:"),
    KEY(waiting_prefix, QUEUE_SCHEME "waiting:"),
    KEY(waiters_prefix, QUEUE_SCHEME "waiters:"),
    KEY(freed, QUEUE_SCHEME "freed"),
    KEY(contended, QUEUE_SCHEME "contended"),
    KEY(successors, QUEUE_SCHEME "successors"),
    KEY(unserved, QUEUE_SCHEME "unserved"),
    KEY(unserved_prefix, QUEUE_SCHEME "unserved:"),
    KEY(producer_prefix, QUEUE_SCHEME "producer:"),
    KEY(result_prefix, QUEUE_SCHEME "result:"),
};
#undef KEY
#undef OF_PROCESS

enum { ROWS = sizeof rows / sizeof rows[0] };
_Static_assert(sizeof(struct queue_keys) == (ROWS + 1) * sizeof(char *), "a key, or the space, has no row");

static char **member_of(struct queue_keys *keys, size_t row)
{
    return (char **)(void *)((char *)keys + rows[row].at);
}

void queue_keys_init(struct queue_keys *keys, const char *space, const char *identity)
{
    keys->space = memory_text(space);
    for (size_t i = 0; i < ROWS; i++)
        *member_of(keys, i) = key_join(space, rows[i].name, rows[i].has_identity ? identity : "", rows[i].end);
}

void queue_keys_fini(struct queue_keys *keys)
{
    free(keys->space);
    for (size_t i = 0; i < ROWS; i++)
        free(*member_of(keys, i));
}

void queue_keys_request_others(const struct queue_keys *keys, struct buffer *out)
{
    struct buffer name = {0};
    for (unsigned scheme = 1; scheme <= QUEUE_SCHEMES; scheme++, buffer_clear(&name)) {
        buffer_format(&name, "%shf:%u:processes", keys->space, scheme);
        if (scheme != QUEUE_SCHEME_NUMBER)
            redis_request_bytes(out, name.bytes, name.length);
    }
    buffer_fini(&name);
}

void queue_keys_request(const char *prefix, const char *name, struct buffer *out)
{
    redis_request_joined(out, prefix, name);
}

void queue_keys_request_queue(const struct queue_keys *keys, const char *queue, struct buffer *out)
{
    queue_keys_request(keys->queue_prefix, queue, out);
}

void queue_keys_request_bell(const struct queue_keys *keys, const char *queue, struct buffer *out)
{
    queue_keys_request(keys->bell_prefix, queue, out);
}

bool queue_name_is_sound(const char *name)
{
    size_t length = strnlen(name, ENVELOPE_QUEUE_BYTES_MAX + 1);
    if (length < 1 || length > ENVELOPE_QUEUE_BYTES_MAX || strncmp(name, "hf:", 3) == 0)
        return false;
    for (size_t i = 0, step; i < length; i += step) {
        step = utf8_length(name + i, name + length);
        if (step == 0 || (unsigned char)name[i] <= ' ' || name[i] == 0x7f)
            return false;
    }
    return true;
}

/* --- names that have a time --------------------------------------------------------------------------------------- */

/* Names that hold a time, exactly as Sidekiq's dashboards look them up: which of the numbers are padded differs from
 * name to name (reference: metrics). All in UTC. */

static struct tm time_parts(struct wall_time time)
{
    struct tm parts;
    time_t seconds = (time_t)(time.us / US_PER_S);
    struct tm *read = gmtime_r(&seconds, &parts);
    invariant(read != NULL);
    return parts;
}

static void request_name(struct buffer *name, struct buffer *out)
{
    redis_request_bytes(out, name->bytes, name->length);
    buffer_fini(name);
}

void queue_keys_request_day(const char *total, struct wall_time time, struct buffer *out)
{
    struct tm at = time_parts(time);
    struct buffer name = {0};
    buffer_format(&name, "%s:%04d-%02d-%02d", total, at.tm_year + 1900, at.tm_mon + 1, at.tm_mday);
    request_name(&name, out);
}

void queue_keys_request_period(const struct queue_keys *keys, enum queue_period period, struct wall_time time,
                               struct buffer *out)
{
    struct tm at = time_parts(time);
    struct buffer name = {0};
    if (period == QUEUE_MINUTE_7)
        buffer_format(&name, "%sj|%04d%02d%02d|%d:%d", keys->space, at.tm_year + 1900, at.tm_mon + 1, at.tm_mday,
                      at.tm_hour, at.tm_min);
    else
        buffer_format(&name, "%sj|%02d%02d%02d|%d:%02d", keys->space, at.tm_year % 100, at.tm_mon + 1, at.tm_mday,
                      at.tm_hour, at.tm_min);
    if (period == QUEUE_TEN_MINUTES_8)
        name.length--; /* the last digit of the minute */
    request_name(&name, out);
}

void queue_keys_request_histogram(const struct queue_keys *keys, enum queue_period period, const char *class_name,
                                  struct wall_time time, struct buffer *out)
{
    struct tm at = time_parts(time);
    struct buffer name = {0};
    if (period == QUEUE_MINUTE_7)
        buffer_format(&name, "%s%s-%02d-%02d:%d", keys->space, class_name, at.tm_mday, at.tm_hour, at.tm_min);
    else
        buffer_format(&name, "%sh|%s-%d-%d:%d", keys->space, class_name, at.tm_mday, at.tm_hour, at.tm_min);
    request_name(&name, out);
}

void queue_keys_request_locks(const struct queue_keys *keys, struct wall_time time, struct buffer *out)
{
    struct tm at = time_parts(time);
    struct buffer name = {0};
    buffer_format(&name, "%s" QUEUE_SCHEME "locks:%04d%02d%02d", keys->space, at.tm_year + 1900, at.tm_mon + 1,
                  at.tm_mday);
    request_name(&name, out);
}
