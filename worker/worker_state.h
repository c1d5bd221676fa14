/* Private to worker.c (the process), slot.c, slot_run.c and slot_moves.c (one task at a time), stop.c (the end),
 * signals.c and reload.c. All of it belongs to the loop thread, but for `must_stop` and `pulse`, which runners read. */
#ifndef WORKER_WORKER_STATE_H
#define WORKER_WORKER_STATE_H

#include "queue/dead_watch.h"
#include "queue/promoter.h"
#include "queue/queue.h"
#include "redlock/redlock_loop.h"
#include "worker/flow.h"
#include "worker/lock_metrics.h"
#include "worker/plugin/job_host.h"
#include "worker/plugin/job_verifier.h"
#include "worker/periodic/periodic.h"
#include "worker/presence.h"
#include "worker/report.h"
#include "worker/runner_pool.h"
#include "worker/task_rules.h"
#include "worker/worker.h"

/* Handlers that asked to run one at a time in this process. */
struct serial {
    const struct plugin_handler *handler;
    struct slot *running;
    struct list waiting; /* slots whose turn will come */
};

struct slot {
    struct worker *worker;
    unsigned number;
    struct flow flow;
    bool claims;             /* its outstanding turn claims a task */
    struct list idle_link;   /* in worker->idle while FLOW_IDLE */
    struct list serial_link; /* in a serial's waiting list */
    struct list back_link;   /* in worker->given_back until the end of the turn */
    uint64_t order;          /* of its task among all that were claimed */
    struct buffer payload;
    char queue[ENVELOPE_QUEUE_BYTES_MAX + 1];
    char jid[ENVELOPE_JID_BYTES_MAX + 1];
    struct envelope envelope;
    struct error invalid; /* why the payload is no task */
    const struct plugin_handler *handler;
    struct task_rules rules;
    const char *fate; /* why its failure ends it, or does not; NULL = it did not fail */
    struct serial *serial;
    struct redlock_lock *lock;
    enum redlock_loss loss; /* how it was lost; told once job.lost is set */
    struct job_verifier verifier;
    struct hf_job job;
    struct slot_progress *progress; /* NULL until a task of the slot needs it */
    struct work work;
    int code; /* what the handler returned */
    bool started;
    enum flow_hold hold;        /* of the lock, at the end of the run */
    struct instant handed_over; /* to the runners */
    bool abandoned;             /* its handler still runs, and nobody waits for it any more */
    struct instant run_started;
};

struct worker {
    struct worker_options options;
    struct loop *loop;
    struct redlock_group *locks; /* NULL = no lock nodes are configured */
    struct redlock_terms terms;
    int64_t verify_patience_ns; /* of a handler that asks whether its lock is held */
    struct queue *queue;
    struct promoter *promoter;
    struct dead_watch *dead_watch;
    struct periodic *periodic;
    struct runner_pool *pool;
    struct slot *slots;
    unsigned slot_count;
    struct serial *serials;
    unsigned serial_count;
    struct list idle; /* slots that are FLOW_IDLE, the last one first */
    unsigned idle_count;
    unsigned wake_next; /* how many idle slots the next sign of work wakes: 1, 2, 4, ... */
    char identity[256];
    struct envelope_limits limits;
    struct buffer text; /* where records are written */
    struct report report;
    struct lock_metrics *lock_metrics; /* what presence writes of them */
    uint64_t claimed;                  /* tasks taken or being asked for, for --max-tasks */
    uint64_t taken;                    /* tasks claimed so far */
    struct list given_back;            /* slots whose task goes back at the end of this turn, the last claimed first */
    struct loop_hook give_back;
    bool ready;  /* lock nodes were tried and a quorum is there */
    bool judged; /* the lock nodes were found to be what the configuration says */
    struct instant trouble_told;
    bool quiet;    /* claims nothing more, for good */
    bool draining; /* quiet, and to be stopped when nothing runs any more */
    bool stopping, hurrying, leaving, abandoned;
    atomic_bool must_stop;
    _Atomic int64_t pulse;   /* until then, in nanoseconds, the process has not been away for as long as its lease */
    struct loop_timer look;  /* at the lock nodes, and whether all is drained */
    struct loop_timer limit; /* of the present phase of stopping */
    struct instant cancel_at, abandon_at;    /* of the handlers, while stopping */
    bool only_node;                          /* while stopping: no handler runs any more */
    struct instant leave_by;                 /* when waiting for answers to releases ends */
    struct class_resources *class_resources; /* what tasks lock that do not say it */
    struct presence *presence;
    struct signals *signals;
    struct reload *reload;
    enum exit_code exit_code;
};

/* slot.c */
void slot_init(struct slot *slot, struct worker *worker, unsigned number);
void slot_fini(struct slot *slot);
void slot_wake(struct slot *slot);
void slot_answered(void *worker, unsigned number, enum queue_answer answer, const char *queue, const char *payload,
                   size_t length);
void slot_stop(struct slot *slot);
/* Somebody cancelled the slot's task: its run is told, or does not begin. */
void slot_cancel(struct slot *slot);
/* Gives the task back (or buries it, when it was ended before it ran) while its handler runs, and keeps its lock: for a
 * process that is about to end. */
void slot_abandon(struct slot *slot);
/* The queue node says that the slot's claim is in other hands. */
void slot_lost(void *worker, unsigned number);
void slot_perform(struct slot *slot, struct flow_step step);

/* slot_run.c */
void slot_run_start(struct slot *slot);
void slot_run(struct work *work);            /* on a runner */
void slot_ran(struct loop_message *message); /* back on the loop */
void slot_serial_leave(struct slot *slot);
void slot_submit(struct slot *slot); /* to the runners */

/* slot_progress.c. False when the task reports none; else slot_submit follows when its state is begun. */
bool slot_progress_begin(struct slot *slot);
bool slot_progress_waits(const struct slot *slot); /* slot_submit has not followed */
void slot_progress_end(struct slot *slot, enum flow_ending ending);
void slot_progress_free(struct slot *slot);

/* slot_moves.c */
void slot_move(struct slot *slot, enum flow_move move);
void slots_give_back(struct loop_hook *hook);

/* worker.c */
void worker_rest(struct worker *worker, struct slot *slot); /* the slot is idle */
void worker_wake_idle(struct worker *worker);               /* there is work: wake some */
bool worker_may_claim(struct worker *worker);
/* A lock was refused, and not because somebody holds it. */
void worker_lock_trouble(struct worker *worker, enum redlock_answer answer, const char *reason);
void worker_listen(struct worker *worker); /* after a change of what is idle or may be claimed */

/* From the configuration, which may have changed. The former ones are the caller's. */
struct class_resources *worker_resources_take(struct worker *worker);
void worker_limits_take(struct worker *worker); /* as well */

/* stop.c: each may be called at any time and again; a later one in this order goes further, none goes back. `reason` is
 * a word for the log. */
void worker_quiet(struct worker *worker, const char *reason);    /* claims nothing more; what runs goes on, it stays */
void worker_drain(struct worker *worker, const char *reason);    /* quiet, and it stops when nothing runs any more */
void worker_stop(struct worker *worker, const char *reason);     /* within stop_timeout */
void worker_stop_now(struct worker *worker, const char *reason); /* within a moment */
/* What a signal does: the first is a stop, the next a stop now. */
void worker_stop_asked(struct worker *worker, const char *reason);
/* A slot became idle while stopping or draining. */
void worker_stop_look(struct worker *worker);
/* One log line for each slot whose handler runs. */
void worker_tell_running(struct worker *worker);

#endif
