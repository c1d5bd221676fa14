#include "base/heap.h"

#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"

/* Positions are 1-based: the children of position p are 2p and 2p + 1, its parent is p / 2. */
static struct heap_slot *at_position(const struct heap *heap, size_t position)
{
    return &heap->slots[position - 1];
}

static void put(struct heap *heap, size_t position, struct heap_slot slot)
{
    *at_position(heap, position) = slot;
    slot.item->position = position;
}

static void move_up(struct heap *heap, struct heap_item *item, size_t position)
{
    struct heap_slot slot = {item->at, item};
    while (position > 1) {
        struct heap_slot parent = *at_position(heap, position / 2);
        if (!instant_before(slot.at, parent.at))
            break;
        put(heap, position, parent);
        position /= 2;
    }
    put(heap, position, slot);
}

static void move_down(struct heap *heap, struct heap_item *item, size_t position)
{
    struct heap_slot slot = {item->at, item};
    for (size_t child; (child = 2 * position) <= heap->count; position = child) {
        if (child < heap->count)
            child += instant_before(at_position(heap, child + 1)->at, at_position(heap, child)->at);
        if (!instant_before(at_position(heap, child)->at, slot.at))
            break;
        put(heap, position, *at_position(heap, child));
    }
    put(heap, position, slot);
}

/* Sifts the item up or down from `position`, which is free. */
static void settle(struct heap *heap, struct heap_item *item, size_t position)
{
    if (position > 1 && instant_before(item->at, at_position(heap, position / 2)->at))
        move_up(heap, item, position);
    else
        move_down(heap, item, position);
}

void heap_fini(struct heap *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        heap->slots[i].item->position = 0;
    free(heap->slots);
    *heap = (struct heap){.slots = NULL};
}

void heap_set(struct heap *heap, struct heap_item *item, struct instant at)
{
    item->at = at;
    if (item->position != 0) {
        invariant(item->position <= heap->count && at_position(heap, item->position)->item == item);
        settle(heap, item, item->position);
        return;
    }
    if (heap->count == heap->capacity) {
        heap->capacity = heap->capacity == 0 ? 64 : 2 * heap->capacity;
        heap->slots = memory_resize(heap->slots, heap->capacity, sizeof *heap->slots);
    }
    heap->count++;
    move_up(heap, item, heap->count);
}

void heap_remove(struct heap *heap, struct heap_item *item)
{
    size_t position = item->position;
    if (position == 0)
        return;
    invariant(position <= heap->count && at_position(heap, position)->item == item);

    struct heap_item *last = at_position(heap, heap->count)->item;
    heap->count--;
    item->position = 0;
    if (last != item)
        settle(heap, last, position);
}

struct heap_item *heap_first(const struct heap *heap)
{
    return heap->count == 0 ? NULL : heap->slots[0].item;
}
