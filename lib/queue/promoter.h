/* Moves tasks whose time has come from `schedule` and `retry` to their queues.
 *
 * Every process looks, at its own jittered moments; the script moves an entry only if it is the one that removes it, so
 * any number of processes may do so at once. The time is the queue node's. A look that finds nothing is one call.
 *
 * How often: one process alone looks about once a second, and all that serve a queue look about twice a second
 * together: the more of them live (queue_serving), the more seldom each one looks, up to every 15 s. So an entry is
 * moved half a second late in the mean, by whoever looks first. At the worst it is as late as one process waits from
 * look to look, which is 1.3 s where two serve the queue, 0.65 s for each of more, and never more than 20 s: when all
 * others died, until their leases have ended and the next beat has told so, or as long as they are quiet. What this
 * process knows to be due soon is looked for when it is (promoter_expect).
 *
 * Only entries for the queues given are moved; those of others stay for whoever serves them. An entry is moved with
 * `enqueued_at` set, without `at`, with the time of its expiry if it comes from `schedule` and wanted one
 * (`expires_in`), and otherwise as it is; one that is no task goes to `dead` in a form that dashboards can show, unless
 * it names a queue that is not ours.
 *
 * The look at `schedule` also examines the waiting lists (waiting.h) that are due for it. Every few seconds it also
 * puts back what rang for a process that does not come for it.
 *
 * What cannot be moved, because it is somebody else's or the key of its queue holds something foreign, keeps nobody
 * from being moved: a look goes on behind it, for a bounded number of pages, and the next look goes on where this one
 * stopped, around and around. As long as pages have something to move, the next one follows at once. Runs on the loop.
 * If the process dies here, every entry is either where it was or in its queue. */
#ifndef QUEUE_PROMOTER_H
#define QUEUE_PROMOTER_H

#include "queue/envelope.h"
#include "queue/queue.h"

struct promoter;

struct promoter_options {
    const struct envelope_limits *limits; /* kept by the caller, who may change them */
    int64_t timeout_ns;                   /* of one call */
    const char *const *names;             /* of the queues that are served; copied */
    unsigned name_count;                  /* 0 = entries for every queue are moved */
    bool keep_ms;                         /* an `enqueued_at` that came as an integer of milliseconds stays one */
};

struct promoter *promoter_create(struct loop *loop, struct queue *queue, const struct promoter_options *options);
void promoter_destroy(struct promoter *promoter);
/* While paused nothing is looked at: a process that takes no tasks moves none either. A move that is under way ends. */
void promoter_pause(struct promoter *promoter, bool paused);
/* An entry will be due so long from now: if a usual look may come later than that, there will be one then. Of more than
 * 16 at a time the latest wait for the usual looks. */
void promoter_expect(struct promoter *promoter, int64_t due_ns);
/* Every entry of `schedule` and `retry` that was due at this moment has been looked at since: those of them that are
 * still there are not ours, or cannot be moved. 0 = none was yet. */
struct instant promoter_seen(const struct promoter *promoter);
uint64_t promoter_moved(const struct promoter *promoter);
/* From one usual look to the next in the mean, where so many processes look for the same queue; 0 = not known. */
int64_t promoter_interval_ns(unsigned serving);

#endif
