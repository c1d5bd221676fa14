#include "queue/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/envelope.h"
#include "redis/request.h"

struct class_metrics {
    uint64_t runs, failed;
    int64_t nanoseconds; /* of the runs that succeeded */
    uint64_t buckets[METRICS_BUCKETS];
};

struct metrics {
    struct class_names names;
    struct class_metrics classes[METRICS_CLASSES]; /* zeroed beyond the names */
};

struct metrics *metrics_create(void)
{
    return memory_new(struct metrics);
}

void metrics_destroy(struct metrics *metrics)
{
    free(metrics);
}

/* In milliseconds; the last bucket has none. */
static const int64_t bucket_bounds[METRICS_BUCKETS - 1] = {
    20,   30,   45,   65,    100,   150,   225,   335,   500,    750,    1100,   1700,  2500,
    3800, 5750, 8500, 13000, 20000, 30000, 45000, 65000, 100000, 150000, 225000, 335000};

unsigned metrics_bucket(int64_t duration_ms)
{
    unsigned bucket = 0;
    while (bucket < METRICS_BUCKETS - 1 && bucket_bounds[bucket] <= duration_ms)
        bucket++;
    return bucket;
}

int64_t metrics_bucket_bound(unsigned bucket)
{
    return bucket < METRICS_BUCKETS - 1 ? bucket_bounds[bucket] : INT64_MAX;
}

void metrics_count(struct metrics *metrics, const char *class_name, bool failed, int64_t duration_ns)
{
    struct class_metrics *counted = &metrics->classes[class_names_number(&metrics->names, class_name)];
    counted->runs++;
    if (failed) {
        counted->failed++;
        return;
    }
    counted->nanoseconds += duration_ns > 0 ? duration_ns : 0;
    counted->buckets[metrics_bucket(duration_ns / NS_PER_MS)]++;
}

static void buckets_append(const struct class_metrics *counted, struct buffer *out)
{
    struct buffer text = {0};
    for (unsigned i = 0; i < METRICS_BUCKETS; i++)
        if (counted->buckets[i] > 0)
            buffer_format(&text, "%u %llu ", i, (unsigned long long)counted->buckets[i]);
    redis_request_bytes(out, text.bytes, text.length);
    buffer_fini(&text);
}

unsigned metrics_take(struct metrics *metrics, const struct queue_keys *keys, struct wall_time time,
                      struct buffer *key_parts, struct buffer *argument_parts)
{
    unsigned count = metrics->names.count;
    for (unsigned i = 0; i < count; i++) {
        const struct class_metrics *counted = &metrics->classes[i];
        const char *name = metrics->names.texts[i];
        queue_keys_request_histogram(keys, QUEUE_MINUTE_7, name, time, key_parts);
        queue_keys_request_histogram(keys, QUEUE_MINUTE_8, name, time, key_parts);
        redis_request_text(argument_parts, name);
        redis_request_integer(argument_parts, (counted->nanoseconds + NS_PER_MS / 2) / NS_PER_MS);
        redis_request_integer(argument_parts, (int64_t)counted->runs);
        redis_request_integer(argument_parts, (int64_t)counted->failed);
        buckets_append(counted, argument_parts);
    }
    memset(metrics->classes, 0, count * sizeof metrics->classes[0]);
    class_names_clear(&metrics->names);
    return count;
}
