/* redlock_loop.h: the Redlock for code that runs on a loop (base/loop.h), without a thread of its own.
 *
 * redlock.h says what a lock promises and has the options, terms and answers used here. A group keeps the connections
 * to the N nodes. A lock belongs to a group and goes through free, being acquired, held and being released any number
 * of times. Everything that becomes ready within one cycle of the loop leaves in one write per node.
 *
 *     struct redlock_group *group = redlock_group_create(loop, &options, reason, sizeof reason);
 *     struct redlock_lock *lock = redlock_lock_create(group, &terms, on_event, context);
 *     redlock_lock_acquire(lock, &request);     ... ANSWER event; EXTENDED, DANGER, LOST while it is held
 *     redlock_lock_release(lock);               ... RELEASED event
 *
 * NULL is treated as in redlock.h: redlock_lock_create returns NULL if its group, terms or event are NULL. A NULL lock
 * is free and cannot be acquired, a NULL group has no nodes, and pointers into either are NULL.
 *
 * Threads: the loop's only, except that any thread may read struct redlock_validity. The extension interval is always
 * ttl/3, because the rules of DANGER and LOST rest on it. */
#ifndef REDLOCK_LOOP_H
#define REDLOCK_LOOP_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/list.h"
#include "base/loop.h"
#include "redlock/redlock.h"
#include "redlock/redlock_nodes.h"

/* Durations here are nanoseconds; those of redlock.h are milliseconds. */
#define REDLOCK_MS(milliseconds) ((int64_t)(milliseconds)*NS_PER_MS)

struct redlock_group; /* N nodes, their connections, and the locks over them */
struct redlock_lock;  /* one lock: free, being acquired, held or being released */

/* NULL, with a reason, if the options are wrong. The caller owns the loop and runs it. */
struct redlock_group *redlock_group_create(struct loop *loop, const struct redlock_options *options, char *reason,
                                           size_t reason_size);
/* No lock may be in use. Waits for nothing: the ttl removes what is unanswered. */
void redlock_group_destroy(struct redlock_group *group);

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
    int64_t remaining_ns; /* of ANSWER = BUSY: when it expires at the latest, unless it is extended; 0 = unknown */
    /* of ANSWER = BUSY: a client of another kind has it, which announces no release: ask again after this long; 0 = one
     * of ours has it */
    int64_t look_again_ns;
    unsigned resource; /* of ANSWER = BUSY: index of the held one when sorted by bytes; 0 if not known */
    unsigned attempts; /* of ANSWER: attempts made */
    int64_t waited_ns; /* of ANSWER: since redlock_lock_acquire */
    bool handed_over;  /* of ANSWER = ACQUIRED: straight from another lock in this process; it was never free */
    int64_t held_ns;   /* of LOST, RELEASED: since the acquisition */
    /* of ANSWER other than ACQUIRED: a majority may have granted it all the same, and refuses others until the release
     * arrives there */
    bool may_obstruct;
};

/* `event` runs on the loop and may call anything here, even release and destroy this lock. redlock_terms_check must
 * have accepted the terms. Locks are cheap to keep and reuse: create one per user, not one per acquisition. */
struct redlock_lock *redlock_lock_create(struct redlock_group *group, const struct redlock_terms *terms,
                                         void (*event)(struct redlock_lock *lock, void *context,
                                                       const struct redlock_event *event),
                                         void *context);
/* From now on this function gets the events of the lock; pending redlock_lock_verify calls get no answer. */
void redlock_lock_tell_to(struct redlock_lock *lock,
                          void (*event)(struct redlock_lock *lock, void *context, const struct redlock_event *event),
                          void *context);
/* The lock must be free, or released; an outstanding outcome is then not reported. */
void redlock_lock_destroy(struct redlock_lock *lock);
/* The lock must be free. False, with nothing sent, if the request exceeds a limit. The answer is an event, never from
 * inside this call. */
bool redlock_lock_acquire(struct redlock_lock *lock, const struct redlock_request *request);
/* Whether clients of other kinds, met lately at its resources or not known yet, should have a turn before the next of
 * ours. Then a release leaves the resources free for REDLOCK_TURN_NS before it wakes those who wait with `wait_ms`, and
 * before any such lock of this group asks for them. It hands the lock over to one with `waits_here` all the same. */
#define REDLOCK_TURN_NS (200 * NS_PER_MS)
bool redlock_lock_gives_way(const struct redlock_lock *lock);
/* In any state but free: a held or lost lock ends with RELEASED; one being acquired ends with ANSWER = CANCELLED, from
 * inside this call. Once this has returned, nothing extends the lock any more (E30). */
void redlock_lock_release(struct redlock_lock *lock);
/* For work that should not be repeated too soon; it makes nothing safer. Like redlock_lock_release, but on the nodes
 * that can be reached the keys stay for `ns` more, at most the max_ttl of the group. No waiter is notified, and none
 * can get the lock before that, not even in this process. A lock that is no longer held is released as usual. RELEASED
 * means that a majority keeps the keys that long; an unreachable node keeps them until the ttl of the last extension
 * ends. */
void redlock_lock_linger(struct redlock_lock *lock, int64_t ns);
/* Declares the hold over: the LOST event comes from inside this call, and the keys stay as they are. The lock must
 * still be released. Does nothing to a lock that is not held. */
void redlock_lock_forfeit(struct redlock_lock *lock);
bool redlock_lock_is_free(const struct redlock_lock *lock);

/* What other threads may read of a lock while it exists. The loop publishes it after every change, in nanoseconds of
 * CLOCK_BOOTTIME, for comparison with the clock. */
struct redlock_validity {
    _Atomic int64_t until;       /* the holder may believe that it holds; 0 when it does not */
    _Atomic int64_t danger_from; /* no danger before that; 0 when it does not hold */
    _Atomic int descriptor;      /* private */
};
struct redlock_validity *redlock_lock_validity(struct redlock_lock *lock);
/* From now on the loop also publishes to `elsewhere`, where other processes may read it, but for the descriptor; NULL =
 * nowhere else. What was published last stays there. On the loop. */
void redlock_lock_publish_to(struct redlock_lock *lock, struct redlock_validity *elsewhere);
/* 0 once it is lost. */
int64_t redlock_validity_left_ns(const struct redlock_validity *validity);
bool redlock_validity_in_danger(const struct redlock_validity *validity);
/* A descriptor that the kernel makes readable when the validity ends; created by the first call. -1: none left. */
int redlock_validity_descriptor(struct redlock_validity *validity);

/* Of a held lock: when its maximum hold ends; INSTANT_NEVER without one. On the loop. */
struct instant redlock_lock_hold_until(const struct redlock_lock *lock);
/* The fencing token while it is held or lost; 0 = none. On the loop. */
uint64_t redlock_lock_token(const struct redlock_lock *lock);
/* While it is held: which of the seats of its resource; 0 without a limit in the request. On the loop. */
unsigned redlock_lock_seat(const struct redlock_lock *lock);

/* Asks a majority now whether the lock is still held, by extending it. `done` runs once, later, with the outcome,
 * unless the lock is NULL or destroyed before. On the loop; the caller keeps the struct until then. */
struct redlock_verify {
    void (*done)(struct redlock_verify *verify, bool is_held);
    struct list link; /* private, like what follows */
    struct instant asked;
    struct loop_timer limit;
};
void redlock_lock_verify(struct redlock_lock *lock, struct redlock_verify *verify);
/* The same for a longer ttl, at most the max_ttl of the group: if the nodes confirm it, the lock has it until it is
 * destroyed. Otherwise it keeps its own. */
void redlock_lock_extend(struct redlock_lock *lock, int64_t ttl_ns, struct redlock_verify *verify);
/* 0 if the lock is NULL. On the loop. */
int64_t redlock_lock_ttl_ns(const struct redlock_lock *lock);
/* From now on `done` does not run; harmless if it has run. */
void redlock_lock_verify_cancel(struct redlock_lock *lock, struct redlock_verify *verify);

/* Calls `released`, later and on the loop, whenever a process of the group announces that it released the resource, or
 * its seat (from 1), and once when such announcements begin to arrive, because one may have been missed. Announcements
 * may be lost or come twice. `released` must not destroy the watch. Ends before the group. On the loop. */
struct redlock_watch;
struct redlock_watch *redlock_watch_create(struct redlock_group *group, const char *resource, unsigned seat,
                                           void (*released)(void *context), void *context);
void redlock_watch_destroy(struct redlock_watch *watch);

const struct redlock_counters *redlock_group_counters(const struct redlock_group *group);
/* Requests to one node, and its answers, since the group was created. */
struct redlock_node_counters {
    uint64_t requests;         /* script calls for locks and inspections; hints to waiters do not count */
    uint64_t granted, refused; /* answers to locks; refused: another holder has it there */
    uint64_t errors;           /* answers that are errors, or say that nothing was done */
    uint64_t timeouts;         /* answers that came late or never */
    uint64_t split_votes;      /* it granted a lock in an attempt in which nobody got a majority */
    struct histogram latency;  /* of answers to locks, from sending to the answer */
};
/* `node` is an index into the options; NULL beyond them. */
const struct redlock_node_counters *redlock_group_node_counters(const struct redlock_group *group, unsigned node);
/* How one node stands; false, and all zero, beyond the options. */
struct redlock_node_status {
    bool is_up, votes;
    const char *state, *reason;         /* a word each, as redlock_node_view of redlock_nodes.h has them */
    int64_t quarantine_left_ns;         /* 0 = it is in none, or its length is not known */
    bool is_clock_known;                /* what follows is known */
    int64_t clock_ahead_ns, silence_ns; /* of this machine's clock; since the last sample of it */
};
bool redlock_group_node_status_read(const struct redlock_group *group, unsigned node,
                                    struct redlock_node_status *status);
/* How long extensions took. */
const struct histogram *redlock_group_extensions(const struct redlock_group *group);
/* Nodes that are connected now. */
unsigned redlock_group_nodes_up(const struct redlock_group *group);
/* Why the first node that is not connected is not; "" if all are. Valid until the loop runs. */
const char *redlock_group_trouble(const struct redlock_group *group);
/* Nodes that are connected and may vote now. The others are quarantined, or not members of the lock group. */
unsigned redlock_group_voters(const struct redlock_group *group);
/* True once every node was tried and inspected, so that an acquire is not refused only for being early. */
bool redlock_group_is_settled(const struct redlock_group *group);
/* Asked again and again: true once it is settled, or a majority votes and the others had a moment more to come. So a
 * node that hangs keeps nobody waiting for as long as a connection may take. */
bool redlock_group_is_ready(struct redlock_group *group);
/* The present state of the nodes. Without a majority of voters nothing is granted. With a majority of blank nodes
 * nothing ever will be, until they become a lock group: no other nodes can outvote them. On the loop. */
struct redlock_group_status {
    unsigned nodes, up; /* configured, connected */
    unsigned voters;    /* trusted to grant */
    unsigned blank;     /* inspected, and never members of a group; 0 with a single node */
    int64_t max_ttl_ns; /* of the group; 0 = not known, or a single node */
    /* Of the group, or of a single node while it can be reached or something is locked there: where locks are. */
    bool knows_group;
    char group[REDLOCK_GROUP_ID_DIGITS + 1]; /* its id; "" = not known, or a single node without one */
};
void redlock_group_status_read(const struct redlock_group *group, struct redlock_group_status *status);
/* Locks that are not free, and releases whose answers are outstanding. */
unsigned redlock_group_busy(const struct redlock_group *group);

#endif
