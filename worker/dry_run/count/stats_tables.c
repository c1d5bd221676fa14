/* The tables of the statistics of a dry run, each by itself: tasks, resources, events, seconds (stats_private.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/list.h"
#include "base/memory.h"
#include "worker/dry_run/count/stats_private.h"

/* --- outstanding tasks -------------------------------------------------------------------------------------------- */

/* A hash table with chains that doubles when there are as many tasks as chains. */
enum { BUCKETS_AT_FIRST = 1024 };

void outstanding_init(struct outstanding_table *table)
{
    table->bucket_count = BUCKETS_AT_FIRST;
    table->buckets = memory_zeroed(table->bucket_count, sizeof table->buckets[0]);
    table->count = 0;
}

static void free_task(void *context, struct outstanding *task)
{
    (void)context;
    free(task);
}

void outstanding_fini(struct outstanding_table *table)
{
    outstanding_each(table, free_task, NULL);
    free(table->buckets);
}

static struct outstanding **link_of(const struct outstanding_table *table, const char *jid, uint64_t hash)
{
    struct outstanding **link = &table->buckets[hash & (table->bucket_count - 1)];
    while (*link != NULL && ((*link)->hash != hash || strcmp((*link)->jid, jid) != 0))
        link = &(*link)->next;
    return link;
}

static void tasks_grow(struct outstanding_table *table)
{
    struct outstanding_table larger = {.bucket_count = table->bucket_count * 2, .count = table->count};
    larger.buckets = memory_zeroed(larger.bucket_count, sizeof larger.buckets[0]);
    for (size_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i] != NULL) {
            struct outstanding *task = table->buckets[i];
            struct outstanding **link = &larger.buckets[task->hash & (larger.bucket_count - 1)];
            table->buckets[i] = task->next;
            task->next = *link;
            *link = task;
        }
    }
    free(table->buckets);
    *table = larger;
}

struct outstanding *outstanding_add(struct outstanding_table *table, const char *jid, const unsigned *resources,
                                    unsigned resource_count)
{
    size_t jid_size = strlen(jid) + 1;
    uint64_t hash = hash_bytes(0, jid, jid_size);
    if (*link_of(table, jid, hash) != NULL)
        return NULL;
    if (table->count >= table->bucket_count)
        tasks_grow(table);

    struct outstanding *task = memory_zeroed(1, sizeof *task + resource_count * sizeof task->resources[0] + jid_size);
    char *own_jid = (char *)(task->resources + resource_count);
    memcpy(own_jid, jid, jid_size);
    if (resource_count > 0)
        memcpy(task->resources, resources, resource_count * sizeof resources[0]);
    task->hash = hash;
    task->jid = own_jid;
    task->resource_count = resource_count;
    *link_of(table, jid, hash) = task;
    table->count++;
    return task;
}

struct outstanding *outstanding_find(const struct outstanding_table *table, const char *jid)
{
    return *link_of(table, jid, hash_bytes(0, jid, strlen(jid) + 1));
}

void outstanding_remove(struct outstanding_table *table, struct outstanding *task)
{
    struct outstanding **link = link_of(table, task->jid, task->hash);
    invariant(*link == task);
    *link = task->next;
    free(task);
    table->count--;
}

void outstanding_each(const struct outstanding_table *table, void (*visit)(void *context, struct outstanding *task),
                      void *context)
{
    for (size_t i = 0; i < table->bucket_count; i++) {
        for (struct outstanding *task = table->buckets[i], *next; task != NULL; task = next) {
            next = task->next;
            visit(context, task);
        }
    }
}

/* --- resources ---------------------------------------------------------------------------------------------------- */

/* Resources stand in one array in the order of their numbers; a hash table of numbers with chains finds them. Doubled
 * when full, both. */
enum { AT_FIRST = 1024 };

void resource_table_init(struct resource_table *table, size_t limit, unsigned detailed_max, unsigned detailed_from)
{
    *table = (struct resource_table){.limit = limit, .detailed_max = detailed_max, .detailed_from = detailed_from};
    table->bucket_count = AT_FIRST;
    table->buckets = memory_zeroed(table->bucket_count, sizeof table->buckets[0]);
}

void resource_table_fini(struct resource_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        free(table->resources[i].name);
        free(table->resources[i].detail);
    }
    free(table->resources);
    free(table->buckets);
}

/* A bucket has the number of its first resource and one more, so that zero is an empty one; so has `next`. */
static void chain(struct resource_table *table, uint32_t number)
{
    struct resource_count *resource = &table->resources[number];
    uint32_t *bucket = &table->buckets[resource->hash & (table->bucket_count - 1)];
    resource->next = *bucket;
    *bucket = number + 1;
}

static void resources_grow(struct resource_table *table)
{
    table->capacity = table->capacity == 0 ? AT_FIRST : table->capacity * 2;
    table->resources = memory_resize(table->resources, table->capacity, sizeof table->resources[0]);
    if (table->capacity <= table->bucket_count)
        return;
    free(table->buckets);
    table->bucket_count = table->capacity;
    table->buckets = memory_zeroed(table->bucket_count, sizeof table->buckets[0]);
    for (uint32_t i = 0; i < table->count; i++)
        chain(table, i);
}

uint32_t resource_table_number(struct resource_table *table, const char *name)
{
    uint32_t hash = (uint32_t)hash_bytes(0, name, strlen(name));
    uint32_t at = table->buckets[hash & (table->bucket_count - 1)];
    for (; at != 0; at = table->resources[at - 1].next)
        if (table->resources[at - 1].hash == hash && strcmp(table->resources[at - 1].name, name) == 0)
            return at - 1;
    if (table->count >= table->limit)
        return RESOURCE_NONE;
    if (table->count == table->capacity)
        resources_grow(table);
    uint32_t number = (uint32_t)table->count++;
    table->resources[number] = (struct resource_count){.name = memory_text(name), .hash = hash};
    chain(table, number);
    return number;
}

void resource_table_arrive(struct resource_table *table, uint32_t number, bool is_measured)
{
    struct resource_count *resource = resource_table_at(table, number);
    if (resource == NULL) {
        table->left_out++;
        return;
    }
    resource->arrived++;
    resource->arrived_measured += is_measured;
    if (resource->detail == NULL && resource->arrived >= table->detailed_from &&
        table->detailed < table->detailed_max) {
        resource->detail = memory_new(struct resource_detail);
        table->detailed++;
    }
}

/* --- events in order ---------------------------------------------------------------------------------------------- */

struct entry {
    struct heap_item item;
    struct resource_event event;
};

bool event_order_take(struct heap *order, struct instant until, struct resource_event *event)
{
    struct heap_item *first = heap_first(order);
    if (first == NULL || !instant_before(first->at, until))
        return false;
    heap_remove(order, first);
    struct entry *entry = list_owner(first, struct entry, item);
    *event = entry->event;
    free(entry);
    return true;
}

void event_order_fini(struct heap *order)
{
    struct resource_event event;
    while (event_order_take(order, INSTANT_NEVER, &event))
        ;
    heap_fini(order);
}

void event_order_add(struct heap *order, const struct resource_event *event)
{
    struct entry *entry = memory_new(struct entry);
    entry->event = *event;
    heap_set(order, &entry->item, (struct instant){event->at});
}

/* --- seconds ------------------------------------------------------------------------------------------------------ */

void second_series_init(struct second_series *series, struct instant began)
{
    memset(series, 0, sizeof *series);
    series->began = series->closed = began;
}

void second_series_fini(struct second_series *series)
{
    free(series->lines);
}

static double quantile(const struct histogram *histogram, double share)
{
    return (double)histogram_quantile(histogram, share) / (double)US_PER_S;
}

static struct result_second line_of(const struct second_series *series, double seconds)
{
    return (struct result_second){
        .pushed = (double)series->pushed / seconds,
        .ended = (double)series->ended / seconds,
        .parked = (double)series->parked / seconds,
        .handed_over = (double)series->handed_over / seconds,
        .lost = (double)series->lost / seconds,
        .wait_p50 = quantile(&series->wait, 0.5),
        .wait_p99 = quantile(&series->wait, 0.99),
        .hold_p50 = quantile(&series->hold, 0.5),
        .hold_p99 = quantile(&series->hold, 0.99),
        .acquire_p50 = quantile(&series->acquire, 0.5),
        .acquire_p99 = quantile(&series->acquire, 0.99),
        .extend_p99 = quantile(&series->extend, 0.99),
    };
}

static void lines_make_room(struct second_series *series)
{
    if (series->count < series->capacity)
        return;
    series->capacity = series->capacity == 0 ? 64 : series->capacity * 2;
    series->lines = memory_resize(series->lines, series->capacity, sizeof series->lines[0]);
}

static double overlap(int64_t from_ns, int64_t until_ns, int64_t low_ns, int64_t high_ns)
{
    int64_t from = from_ns > low_ns ? from_ns : low_ns, until = until_ns < high_ns ? until_ns : high_ns;
    return until > from ? (double)(until - from) / (double)NS_PER_S : 0;
}

static int64_t line_end(const struct second_series *series, size_t line)
{
    return series->began.ns + llround(series->lines[line].at * (double)NS_PER_S);
}

void second_series_take(struct second_series *series, int64_t from_ns, int64_t until_ns)
{
    int64_t high = series->closed.ns;
    series->taken_s += overlap(from_ns, until_ns, high, INT64_MAX);
    for (size_t i = series->count; i-- > 0 && from_ns < high;) {
        int64_t low = i > 0 ? line_end(series, i - 1) : series->began.ns;
        series->lines[i].busy += overlap(from_ns, until_ns, low, line_end(series, i));
        high = low;
    }
}

void second_series_close(struct second_series *series, struct instant now, double waiting)
{
    double seconds = (double)instant_since(series->closed, now) / (double)NS_PER_S;
    if (seconds <= 0)
        return;
    if (series->count < SECOND_SERIES_MAX) {
        struct result_second line = line_of(series, seconds);
        line.at = (double)instant_since(series->began, now) / (double)NS_PER_S;
        line.waiting = waiting;
        line.busy = series->taken_s;
        lines_make_room(series);
        series->lines[series->count++] = line;
    }
    series->closed = now;
    series->pushed = series->ended = series->parked = series->handed_over = series->lost = 0;
    series->taken_s = 0;
    memset(&series->wait, 0, sizeof series->wait);
    memset(&series->hold, 0, sizeof series->hold);
    memset(&series->acquire, 0, sizeof series->acquire);
    memset(&series->extend, 0, sizeof series->extend);
}

struct result_second *second_series_finish(struct second_series *series, unsigned runners, size_t *count)
{
    struct result_second *lines = series->lines;
    *count = series->count;
    for (size_t i = series->count; i-- > 0;) {
        double all = (lines[i].at - (i > 0 ? lines[i - 1].at : 0)) * runners;
        lines[i].busy = all > 0 ? fmin(lines[i].busy / all, 1) : 0;
    }
    series->lines = NULL;
    series->count = series->capacity = 0;
    return lines;
}
