#include "queue/runtimes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/class_names.h"
#include "redis/request.h"

#define DAY_US (86400 * US_PER_S)

struct class_times {
    bool is_counted; /* since the last take */
    uint64_t buckets[RUNTIMES_BUCKETS];
};

struct runtimes {
    int64_t day; /* that the names are of; 0 = nothing was taken yet */
    struct class_names names;
    struct class_times classes[CLASS_NAMES_MAX];
};

struct runtimes *runtimes_create(void)
{
    return memory_new(struct runtimes);
}

void runtimes_destroy(struct runtimes *runtimes)
{
    free(runtimes);
}

/* --- buckets ---------------------------------------------------------------------------------------------------- */

/* The octave is the place of the highest bit of the microseconds; a quarter of it is 250 ns at first. */
unsigned runtimes_bucket(int64_t ns)
{
    if (ns < NS_PER_US)
        return 0;
    unsigned octave = 63u - (unsigned)__builtin_clzll((unsigned long long)(ns / NS_PER_US));
    if (octave >= RUNTIMES_OCTAVES)
        return RUNTIMES_BUCKETS - 1;
    return 4 * octave + (unsigned)(ns / ((NS_PER_US / 4) << octave)) - 4;
}

int64_t runtimes_bucket_ns(unsigned bucket)
{
    return bucket == 0 ? 0 : ((NS_PER_US / 4) << (bucket / 4)) * (4 + bucket % 4);
}

/* --- counting --------------------------------------------------------------------------------------------------- */

void runtimes_count(struct runtimes *runtimes, const char *class_name, int64_t ns)
{
    struct class_times *times = &runtimes->classes[class_names_number(&runtimes->names, class_name)];
    times->is_counted = true;
    times->buckets[runtimes_bucket(ns)]++;
}

static void class_take(struct class_times *times, const char *name, struct buffer *text, struct buffer *arguments)
{
    buffer_clear(text);
    buffer_format(text, "%s|", name);
    redis_request_bytes(arguments, text->bytes, text->length);
    buffer_clear(text);
    for (unsigned i = 0; i < RUNTIMES_BUCKETS; i++)
        if (times->buckets[i] > 0)
            buffer_format(text, "%u %llu ", i, (unsigned long long)times->buckets[i]);
    redis_request_bytes(arguments, text->bytes, text->length);
    *times = (struct class_times){.is_counted = false};
}

unsigned runtimes_take(struct runtimes *runtimes, struct wall_time at, struct buffer *arguments)
{
    struct buffer text = {0};
    unsigned taken = 0;
    int64_t day = at.us / DAY_US;
    for (unsigned i = 0; i < runtimes->names.count; i++)
        if (runtimes->classes[i].is_counted) {
            class_take(&runtimes->classes[i], runtimes->names.texts[i], &text, arguments);
            taken++;
        }
    buffer_fini(&text);
    if (runtimes->day != 0 && runtimes->day != day)
        class_names_clear(&runtimes->names);
    runtimes->day = day;
    return taken;
}
