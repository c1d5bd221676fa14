/* A worker process at the queue node: claims tasks for its slots, settles them, and wakes slots for new tasks.
 *
 *       push (push.h)           queue_settle_and_claim               queue_settle_and_claim (done, next)
 *  ───────────────▶ queue:NAME ──────────────────▶ claim of (process, slot) ─────────────────────────▶ ended
 *                     ▲     ▲                          │        │       │
 *                     │     └──── queue_give_back ─────┘        │       └── queue_postpone ─▶ dead
 *                     └──── promote (promoter.h) ◀── schedule, retry ◀── queue_postpone
 *
 * A task is at every moment in exactly one of these states. One script makes each move, and moves the bytes of the task
 * as they are. A slot on the node holds a claim id of 16 random bytes, and the payload. Each call that changes
 * the slot names the id that it expects and the new id that it leaves. So a call repeated after a lost reply answers
 * the same, a late call changes nothing, and every call is simply repeated until it is answered. A slot has at most one
 * call outstanding.
 *
 * All slots that ask within one cycle of the loop share one script call (LOOP_GATHER). A process with idle slots has a
 * blocking claim outstanding for each queue, on a connection of its own (blocking_claim.c); it wakes idle slots.
 *
 * A process holds a lease at the node and renews it at a third of its time. Other processes that have held their own
 * lease long enough (recovery_permit.h) recover the claims of one whose lease has ended. A process that was stopped or
 * cut off learns with its next call which claims it has lost. Until the node has answered that, it knows by its own
 * clock that it may have lost them (`renewed`). A renewal also finds claims that the process does not know, and gives
 * them back.
 *
 * Two processes may have terms that let their tasks of one resource run at once (terms.h). A process announces its
 * terms where it is listed, and serves only what the node lets it.
 *
 * The claim script looks at the set `paused`, so pausing a queue takes effect at once.
 *
 * Threads: the loop's only. Payloads are lent for the time of the event. If the process dies, its claims stay on the
 * node until its lease has ended and others recover them. */
#ifndef QUEUE_QUEUE_H
#define QUEUE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "queue/json.h"
#include "queue/terms.h"
#include "redis/node.h"

struct queue;

enum queue_answer {
    QUEUE_CLAIMED,   /* the slot has a task */
    QUEUE_NOTHING,   /* the slot has none: there was none, or the slot wanted none */
    QUEUE_LOST,      /* another process took the claim; the slot has none */
    QUEUE_OPENED,    /* of queue_open: it may run */
    QUEUE_CANCELLED, /* of queue_open: it must not run; the slot still has it */
    QUEUE_KEPT,      /* of queue_park and queue_skip (waiting.h): it may be tried again, or has to be parked; the slot
                        still has it */
    QUEUE_FULL,      /* of queue_park: too many wait; the slot still has it */
    QUEUE_REFUSED, /* of queue_finish_with: a key that a task should go to holds something else, nothing was pushed; of
                        queue_unserved: it is to fail. The slot still has its task */
};

#define QUEUE_LEASE_DEFAULT_NS (15 * NS_PER_S)

struct queue_options {
    struct redis_node_options node; /* `scripts`, `changed` and limits are set here */
    int64_t timeout_ns;             /* for one call */
    const char *identity;           /* HOST:PID:NONCE */
    const char *space;              /* prefix of every key; NULL = none */
    const char *const *names;       /* of the queues, in the order in which they are emptied */
    const unsigned *weights;        /* of the queues, for an order by chance; NULL = strictly in their order */
    unsigned name_count;
    unsigned slots;
    unsigned call_slots; /* so many at most claim in one call, unless tasks end that held locks; 0 = any number */
    size_t claim_bytes;  /* of payload that one call may claim; one task is always claimed */
    int64_t lease_ns;    /* 0 = QUEUE_LEASE_DEFAULT_NS */
    /* The limits for reading the tasks of dead processes in a recovery; NULL = the defaults. */
    const struct envelope_limits *limits;

    /* The end of queue_settle_and_claim, queue_open and of the moves, exactly one for each. `queue` and `payload` are
     * set for QUEUE_CLAIMED. The slot may ask again from inside. */
    void (*answered)(void *context, unsigned slot, enum queue_answer answer, const char *queue, const char *payload,
                     size_t length);
    /* The claim of a slot that has a task and no call outstanding was lost; may be NULL. The slot has no task any
     * more. */
    void (*lost)(void *context, unsigned slot);
    /* Answers a queue_keep that asks for it, and a queue_claim_successor that settles a task (waiting.h): the claim is
     * there, and follows the lease from now on. If it is not, `lost` is called. */
    void (*confirmed)(void *context, unsigned slot);
    /* The node renewed the lease, and `lost` was called for every claim that is gone: what the slots have is the
     * process's own until then, also what they claim meanwhile. Counted from when the renewal was sent, so it may be
     * past when its answer is read; may be NULL. */
    void (*renewed)(void *context, struct instant until);
    /* A task was parked (waiting.h) for this long, or is due then by a queue_free; may be NULL. A promoter should look
     * then. */
    void (*parked)(void *context, int64_t due_ns);
    /* The answer to an announcement of terms: of `terms` the items that `waits` lists, one a line, are not to be
     * served. `others` are processes with other terms: all terms that break some of ours, and a few that only disturb.
     * May be NULL. The texts are lent for the call. */
    void (*terms_told)(void *context, const char *terms, const char *waits, const struct terms_party *others,
                       size_t count);
    void (*wake)(void *context); /* there may be tasks for idle slots */
    void (*changed)(void *context, enum redis_node_state state);
    void *context;
};

struct queue *queue_create(struct loop *loop, const struct queue_options *options);
void queue_destroy(struct queue *queue);

/* Ends the slot's task, if any, as done; claims the next if wanted. */
void queue_settle_and_claim(struct queue *queue, unsigned slot, bool claim_next);

/* Identifies the task of a slot beyond its bytes, for moves that end it. */
struct queue_task_name {
    const char *jid;
    const char *unique; /* the digest of its unique key, released at its end; NULL = not unique */
    bool is_ended;      /* by queue_open, before it ran */
    bool is_cancelled;  /* queue_finish removes its mark of cancellation and its progress */
};
/* Ends the slot's task without claiming the next: for one that is unique or was cancelled. */
void queue_finish(struct queue *queue, unsigned slot, const struct queue_task_name *task);

/* A task pushed by the end of another. Complete: with a jid, and with the times that a push gives it. */
struct queue_follow_up {
    const char *queue; /* NULL = into the schedule, for `at_us` */
    int64_t at_us;     /* since 1970 */
    struct text_span payload;
};
/* What the end of a task pushes and keeps. The texts are copied into the call. */
struct queue_extras {
    const struct queue_follow_up *follow_ups; /* in the order in which they are to be taken */
    size_t follow_up_count;                   /* QUEUE_FOLLOW_UPS_MAX at most */
    struct text_span result;                  /* the record to be kept (task_result.h); bytes == NULL: none */
    int64_t result_ttl_ns;
};
enum { QUEUE_FOLLOW_UPS_MAX = 1000 };
/* queue_finish for a task that leaves something behind: in one instant it ends, its follow-ups are in their queues
 * (paused or not) and its result is kept. QUEUE_NOTHING: all of it is done, exactly once, whatever replies got lost.
 * QUEUE_REFUSED: none of it, and the slot still has the task. QUEUE_LOST: none of it, another process has the task. The
 * same holds if the process dies before the node has executed the call. */
void queue_finish_with(struct queue *queue, unsigned slot, const struct queue_task_name *task,
                       const struct queue_extras *extras);

enum queue_state { QUEUE_RETRY, QUEUE_SCHEDULE, QUEUE_DEAD };
/* Moves the slot's task, as `payload`, to be looked at again after `delay_ns`. */
void queue_postpone(struct queue *queue, unsigned slot, enum queue_state state, int64_t delay_ns,
                    const struct queue_task_name *task, const char *payload, size_t length);
/* A task of a class that this process does not serve. */
struct queue_unserved {
    const char *jid, *class_name;
    int64_t delay_ns;
    bool may_fail;           /* its grace is over */
    int64_t failed_delay_ns; /* after which it comes back if it fails; 0 = it does not */
};
/* Moves it, as `payload`, into `retry` for `delay_ns`, and notes that it waits for its class. QUEUE_REFUSED: it may
 * fail, and no living process announces the class. */
void queue_unserved(struct queue *queue, unsigned slot, const struct queue_unserved *task, const char *payload,
                    size_t length);
/* Puts the slot's task back at the head of the queue it came from. */
void queue_give_back(struct queue *queue, unsigned slot, const char *name);
/* The last check before a task runs: is it cancelled? With `finishes` it ends here, before it runs, so that it runs at
 * most once; after that only queue_settle_and_claim, queue_finish and queue_postpone make sense for it. */
void queue_open(struct queue *queue, unsigned slot, const char *jid, bool finishes);
/* True if the last claim saw that there are tasks to cancel: then call queue_open. */
bool queue_has_cancels(const struct queue *queue);
/* True if the slot's task had no iteration hash (iteration.h) when it was claimed; else that is not known. Claims look
 * for one from the first such question on. */
bool queue_has_no_progress(struct queue *queue, unsigned slot);

/* The process was cut off and did not die: the recovery of the task does not count against it. */
void queue_uncount_recovery(struct queue *queue, unsigned slot, const char *jid);
/* Announces the terms of the process (terms.h), and again whenever it is listed anew; terms_told gets the answer. While
 * something waits the queue asks again, about once a second, and calls terms_told each time. */
void queue_announce(struct queue *queue, const char *terms);
/* False from when the process must be listed anew until the node has answered: whether it may still serve what it
 * served is not known. */
bool queue_is_listed(const struct queue *queue);

/* Renews the lease at once, which also tells which queues are paused and which claims exist. */
void queue_look(struct queue *queue);
/* Of this process's queues, how many processes serve the least served one, itself included, as of the last renewal.
 * 0 = unknown; at most 65. A dead process counts until its lease has ended, a quiet one until it has left. */
unsigned queue_serving(const struct queue *queue);

/* While `wanted`, blocking claims wait; otherwise a task that still arrives is put back. Want it only while some slot
 * is idle and will claim when woken: the task is claimed for this process, no other process can take it, and there is
 * no second wake. */
void queue_listen(struct queue *queue, bool wanted);
/* For a process that claims nothing more: the same as unwanted, and the blocking claims that wait are ended, so that
 * they take no task from other processes. */
void queue_end_listening(struct queue *queue);

/* Ends blocking claims, gives back what the process still has, and removes its keys; then calls `done`, once. During
 * the first half of the time it waits for outstanding calls of slots, so that a finished task is not given back. If the
 * node is unreachable until `deadline`, `done` says so, and other processes recover the claims. */
void queue_leave(struct queue *queue, struct instant deadline, void (*done)(void *context, bool left));

/* Ends a queue_leave that is under way by `deadline`, if it would take longer. */
void queue_leave_by(struct queue *queue, struct instant deadline);

/* False while the node has never been reached: then nothing can be claimed, and queue_leave is not needed. */
bool queue_was_reached(const struct queue *queue);

/* The time on the node's own clock: that of its last answer, plus what has passed here since. It is late by the travel
 * time of that answer, never early. Our own wall clock before the first answer. */
struct wall_time queue_now(const struct queue *queue);

/* Requests whose answers are lost again and again, as those with tasks above the node's limit for answers: they are
 * repeated rarely. */
unsigned queue_unreceived(const struct queue *queue);

struct redis_node *queue_node(struct queue *queue);
const struct queue_keys *queue_keys_of(const struct queue *queue);

/* The remaining work: tasks in the queues; and tasks that will be there or may come back: what any process has claimed,
 * what waits for a lock or a share of the runners, entries of `schedule` and `retry` that became due `since_ns` ago at
 * most, and entries of `schedule` due within the horizon. `told` runs once, with known = false if the node is
 * silent. */
struct queue_backlog {
    bool known;
    long long waiting, pending;
};
void queue_count(struct queue *queue, int64_t since_ns, int64_t horizon_ns,
                 void (*told)(void *context, const struct queue_backlog *backlog));

struct queue_counters {
    uint64_t claims, claim_calls, rings, repeats;
    uint64_t recovered, poisoned; /* claims of other processes, that went back or to the dead */
};
const struct queue_counters *queue_counters(const struct queue *queue);

#endif
