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
 * Threads: the loop's, with one exception: the deadline word may be read by any thread. Extension intervals other than
 * ttl/3 are not offered: the rules of DANGER and LOST rest on it. */
#ifndef REDLOCK_LOOP_H
#define REDLOCK_LOOP_H

#include <stdatomic.h>

#include "redlock/redlock.h"

struct loop;          /* base/loop.h */
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
    const char *reason;         /* text for people, valid during the call; of ANSWER, LOST */
    unsigned passes;            /* of ANSWER: passes made */
    int64_t waited_ns;          /* of ANSWER: since redlock_lock_acquire */
    int64_t held_ns;            /* of LOST, RELEASED: since the acquisition */
};

/* `event` runs on the loop and may call anything here, release and destroy of this lock included. Terms must have
 * been checked. Locks are cheap to keep and to use again: one per user, not one per acquisition. */
REDLOCK_API struct redlock_lock *redlock_lock_create(struct redlock_group *group, const struct redlock_terms *terms,
                                                     void (*event)(struct redlock_lock *lock, void *context,
                                                                   const struct redlock_event *event),
                                                     void *context);
/* Free, or released with the outcome still outstanding (which is then not told). */
REDLOCK_API void redlock_lock_destroy(struct redlock_lock *lock);
/* The lock must be free. False, with nothing sent, when the request is outside the limits. The answer comes as an
 * event, never from inside this call. */
REDLOCK_API bool redlock_lock_acquire(struct redlock_lock *lock, const struct redlock_request *request);
/* Gives it up in any state but free: held and lost locks end with RELEASED; one being acquired ends with ANSWER =
 * CANCELLED, from inside this call. Once this returned, nothing extends it any more (E30). */
REDLOCK_API void redlock_lock_release(struct redlock_lock *lock);
REDLOCK_API bool redlock_lock_is_free(const struct redlock_lock *lock);

/* Until when the holder may believe that it holds, in nanoseconds of CLOCK_BOOTTIME; 0 when it does not. One word,
 * published after every change; any thread may compare it with the clock for as long as the lock exists. */
REDLOCK_API const _Atomic int64_t *redlock_lock_deadline(const struct redlock_lock *lock);

REDLOCK_API const struct redlock_counters *redlock_group_counters(const struct redlock_group *group);
/* Nodes that are connected now. */
REDLOCK_API unsigned redlock_group_nodes_up(const struct redlock_group *group);
/* True once every node was tried at least once, so that an acquire is not refused merely for being early. */
REDLOCK_API bool redlock_group_is_settled(const struct redlock_group *group);
/* Locks that are not free, and releases whose answers are outstanding. */
REDLOCK_API unsigned redlock_group_busy(const struct redlock_group *group);

#endif
