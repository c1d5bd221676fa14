/* The progress of one task, in `it-JID`: dashboards (8.1) show it, and the task's next run gets it. Dashboards and
 * clients of Sidekiq request the cancellation of a task there.
 *
 *     iteration_begin   before a task runs that reports progress      -> began(cancelled, cursor), unless it is new
 *     iteration_save    with its progress, from inside `look`, which is called every few seconds
 *     iteration_end     when the run is over, before the claim is settled
 *
 * The hash holds `ex` (runs so far), `c` (a JSON text: the last reported progress) and `rt` (seconds that all its runs
 * took), always together, because dashboards cannot read one without the others; `cancelled` (a time); and `run`, a
 * random id of the run, by which a repeated call is recognised and a call of an earlier run is ignored. The hash
 * expires after 30 days. A task that is done has none; if its first call was lost, `run` stays for a minute, in case
 * the call comes late.
 *
 * A call without an answer is repeated. If the process dies, progress since the last write is lost, and the next run
 * continues from what was written.
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

/* Limits of one progress text: bytes, depth and keys. */
enum { ITERATION_BYTES_MAX = 4096, ITERATION_DEPTH_MAX = 64, ITERATION_KEYS_MAX = 512 };

/* Whether a text is JSON within these limits. Pure, any thread. */
bool iteration_text_is_sound(const char *json, size_t length);

struct iteration;

struct iteration_options {
    struct redis_node *node;       /* has the scripts of this layer; outlives the iteration */
    const struct queue_keys *keys; /* outlive the iteration */
    int64_t timeout_ns;            /* for one call */
    int64_t interval_ns;           /* between writes, after shorter ones at first; 0 = 5 s */

    /* Ends iteration_begin: the task may start. `cursor` is the progress of an earlier run, NULL if there is none;
     * valid during the call. */
    void (*began)(void *context, bool cancelled, const char *cursor, size_t length);
    /* Every interval between `began` and iteration_end. */
    void (*look)(void *context);
    /* The task must be cancelled; may be called more than once. */
    void (*cancelled)(void *context);
    void *context;
};

struct iteration *iteration_create(struct loop *loop, const struct iteration_options *options);
/* Progress that was not written is lost. */
void iteration_destroy(struct iteration *iteration);

/* Waits for the end of the previous run first. With `is_new` no earlier run has left anything: if there is no need to
 * wait it returns true, the task may start at once, and `began` is not called. */
bool iteration_begin(struct iteration *iteration, const char *jid, bool is_new);
/* Copies a sound text, to be written with the next look or at the end. */
void iteration_save(struct iteration *iteration, const char *json, size_t length);
/* The run is over, or must not begin (then `began` is not called). With `is_done` the task is done, and its hash is
 * deleted; else the last saved progress is written. No need to wait: the node executes later calls of this
 * connection later. Harmless if nothing has begun. */
void iteration_end(struct iteration *iteration, bool is_done);
/* False once all calls are answered. */
bool iteration_is_busy(const struct iteration *iteration);

/* Appends a request that marks a task to be cancelled, wherever it is: in `it-JID`, where a task that reports
 * progress sees it, and in hf:2:cancels, which workers check before they start a task. Answers the time of the first
 * mark, in seconds. */
void iteration_request_cancel(const struct queue_keys *keys, const char *jid, struct buffer *out);

#endif
