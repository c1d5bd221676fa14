/* A hash table with chains that doubles when there are as many tasks as chains. */
#include "worker/dry_run/count/outstanding.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/memory.h"

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

static struct outstanding **place_of(const struct outstanding_table *table, const char *jid, uint64_t hash)
{
    struct outstanding **place = &table->buckets[hash & (table->bucket_count - 1)];
    while (*place != NULL && ((*place)->hash != hash || strcmp((*place)->jid, jid) != 0))
        place = &(*place)->next;
    return place;
}

static void table_grow(struct outstanding_table *table)
{
    struct outstanding_table larger = {.bucket_count = table->bucket_count * 2, .count = table->count};
    larger.buckets = memory_zeroed(larger.bucket_count, sizeof larger.buckets[0]);
    for (size_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i] != NULL) {
            struct outstanding *task = table->buckets[i];
            struct outstanding **place = &larger.buckets[task->hash & (larger.bucket_count - 1)];
            table->buckets[i] = task->next;
            task->next = *place;
            *place = task;
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
    if (*place_of(table, jid, hash) != NULL)
        return NULL;
    if (table->count >= table->bucket_count)
        table_grow(table);

    struct outstanding *task = memory_zeroed(1, sizeof *task + resource_count * sizeof task->resources[0] + jid_size);
    char *own_jid = (char *)(task->resources + resource_count);
    memcpy(own_jid, jid, jid_size);
    if (resource_count > 0)
        memcpy(task->resources, resources, resource_count * sizeof resources[0]);
    task->hash = hash;
    task->jid = own_jid;
    task->resource_count = resource_count;
    *place_of(table, jid, hash) = task;
    table->count++;
    return task;
}

struct outstanding *outstanding_find(const struct outstanding_table *table, const char *jid)
{
    return *place_of(table, jid, hash_bytes(0, jid, strlen(jid) + 1));
}

void outstanding_remove(struct outstanding_table *table, struct outstanding *task)
{
    struct outstanding **place = place_of(table, task->jid, task->hash);
    invariant(*place == task);
    *place = task->next;
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
