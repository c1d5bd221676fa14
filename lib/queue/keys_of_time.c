/* Names that hold a time, exactly as Sidekiq's dashboards look them up: which of the numbers are padded differs from
 * name to name (reference: metrics). All in UTC. */
#include "queue/keys.h"

#include <time.h>

#include "base/invariant.h"
#include "redis/request.h"

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

static void request_our_day(const struct queue_keys *keys, const char *what, struct wall_time time, struct buffer *out)
{
    struct tm at = time_parts(time);
    struct buffer name = {0};
    buffer_format(&name, "%s" QUEUE_SCHEME "%s:%04d%02d%02d", keys->space, what, at.tm_year + 1900, at.tm_mon + 1,
                  at.tm_mday);
    request_name(&name, out);
}

void queue_keys_request_locks(const struct queue_keys *keys, struct wall_time time, struct buffer *out)
{
    request_our_day(keys, "locks", time, out);
}

void queue_keys_request_runtimes(const struct queue_keys *keys, struct wall_time time, struct buffer *out)
{
    request_our_day(keys, "runtimes", time, out);
}
