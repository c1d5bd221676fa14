#include "queue/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/envelope.h"
#include "redis/request.h"

/* Classes are found by a hash of their name; the last place is that of all others. */
enum { PLACES = 2 * METRICS_CLASSES, NO_CLASS = 0 };

struct class_metrics {
    char name[ENVELOPE_CLASS_BYTES_MAX + 1];
    uint64_t runs, failed, milliseconds;
    uint64_t buckets[METRICS_BUCKETS];
};

struct metrics {
    unsigned count;
    struct class_metrics classes[METRICS_CLASSES];
    unsigned char places[PLACES]; /* index of the class + 1; NO_CLASS = free */
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

static void name_clean(const char *class_name, char out[ENVELOPE_CLASS_BYTES_MAX + 1])
{
    size_t length = 0;
    for (; class_name[length] != '\0' && length < ENVELOPE_CLASS_BYTES_MAX; length++) {
        unsigned char byte = (unsigned char)class_name[length];
        out[length] = byte < ' ' || byte == 0x7f || byte == '|' ? '_' : class_name[length];
    }
    out[length] = '\0';
}

static unsigned name_place(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash % PLACES;
}

static struct class_metrics *class_find(struct metrics *metrics, const char *name)
{
    unsigned place = name_place(name);
    for (; metrics->places[place] != NO_CLASS; place = (place + 1) % PLACES) {
        struct class_metrics *known = &metrics->classes[metrics->places[place] - 1];
        if (strcmp(known->name, name) == 0)
            return known;
    }
    bool is_full = metrics->count >= METRICS_CLASSES - 1;
    if (is_full && strcmp(name, METRICS_OTHERS) != 0)
        return class_find(metrics, METRICS_OTHERS);
    struct class_metrics *added = &metrics->classes[metrics->count++];
    metrics->places[place] = (unsigned char)metrics->count;
    *added = (struct class_metrics){.runs = 0};
    memcpy(added->name, name, strlen(name) + 1);
    return added;
}

void metrics_count(struct metrics *metrics, const char *class_name, bool failed, int64_t duration_ms)
{
    char name[ENVELOPE_CLASS_BYTES_MAX + 1];
    name_clean(class_name, name);
    struct class_metrics *counted = class_find(metrics, name);
    int64_t milliseconds = duration_ms > 0 ? duration_ms : 0;
    counted->runs++;
    if (failed) {
        counted->failed++;
        return;
    }
    counted->milliseconds += (uint64_t)milliseconds;
    counted->buckets[metrics_bucket(milliseconds)]++;
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
    unsigned count = metrics->count;
    for (unsigned i = 0; i < count; i++) {
        const struct class_metrics *counted = &metrics->classes[i];
        queue_keys_request_histogram(keys, QUEUE_MINUTE_7, counted->name, time, key_parts);
        queue_keys_request_histogram(keys, QUEUE_MINUTE_8, counted->name, time, key_parts);
        redis_request_text(argument_parts, counted->name);
        redis_request_integer(argument_parts, (int64_t)counted->milliseconds);
        redis_request_integer(argument_parts, (int64_t)counted->runs);
        redis_request_integer(argument_parts, (int64_t)counted->failed);
        buckets_append(counted, argument_parts);
    }
    metrics->count = 0;
    memset(metrics->places, NO_CLASS, sizeof metrics->places);
    return count;
}
