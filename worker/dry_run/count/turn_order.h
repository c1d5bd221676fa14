/* Puts what happens at resources into the order in which it happened: tasks come and go. Records of one process come in
 * order, those of different ones do not; something is told when nothing before it is expected any more: TURN_ORDER_NS
 * after it, by the latest time that was heard. One thread. */
#ifndef WORKER_DRY_RUN_TURN_ORDER_H
#define WORKER_DRY_RUN_TURN_ORDER_H

#include "base/heap.h"

#define TURN_ORDER_NS (2 * NS_PER_S)

enum turn_kind {
    TURN_COMES,  /* a task wants the resource from now on */
    TURN_LEAVES, /* one that had it */
    TURN_GOES,   /* one that had it not */
    TURN_BREAKS, /* it was held, until some time before */
};

/* Nanoseconds. */
struct turn {
    enum turn_kind kind;
    uint32_t resource;
    int64_t at;
    bool
        found_runner; /* COMES: a runner was free, and it wants nothing else. LEAVES: one was free when it was pushed */
    /* LEAVES */
    int64_t locked, asked_since; /* it had it; it asked for it, 0 = not known */
};

struct turn_order {
    struct heap heap;
};

void turn_order_fini(struct turn_order *order); /* a zeroed one is empty */
void turn_order_add(struct turn_order *order, const struct turn *turn);
/* False when nothing happened before `until`. */
bool turn_order_take(struct turn_order *order, struct instant until, struct turn *turn);

#endif
