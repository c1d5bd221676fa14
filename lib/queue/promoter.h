/* Moves tasks whose time has come from `schedule` and `retry` to their queues.
 *
 * Every process looks at its own jittered times. The script moves an entry only if it is the one that removes it, so
 * any number of processes may do so at once. The time is the queue node's. A look that finds nothing is one call.
 *
 * A single process looks about once a second; all that serve a queue look about twice a second together: the more of
 * them live (queue_serving), the longer each one waits, up to 15 s. So an entry is moved half a second late on average.
 * At worst it is as late as the interval of one process: 1.3 s where two serve the queue, 0.65 s for each of more, and
 * never more than 20 s: after all others have died, until the next renewal tells, or while the others are quiet. For an
 * entry that this process knows to be due soon there is a look of its own (promoter_expect).
 *
 * Only entries for the given queues are moved. An entry is moved with `enqueued_at` set, without `at`, with the time of
 * its expiry if it comes from `schedule` and has `expires_in`, and otherwise as it is. An entry that is no task goes to
 * `dead` in a form that dashboards can show, unless it names another queue.
 *
 * The look at `schedule` also examines the waiting lists (waiting.h) that are due for it. Every few seconds it also
 * puts back tasks of blocking claims whose process does not claim them.
 *
 * An entry that cannot be moved, because it is not ours or its queue's key holds a foreign value, holds up no other:
 * the look goes on behind it, for a bounded number of pages, and the next look continues there, round after round.
 * While pages have entries to move, the next page follows at once. Runs on the loop. If the process dies here, every
 * entry is either where it was or in its queue. */
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
/* While paused nothing is looked at: a process that takes no tasks moves none either. A move that is under way ends. */
void promoter_pause(struct promoter *promoter, bool paused);
/* An entry will be due in `due_ns`: if the next usual look may be later, the promoter looks at that time. Of more than
 * 16 at a time the latest wait for the usual looks. */
void promoter_expect(struct promoter *promoter, int64_t due_ns);
/* Every entry of `schedule` and `retry` that was due at this moment has been looked at since: those of them that are
 * still there are not ours, or cannot be moved. 0 = none was yet. */
struct instant promoter_seen(const struct promoter *promoter);
uint64_t promoter_moved(const struct promoter *promoter);
/* From one usual look to the next in the mean, where so many processes look for the same queue; 0 = not known. */
int64_t promoter_interval_ns(unsigned serving);

#endif
