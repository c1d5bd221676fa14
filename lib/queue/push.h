/* A producer: puts tasks into queues, in bulk.
 *
 *     push_add ──▶ slice of its queue (up to 1,000 tasks or 1 MiB) ──▶ waiting ──▶ in flight ──▶ acknowledged
 *                                                                        ▲            ├─────────▶ refused
 *                                                                        └ not sent ──┴─────────▶ unknown
 *
 * A slice is one LPUSH, so that it is pushed as a whole or not at all; a bounded number of them is in flight, and the
 * tasks of one queue are pushed in the order in which they were added. Before the first slice of a queue on each
 * connection its name is put into `queues`.
 *
 * Nothing is ever pushed twice: a slice that was certainly not sent waits for the connection, but one whose reply was
 * lost is reported as unknown and forgotten, because pushing it again could double its tasks. The same for one that
 * the node refused (out of memory, a foreign value under the queue's key): it is certainly not pushed. What to do
 * next is the caller's decision; push goes on with what was added.
 *
 * Threads: the loop's only. If the process dies, slices in flight may or may not be pushed. */
#ifndef QUEUE_PUSH_H
#define QUEUE_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "redis/node.h"

struct push;

enum push_end {
    PUSH_ACKNOWLEDGED, /* they are in the queue */
    PUSH_REFUSED,      /* they are not */
    PUSH_UNKNOWN,      /* they may be */
    PUSH_DROPPED,      /* they are not: push_drop */
};

/* What became of one slice. */
struct push_report {
    enum push_end end;
    const char *queue;
    size_t count;
    uint64_t first, last; /* the numbers that its first and last task were added with */
    const char *reason;   /* "" for PUSH_ACKNOWLEDGED */
};

struct push_options {
    struct redis_node_options node; /* `changed`, `context` and limits are set here */
    int64_t timeout_ns;             /* for the reply to one slice */
    const char *space;              /* prefix of every key; NULL = none */
    unsigned slices_max;            /* in flight; 0 = 4 */

    /* The end of each slice; more may be added from inside. */
    void (*ended)(void *context, const struct push_report *report);
    void (*changed)(void *context, enum redis_node_state state, const char *reason); /* may be NULL */
    void *context;
};

struct push *push_create(struct loop *loop, const struct push_options *options);
/* Slices without an end get none. */
void push_destroy(struct push *push);

/* Adds a task, whose bytes are copied; `number` is the caller's, for the reports. Always takes it, but should not be
 * asked while push_is_full. */
void push_add(struct push *push, const char *queue, const char *payload, size_t length, uint64_t number);
/* True when enough waits to be sent. It can change only before a call of `ended` or `changed`. */
bool push_is_full(const struct push *push);
/* Sends what was added, also slices that are not full. */
void push_flush(struct push *push);
/* Forgets what was not sent; `ended` is told about each slice of it. */
void push_drop(struct push *push);
/* True when every task that was added has an end. */
bool push_is_idle(const struct push *push);

struct redis_node *push_node(const struct push *push);

/* Of tasks; sent = acknowledged + refused + unknown + what is in flight. */
struct push_counters {
    uint64_t added, sent, acknowledged, refused, unknown, dropped;
    uint64_t slices;
};
const struct push_counters *push_counters(const struct push *push);

#endif
