/* Moves tasks whose time has come from `schedule` and `retry` to their queues.
 *
 * Every process looks at its own jittered times. The script moves an entry only if it is the one that removes it, so
 * any number of processes may do so at once. The time is the queue node's. A look that finds nothing is one call.
 *
 * A single process looks about once a second; all that serve a queue look about twice a second together: the more of
 * them live (queue_serving), the longer each one waits, up to 15 s. So an entry moves half a second late on average. At
 * worst it is late by the interval of one process: 1.3 s if two serve the queue, 0.65 s times their number if more do,
 * and never more than 20 s. The worst case occurs after all others have died, until the next renewal, or while the
 * others are quiet. An entry that this process knows to be due soon gets an extra look (promoter_expect).
 *
 * Moves only entries for the given queues. A moved entry gets `enqueued_at`, loses `at`, and gets its time of expiry if
 * it comes from `schedule` and has `expires_in`; the rest stays as it is. An entry that is no task goes to `dead` in a
 * form that dashboards can show, unless it names another queue.
 *
 * The look at `schedule` also examines the waiting lists (waiting.h) that are due for it. Every few seconds it also
 * puts back tasks of blocking claims whose process does not claim them.
 *
 * An entry that cannot move, because it is not ours or its queue's key holds a foreign value, delays no other: the
 * look continues behind it for a bounded number of pages, and the next look continues there. While pages have
 * entries to move, the next page follows at once. Runs on the loop. If the process dies here, every entry is either
 * where it was or in its queue. */
#ifndef QUEUE_PROMOTER_H
#define QUEUE_PROMOTER_H

#include "queue/envelope.h"
#include "queue/queue.h"

struct promoter;

struct promoter_options {
    const struct envelope_limits *limits; /* owned by the caller, which may change them */
    int64_t timeout_ns;                   /* of one call */
    const char *const *names;             /* of the queues that are served; copied */
    unsigned name_count;                  /* 0 = entries for every queue are moved */
    bool keep_ms;                         /* an `enqueued_at` that came as an integer of milliseconds stays one */
};

struct promoter *promoter_create(struct loop *loop, struct queue *queue, const struct promoter_options *options);
void promoter_destroy(struct promoter *promoter);
/* A paused promoter does not look: a process that takes no tasks moves none either. A move in progress finishes. */
void promoter_pause(struct promoter *promoter, bool paused);
/* An entry will be due in `due_ns`: the promoter looks then, if its next usual look may be later. Of more than 16 at
 * a time the latest wait for the usual looks. */
void promoter_expect(struct promoter *promoter, int64_t due_ns);
/* The promoter has looked at every entry of `schedule` and `retry` that was due at this moment; those that are still
 * there are not ours, or cannot be moved. 0 = not yet. */
struct instant promoter_seen(const struct promoter *promoter);
uint64_t promoter_moved(const struct promoter *promoter);
/* The mean time between usual looks if `serving` processes look for the same queue; 0 = unknown. */
int64_t promoter_interval_ns(unsigned serving);

#endif
