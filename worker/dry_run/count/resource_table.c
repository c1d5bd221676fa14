/* Resources stand in one array in the order of their numbers; a hash table of numbers with chains finds them. Doubled
 * when full, both. */
#include "worker/dry_run/count/resource_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

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

static void table_grow(struct resource_table *table)
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
        table_grow(table);
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

struct resource_count *resource_table_at(const struct resource_table *table, uint32_t number)
{
    return number == RESOURCE_NONE ? NULL : &table->resources[number];
}
