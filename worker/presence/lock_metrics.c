/* A pair keeps its place for a day, also when there is nothing to count: so the names that one process brings to the
 * queue node are bounded, and not only those of one heartbeat. */
#include "worker/presence/lock_metrics.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "base/invariant.h"
#include "base/memory.h"
#include "redis/request.h"

/* Pairs are found by a hash of their name; the last pair is that of all others. */
enum { PLACES = 2 * LOCK_METRICS_PAIRS, NO_PAIR = 0 };

#define DAY_US (86400 * US_PER_S)

struct pair {
    char name[LOCK_METRICS_NAME_SIZE];
    bool is_counted; /* since the last take */
    uint64_t events[LOCK_EVENTS];
    struct histogram *wait, *hold; /* NULL until there is a value */
};

struct lock_metrics {
    int64_t day; /* that the pairs are of; 0 = nothing was taken yet */
    unsigned count;
    struct pair pairs[LOCK_METRICS_PAIRS];
    unsigned char places[PLACES]; /* index of the pair + 1; NO_PAIR = free */
};

static const char *const event_names[LOCK_EVENTS] = {
    [LOCK_EVENT_ACQUIRED] = "acquired",       [LOCK_EVENT_WAITED] = "waited",   [LOCK_EVENT_PARKED] = "parked",
    [LOCK_EVENT_HANDED_OVER] = "handed_over", [LOCK_EVENT_SKIPPED] = "skipped", [LOCK_EVENT_LOST] = "lost",
    [LOCK_EVENT_FENCED_OFF] = "fenced_off",
};

const char *lock_event_name(enum lock_event event)
{
    invariant(event < LOCK_EVENTS);
    return event_names[event];
}

struct lock_metrics *lock_metrics_create(void)
{
    return memory_new(struct lock_metrics);
}

static void pairs_clear(struct lock_metrics *metrics)
{
    for (unsigned i = 0; i < metrics->count; i++) {
        free(metrics->pairs[i].wait);
        free(metrics->pairs[i].hold);
    }
    metrics->count = 0;
    memset(metrics->places, NO_PAIR, sizeof metrics->places);
}

void lock_metrics_destroy(struct lock_metrics *metrics)
{
    pairs_clear(metrics);
    free(metrics);
}

/* --- names ------------------------------------------------------------------------------------------------------ */

static size_t prefix_length(const char *resource)
{
    const char *colon = strchr(resource, ':');
    size_t length = colon != NULL ? (size_t)(colon - resource) + 1 : strlen(resource);
    if (length <= LOCK_METRICS_PREFIX_BYTES)
        return length;
    length = LOCK_METRICS_PREFIX_BYTES;
    while (length > 0 && ((unsigned char)resource[length] & 0xc0) == 0x80)
        length--; /* not within a character */
    return length;
}

static char *part_write(char *to, const char *part, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)part[i];
        *to++ = byte < ' ' || byte == 0x7f || byte == '|' ? '_' : part[i];
    }
    *to++ = '|';
    return to;
}

/* --- places ----------------------------------------------------------------------------------------------------- */

static unsigned name_place(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash % PLACES;
}

static struct pair *pair_find(struct lock_metrics *metrics, const char *name)
{
    unsigned place = name_place(name);
    for (; metrics->places[place] != NO_PAIR; place = (place + 1) % PLACES) {
        struct pair *known = &metrics->pairs[metrics->places[place] - 1];
        if (strcmp(known->name, name) == 0)
            return known;
    }
    bool is_full = metrics->count >= LOCK_METRICS_PAIRS - 1;
    if (is_full && strcmp(name, LOCK_METRICS_OTHERS_NAME) != 0)
        return pair_find(metrics, LOCK_METRICS_OTHERS_NAME);
    struct pair *added = &metrics->pairs[metrics->count++];
    metrics->places[place] = (unsigned char)metrics->count;
    *added = (struct pair){.is_counted = false};
    memcpy(added->name, name, strlen(name) + 1);
    return added;
}

void lock_metrics_name(const char *class_name, const char *resource, char out[LOCK_METRICS_NAME_SIZE])
{
    char *end = part_write(out, class_name, strnlen(class_name, ENVELOPE_CLASS_BYTES_MAX));
    end = part_write(end, resource, prefix_length(resource));
    *end = '\0';
}

static struct pair *pair_counted(struct lock_metrics *metrics, const char *class_name, const char *resource)
{
    char name[LOCK_METRICS_NAME_SIZE];
    lock_metrics_name(class_name, resource, name);
    struct pair *pair = pair_find(metrics, name);
    pair->is_counted = true;
    return pair;
}

/* --- counting --------------------------------------------------------------------------------------------------- */

void lock_metrics_count(struct lock_metrics *metrics, const char *class_name, const char *resource,
                        enum lock_event event)
{
    invariant(event < LOCK_EVENTS);
    pair_counted(metrics, class_name, resource)->events[event]++;
}

static void time_count(struct histogram **histogram, int64_t us)
{
    if (*histogram == NULL)
        *histogram = memory_new(struct histogram);
    histogram_record(*histogram, us);
}

void lock_metrics_acquired(struct lock_metrics *metrics, const char *class_name, const char *resource,
                           int64_t waited_us)
{
    struct pair *pair = pair_counted(metrics, class_name, resource);
    pair->events[LOCK_EVENT_ACQUIRED]++;
    time_count(&pair->wait, waited_us);
}

void lock_metrics_hold(struct lock_metrics *metrics, const char *class_name, const char *resource, int64_t us)
{
    time_count(&pair_counted(metrics, class_name, resource)->hold, us);
}

/* --- taking ----------------------------------------------------------------------------------------------------- */

static void steps_append(struct buffer *text, const char *name, struct histogram *histogram)
{
    uint64_t counts[HISTOGRAM_COARSE_STEPS] = {0};
    if (histogram == NULL || histogram->count == 0)
        return;
    histogram_fold(histogram, counts);
    for (unsigned i = 0; i < HISTOGRAM_COARSE_STEPS; i++)
        if (counts[i] > 0)
            buffer_format(text, "%s.%u %llu ", name, i, (unsigned long long)counts[i]);
    *histogram = (struct histogram){.count = 0};
}

static void pair_take(struct pair *pair, struct buffer *text, struct buffer *arguments)
{
    buffer_clear(text);
    for (unsigned i = 0; i < LOCK_EVENTS; i++)
        if (pair->events[i] > 0)
            buffer_format(text, "%s %llu ", event_names[i], (unsigned long long)pair->events[i]);
    memset(pair->events, 0, sizeof pair->events);
    steps_append(text, "wait", pair->wait);
    steps_append(text, "hold", pair->hold);
    pair->is_counted = false;
    redis_request_text(arguments, pair->name);
    redis_request_bytes(arguments, text->bytes, text->length);
}

static void day_begin(struct lock_metrics *metrics, int64_t day)
{
    if (metrics->day != 0 && metrics->day != day)
        pairs_clear(metrics);
    metrics->day = day;
}

unsigned lock_metrics_take(struct lock_metrics *metrics, struct wall_time at, struct buffer *arguments)
{
    struct buffer text = {0};
    unsigned taken = 0;
    for (unsigned i = 0; i < metrics->count; i++)
        if (metrics->pairs[i].is_counted) {
            pair_take(&metrics->pairs[i], &text, arguments);
            taken++;
        }
    buffer_fini(&text);
    day_begin(metrics, at.us / DAY_US);
    return taken;
}
