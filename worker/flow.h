/* The life of one task in one slot of a worker, as a pure state machine: what to do next, never how. slot.c performs
 * it; the tests feed it every order of events.
 *
 *                claimed           lock held         may run       a runner takes it    settled, next claimed
 *   IDLE ─▶ CLAIMING ───▶ LOCKING ─────────▶ OPENING ─────▶ READY ────────────────▶ (same) ──────▶ CLAIMING ─▶ ...
 *    ▲          │ nothing   ▲│ refused          │ cancelled    │ withdrawn: give back  │ failed, lost: retry, dead, ...
 *    └──────────┘      freed ││                 └───────┬──────┴───────────────────────┘
 *              since it was  ││                         ▼
 *                    claimed ││                       SETTLING (one move outstanding) ─▶ CLAIMING, or IDLE at a stop
 *                            │▼                         ▲
 *           SKIPPING ──▶ PARKING ──▶ parked             │ too many wait: dead, dropped or delayed
 *              │ skipped     └──────────────────────────┘
 *
 * FINISHING, between READY and the end, is for tasks that are done and leave something behind: the move that pushes
 * what follows from them and keeps their result can be refused, and then they have failed after all. Their lock goes
 * with the move.
 *
 * CONFIRMING is for claims that others may have by now; the queue says whether they are still there. For successors:
 * between LOCKING and OPENING, a task that was claimed to be handed a lock waits for that. The question leaves when the
 * holder ends, so the answer is usually there. And for all, before READY, while the lease of the process is over
 * because it stood still or was cut off: until the lease is renewed. A lock that the task has by then is let go,
 * because whoever recovers the task needs it; once the lease is renewed, it is requested again.
 *
 * UNSERVED is for tasks of a class that this process does not serve, between CLAIMING and the end: the move into
 * `retry` is refused when the grace of the task is over and no process of the fleet serves the class. Then it has
 * failed.
 *
 * OPENING is for few tasks: those that run at most once or report progress, and all while a cancellation is recorded.
 * LOCKING is for those that name a resource. A lock that is known to be held is not requested.
 *
 * Rules:
 *  - A slot claims only when it has a runner to give, so an unclaimed task stays visible to other processes.
 *  - Every task that was claimed leaves by exactly one move, whatever happens; the move names its ending.
 *  - While the lease of the process is over nothing begins. Each state leaves that to the step that begins a run
 *    (flow_guard), because every other step is harmless with a claim that is lost:
 *      CLAIMING, LOCKING, OPENING         an answer that was on its way goes on as usual, as far as CONFIRMING
 *      PARKING, SKIPPING, UNSERVED,       the call names the claim, and the queue refuses it if that is lost
 *      FINISHING, SETTLING
 *      CONFIRMING                         waits for the lease
 *      READY                              who runs it looks at the end of the lease as its first act; what runs with a
 *                                         lock goes on, what runs without one is asked to stop (slot_claim_doubt)
 *    Only a task that ended before it ran goes on in READY as if nothing were: nobody else can have it.
 *  - A lock is released exactly when the task leaves the slot, together with the move, and never before; but for
 *    CONFIRMING, where nothing runs under it.
 *  - The result of a run whose lock was lost is refused, whatever the handler says (E38). The task goes where
 *    on_lost of its class says. Usually it is tried again, also when it wants no retry: it was the lock that failed,
 *    as when a process dies. A lock that was held for longer than it may be is different: that is a failure of the
 *    task.
 *  - The result of a run whose claim was lost is nobody's: the task is in other hands, and only the lock is let go.
 *  - A task that runs at most once was ended before it ran: what fails, is cancelled or loses its lock after that is
 *    buried, never run again.
 *  - A lock that is held by others is no failure: the task waits in the queue store, or what else its class says, and
 *    has cost neither a runner's time nor a retry. A task that was claimed before is neither skipped nor failed, it may
 *    be its own dead one that holds the lock.
 *  - While stopping nothing is started: what has not started is given back. So is what a quiet worker still claims. */
#ifndef WORKER_FLOW_H
#define WORKER_FLOW_H

#include <stdbool.h>

enum flow_state {
    FLOW_IDLE,
    FLOW_CLAIMING,
    FLOW_LOCKING,
    FLOW_PARKING,
    FLOW_SKIPPING,
    FLOW_CONFIRMING,
    FLOW_OPENING,
    FLOW_READY,
    FLOW_UNSERVED,
    FLOW_FINISHING,
    FLOW_SETTLING,
};

/* How a task ended in this slot. Every ending is counted and logged under its name. */
enum flow_ending {
    FLOW_DONE,
    FLOW_DISCARDED,     /* the handler said so, or it failed and wants no retry */
    FLOW_FAILED,        /* to be retried */
    FLOW_DEAD,          /* failed once too often, or buried by its handler, or for the loss of its lock */
    FLOW_EXPIRED,       /* it was to be started by a time that is past */
    FLOW_SNOOZED,       /* its handler postponed it */
    FLOW_CANCELLED,     /* an operator cancelled it */
    FLOW_REFUSED,       /* its queue may not run its class, or it uses a feature that we do not have */
    FLOW_INVALID,       /* not a task */
    FLOW_NO_RESOURCE,   /* its class needs a lock and it names nothing to lock */
    FLOW_UNKNOWN_CLASS, /* not served here; another process serves it, or may after a deployment */
    FLOW_PUT_OFF,       /* its class waits until processes with other terms have ended: it comes again soon */
    FLOW_PARKED,        /* its lock is held: it waits in the queue store */
    FLOW_SKIPPED,       /* its lock is held, and its class is not worth doing twice */
    FLOW_DROPPED,       /* too many waited for its lock already */
    FLOW_LOCK_LOST,     /* its lock was lost while it ran: to be retried, or back in its queue */
    FLOW_GIVEN_BACK,    /* not run, or not to its end: back to the head of its queue */
    FLOW_CLAIM_LOST,    /* another process recovered it meanwhile */
    FLOW_ENDINGS,
};

const char *flow_ending_name(enum flow_ending ending);

/* Where a task goes whose lock was lost while it ran. */
enum flow_on_lost { FLOW_ON_LOST_RETRY, FLOW_ON_LOST_REQUEUE, FLOW_ON_LOST_DEAD };

enum flow_result {
    FLOW_RUN_OK,
    FLOW_RUN_FAILED,    /* and may be tried again */
    FLOW_RUN_EXHAUSTED, /* and was tried often enough: dead */
    FLOW_RUN_HOPELESS,  /* and wants neither a retry nor to be in the dead set */
    FLOW_RUN_DISCARDED,
    FLOW_RUN_SNOOZED, /* to be run again later, which is no failure */
    FLOW_RUN_BURIED,
    FLOW_RUN_CANCELLED,   /* stopped because it was asked to */
    FLOW_RUN_UNWANTED,    /* stopped because an operator cancelled the task */
    FLOW_RUN_NOT_STARTED, /* the lock was gone, or the lease over, before the first act */
};

/* What becomes of a task whose lock is held. */
enum flow_conflict { FLOW_CONFLICT_PARK, FLOW_CONFLICT_SKIP, FLOW_CONFLICT_DELAY, FLOW_CONFLICT_FAIL };

/* And of one for whose lock too many wait already. */
enum flow_crowd { FLOW_CROWD_DEAD, FLOW_CROWD_DROP, FLOW_CROWD_DELAY };

/* What the slot found out about a claimed task. */
struct flow_task {
    bool is_valid, is_known;
    bool is_refused;
    bool is_put_off; /* its class is not to be served now (queue/terms.h) */
    bool is_expired;
    bool wants_lock;   /* it names resources, and its class may be locked */
    bool must_lock;    /* its class must be */
    bool must_open;    /* the queue is asked once more before it runs */
    bool at_most_once; /* and ends it there; must_open is set too */
    bool must_confirm; /* it was claimed as a successor, so others may have it by now */
    bool is_unique;    /* its end gives something free, so it takes a call of its own */
    bool is_cancelled; /* an operator cancelled it, perhaps while it ran: so does its end */
    bool leaves_more;  /* its run left tasks that follow from it, or a result; set before flow_ran */
    bool must_wait;    /* its lock is known to be taken: it is not requested */
    bool lacks_runner; /* its class's share of the runners is used up */
    bool comes_late;   /* its worker claims nothing more since it asked for a task: others may have it */
    bool ran_before;   /* as far as its own record shows */
    bool fails_open;   /* runs without its lock when too few lock nodes can be asked */
    enum flow_conflict on_conflict;
    enum flow_crowd on_crowd;
    enum flow_result if_failed; /* what comes of a failure now */
    enum flow_on_lost on_lost;
};

/* Why a lock was not acquired. */
enum flow_refusal {
    FLOW_BUSY,      /* another owner holds it */
    FLOW_UNDECIDED, /* several tried at once, or it took too long: worth another try soon */
    FLOW_NO_QUORUM, /* too few lock nodes could be asked */
};

/* The lock of a run, as judged when the run has ended. */
enum flow_hold {
    FLOW_HELD, /* or it needed none */
    FLOW_LOST,
    FLOW_HELD_TOO_LONG, /* lost because it was held for as long as it may be */
};

enum flow_move {
    FLOW_MOVE_NONE,
    FLOW_MOVE_CLAIM,       /* what the slot had is done; claim the next */
    FLOW_MOVE_FINISH,      /* what the slot had is done */
    FLOW_MOVE_CANCEL,      /* the same, and a record says that it was cancelled */
    FLOW_MOVE_FINISH_WITH, /* and leaves something behind; refused when that cannot be put where it belongs */
    FLOW_MOVE_RETRY,
    FLOW_MOVE_PARK,     /* into the waiting list; the answer may be another one */
    FLOW_MOVE_UNSERVED, /* into retry, uncounted; refused when it is to fail */
    FLOW_MOVE_SKIP,     /* ends it, unless the queue store knows that it was claimed before */
    FLOW_MOVE_DELAY,    /* to be looked at again after a while */
    FLOW_MOVE_SNOOZE,   /* the same, after a while of its own */
    FLOW_MOVE_BURY,
    FLOW_MOVE_GIVE_BACK,
};

/* Performed in the order of the members. */
struct flow_step {
    bool release; /* the lock, if there is one */
    bool ends;    /* `ending` is to be counted; with a FINISH_WITH it is what it will be if that is not refused */
    enum flow_ending ending;
    enum flow_move move;
    bool lock;
    bool confirm; /* the claim of a successor, or the lease; unless that is under way */
    bool open;
    bool run;
};

struct flow {
    enum flow_state state;
    bool stopping;
    bool has_task;   /* claimed and not ended */
    bool lost_once;  /* the last claim was lost: one more try, then wait for a blocking claim */
    bool claim_lost; /* of the task that is being worked at */
    bool retried;    /* the waiting list sent it back to its lock once */
    bool committed;  /* it was ended before it ran */
    bool let_go;     /* its lock, while its claim is to be confirmed */
    struct flow_task task;
};

/* Idle slots only: there may be a task. */
struct flow_step flow_wake(struct flow *flow);
/* The queue's answers. FLOW_NOTHING also means parked, skipped, unserved, and done with all that it leaves. */
struct flow_step flow_claimed(struct flow *flow, const struct flow_task *task);
struct flow_step flow_nothing(struct flow *flow);
/* Of a skip: it was claimed before. Of a park: what it waits for, its lock or a share of the runners, was freed since;
 * `must_wait` is what is known about both now. */
struct flow_step flow_not_yet(struct flow *flow, bool must_wait);
/* Of a park: too many wait. */
struct flow_step flow_crowded(struct flow *flow);
/* Of a FINISH_WITH: nothing was done; `failed` is what comes of a failure now. */
struct flow_step flow_finish_refused(struct flow *flow, enum flow_result failed);
/* Of an UNSERVED: nobody in the fleet serves it; `failed` is what comes of a failure now. */
struct flow_step flow_unserved(struct flow *flow, enum flow_result failed);
struct flow_step flow_claim_lost(struct flow *flow);
/* The claim was lost without a call of ours. In READY the slot must have tried to withdraw the task. */
struct flow_step flow_claim_gone(struct flow *flow, bool withdrawn);
/* The lock's answer. */
struct flow_step flow_locked(struct flow *flow);
struct flow_step flow_refused(struct flow *flow, enum flow_refusal refusal);
/* Every step goes through this before it is performed. `is_leased`: the lease of the process is not over. */
struct flow_step flow_guard(struct flow *flow, struct flow_step step, bool is_leased);
/* The lease of the process is over. */
struct flow_step flow_doubted(struct flow *flow);
/* The claim is there, as of an answer that renewed the lease; that it is not is flow_claim_gone. */
struct flow_step flow_renewed(struct flow *flow);
/* The claim of a successor is there, and follows the lease from now on. */
struct flow_step flow_confirmed(struct flow *flow);
/* The queue's last word before the run. */
struct flow_step flow_opened(struct flow *flow);
struct flow_step flow_unwanted(struct flow *flow);
/* The runner's answer. Of a run that did not hold its lock to the end `result` is what comes of a failure now. */
struct flow_step flow_ran(struct flow *flow, enum flow_result result, enum flow_hold hold);
/* From now on nothing is started. In READY the slot must have tried to withdraw the task from the runners, where it
 * may. */
struct flow_step flow_stop(struct flow *flow, bool withdrawn);
/* In READY: the process ends before the handler does. The lock stays. */
struct flow_step flow_abandon(struct flow *flow);
/* False for a task that has ended already and can only be run. */
bool flow_may_withdraw(const struct flow *flow);

#endif
