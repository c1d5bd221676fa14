/* Private to slot.c and slot_*.c, and to the files that look at all slots of the process: one task at a time, from
 * its claim to its end. All of it belongs to the loop thread; what runs may read is on the run table. */
#ifndef WORKER_SLOT_H
#define WORKER_SLOT_H

#include "queue/follow_up.h"
#include "queue/queue.h"
#include "redlock/redlock_loop.h"
#include "worker/events/observer.h"
#include "worker/flow.h"
#include "worker/isolation/isolation.h"
#include "worker/isolation/thread_pool.h"
#include "worker/locks/contention.h"
#include "worker/locks/task_resources.h"
#include "worker/task/job_host.h"
#include "worker/task/job_verifier.h"
#include "worker/task/task_rules.h"

struct worker;

/* Handlers that asked to run one at a time in this process. */
struct serial {
    struct list link;
    const char *class_name;
    struct slot *running;
    struct list waiting; /* slots whose turn will come */
};

/* What a task was in the way of, and is no longer. */
struct slot_left {
    enum { SLOT_LEFT_NOTHING, SLOT_LEFT_FREE, SLOT_LEFT_TO_SUCCESSOR, SLOT_LEFT_LINGERS } kind;
    int64_t after_ns;  /* of LINGERS: for so long yet */
    bool gives_way;    /* of LINGERS: the lock is free, and left to other clients meanwhile */
    const char *jid;   /* who leaves the waiting lists; NULL = nobody's */
    const char *share; /* the list of its class, which is free now whatever becomes of the others; NULL = as these */
};

/* Where a task waits that cannot have what it needs. */
struct slot_wait {
    const char *list;
    int64_t near_ns, seen_us;
    bool is_in_list; /* it was to be handed the lock: tasks behind it must find it at its position, and not asking */
};

/* Tasks of this process to which a lock was handed on, one after the other. */
struct slot_hand_offs {
    unsigned length;
    struct instant since;
};

/* What the log says of its lock. */
struct slot_locked {
    struct wall_time at, left_at; /* us = 0: it had none; it has it still */
    int64_t waited_ns;
    char predecessor[ENVELOPE_JID_BYTES_MAX + 1]; /* the task that handed it over; empty = none */
};

struct slot {
    struct worker *worker;
    unsigned number;
    struct slot *partner; /* the slot that shares its runner; see slot_successor.c */
    struct flow flow;
    bool is_successor;      /* its task is claimed, or being claimed, to have the lock of its partner's task */
    bool is_confirming;     /* a successor: the queue was asked to make its claim final, so nothing keeps it any more */
    struct loop_timer keep; /* of its claim, until then */
    char successor_of[ENVELOPE_JID_BYTES_MAX + 1];
    bool is_sent_back;       /* a successor whose holder did not get the lock, or holds it for long */
    bool has_waited;         /* the latter */
    bool was_deserted;       /* its task was claimed as a successor, and no holder is left to hand the lock on */
    bool asks_for_waiters;   /* its outstanding call does */
    bool claim_deferred;     /* it claims once its partner is idle */
    bool claims;             /* its outstanding call claims a task */
    struct list idle_link;   /* in worker->idle while FLOW_IDLE */
    struct list serial_link; /* in a serial's waiting list */
    struct list back_link;   /* in worker->given_back until the end of the cycle */
    uint64_t order;          /* of its task among all that were claimed */
    struct buffer payload;
    char queue[ENVELOPE_QUEUE_BYTES_MAX + 1];
    char jid[ENVELOPE_JID_BYTES_MAX + 1];
    struct envelope envelope;
    struct error invalid;       /* why the payload is no task */
    struct error bad_resources; /* why its resources are not known */
    const struct plugin_handler *handler;
    struct task_rules rules;
    struct task_resources resources;
    struct waiting_names waiting; /* the lists of what it needs */
    struct slot_wait wait;
    struct slot_left left;
    struct slot_hand_offs hand_offs;
    struct wall_time unserved_at; /* when its class was first found to be served by nobody here; 0 = it is served */
    int64_t unserved_delay_ns;    /* after which it comes back if it fails for that */
    const char *outcome_reason;   /* why its failure ends it, or does not; NULL = it did not fail */
    struct serial *serial;
    struct redlock_lock *lock;
    char owner[REDLOCK_OWNER_BYTES_MAX + 1]; /* the holder's name in the lock: "host:pid:slot:jid" */
    size_t owner_start;                      /* so much of it is the same for all tasks */
    unsigned taken;                          /* of what `waiting` names, the first so many, in the process's table */
    bool has_lock;                           /* it was acquired */
    struct instant locked_at;
    struct slot_locked locked;
    int64_t held_ns;        /* once it was left */
    enum redlock_loss loss; /* how it was lost; valid once job.lost is set */
    struct job_verifier verifier;
    struct hf_job job;
    struct slot_progress *progress;  /* NULL until a task of the slot needs it */
    struct work work;                /* its run in a thread */
    void (*over)(struct slot *slot); /* its run has ended */
    struct isolated_run isolated;    /* its run elsewhere */
    bool is_isolated;
    struct loop_timer timeout;
    int code; /* what the handler returned */
    bool started;
    struct follow_ups follow_ups; /* of its task, when flow.task.leaves_more */
    struct buffer result_record;  /* the same; empty = none */
    bool has_ended;               /* the run, and its task is not settled yet */
    enum flow_result result;
    enum flow_hold hold;                   /* of the lock, at the end of the run */
    struct instant handed_over;            /* to the runners */
    bool is_put_off;                       /* its class is not to be served now */
    bool was_refused;                      /* its write, by a fence */
    bool was_told;                         /* the log has its end */
    bool abandoned;                        /* its handler still runs, and its end is not awaited */
    struct instant run_started, run_ended; /* as the runner saw it */
    struct observed_task observed;         /* as far as it has come */
};

/* slot.c: all of it together. What follows below knows nothing of it. */
void slot_init(struct slot *slot, struct worker *worker, unsigned number);
void slot_fini(struct slot *slot);
void slot_stop(struct slot *slot);
/* Gives the task back (or buries it, when it was ended before it ran) while its handler runs, and keeps its lock: for a
 * process that is about to end. */
void slot_abandon(struct slot *slot);
/* The queue's answers for a slot; the context is the worker. */
void slot_answered(void *worker, unsigned number, enum queue_answer answer, const char *queue, const char *payload,
                   size_t length);
void slot_lost(void *worker, unsigned number); /* its claim is in other hands */
void slot_confirmed(void *worker, unsigned number);
void slots_doubted(struct worker *worker);    /* the lease is over */
void slots_renewed(struct worker *worker);    /* the lease was renewed, and what is not lost is the process's */
void worker_wake_idle(struct worker *worker); /* there is work: wake some */

/* slot_moves.c: how its task leaves, and how the next one is claimed */
void slot_move(struct slot *slot, enum flow_move move);
void slots_give_back(struct loop_hook *hook);

/* slot_lock.c: its lock */
void slot_lock_init(struct slot *slot);
/* Requests it; `told` gets its events with the slot as the context, and calls those below. */
void slot_lock_take(struct slot *slot,
                    void (*told)(struct redlock_lock *lock, void *context, const struct redlock_event *event));
void slot_lock_taken(struct slot *slot, const struct redlock_event *event);
/* Logged once a second at most, while it lasts. */
void slot_lock_trouble_tell(struct worker *worker, enum redlock_answer answer, const char *reason);
enum flow_refusal slot_lock_refused(struct slot *slot, const struct redlock_event *event);
void slot_lock_lost(struct slot *slot, enum redlock_loss loss);
/* A program has released the lock behind this list, perhaps. The context is the worker. */
void slot_lock_may_be_free(void *worker, const char *list);
/* Leaves all that the task had: the lock, and what is noted in the process's table. */
void slot_lock_leave(struct slot *slot, const struct flow_step *step);
void slot_runner_take(struct slot *slot); /* of its class's share; harmless again */
/* Whether what it needs is known to be taken; where it waits then is planned. */
bool slot_must_wait(struct slot *slot);
bool slot_lacks_runner(struct slot *slot);

/* slot_successor.c: which slot claims, and what */
void slot_claim_init(struct slot *slot);
bool worker_may_claim(const struct worker *worker);
void worker_listen(struct worker *worker); /* after a change of what is idle or may be claimed */
bool slot_may_claim(struct slot *slot);
bool slot_may_have_successor(const struct slot *slot); /* others wait for the lock that its task holds */
bool slot_has_successor(const struct slot *slot);
bool slot_waits_for_successor(const struct slot *slot);
bool slot_goes_on_as_successor(const struct slot *slot);
void slot_hand_offs_go_on(struct slot *slot, bool handed_over);
void slot_successor_claim(struct slot *slot);     /* for its partner */
void slot_successor_judge(struct slot *slot);     /* when it has been claimed */
void slot_successor_missing(struct slot *slot);   /* it was not */
void slot_successor_confirm(struct slot *slot);   /* its holder has ended, or it has the lock; harmless again */
void slot_successor_dismiss(struct slot *slot);   /* the slot has lost its lock */
void slot_successor_send_back(struct slot *slot); /* the slot was refused its lock, and waits again */
void slot_waiters_note(struct slot *slot);

/* slot_run.c: its run */
void slot_run_init(struct slot *slot, void (*over)(struct slot *slot)); /* `over` is called when a run has ended */
void slot_run_fini(struct slot *slot);                                  /* before the queue is destroyed */
void serials_free(struct worker *worker);
bool slot_run_start(struct slot *slot);       /* false when it waits until others of its class have run */
bool slot_run_waits(const struct slot *slot); /* it was started, and was not handed to where it runs yet */
bool slot_run_withdraw(struct slot *slot);    /* false when it runs already */
/* Cancels the slot's task: its run is asked to stop, or does not begin. */
void slot_cancel(struct slot *slot);
/* The lease is over, so others may have its task by now: a run without a lock is asked to stop. */
void slot_claim_doubt(struct slot *slot);
/* After job_cancel: sends SIGTERM to a program, which cannot see that, and has any child killed after its grace.
 * Harmless when nothing runs in a child. */
void slot_interrupt(struct slot *slot);
void slot_end_with_worker(struct slot *slot); /* which stops, and says when */
void slot_warn(struct slot *slot);            /* its lock is in danger */
void slot_progress_end(struct slot *slot, enum flow_ending ending);
/* What comes of a failure of its task now. */
enum flow_result slot_failed_result(struct slot *slot);
/* Its run left something that cannot be put where it belongs: the task has failed. */
void slot_outcome_refuse(struct slot *slot, const char *reason);
void slot_outcome_clear(struct slot *slot);

/* slot_log.c: log, events, and what is counted and observed */
void slot_ending_tell(struct slot *slot, enum flow_ending ending); /* counts it, logs it, runs on_event */
void slot_log_started(struct slot *slot);
void slot_log_unlocked(struct slot *slot); /* it names nothing to lock */
void slot_observe_claim(struct slot *slot);
void slot_observe_asking(struct slot *slot);
void slot_observe_answer(struct slot *slot, const struct redlock_event *event);
void slot_observe_lost(struct slot *slot);
void slot_observe_run(struct slot *slot, bool has_failed); /* it counts, and does not come again unharmed */
/* Lines that sum up several tasks: now, if there are any. */
void worker_log_sums(struct worker *worker);
void worker_log_sums_fire(struct loop_timer *timer);
void worker_log_unserved(struct worker *worker);
void worker_log_unserved_fire(struct loop_timer *timer);

#endif
