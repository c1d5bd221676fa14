/* The tables of the statistics of a dry run, each by itself: tasks, resources, turns, seconds (stats_private.h). */
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/list.h"
#include "base/memory.h"
#include "worker/dry_run/count/stats_private.h"

/* --- outstanding tasks -------------------------------------------------------------------------------------------- */

/* A tree by the hashes of the jids. */
static int compare_tasks(const void *one, const void *other)
{
    const struct outstanding *a = one, *b = other;
    return a->hash != b->hash ? (a->hash < b->hash ? -1 : 1) : strcmp(a->jid, b->jid);
}

static uint64_t hash_of(const char *jid)
{
    return hash_bytes(0, jid, strlen(jid));
}

void outstanding_init(struct outstanding_table *table)
{
    *table = (struct outstanding_table){.tree = NULL};
    list_init(&table->all);
}

void outstanding_fini(struct outstanding_table *table)
{
    tdestroy(table->tree, free);
}

struct outstanding *outstanding_add(struct outstanding_table *table, const char *jid, const unsigned *resources,
                                    unsigned resource_count)
{
    size_t jid_size = strlen(jid) + 1;
    struct outstanding *task = memory_zeroed(1, sizeof *task + resource_count * sizeof task->resources[0] + jid_size);
    char *own_jid = (char *)(task->resources + resource_count);
    memcpy(own_jid, jid, jid_size);
    if (resource_count > 0)
        memcpy(task->resources, resources, resource_count * sizeof resources[0]);
    task->hash = hash_of(jid);
    task->jid = own_jid;
    task->resource_count = resource_count;
    struct outstanding *const *place = tsearch(task, &table->tree, compare_tasks);
    invariant(place != NULL); /* there is memory */
    if (*place != task) {
        free(task);
        return NULL;
    }
    list_init(&task->link);
    list_append(&table->all, &task->link);
    table->count++;
    return task;
}

struct outstanding *outstanding_find(const struct outstanding_table *table, const char *jid)
{
    const struct outstanding key = {.hash = hash_of(jid), .jid = jid};
    struct outstanding *const *place = tfind(&key, &table->tree, compare_tasks);
    return place != NULL ? *place : NULL;
}

void outstanding_remove(struct outstanding_table *table, struct outstanding *task)
{
    invariant(tdelete(task, &table->tree, compare_tasks) != NULL);
    list_remove(&task->link);
    free(task);
    table->count--;
}

void outstanding_each(const struct outstanding_table *table, void (*visit)(void *context, struct outstanding *task),
                      void *context)
{
    for (struct list *link = table->all.next; link != &table->all; link = link->next)
        visit(context, list_owner(link, struct outstanding, link));
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

/* --- turns in order ----------------------------------------------------------------------------------------------- */

struct turn_entry {
    struct heap_item item;
    struct turn turn;
};

bool turn_order_take(struct heap *order, struct instant until, struct turn *turn)
{
    struct heap_item *first = heap_first(order);
    if (first == NULL || !instant_before(first->at, until))
        return false;
    heap_remove(order, first);
    struct turn_entry *entry = list_owner(first, struct turn_entry, item);
    *turn = entry->turn;
    free(entry);
    return true;
}

void turn_order_fini(struct heap *order)
{
    struct turn turn;
    while (turn_order_take(order, INSTANT_NEVER, &turn))
        ;
    heap_fini(order);
}

void turn_order_add(struct heap *order, const struct turn *turn)
{
    struct turn_entry *entry = memory_new(struct turn_entry);
    entry->turn = *turn;
    heap_set(order, &entry->item, (struct instant){turn->at});
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
