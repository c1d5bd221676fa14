/* Intrusive binary min-heap of deadlines. An item knows its position, so removing or moving any item is O(log n). Items
 * with equal deadlines leave in no particular order. Not thread-safe. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"

struct heap_item {
    struct instant at; /* changed by heap_set only */
    size_t position;   /* 1-based position in the heap; 0 = in no heap */
};

/* The deadline is beside the pointer, so that a comparison does not touch the item's own cache line. */
struct heap_slot {
    struct instant at;
    struct heap_item *item;
};

struct heap {
    struct heap_slot *slots;
    size_t count, capacity;
};

void heap_fini(struct heap *heap); /* a zeroed struct heap is an empty one */

/* Inserts the item, or moves it when it is already in this heap. */
void heap_set(struct heap *heap, struct heap_item *item, struct instant at);
/* Harmless when the item is in no heap. */
void heap_remove(struct heap *heap, struct heap_item *item);
/* The item with the earliest deadline, or NULL. It stays in the heap. */
struct heap_item *heap_first(const struct heap *heap);

static inline bool heap_holds(const struct heap_item *item)
{
    return item->position != 0;
}

#endif
