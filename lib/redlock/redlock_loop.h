/* redlock_loop.h: the Redlock for code that runs on a loop (base/loop.h), without a thread of its own.
 *
 * redlock.h says what a lock promises, and has the options, terms and answers that are used here too; the blocking
 * client there is a thin layer over this. A group keeps the connections to the N nodes; a lock belongs to a group and
 * goes through free, being acquired, held, being released, any number of times. Everything that becomes ready within
 * one turn of the loop leaves in one write a node.
 *
 *     struct redlock_group *group = redlock_group_create(loop, &options, reason, sizeof reason);
 *     struct redlock_lock *lock = redlock_lock_create(group, &terms, on_event, context);
 *     redlock_lock_acquire(lock, &request);     ... ANSWER event; EXTENDED, DANGER, LOST while it is held
 *     redlock_lock_release(lock);               ... RELEASED event
 *
 * NULL is treated as in redlock.h: redlock_lock_create returns NULL if its group, terms or event are NULL. A NULL lock
 * is free and cannot be acquired, a NULL group has no nodes, and pointers into either are NULL.
 *
 * Threads: the loop's, with one exception: what struct redlock_validity has is for any thread. Extension intervals
 * other than ttl/3 are not offered: the rules of DANGER and LOST rest on it. */
#ifndef REDLOCK_LOOP_H
#define REDLOCK_LOOP_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/list.h"
#include "base/loop.h"
#include "redlock/redlock.h"

struct redlock_group; /* N nodes, their connections, and the locks over them */
struct redlock_lock;  /* one lock: free, being acquired, held or being released */

/* NULL with a reason when the options are wrong. The caller owns the loop and runs it. */
REDLOCK_API struct redlock_group *redlock_group_create(struct loop *loop, const struct redlock_options *options,
                                                       char *reason, size_t reason_size);
/* No lock may be in use. Waits for nothing: what is unanswered expires by its ttl. */
REDLOCK_API void redlock_group_destroy(struct redlock_group *group);

enum redlock_event_kind {
    REDLOCK_EVENT_ANSWER, /* the outcome of redlock_lock_acquire */
    REDLOCK_EVENT_EXTENDED,
    REDLOCK_EVENT_DANGER,   /* two thirds of the ttl without a successful extension */
    REDLOCK_EVENT_LOST,     /* final. The lock must still be released */
    REDLOCK_EVENT_RELEASED, /* the outcome of redlock_lock_release */
};

struct redlock_event {
    enum redlock_event_kind kind;
    enum redlock_answer answer; /* of ANSWER */
    enum redlock_ending ending; /* of RELEASED */
    enum redlock_loss loss;     /* of LOST */
    const char *reason;         /* text for people, valid during the call; of ANSWER, LOST */
    const char *holder;         /* of ANSWER = BUSY: the owner text of the holder, "" when not known */
    int64_t remaining_ns; /* of ANSWER = BUSY: until it is free at the latest, if nobody extends it; 0 = unknown */
    unsigned resource;    /* of ANSWER = BUSY: which is held, by its place among them sorted by bytes; 0 if not known */
    unsigned attempts;    /* of ANSWER: attempts made */
    int64_t waited_ns;    /* of ANSWER: since redlock_lock_acquire */
    bool handed_over;     /* of ANSWER = ACQUIRED: straight from another lock of this process; it was never free */
    int64_t held_ns;      /* of LOST, RELEASED: since the acquisition */
    /* of ANSWER, but for ACQUIRED: a majority may have granted it all the same, and refuses others until the release
     * has arrived there */
    bool may_obstruct;
};

/* `event` runs on the loop and may call anything here, release and destroy of this lock included. Terms must have
 * been checked. Locks are cheap to keep and to use again: one per user, not one per acquisition. */
REDLOCK_API struct redlock_lock *redlock_lock_create(struct redlock_group *group, const struct redlock_terms *terms,
                                                     void (*event)(struct redlock_lock *lock, void *context,
                                                                   const struct redlock_event *event),
                                                     void *context);
/* From now on its events go to this function; open questions of redlock_lock_verify are not answered. */
REDLOCK_API void redlock_lock_tell_to(struct redlock_lock *lock,
                                      void (*event)(struct redlock_lock *lock, void *context,
                                                    const struct redlock_event *event),
                                      void *context);
/* The lock is free, or released; an outstanding outcome is then not reported. */
REDLOCK_API void redlock_lock_destroy(struct redlock_lock *lock);
/* The lock must be free. False, with nothing sent, when the request is outside the limits. The answer comes as an
 * event, never from inside this call. */
REDLOCK_API bool redlock_lock_acquire(struct redlock_lock *lock, const struct redlock_request *request);
/* Gives it up in any state but free: held and lost locks end with RELEASED; one being acquired ends with ANSWER =
 * CANCELLED, from inside this call. Once this returned, nothing extends it any more (E30). */
REDLOCK_API void redlock_lock_release(struct redlock_lock *lock);
/* The same, but its keys stay for `ns` more, at most the max_ttl of the group, on the nodes that can be reached. No
 * waiter is notified, and none can have it before that, not even in this process. A lock that is no longer held is
 * released as usual. RELEASED means that a majority keeps it that long; an unreachable node keeps it until the ttl of
 * the last extension ends. For work that should not be repeated too soon; it makes nothing safer. */
REDLOCK_API void redlock_lock_linger(struct redlock_lock *lock, int64_t ns);
/* Declares the hold over: the LOST event comes from inside this call, and the keys stay as they are. The lock must
 * still be released. Does nothing to a lock that is not held. */
REDLOCK_API void redlock_lock_forfeit(struct redlock_lock *lock);
REDLOCK_API bool redlock_lock_is_free(const struct redlock_lock *lock);

/* What other threads may know about a lock while it exists: words that the loop publishes after every change, in
 * nanoseconds of CLOCK_BOOTTIME, for comparison with the clock. */
struct redlock_validity {
    _Atomic int64_t until;       /* the holder may believe that it holds; 0 when it does not */
    _Atomic int64_t danger_from; /* until then no danger; 0 when it does not hold */
    _Atomic int descriptor;      /* private */
};
REDLOCK_API struct redlock_validity *redlock_lock_validity(struct redlock_lock *lock);
/* From now on the lock's end is also written there, where other processes may read it; NULL = nowhere else. What was
 * written last stays there. `descriptor` there is unused. On the loop. */
REDLOCK_API void redlock_lock_publish_to(struct redlock_lock *lock, struct redlock_validity *elsewhere);
/* 0 once it is lost. */
REDLOCK_API int64_t redlock_validity_left_ns(const struct redlock_validity *validity);
REDLOCK_API bool redlock_validity_in_danger(const struct redlock_validity *validity);
/* A descriptor that the kernel makes readable when the validity ends; made when first asked for. -1: none left. */
REDLOCK_API int redlock_validity_descriptor(struct redlock_validity *validity);

/* When its maximum hold ends, INSTANT_NEVER without one; while it is held. On the loop. */
REDLOCK_API struct instant redlock_lock_hold_until(const struct redlock_lock *lock);
/* The fencing token while it is held or lost; 0 = none. On the loop. */
REDLOCK_API uint64_t redlock_lock_token(const struct redlock_lock *lock);

/* Asks a majority now whether the lock is still held (by extending it). `done` runs once, later, with the outcome; not
 * when the lock is destroyed before, or there is none. On the loop; the caller owns the struct until then. */
struct redlock_verify {
    void (*done)(struct redlock_verify *verify, bool is_held);
    struct list link; /* private, as what follows */
    struct instant asked;
    struct loop_timer limit;
};
REDLOCK_API void redlock_lock_verify(struct redlock_lock *lock, struct redlock_verify *verify);
/* `done` does not run any more; harmless when it did. */
REDLOCK_API void redlock_lock_verify_cancel(struct redlock_lock *lock, struct redlock_verify *verify);

REDLOCK_API const struct redlock_counters *redlock_group_counters(const struct redlock_group *group);
/* Requests to one node, and its answers, since the group was made. */
struct redlock_node_counters {
    uint64_t requests;         /* that were sent to it: for locks, and to look at it. Each is a script call; what waits
                                  is told by others, which are not counted */
    uint64_t granted, refused; /* of what locks asked for; refused: another holder has it there */
    uint64_t errors;           /* answers that are errors, and those that say that nothing was done */
    uint64_t timeouts;         /* answers that did not come in time, or at all */
    uint64_t split_votes;      /* it granted a lock that had no majority, when no other had one either */
    struct histogram latency;  /* of what it answered to locks, from sending to the answer */
};
/* In the order of the options. NULL when `node` is beyond them. */
REDLOCK_API const struct redlock_node_counters *redlock_group_node_counters(const struct redlock_group *group,
                                                                            unsigned node);
/* How long the rounds took that extended locks. */
REDLOCK_API const struct histogram *redlock_group_extensions(const struct redlock_group *group);
/* Nodes that are connected now. */
REDLOCK_API unsigned redlock_group_nodes_up(const struct redlock_group *group);
/* Nodes that are connected and may vote now: the others are quarantined, or no members of the lock group. */
REDLOCK_API unsigned redlock_group_voters(const struct redlock_group *group);
/* True once every node was tried and inspected at least once, so that an acquire is not refused for being early. */
REDLOCK_API bool redlock_group_is_settled(const struct redlock_group *group);
/* How the nodes stand now. Without a majority of voters nothing is granted. With a majority of blank nodes nothing
 * ever will be, until they are made a lock group: no other nodes could outvote them. On the loop. */
struct redlock_group_status {
    unsigned nodes, up; /* configured, connected */
    unsigned voters;    /* trusted to grant */
    unsigned blank;     /* inspected, and never members of a group; 0 when there is one node only */
    int64_t max_ttl_ns; /* of the group; 0 = not known, or one node only */
};
REDLOCK_API void redlock_group_status_read(const struct redlock_group *group, struct redlock_group_status *standing);
/* Locks that are not free, and releases whose answers are outstanding. */
REDLOCK_API unsigned redlock_group_busy(const struct redlock_group *group);

#endif
