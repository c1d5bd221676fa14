/* A producer: puts tasks into queues and into the schedule, in bulk.
 *
 *     push_add ──▶ batch (up to 1,000 tasks or 1 MiB) ──▶ waiting ──▶ in flight ──▶ acknowledged, duplicate
 *                                                           ▲ │           ├───────▶ refused
 *                                                           │ └ patience ─┼───────▶ unreachable, denied, unknown
 *                                                           └ no answer ──┘
 *
 * A batch is the tasks of one source for one queue, or 100 for the schedule, or a single unique one. It is one script
 * call, so that it is pushed as a whole or not at all; a bounded number of tasks is in flight, and the tasks of one
 * source for one queue are pushed in the order in which they were added.
 *
 * Nothing is ever pushed twice, and a lost reply is no end: the batch is sent again on the next connection. The node
 * knows the numbers of this producer's batches that it has pushed (hf:2:producer:ID, as many as are in flight), so a
 * repetition, or a first try that arrives after it, changes nothing. A batch is unknown only when patience ends before
 * an answer comes: `timeout_ns` after it was first sent, or `patience_ns` after the last sign of progress while there
 * is no connection. What was never sent by then is unreachable:
 * certainly not pushed.
 *
 * A node that refuses for a while (it loads, is a replica, lacks replicas) is asked again within the same patience; any
 * other refusal (out of memory, a foreign value under the queue's key) is an end at once. A refusal after a try whose
 * outcome is unknown counts as unknown, too: that try may still arrive.
 *
 * Threads: the loop's only. If the process dies, batches in flight may or may not be pushed. */
#ifndef QUEUE_PUSH_H
#define QUEUE_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "queue/holdfast.h"
#include "queue/task_builder.h"
#include "redis/node.h"

struct push;

/* Adds tasks and hears of their ends. The owner keeps it until all of them have ended. */
struct push_source {
    /* A batch of so many bytes ended with any answer but HF_PUSH_INVALID. May add more. */
    void (*ended)(struct push_source *source, const struct hf_stream_report *report, size_t bytes);
    struct list filling; /* private: batches that are not full; the one used last comes first */
};
void push_source_init(struct push_source *source,
                      void (*ended)(struct push_source *source, const struct hf_stream_report *report, size_t bytes));
/* Forgets what it added and was not flushed; once the rest has ended, or push_destroy was called. */
void push_source_fini(struct push_source *source);

struct push_options {
    struct redis_node_options node; /* `changed`, `context`, scripts and limits are set here */
    int64_t timeout_ns;             /* for the answer to a batch, from its first try on; 0 = 10 s, at most 30 min */
    int64_t patience_ns;            /* with a node that cannot be reached; 0 = 2 s */
    const char *space;              /* prefix of every key; NULL = none */
    unsigned batches_max;           /* full ones in flight; 0 = 4 */
};

struct push *push_create(struct loop *loop, const struct push_options *options);
/* Slices without an end get none. */
void push_destroy(struct push *push);

/* Adds a task, whose bytes are copied; `number` is the caller's, for the reports. */
void push_add(struct push *push, struct push_source *source, const struct built_task *task, uint64_t number);
/* Sends what the source added, also batches that are not full. */
void push_flush(struct push *push, struct push_source *source);
/* Ends what the source added and was never sent as HF_PUSH_DROPPED. */
void push_drop(struct push *push, struct push_source *source);

/* To be called before push_destroy, when nothing is at work any more: takes the record off the node, unless a lost try
 * may still turn up there. `finished` runs once, perhaps from inside. */
void push_finish(struct push *push, void (*finished)(void *context), void *context);

/* A stream (holdfast.h) of tasks that its owner has built and checked. hf_stream_add_built waits while the stream is
 * full. */
struct hf_stream *hf_stream_open_built(struct hf_producer *producer,
                                       void (*ended)(void *context, const struct hf_stream_report *report),
                                       void *context);
void hf_stream_add_built(struct hf_stream *stream, const struct built_task *task, uint64_t number);

struct redis_node *push_node(const struct push *push);

#endif
