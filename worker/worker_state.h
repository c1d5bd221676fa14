/* Private to worker.c (the process), look.c (what it looks at), slot.c and slot_*.c (one task at a time), stop.c and
 * drain.c (the end), signals.c and reload.c. All of it belongs to the loop thread; what runs may read is on the
 * board. */
#ifndef WORKER_WORKER_STATE_H
#define WORKER_WORKER_STATE_H

#include "queue/dead_watch.h"
#include "queue/follow_up.h"
#include "queue/promoter.h"
#include "queue/queue.h"
#include "queue/waiting.h"
#include "redlock/redlock_loop.h"
#include "worker/locks/contention.h"
#include "worker/events/ended_tasks.h"
#include "worker/locks/departures.h"
#include "worker/events/event_commands.h"
#include "worker/flow.h"
#include "worker/isolation/isolation.h"
#include "worker/presence/lock_metrics.h"
#include "worker/task/job_host.h"
#include "worker/task/job_verifier.h"
#include "worker/periodic/periodic.h"
#include "worker/presence.h"
#include "worker/events/report.h"
#include "worker/isolation/runner_pool.h"
#include "worker/events/task_log.h"
#include "worker/locks/task_resources.h"
#include "worker/task/task_rules.h"
#include "worker/locks/waiting_names.h"
#include "worker/worker.h"

/* Handlers that asked to run one at a time in this process. */
struct serial {
    struct list link;
    const char *class_name;
    struct slot *running;
    struct list waiting; /* slots whose turn will come */
};

/* What a task was in the way of, and is no longer. */
struct slot_left {
    enum { SLOT_LEFT_NOTHING, SLOT_LEFT_FREE, SLOT_LEFT_TO_HEIR, SLOT_LEFT_LINGERS } kind;
    int64_t after_ns;  /* of LINGERS: for so long yet */
    const char *jid;   /* whose places in the waiting lists end; NULL = nobody's */
    const char *share; /* the list of its class, which is free now whatever becomes of the others; NULL = as these */
};

/* Where a task waits that cannot have what it needs. */
struct slot_wait {
    const char *list;
    int64_t near_ns, seen_us;
    bool is_in_line; /* it was to be handed the lock: who waits behind it must find it at its place, and not asking */
};

/* Tasks of this process to which a lock was handed on, one after the other. */
struct slot_chain {
    unsigned length;
    struct instant since;
};

/* What an observer is told of a slot's task beyond what the slot knows anyway. */
struct slot_observed {
    struct instant claimed, asked, locked;
    unsigned passes;
    uint64_t token;
    bool handed_over, had_refusal, was_lost, was_fenced_off;
    enum redlock_answer refusal;
};

/* What the log is told of its lock. */
struct slot_locked {
    struct wall_time at, left_at; /* us = 0: it had none; it has it still */
    int64_t waited_ns;
    bool was_handed;                       /* by the task that `heir_of` names */
    char heir[ENVELOPE_JID_BYTES_MAX + 1]; /* to whom it was handed on; empty = to nobody */
};

struct slot {
    struct worker *worker;
    unsigned number;
    struct slot *mate; /* with whom it shares a runner; see slot_heir.c */
    struct flow flow;
    bool is_heir;           /* its task is claimed, or being claimed, to have the lock of its mate's task */
    bool is_confirming;     /* an heir: the queue was asked to make its claim final, so nothing keeps it any more */
    struct loop_timer keep; /* of its claim, until then */
    char heir_of[ENVELOPE_JID_BYTES_MAX + 1];
    bool is_sent_back;       /* an heir whose holder did not get the lock */
    bool was_deserted;       /* its task was claimed as an heir, and there is nobody to hand the lock on */
    bool asks_for_waiters;   /* its outstanding turn does */
    bool owes_claim;         /* it did not ask for a task, because its mate was busy */
    bool claims;             /* its outstanding turn claims a task */
    struct list idle_link;   /* in worker->idle while FLOW_IDLE */
    struct list serial_link; /* in a serial's waiting list */
    struct list back_link;   /* in worker->given_back until the end of the turn */
    uint64_t order;          /* of its task among all that were claimed */
    struct buffer payload;
    char queue[ENVELOPE_QUEUE_BYTES_MAX + 1];
    char jid[ENVELOPE_JID_BYTES_MAX + 1];
    struct envelope envelope;
    struct error invalid;       /* why the payload is no task */
    struct error bad_resources; /* why it cannot be told what it locks */
    const struct plugin_handler *handler;
    struct task_rules rules;
    struct task_resources resources;
    struct waiting_names waiting; /* the lists of what it needs */
    struct slot_wait wait;
    struct slot_left left;
    struct slot_chain chain;
    struct wall_time unserved_at; /* when its class was first found to be served by nobody here; 0 = it is served */
    int64_t unserved_delay_ns;    /* after which it comes back if it fails for that */
    const char *fate;             /* why its failure ends it, or does not; NULL = it did not fail */
    struct serial *serial;
    struct redlock_lock *lock;
    unsigned taken; /* of what `waiting` names, the first so many, in the process's table */
    bool has_lock;  /* it was acquired */
    struct instant locked_at;
    struct slot_locked locked;
    int64_t held_ns;        /* once it was left */
    enum redlock_loss loss; /* how it was lost; told once job.lost is set */
    struct job_verifier verifier;
    struct hf_job job;
    struct slot_progress *progress; /* NULL until a task of the slot needs it */
    struct work work;               /* its run in a thread */
    struct isolated_run away;       /* its run elsewhere */
    bool is_away;
    struct loop_timer timeout;
    int code; /* what the handler returned */
    bool started;
    struct follow_ups follow_ups; /* of its task, when flow.task.leaves_more */
    struct buffer result_record;  /* the same; empty = none */
    bool has_ended;               /* the run, and its task is not settled yet */
    enum flow_result result;
    enum flow_hold hold;                   /* of the lock, at the end of the run */
    struct instant handed_over;            /* to the runners */
    bool was_refused;                      /* its write, by a fence */
    bool was_told;                         /* the log has its end */
    bool abandoned;                        /* its handler still runs, and nobody waits for it any more */
    struct instant run_started, run_ended; /* as the runner saw it */
    struct slot_observed observed;         /* all zero without an observer */
};

struct worker {
    struct worker_options options;
    struct loop *loop;
    struct redlock_group *locks; /* NULL = no lock nodes are configured */
    struct redlock_terms terms;
    int64_t verify_patience_ns; /* of a handler that asks whether its lock is held */
    struct launcher *launcher;
    struct event_commands *event_commands;
    struct isolation *isolation;
    struct contention *contention;
    struct ended_tasks *ended;
    struct departures *departures;
    struct queue *queue;
    struct promoter *promoter;
    struct dead_watch *dead_watch;
    struct periodic *periodic;
    struct runner_pool *pool;
    struct slot *slots;
    unsigned slot_count, runner_count; /* two slots a runner */
    const char **class_names;          /* that the plugins serve */
    unsigned class_count;
    struct list serials;
    struct list idle; /* of each pair that is FLOW_IDLE one slot, the last one first */
    unsigned idle_count;
    unsigned wake_next; /* how many idle slots the next sign of work wakes: 1, 2, 4, ... */
    char identity[BOARD_IDENTITY_MAX];
    struct envelope_limits limits;
    struct buffer text; /* where records are written */
    struct report report;
    struct lock_metrics *lock_metrics; /* what presence writes of them */
    uint64_t claimed;                  /* tasks taken, and not parked, or being asked for: for --max-tasks */
    uint64_t taken;                    /* tasks claimed so far */
    struct list given_back;            /* slots whose task goes back at the end of this turn, the last claimed first */
    struct loop_hook give_back;
    bool ready;  /* lock nodes were tried and a quorum is there */
    bool judged; /* the lock nodes were found to be what the configuration says */
    struct instant trouble_told;
    bool quiet;    /* claims nothing more, for good */
    bool draining; /* quiet, and to be stopped when nothing runs any more */
    bool stopping, hurrying, leaving, abandoned;
    struct loop_timer look; /* at the lock nodes, and whether all is drained */
    struct task_log task_log;
    struct unserved_log *unserved; /* tasks of classes that are not served, since the last line about them */
    struct loop_timer log_unserved;
    struct loop_timer log_sums;              /* when those of the log are told */
    struct loop_timer observe;               /* at what the observer is told */
    struct loop_timer limit;                 /* of the present phase of stopping */
    struct instant cancel_at, abandon_at;    /* of the handlers, while stopping */
    bool only_node;                          /* while stopping: no handler runs any more */
    struct instant leave_by;                 /* when waiting for answers to releases ends */
    struct instant others_by;                /* and that for commands of on_event, and for what is read again */
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
/* Others may have its claim by now. */
void slot_claim_doubt(struct slot *slot);
/* Gives the task back (or buries it, when it was ended before it ran) while its handler runs, and keeps its lock: for a
 * process that is about to end. */
void slot_abandon(struct slot *slot);
/* The queue node says that the slot's claim is in other hands. */
void slot_lost(void *worker, unsigned number);
void slot_perform(struct slot *slot, struct flow_step step);

/* slot_lock.c */
void slot_lock_take(struct slot *slot);
/* Leaves all that the task had: the lock, and what is noted in the process's table. */
void slot_lock_leave(struct slot *slot, const struct flow_step *step);
void slot_runner_take(struct slot *slot); /* of its class's share; harmless again */
/* Whether what it needs is known to be taken; where it waits then is planned. */
bool slot_must_wait(struct slot *slot);
bool slot_lacks_runner(struct slot *slot);

/* slot_heir.c */
void slot_seek_heir(struct slot *slot); /* if its task holds a lock for which others wait */
bool slot_goes_on_as_heir(struct slot *slot);
void slot_heir_claim(struct slot *slot);   /* for its mate */
void slot_heir_judge(struct slot *slot);   /* when it has been claimed */
void slot_heir_confirm(struct slot *slot); /* its holder has ended, or it has the lock; harmless again */
void slot_confirmed(void *worker, unsigned number);
void slot_keep_fire(struct loop_timer *timer);
void slot_heir_missing(struct slot *slot); /* it was not */
void slots_seek_heir(struct worker *worker, const char *list);
void slot_waiters_note(struct slot *slot);
void slot_heir_dismiss(struct slot *slot);
void slot_heir_send_back(struct slot *slot);
bool slot_has_heir(const struct slot *slot);
bool slot_waits_for_heir(const struct slot *slot);
void slot_chain_go_on(struct slot *slot, bool handed_over);
bool slot_may_claim(struct slot *slot);
void slot_rest(struct slot *slot); /* it is FLOW_IDLE */

/* slot_run.c */
/* Settles a task whose run has ended, if that was put off; else nothing happens. */
void slot_settle(struct slot *slot);
/* What comes of a failure of its task now. */
enum flow_result slot_failed_result(struct slot *slot);
void slot_run_start(struct slot *slot);
void slot_run(struct work *work);            /* on a runner */
void slot_ran(struct loop_message *message); /* back on the loop */
void slot_serial_leave(struct slot *slot);
void serials_free(struct worker *worker);
void slot_run_ended(struct slot *slot);

/* slot_away.c */
void slot_away_init(struct slot *slot);
void slot_submit(struct slot *slot);   /* to where its class runs */
bool slot_unsubmit(struct slot *slot); /* false when it runs already */
/* It has to stop, and job_cancel said why: whoever cannot see that is told, and killed after its grace. Harmless when
 * nothing runs elsewhere. */
void slot_interrupt(struct slot *slot);
void slot_end_with_worker(struct slot *slot); /* which stops, and says when */
void slot_warn(struct slot *slot);            /* its lock is in danger */
void slot_time_end(struct slot *slot);

/* slot_link.c */
extern const struct job_link slot_link;

/* slot_progress.c. False when the task reports none; else slot_submit follows when its state is begun. */
bool slot_progress_begin(struct slot *slot);
bool slot_progress_put(struct slot *slot, const char *json); /* any thread, while its task runs */
bool slot_progress_waits(const struct slot *slot);           /* slot_submit has not followed */
void slot_progress_end(struct slot *slot, enum flow_ending ending);
void slot_progress_free(struct slot *slot);

/* slot_outcome.c. False when what the run wants to push cannot be: then the task has failed, and it is noted why. Else
 * all that its end takes along is ready, and whether there is anything. */
bool slot_outcome_take(struct slot *slot);
void slot_outcome_refuse(struct slot *slot, const char *reason);
void slot_outcome_clear(struct slot *slot);

/* slot_event.c: for the command of on_event. */
void slot_event_tell(struct slot *slot, enum flow_ending ending);

/* slot_log.c */
void slot_log_started(struct slot *slot);
void slot_log_ended(struct slot *slot, enum flow_ending ending);
void worker_log_sums(struct worker *worker); /* now, if there are any */
void worker_log_sums_fire(struct loop_timer *timer);
void worker_log_unserved(struct worker *worker);
void worker_log_unserved_fire(struct loop_timer *timer);

/* observe.c: tells the observer, when there is one. */
void slot_observe_claim(struct slot *slot);
void slot_observe_asking(struct slot *slot);
void slot_observe_answer(struct slot *slot, const struct redlock_event *event);
void slot_observe_lost(struct slot *slot);
void slot_observe_fenced_off(struct slot *slot);
void slot_observe_left(struct slot *slot, enum flow_ending ending);
void worker_observe_begin(struct worker *worker);
void worker_observe(struct worker *worker); /* how it stands now */

/* slot_moves.c */
void slot_move(struct slot *slot, enum flow_move move);
void slots_give_back(struct loop_hook *hook);

/* worker.c */
void worker_rest(struct worker *worker, struct slot *slot); /* the slot and its mate are idle */
void worker_wake_idle(struct worker *worker);               /* there is work: wake some */
bool worker_may_claim(struct worker *worker);
/* A lock was refused, and not because somebody holds it. */
void worker_lock_trouble(struct worker *worker, enum redlock_answer answer, const char *reason);
void worker_listen(struct worker *worker); /* after a change of what is idle or may be claimed */

/* From the configuration, which may have changed. The former ones are the caller's. */
struct class_resources *worker_resources_take(struct worker *worker);
void worker_limits_take(struct worker *worker); /* as well */

/* plugin_reload.c: the names of the classes that its plugins serve. */
void worker_classes_take(struct worker *worker);

/* look.c: of the timer `look`, which it sets again until the worker stops. */
void worker_look(struct loop_timer *timer);

/* drain.c: with all slots idle; stops the process when nothing is left to do. */
void worker_drain_look(struct worker *worker);

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
