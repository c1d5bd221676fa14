/* A producer: puts tasks into queues and into the schedule, in bulk.
 *
 *     push_add ──▶ batch (up to 1,000 tasks or 1 MiB) ──▶ waiting ──▶ in flight ──▶ acknowledged, duplicate
 *                                                           ▲ │           ├───────▶ refused
 *                                                           │ └ patience ─┼───────▶ unreachable, denied, unknown
 *                                                           └ no answer ──┘
 *
 * A batch is the tasks of one source for one queue, or 100 for the schedule, or a single unique one. It is one script
 * call, so it is pushed as a whole or not at all. The number of tasks in flight is bounded. The tasks of one source for
 * one queue are pushed in the order in which they were added.
 *
 * Nothing is pushed twice, even if a reply is lost: the producer sends the batch again on the next connection. The node
 * keeps the numbers of this producer's pushed batches (hf:2:producer:ID, as many as are in flight), so a repetition, or
 * a first try that arrives after it, changes nothing. A batch is unknown only if patience ends before an answer comes:
 * `timeout_ns` after it was first sent, or `patience_ns` after the last progress while there is no connection. A batch
 * that was never sent by then is unreachable: certainly not pushed.
 *
 * After a temporary refusal (the node loads, is a replica, lacks replicas) the producer asks again within the same
 * patience. Any other refusal (out of memory, a foreign value under the queue's key) is final. A refusal after a try
 * whose outcome is unknown counts as unknown too: that try may still arrive.
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

/* Adds tasks and receives their outcomes. The owner keeps it until all of them have ended. */
struct push_source {
    /* A batch of so many bytes ended with any answer but HF_PUSH_INVALID. May add more. */
    void (*ended)(struct push_source *source, const struct hf_stream_report *report, size_t bytes);
    struct list filling; /* private: batches that are not full; the one used last comes first */
};
void push_source_init(struct push_source *source,
                      void (*ended)(struct push_source *source, const struct hf_stream_report *report, size_t bytes));
/* Drops what it added and did not flush. Call it once the rest has ended, or after push_destroy. */
void push_source_fini(struct push_source *source);

struct push_options {
    struct redis_node_options node; /* `changed`, `context`, scripts and limits are set here */
    int64_t timeout_ns;             /* for the answer to a batch, from its first try; 0 = 10 s, at most 30 min */
    int64_t patience_ns;            /* with an unreachable node; 0 = 2 s */
    const char *space;              /* prefix of every key; NULL = none */
    unsigned batches_max;           /* full ones in flight; 0 = 4 */
    /* What the node's clock said at `at`, for each connection and now and then; 0 = it does not say, or nobody waits
     * for it any more: that comes after patience_ns, but at most 2 s. May be NULL. */
    void (*told)(void *context, struct wall_time node, struct instant at);
    void *told_context;
};

struct push *push_create(struct loop *loop, const struct push_options *options);
/* Batches without an outcome get no report. */
void push_destroy(struct push *push);

/* Adds a task, whose bytes are copied; `number` is the caller's, for the reports. */
void push_add(struct push *push, struct push_source *source, const struct built_task *task, uint64_t number);
/* Sends what the source added, including batches that are not full. */
void push_flush(struct push *push, struct push_source *source);
/* Ends what the source added and was never sent as HF_PUSH_DROPPED. */
void push_drop(struct push *push, struct push_source *source);

/* Call before push_destroy, when everything has ended: removes the producer's record from the node, unless a lost
 * try may still arrive there. `finished` runs once, perhaps inside this function. */
void push_finish(struct push *push, void (*finished)(void *context), void *context);

/* The time by the clock of the producer's node, for task_build: durations count by that, whatever this host's clock
 * says. It waits until the node has said it, but not beyond the first 2 s of the producer, nor its patience; our own
 * clock while the node was never reached. */
struct wall_time hf_producer_now(struct hf_producer *producer);

/* A stream (holdfast.h) of tasks that its owner has built and checked. hf_stream_add_built waits while the stream is
 * full. */
struct hf_stream *hf_stream_open_built(struct hf_producer *producer,
                                       void (*ended)(void *context, const struct hf_stream_report *report),
                                       void *context);
void hf_stream_add_built(struct hf_stream *stream, const struct built_task *task, uint64_t number);

struct redis_node *push_node(const struct push *push);

#endif
