/* What one task has reached, in `it-JID`: seen on dashboards (8.1), kept for the task's next run, and the place where
 * dashboards and clients of Sidekiq say that it is to be cancelled.
 *
 *     iteration_begin   before a task runs that reports progress      -> began(cancelled, cursor)
 *     iteration_save    with what it reported, from inside `look`, which asks every few seconds
 *     iteration_end     when the run is over, before the claim is settled
 *
 * The hash holds `ex` (runs so far), `c` (a JSON text: the progress that was reported last) and `rt` (seconds that all
 * its runs took), always together, because dashboards cannot read one without the others; `cancelled` (a time); and
 * `run`, a random text that names the run: a repeated call recognises itself by it, and a call of an earlier run
 * changes nothing any more. The hash expires after 30 days. A task that is done has none.
 *
 * A call without an answer is repeated. When the process dies, what was reported since the last write is lost, and the
 * next run goes on from what was written.
 *
 * One struct iteration serves one slot, one run after the other. Threads: the loop's only. */
#ifndef QUEUE_ITERATION_H
#define QUEUE_ITERATION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop.h"
#include "queue/envelope.h"
#include "queue/keys.h"
#include "redis/node.h"

/* Bytes of one progress text, and the depth and keys that it may have. */
enum { ITERATION_BYTES_MAX = 4096, ITERATION_DEPTH_MAX = 64, ITERATION_KEYS_MAX = 512 };

/* Whether a text is JSON within these limits. Pure, any thread. */
bool iteration_text_is_sound(const char *json, size_t length);

struct iteration;

struct iteration_options {
    struct redis_node *node;       /* has the scripts of this layer; outlives the iteration */
    const struct queue_keys *keys; /* outlive the iteration */
    int64_t timeout_ns;            /* for one call */
    int64_t interval_ns;           /* between writes; 0 = 5 s */

    /* The end of iteration_begin: the task may start. `cursor` is what an earlier run reported, NULL when there is
     * none; it is lent for the time of the call. */
    void (*began)(void *context, bool cancelled, const char *cursor, size_t length);
    /* Every interval between `began` and iteration_end. */
    void (*look)(void *context);
    /* It is to be cancelled; may be told more than once. */
    void (*cancelled)(void *context);
    void *context;
};

struct iteration *iteration_create(struct loop *loop, const struct iteration_options *options);
/* What was not written is lost. */
void iteration_destroy(struct iteration *iteration);

/* When the end of the run before is not answered yet, that is waited for first. */
void iteration_begin(struct iteration *iteration, const char *jid);
/* A sound text; copied. It is written with the next look, or at the end. */
void iteration_save(struct iteration *iteration, const char *json, size_t length);
/* The run is over, or is not to begin any more (then `began` does not come). With `is_done` the task is, and its hash
 * goes; else what was saved last is written. Nothing needs to be waited for: what is sent later on the same connection
 * is executed later. Harmless when nothing has begun. */
void iteration_end(struct iteration *iteration, bool is_done);
/* False when all calls are answered. */
bool iteration_is_busy(const struct iteration *iteration);

/* Appends a request that marks a task to be cancelled, wherever it is: in `it-JID`, where a task that reports progress
 * sees it, and in hf:2:cancels, for whoever starts it. Answers the time of the first mark, in seconds. */
void iteration_request_cancel(const struct queue_keys *keys, const char *jid, struct buffer *out);

#endif
