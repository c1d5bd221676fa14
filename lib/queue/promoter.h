/* Moves tasks whose time has come from `schedule` and `retry` to their queues.
 *
 * Every process looks, at its own jittered moments, about once a second; the script moves an entry only if it is the
 * one that removes it, so any number of processes may do so at once. The time is the queue node's.
 *
 * Only entries for the queues given are moved; those of others stay for whoever serves them. An entry is moved with
 * `enqueued_at` set, without `at`, with the time of its expiry if it comes from `schedule` and wanted one
 * (`expires_in`), and otherwise as it is; one that is no task goes to `dead` in a form that dashboards can show, unless
 * it names a queue that is not ours.
 *
 * The look at `schedule` also examines the waiting lists (waiting.h) that are due for it.
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
/* An entry will be due so long from now: if that is soon, there will be a look then. Of more than 16 at a time the
 * others wait for the usual looks. */
void promoter_expect(struct promoter *promoter, int64_t due_ns);
/* Every entry of `schedule` that was due at this moment has been looked at since: those of them that are still there
 * are not ours, or cannot be moved. 0 = none was yet. */
struct instant promoter_seen(const struct promoter *promoter);
uint64_t promoter_moved(const struct promoter *promoter);

#endif
