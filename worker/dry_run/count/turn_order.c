#include "worker/dry_run/count/turn_order.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/memory.h"

struct entry {
    struct heap_item item;
    struct turn turn;
};

void turn_order_fini(struct turn_order *order)
{
    struct turn turn;
    while (turn_order_take(order, INSTANT_NEVER, &turn))
        ;
    heap_fini(&order->heap);
}

void turn_order_add(struct turn_order *order, const struct turn *turn)
{
    struct entry *entry = memory_new(struct entry);
    entry->turn = *turn;
    heap_set(&order->heap, &entry->item, (struct instant){turn->at});
}

bool turn_order_take(struct turn_order *order, struct instant until, struct turn *turn)
{
    struct heap_item *first = heap_first(&order->heap);
    if (first == NULL || !instant_before(first->at, until))
        return false;
    heap_remove(&order->heap, first);
    struct entry *entry = list_owner(first, struct entry, item);
    *turn = entry->turn;
    free(entry);
    return true;
}
