#include "queue/run_durations.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/class_names.h"
#include "redis/request.h"

#define DAY_US (86400 * US_PER_S)

struct class_times {
    bool is_counted; /* since the last take */
    uint64_t buckets[RUN_DURATIONS_BUCKETS];
};

struct run_durations {
    int64_t day; /* that the names are of; 0 = nothing was taken yet */
    struct class_names names;
    struct class_times classes[CLASS_NAMES_MAX];
};

struct run_durations *run_durations_create(void)
{
    return memory_new(struct run_durations);
}

void run_durations_destroy(struct run_durations *run_durations)
{
    free(run_durations);
}

/* --- buckets ---------------------------------------------------------------------------------------------------- */

/* The octave is the place of the highest bit of the microseconds; a quarter of it is 250 ns at first. */
unsigned run_durations_bucket(int64_t ns)
{
    if (ns < NS_PER_US)
        return 0;
    unsigned octave = 63u - (unsigned)__builtin_clzll((unsigned long long)(ns / NS_PER_US));
    if (octave >= RUN_DURATIONS_OCTAVES)
        return RUN_DURATIONS_BUCKETS - 1;
    return 4 * octave + (unsigned)(ns / ((NS_PER_US / 4) << octave)) - 4;
}

int64_t run_durations_bucket_ns(unsigned bucket)
{
    return bucket == 0 ? 0 : ((NS_PER_US / 4) << (bucket / 4)) * (4 + bucket % 4);
}

/* --- counting --------------------------------------------------------------------------------------------------- */

void run_durations_count(struct run_durations *run_durations, const char *class_name, int64_t ns)
{
    struct class_times *times = &run_durations->classes[class_names_number(&run_durations->names, class_name)];
    times->is_counted = true;
    times->buckets[run_durations_bucket(ns)]++;
}

static void class_take(struct class_times *times, const char *name, struct buffer *text, struct buffer *arguments)
{
    buffer_clear(text);
    buffer_format(text, "%s|", name);
    redis_request_bytes(arguments, text->bytes, text->length);
    buffer_clear(text);
    for (unsigned i = 0; i < RUN_DURATIONS_BUCKETS; i++)
        if (times->buckets[i] > 0)
            buffer_format(text, "%u %llu ", i, (unsigned long long)times->buckets[i]);
    redis_request_bytes(arguments, text->bytes, text->length);
    *times = (struct class_times){.is_counted = false};
}

unsigned run_durations_take(struct run_durations *run_durations, struct wall_time at, struct buffer *arguments)
{
    struct buffer text = {0};
    unsigned taken = 0;
    int64_t day = at.us / DAY_US;
    for (unsigned i = 0; i < run_durations->names.count; i++)
        if (run_durations->classes[i].is_counted) {
            class_take(&run_durations->classes[i], run_durations->names.texts[i], &text, arguments);
            taken++;
        }
    buffer_fini(&text);
    if (run_durations->day != 0 && run_durations->day != day)
        class_names_clear(&run_durations->names);
    run_durations->day = day;
    return taken;
}

/* Fields come in any order, so classes are sorted by name, and found by binary search. */

/* --- finding ---------------------------------------------------------------------------------------------------- */

static int name_compare(const char *name, size_t length, const struct run_durations_class *known)
{
    int order = strncmp(name, known->name, length);
    return order == 0 && known->name[length] != '\0' ? -1 : order;
}

/* The index of the first class that is not before the name. */
static size_t place_of(const struct run_durations_read *read, const char *name, size_t length)
{
    size_t from = 0, to = read->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (name_compare(name, length, read->classes[middle]) > 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool is_at(const struct run_durations_read *read, size_t place, const char *name, size_t length)
{
    return place < read->count && name_compare(name, length, read->classes[place]) == 0;
}

static struct run_durations_class *class_of(struct run_durations_read *read, const char *name, size_t length)
{
    size_t place = place_of(read, name, length);
    if (is_at(read, place, name, length))
        return read->classes[place];
    if (read->count == read->capacity) {
        read->capacity = 2 * read->capacity + 16;
        read->classes = memory_resize(read->classes, read->capacity, sizeof read->classes[0]);
    }
    memmove(&read->classes[place + 1], &read->classes[place], (read->count - place) * sizeof read->classes[0]);
    read->classes[place] = memory_new(struct run_durations_class);
    read->classes[place]->name = memory_text_of(name, length);
    read->count++;
    return read->classes[place];
}

const struct run_durations_class *run_durations_read_find(const struct run_durations_read *read, const char *class_name)
{
    char name[ENVELOPE_CLASS_BYTES_MAX + 1];
    class_name_clean(class_name, name);
    size_t length = strlen(name), place = place_of(read, name, length);
    return is_at(read, place, name, length) ? read->classes[place] : NULL;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* Reads a plain decimal number up to `most`; false for everything else. */
static bool number_read(const char *text, unsigned long long most, unsigned long long *number)
{
    unsigned long long value = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = 10 * value + (unsigned)(*text - '0');
        if (value > most)
            return false;
    }
    *number = value;
    return true;
}

/* "CLASS|BUCKET"; a class has no '|'. */
static void field_add(struct run_durations_read *read, const char *field, const char *runs)
{
    unsigned long long bucket = 0, number = 0;
    const char *bar = strchr(field, '|');
    if (bar == NULL || bar == field || !number_read(bar + 1, RUN_DURATIONS_BUCKETS - 1, &bucket) ||
        !number_read(runs, INT64_MAX / RUN_DURATIONS_BUCKETS, &number) || number == 0)
        return;
    struct run_durations_class *found = class_of(read, field, (size_t)(bar - field));
    found->buckets[bucket] += number;
    found->runs += number;
}

static bool is_text(const struct redis_reply *reply)
{
    return reply->kind == REDIS_STRING && strlen(reply->bytes) == reply->length;
}

void run_durations_read_add(struct run_durations_read *read, const struct redis_reply *fields)
{
    for (size_t i = 0; fields->kind == REDIS_ARRAY && i + 1 < fields->count; i += 2)
        if (is_text(&fields->elements[i]) && is_text(&fields->elements[i + 1]))
            field_add(read, fields->elements[i].bytes, fields->elements[i + 1].bytes);
}

void run_durations_read_fini(struct run_durations_read *read)
{
    for (size_t i = 0; i < read->count; i++) {
        free(read->classes[i]->name);
        free(read->classes[i]);
    }
    free(read->classes);
    *read = (struct run_durations_read){.count = 0};
}

/* --- quantiles -------------------------------------------------------------------------------------------------- */

void run_durations_quantiles(const struct run_durations_class *class_read, double *seconds, size_t count)
{
    double below = 0;
    unsigned bucket = 0;
    for (size_t i = 0; i < count; i++) {
        double rank = ((double)i + 0.5) / (double)count * (double)class_read->runs;
        while (bucket < RUN_DURATIONS_BUCKETS - 1 && below + (double)class_read->buckets[bucket] < rank)
            below += (double)class_read->buckets[bucket++];
        double from = (double)run_durations_bucket_ns(bucket), to = (double)run_durations_bucket_ns(bucket + 1);
        double inside = (double)class_read->buckets[bucket]; /* 0 when sums beyond 2^53 were rounded */
        double part = inside > 0 ? (rank - below) / inside : 1;
        seconds[i] = (from + part * (to - from)) / (double)NS_PER_S;
    }
}
