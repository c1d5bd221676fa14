#include "worker/dry_run/load/seen_set.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"

enum { CAPACITY_MIN = 1024 };

static bool slot_take(struct seen_set *set, uint64_t hash)
{
    size_t mask = set->capacity - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        if (set->slots[i] == hash)
            return false;
        if (set->slots[i] != 0)
            continue;
        set->slots[i] = hash;
        set->count++;
        return true;
    }
}

/* Never more than half full. */
static void grow(struct seen_set *set)
{
    struct seen_set larger = {.capacity = set->capacity > 0 ? 2 * set->capacity : CAPACITY_MIN};
    larger.slots = memory_zeroed(larger.capacity, sizeof larger.slots[0]);
    for (size_t i = 0; i < set->capacity; i++)
        if (set->slots[i] != 0)
            slot_take(&larger, set->slots[i]);
    free(set->slots);
    *set = larger;
}

bool seen_set_add(struct seen_set *set, const char *name, size_t length)
{
    uint64_t hash = hash_bytes(0, name, length);
    if (2 * (set->count + 1) > set->capacity)
        grow(set);
    return slot_take(set, hash != 0 ? hash : 1);
}

void seen_set_fini(struct seen_set *set)
{
    free(set->slots);
    *set = (struct seen_set){.slots = NULL};
}
