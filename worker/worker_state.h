/* Private to worker.c (the process), slot.c and slot_*.c (one task at a time), stop.c, reload.c and signals.c. All
 * of it belongs to the loop thread. Each of them calls those before it only: slot_log, slot_run, slot_successor,
 * slot_lock, slot_moves, slot, reload, stop, signals, worker. */
#ifndef WORKER_WORKER_STATE_H
#define WORKER_WORKER_STATE_H

#include "worker/events/tally.h"
#include "worker/events/task_log.h"
#include "worker/events/work_report.h"
#include "worker/slot.h"
#include "worker/stop.h"
#include "worker/worker.h"

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
    struct program_releases *program_releases;
    struct ended_tasks *ended;
    struct late_releases *late_releases;
    struct queue *queue;
    struct promoter *promoter;
    struct dead_set_watch *dead_set_watch;
    struct periodic *periodic;
    struct thread_pool *pool;
    struct slot *slots;
    unsigned slot_count, runner_count; /* two slots a runner */
    struct slot *patient;              /* waits for its lock (slot_lock.c); NULL = none does */
    const char **class_names;          /* that the plugins serve */
    unsigned class_count;
    struct list serials;
    struct list idle; /* of each pair that is FLOW_IDLE one slot, the last one first */
    unsigned idle_count;
    void (*rested)(struct worker *worker); /* one more is idle */
    unsigned wake_next;                    /* how many idle slots the next sign of work wakes: 1, 2, 4, ... */
    char identity[RUN_TABLE_IDENTITY_MAX];
    struct envelope_limits limits;
    struct buffer text; /* where records are written */
    struct instant started;
    struct tally *tally;    /* what is counted of tasks */
    uint64_t claimed;       /* tasks taken and not parked, or being claimed: for --max-tasks */
    uint64_t taken;         /* tasks claimed so far */
    struct list given_back; /* slots whose task goes back at the end of this cycle, the last claimed first */
    struct loop_hook give_back;
    bool ready;  /* lock nodes were tried and a quorum is there */
    bool judged; /* the lock nodes were found to be what the configuration says */
    struct instant trouble_told;
    bool quiet;    /* claims nothing more, for good */
    bool draining; /* quiet, and to be stopped when nothing runs any more */
    bool stopping, hurrying, leaving, abandoned;
    struct instant put_off_until; /* the tasks that it delayed come back by then */
    struct loop_timer look;       /* at the lock nodes, and whether all is drained */
    struct loop_timer lease;      /* when it is over, as far as the queue node has renewed it */
    struct task_log task_log;
    struct unserved_log *unserved; /* tasks of classes that are not served, since the last line about them */
    struct loop_timer log_unserved;
    struct name_set told_unlocked, told_misspelt; /* classes of tasks that lock nothing, of which the log has told */
    struct loop_timer log_sums;                   /* when sums are logged */
    struct loop_timer observe;                    /* when the observer is called */
    struct loop_timer watchdog;                   /* when it gets the next sign that the loop turns */
    struct loop_timer limit;                      /* of the present phase of stopping */
    struct instant cancel_at, abandon_at;         /* of the handlers, while stopping */
    bool only_node;                               /* while stopping: no handler runs any more */
    struct instant leave_by;                      /* when waiting for answers to releases ends */
    struct instant others_by;                     /* and that for commands of on_event, and for what is read again */
    struct class_resources *class_resources;      /* what tasks lock that do not say it */
    struct presence *presence;
    struct announced_terms *announced;
    uint64_t terms_order; /* tasks before this number were claimed by former terms */
    bool has_terms;       /* they were announced */
    bool knows_group;     /* of the lock nodes; true without them */
    char group[REDLOCK_GROUP_ID_DIGITS + 1];
    bool told_waiting;       /* the service manager was told what waits for others' terms */
    struct monitor *monitor; /* NULL = nobody listens */
    struct signals *signals;
    struct reload *reload;
    enum exit_code exit_code;
};

/* reload.c: from the configuration and the plugins, which may have changed. */
struct class_resources *worker_resources_take(struct worker *worker); /* the former ones are the caller's */
void worker_classes_take(struct worker *worker);
void worker_terms_take(struct worker *worker);
const char *worker_status(const struct worker *worker); /* for the service manager */

#endif
