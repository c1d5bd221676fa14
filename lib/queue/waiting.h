/* Waiting for a lock without holding anything: a task whose lock is held is parked, and the process that frees the lock
 * wakes the task that has waited longest.
 *
 *                 queue_park                queue_settle_and_free, queue_free: WAKE the oldest
 *   claim ───────────────────▶ waiting list ──────────────────────────────────────────────▶ head of its queue
 *     ▲                         │     │ due by time (promoter.h): the fallback of the oldest
 *     └──────── queue_claim_successor ◀────┘     └───────────────────────────────────────────────────▶ its queue
 *       the holder claims its successor before it ends; a claim that is neither kept nor confirmed is brought back
 *
 * A parked task is an ordinary entry of `schedule`, so that any scheduler brings it back, and it is in the
 * waiting list of what it waits for. The node assigns positions in order of arrival. A task keeps its position, by its
 * jid, until it ends, however often it is claimed and parked again. Only the oldest parked task has a near time in
 * `schedule`. The others sleep long and are woken in turn, so waiting costs nothing.
 *
 * No wake is lost between this node and the lock nodes. The node stamps a freed list with its time. A park names the
 * time at which its task was claimed (queue_seen_us). If the list was freed since, the lock may be free: a task that
 * would be the oldest is not parked, and the answer is QUEUE_KEPT. If the list was freed shortly before, the release
 * may not have reached the lock nodes in time: the task looks again within milliseconds. So a task that is parked for
 * long was refused by a holder whose end comes later and finds it, or is behind such a task. A holder that dies wakes
 * no task: the oldest then comes back when the ttl is over.
 *
 * For a minute after a wake, no task behind the woken one is woken. If the woken task was deleted or its process died,
 * the promoters make the next one due. A task in a paused queue is not woken.
 *
 * Lists are named: "resource:NAME" for a lock, "seats:NAME" for a resource that several may hold, "class:NAME" for a
 * share of the runners. Threads: the loop's only. If
 * the process dies, what is parked stays parked, and what it had claimed is recovered with its position. */
#ifndef QUEUE_WAITING_H
#define QUEUE_WAITING_H

#include "queue/queue.h"

/* The longest name of a list: "resource:" and a resource, or "class:" and a class. */
enum { WAITING_LIST_BYTES_MAX = 9 + 512 };

struct waiting_task {
    const char *list;
    const char *jid, *queue, *class_name;
    const char *set;      /* a digest of everything that it needs: a lock is handed on to an equal set only */
    int64_t seen_us;      /* of the claim before the lock was requested (queue_seen_us) */
    int64_t near_ns;      /* to the next look, as the oldest */
    unsigned waiters_max; /* 0 = any number */
    bool may_retry;       /* else it is parked for some milliseconds instead of QUEUE_KEPT */
    /* Its other lists. If it was woken there but has to wait here, the next task of that list is woken. May be none. */
    const char *const *others;
    unsigned other_count;
};

/* Ends the slot's claim by parking its task as `payload`. Answers QUEUE_NOTHING if it is parked; QUEUE_KEPT if the lock
 * may be free: the slot still has the task, and queue_seen_us is now, so request the lock again; QUEUE_FULL if too
 * many wait: the slot still has it; QUEUE_LOST. */
void queue_park(struct queue *queue, unsigned slot, const struct waiting_task *task, const char *payload,
                size_t length);

/* Ends the slot's task as skipped: QUEUE_NOTHING. If the task was recovered from a dead process, or waits in one
 * of the lists, it answers QUEUE_KEPT: the slot still has it and has to park it, so that the next of that list is woken
 * instead. Or QUEUE_LOST. */
void queue_skip(struct queue *queue, unsigned slot, const struct queue_task_name *task, const char *const *lists,
                unsigned list_count);

/* Claims the oldest task of a list for a slot without a task, to hand the lock on to it. Or for a slot whose task has
 * ended, and whose lock is on its way to the holder: then the same call settles that task, QUEUE_LOST refers to it, and
 * the holder is confirmed as by queue_keep.
 *
 * Such a claim is kept for the process for `kept_ns` only, by the node's clock: afterwards the next process that reads
 * `schedule` brings it back to the head of its queue. queue_keep renews that time. A claim that another process has is
 * `lost`. Its task starts only after queue_keep has said `confirmed`: then the claim follows the lease, like all
 * others.
 * Answers QUEUE_CLAIMED, or QUEUE_NOTHING: no task waits, or the oldest may not run here (its queue is not among the
 * process's or is paused, its class is not among `classes`, it locks something else too), or is on its way
 * elsewhere. */
struct waiting_successor {
    const char *list, *set;
    int64_t kept_ns;
    unsigned holder;        /* the slot that has the lock, or is about to get it */
    const char *holder_jid; /* it leaves the list, unless it does not have the lock yet */
    const char *ended_jid;  /* of the slot's task; NULL = it has none, and the holder has the lock */
    const char *const *classes;
    unsigned class_count;
};
void queue_claim_successor(struct queue *queue, unsigned slot, const struct waiting_successor *successor);
/* The slot has no other call outstanding. Repeated until answered; a later request replaces it. */
struct waiting_claim {
    const char *list, *jid;
    const char *holder_jid; /* as for queue_claim_successor */
    int64_t kept_ns;        /* 0 = confirm it */
};
void queue_keep(struct queue *queue, unsigned slot, const struct waiting_claim *claim);

/* The end of a task that held locks, for queue_settle_and_free and queue_free. */
struct waiting_end {
    const char *const *lists;
    unsigned list_count; /* at most 32 */
    const char *jid;     /* leaves these lists; NULL = nobody */
    bool is_handed_on;   /* wakes no task: the lock goes to a successor */
    int64_t after_ns;    /* of queue_free: the lock stays for this long; 0 = it is free now */
    unsigned wakes;      /* of queue_free: how many to wake; 0 = 1 */
};
/* queue_settle_and_claim for a task that held locks: they are free now, and the call wakes the oldest of each list. */
void queue_settle_and_free(struct queue *queue, unsigned slot, bool claim_next, const struct waiting_end *end);
/* The same for tasks that end by another move, and for a release that took long. Repeated until answered; does not
 * report its end. */
void queue_free(struct queue *queue, const struct waiting_end *end);
/* Appends that as a request, for an operator without a queue: answers an integer, and is safe to repeat. */
void waiting_request_free(const struct queue_keys *keys, const struct waiting_end *end, struct buffer *out);

/* Inside `answered` of a queue_settle_and_free: a task still waits for one of its lists. */
bool queue_has_waiters(const struct queue *queue, unsigned slot);
/* The node's time, in microseconds, when it claimed the slot's task or answered QUEUE_KEPT. */
int64_t queue_seen_us(const struct queue *queue, unsigned slot);

#endif
