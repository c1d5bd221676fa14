/* Pushes the periodic tasks of the configuration, once per tick by all workers together.
 *
 *        ┌──────────── any failure, a minute, resume ────────────┐
 *        ▼                                                       │
 *      look: the node's time, what is noted ──▶ plan each ──▶ wait for the earliest ──▶ push those that are due
 *                                                 ▲                                          │
 *                                                 └───────────── answered ───────────────────┘
 *
 * Every worker that has an entry tries each of its ticks, a random moment after it is due; the script (tick.lua) lets
 * the first one push. The clock is the queue node's alone: a look reads it, and between two looks CLOCK_BOOTTIME
 * carries it on, so the wall clocks of hosts do not matter, and the node refuses a worker that is too early. All state
 * is on the node: after a failure or a lost reply the next look shows what happened. When the worker dies, the others
 * push; when all are gone, the next one that starts finds what was missed (periodic_entry.h has the rules).
 *
 * Runs on the loop. */
#ifndef WORKER_PERIODIC_H
#define WORKER_PERIODIC_H

#include "queue/queue.h"
#include "worker/periodic/periodic_entry.h"

struct periodic;

struct periodic_options {
    struct redis_node *node; /* must outlive this; has the scripts of lib/queue */
    const struct queue_keys *keys;
    int64_t timeout_ns;    /* for one call */
    int64_t look_every_ns; /* 0 = a minute */
    int64_t jitter_ns;     /* how long after a tick it is tried, at random; 0 = 300 ms */
};

/* Begins at once. It frees the entries. */
struct periodic *periodic_create(struct loop *loop, const struct periodic_options *options,
                                 struct periodic_entries *entries);
/* Goes on with other entries, after a reload. What is under way may still be pushed. */
void periodic_change(struct periodic *periodic, struct periodic_entries *entries);
void periodic_destroy(struct periodic *periodic); /* NULL is fine */
/* While it is paused nothing is pushed; what is under way may still be. */
void periodic_pause(struct periodic *periodic, bool is_paused);

#endif
