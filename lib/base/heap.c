#include "base/heap.h"

#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"

/* Places are 1-based: the children of place p are 2p and 2p + 1, its parent is p / 2. */
static struct heap_slot *at_place(const struct heap *heap, size_t place)
{
    return &heap->slots[place - 1];
}

static void put(struct heap *heap, size_t place, struct heap_slot slot)
{
    *at_place(heap, place) = slot;
    slot.item->place = place;
}

static void move_up(struct heap *heap, struct heap_item *item, size_t place)
{
    struct heap_slot slot = {item->at, item};
    while (place > 1) {
        struct heap_slot parent = *at_place(heap, place / 2);
        if (!instant_before(slot.at, parent.at))
            break;
        put(heap, place, parent);
        place /= 2;
    }
    put(heap, place, slot);
}

static void move_down(struct heap *heap, struct heap_item *item, size_t place)
{
    struct heap_slot slot = {item->at, item};
    for (size_t child; (child = 2 * place) <= heap->count; place = child) {
        if (child < heap->count)
            child += instant_before(at_place(heap, child + 1)->at, at_place(heap, child)->at);
        if (!instant_before(at_place(heap, child)->at, slot.at))
            break;
        put(heap, place, *at_place(heap, child));
    }
    put(heap, place, slot);
}

/* Sifts the item up or down from `place`, which is free. */
static void settle(struct heap *heap, struct heap_item *item, size_t place)
{
    if (place > 1 && instant_before(item->at, at_place(heap, place / 2)->at))
        move_up(heap, item, place);
    else
        move_down(heap, item, place);
}

void heap_fini(struct heap *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        heap->slots[i].item->place = 0;
    free(heap->slots);
    *heap = (struct heap){.slots = NULL};
}

void heap_set(struct heap *heap, struct heap_item *item, struct instant at)
{
    item->at = at;
    if (item->place != 0) {
        invariant(item->place <= heap->count && at_place(heap, item->place)->item == item);
        settle(heap, item, item->place);
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
    size_t place = item->place;
    if (place == 0)
        return;
    invariant(place <= heap->count && at_place(heap, place)->item == item);

    struct heap_item *last = at_place(heap, heap->count)->item;
    heap->count--;
    item->place = 0;
    if (last != item)
        settle(heap, last, place);
}

struct heap_item *heap_first(const struct heap *heap)
{
    return heap->count == 0 ? NULL : heap->slots[0].item;
}
