#include "queue/run_counts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/envelope.h"
#include "redis/request.h"

struct class_counts {
    uint64_t runs, failed;
    int64_t nanoseconds; /* of the runs that succeeded */
    uint64_t buckets[RUN_COUNTS_BUCKETS];
};

struct run_counts {
    struct class_names names;
    struct class_counts classes[RUN_COUNTS_CLASSES]; /* zeroed beyond the names */
};

struct run_counts *run_counts_create(void)
{
    return memory_new(struct run_counts);
}

void run_counts_destroy(struct run_counts *counts)
{
    free(counts);
}

/* In milliseconds; the last bucket has none. */
static const int64_t bucket_bounds[RUN_COUNTS_BUCKETS - 1] = {
    20,   30,   45,   65,    100,   150,   225,   335,   500,    750,    1100,   1700,  2500,
    3800, 5750, 8500, 13000, 20000, 30000, 45000, 65000, 100000, 150000, 225000, 335000};

unsigned run_counts_bucket(int64_t duration_ms)
{
    unsigned bucket = 0;
    while (bucket < RUN_COUNTS_BUCKETS - 1 && bucket_bounds[bucket] <= duration_ms)
        bucket++;
    return bucket;
}

int64_t run_counts_bucket_bound(unsigned bucket)
{
    return bucket < RUN_COUNTS_BUCKETS - 1 ? bucket_bounds[bucket] : INT64_MAX;
}

void run_counts_count(struct run_counts *counts, const char *class_name, bool failed, int64_t duration_ns)
{
    struct class_counts *counted = &counts->classes[class_names_number(&counts->names, class_name)];
    counted->runs++;
    if (failed) {
        counted->failed++;
        return;
    }
    counted->nanoseconds += duration_ns > 0 ? duration_ns : 0;
    counted->buckets[run_counts_bucket(duration_ns / NS_PER_MS)]++;
}

static void buckets_append(const struct class_counts *counted, struct buffer *out)
{
    struct buffer text = {0};
    for (unsigned i = 0; i < RUN_COUNTS_BUCKETS; i++)
        if (counted->buckets[i] > 0)
            buffer_format(&text, "%u %llu ", i, (unsigned long long)counted->buckets[i]);
    redis_request_bytes(out, text.bytes, text.length);
    buffer_fini(&text);
}

unsigned run_counts_take(struct run_counts *counts, const struct queue_keys *keys, struct wall_time time,
                         struct buffer *key_parts, struct buffer *argument_parts)
{
    unsigned count = counts->names.count;
    for (unsigned i = 0; i < count; i++) {
        const struct class_counts *counted = &counts->classes[i];
        const char *name = counts->names.texts[i];
        queue_keys_request_histogram(keys, QUEUE_MINUTE_7, name, time, key_parts);
        queue_keys_request_histogram(keys, QUEUE_MINUTE_8, name, time, key_parts);
        redis_request_text(argument_parts, name);
        redis_request_integer(argument_parts, (counted->nanoseconds + NS_PER_MS / 2) / NS_PER_MS);
        redis_request_integer(argument_parts, (int64_t)counted->runs);
        redis_request_integer(argument_parts, (int64_t)counted->failed);
        buckets_append(counted, argument_parts);
    }
    memset(counts->classes, 0, count * sizeof counts->classes[0]);
    class_names_clear(&counts->names);
    return count;
}
