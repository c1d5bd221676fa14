/* Puts the holds of all processes into the order in which they happened. Records of one process come in order, those of
 * different ones do not; a hold is told when nothing before it is expected any more: TURN_ORDER_NS after its end, by
 * the latest time that was heard. One thread. */
#ifndef WORKER_DRY_RUN_TURN_ORDER_H
#define WORKER_DRY_RUN_TURN_ORDER_H

#include "base/heap.h"

#define TURN_ORDER_NS (2 * NS_PER_S)

/* One hold of one resource. Nanoseconds. */
struct turn {
    uint32_t resource;
    int64_t waited_since; /* it asked for its lock then, or later than the holder before was gone; 0 = not known */
    int64_t locked, left;
    bool is_broken; /* its end is not known exactly: its process died */
};

struct turn_order {
    struct heap heap;
};

void turn_order_fini(struct turn_order *order); /* a zeroed one is empty */
void turn_order_add(struct turn_order *order, const struct turn *turn);
/* False when the first has not ended before `until`. */
bool turn_order_take(struct turn_order *order, struct instant until, struct turn *turn);

#endif
