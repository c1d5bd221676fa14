/* One schedule of a fleet: a queue node with a replica, lock nodes, worker processes as production runs them, producers
 * of this library and of others, operators who use the program's commands, trouble, and judges. */
#ifndef SIM_FLEET_H
#define SIM_FLEET_H

#include "jobs/job.h"
#include "queue/holdfast.h"
#include "redlock/redlock.h"
#include "tests/sim/world/node.h"
#include "tests/sim/world/play.h"
#include "tests/sim/world/votes.h"
#include "worker/config/config.h"

enum {
    FLEET_NODES_MAX = 5,
    FLEET_WORKERS_MAX = 4,
    FLEET_PRODUCERS_MAX = 2,
    FLEET_TASKS_MAX = 256,
    FLEET_RESOURCES_MAX = 4,
    FLEET_LIMIT_MAX = 3,
    FLEET_QUEUES = 3,
    FLEET_NONSENSE_MAX = 4,
    FLEET_TTL_MAX_MS = 5000, /* of the lock group */
    FLEET_GRACE_MS = 2000    /* of handlers in processes of their own */
};

#define FLEET_TICK_NS (100 * NS_PER_MS) /* so often judges look at what nobody reports */

/* --- what tasks are like ------------------------------------------------------------------------------------------ */

enum fleet_class {
    CLASS_WORK,
    CLASS_SERIAL, /* one at a time in a process */
    CLASS_ONCE,   /* at most once */
    CLASS_CACHE,  /* efficiency: skipped while its lock is held; it holds the lock on for a while */
    CLASS_LATER,  /* delayed while its lock is held */
    CLASS_STRICT, /* fails while its lock is held */
    CLASS_BRIEF,  /* has a time limit */
    CLASS_HELD,   /* may hold its lock for so long */
    CLASS_FRAIL,  /* one retry */
    CLASS_GONE,   /* no retry, and not kept in `dead` */
    CLASS_NOBODY, /* that no worker serves */
    CLASSES
};
extern const char *const fleet_class_names[CLASSES];

enum fleet_habit { HABIT_DOES, HABIT_FAILS, HABIT_SNOOZES, HABIT_DISCARDS, HABIT_BURIES };

enum fleet_origin { OF_PRODUCER, OF_HANDLER, OF_FOREIGN };

enum fleet_state { NOWHERE, IN_QUEUE, IN_BELL, IN_CLAIM, IN_SCHEDULE, IN_RETRY, IN_DEAD };

/* What the judges know of a task. */
struct fleet_task {
    char jid[32];
    unsigned number, queue;
    unsigned resources[2], resource_count;
    enum fleet_class kind;
    enum fleet_habit habit;
    enum fleet_origin origin;
    unsigned child; /* the task that its handler pushes; 0 = none */
    int64_t in_ms, expires_ms;
    bool is_unique;
    unsigned key; /* chooses its arguments: unique tasks may have the same */
    bool is_slow; /* its handler runs too long and ignores its cancellation */
    enum hf_push_answer pushed;
    unsigned slice; /* the batch that is pushed as a whole or not at all; 0 = it is pushed alone */
    /* what became of it */
    unsigned begun, ended, failures, snoozed; /* runs: of its handler; final; failed; postponed */
    unsigned programs;                        /* of its processes that started, with or without its handler */
    unsigned crashes, refusals;               /* of processes of its handler; of its program, which did not start */
    unsigned deaths;                          /* of the workers from which it was recovered */
    unsigned sure_deaths;                     /* those of them that did not only stand still */
    pid_t died_with;                          /* the last of all */
    unsigned retries;                         /* how often it was added to `retry` */
    bool is_unwanted;                         /* an operator cancelled, deleted or buried it */
    bool is_lost;                             /* the queue node lost it */
    struct instant seen_at, said_at;          /* when it was first there; when it was pushed, which may arrive later */
    bool was_seen, was_forgotten;             /* it was somewhere; the queue node lost it once */
    bool is_over, is_orphan;                  /* the process that claimed it is dead */
    bool is_successor;                        /* claimed as a successor */
    bool comes_late;                          /* claimed for a worker that was quiet by then */
    struct instant orphan_at;
    /* its present state  */
    unsigned copies;
    enum fleet_state state;
    pid_t claimer, claimer_before; /* the last one; the one before its last move */
    char claim[17];
    long retry_count;     /* of its record; -1 = none */
    char blamed[24];      /* in `retry` and `dead`: the class of its error; "" = none */
    double due;           /* in a sorted set: its time, by the queue node's clock */
    struct instant since; /* it is there */
    /* its position in the waiting list (waiters.c) */
    unsigned rank;
    char list[40]; /* that list */
    bool is_parked, is_on_its_way, is_unordered;
    unsigned parks; /* in all, since it was parked for the first time */
    struct instant parked_first_at;
    struct instant successor_since; /* of a seat of its resource; 0 = it is none, or runs */
    struct instant woken_at;
    struct votes votes; /* for its locks */
};

static inline bool fleet_task_locks(const struct fleet_task *task, unsigned resource)
{
    for (unsigned i = 0; i < task->resource_count; i++)
        if (task->resources[i] == resource)
            return true;
    return false;
}

/* --- who is there ------------------------------------------------------------------------------------------------- */

struct fleet_worker {
    unsigned number;
    bool has_other_terms;
    struct host *host;
    struct process *process;
    unsigned lives;
    struct instant since; /* when it was started */
    bool is_told_to_stop;
    bool is_quiet;
    unsigned late_claims;       /* since then */
    int64_t ending_ns, idle_ns; /* since then, and since then without a handler: only time in which the process runs */
};

enum fleet_peace {
    PEACE_NONE,    /* all kinds of trouble */
    PEACE_KILLS,   /* processes are killed, and others replace them; nothing else */
    PEACE_LEASES,  /* trouble that lasts longer than leases and has late effects */
    PEACE_OF_MIND, /* no trouble but what handlers do */
};

/* In what the configurations of the workers differ, so that locks would not keep their tasks apart. */
enum fleet_terms {
    TERMS_ARE_THE_SAME,
    TERMS_OF_ANOTHER_PREFIX,
    TERMS_OF_ANOTHER_TEMPLATE,
    TERMS_OF_ANOTHER_NODE /* each has a single one, and the other is none of `nodes` */
};

struct fleet {
    struct chance chance; /* for the parameters of the schedule; the world has another */
    struct node *queue, *replica, *nodes[FLEET_NODES_MAX];
    unsigned node_count, worker_count, producer_count, task_count, resource_count, threads;
    unsigned limit; /* the limit of each resource */
    unsigned share; /* so many tasks of CLASS_WORK may run at once for a worker; 0 = any number */
    int64_t stop_timeout_ms, lease_ms;
    uint64_t max_tasks; /* of the first worker while there is trouble; 0 = no limit */
    bool has_no_locks;  /* and no lock nodes in its configuration */
    enum fleet_terms terms;
    char config[4096], config_path[64];
    struct redlock_node lock_nodes[FLEET_NODES_MAX];
    struct redlock_options lock_options;
    struct fleet_worker workers[FLEET_WORKERS_MAX];
    struct host *producers[FLEET_PRODUCERS_MAX];
    struct fleet_task tasks[FLEET_TASKS_MAX];
    unsigned runs, vague_runs; /* of handlers that ended: as they said, and as somebody else may have decided */
    bool has_foreigner_ended;
    unsigned nonsense; /* pushed texts that are no tasks */
    int64_t push_gap_ns, hold_ns, ttl_ms;
    enum fleet_peace peace;
    enum config_isolation isolation; /* of handlers */
    bool has_operators, has_ticks;
    bool is_made;                          /* the lock group */
    bool is_calm;                          /* the trouble has ended */
    bool is_wild, is_minor;                /* as in trouble.h */
    bool loses_locks;                      /* its lock nodes are away while handlers run */
    struct instant calm_at, healthy_since; /* since when the queue node and one worker have had no trouble */
    bool was_killed, was_rolled_back;      /* anything, in this schedule */
    struct instant vanished_at;            /* the former queue node, as in node.h */
};

extern struct fleet fleet; /* one schedule in a process */

/* There is no trouble. */
static inline bool fleet_is_quiet(void)
{
    return fleet.peace == PEACE_OF_MIND && !fleet.has_operators;
}
extern const char *const fleet_queues[FLEET_QUEUES];

void fleet_play(uint64_t seed);

/* fleet/plan.c: draws the parameters of the schedule. */
void fleet_plan(uint64_t seed);
struct buffer;
void fleet_task_write(const struct fleet_task *task, struct buffer *out); /* as JSON */
struct fleet_task *fleet_task_of(const char *jid);                        /* NULL = no task of the schedule */

/* fleet/worker.c */
unsigned fleet_locks_of(const struct fleet_task *task, bool has_other_terms); /* how many it takes */
void fleet_worker_start(struct fleet_worker *worker);
void fleet_worker_start_to_drain(struct fleet_worker *worker); /* it ends when there is nothing to do */
struct fleet_worker *fleet_worker_of(pid_t pid);               /* NULL = none that is there */
void fleet_signal(struct process *process, int number);
void fleet_stop(struct fleet_worker *worker);
void fleet_quiet(struct fleet_worker *worker, bool drains);

/* fleet/handlers.c */
struct plugins *fleet_handlers_make(void);
int fleet_handler_run(hf_job *job, void *state);

/* fleet/zygote.c: in the process that becomes a worker. */
struct zygote;
struct run_table;
struct zygote_world *fleet_zygote_start(struct zygote *zygote, struct run_table *run_table);
void fleet_zygote_die(struct zygote_world *zygote); /* and its children with it */

/* fleet/producer.c */
struct host *fleet_producer_start(unsigned number);
bool fleet_producers_have_ended(void);                 /* and the foreign one */
bool fleet_push_denies(const struct fleet_task *task); /* its producer knows that it was refused */
void fleet_pushes_end(void);
void fleet_foreigner_start(void);

/* fleet/programs.c: that use locks of tasks */
void fleet_programs_start(uint64_t seed);
bool fleet_has_programs(void);
bool fleet_programs_have_ended(void);
bool fleet_program_holds(unsigned resource, unsigned seat); /* and takes itself for the holder */

/* fleet/operators.c */
void fleet_group_make(void);
void fleet_group_heal(void);
void fleet_operate(struct chance *chance);
void fleet_resume(void); /* resumes what was paused; may be repeated */

/* fleet/judge.c: runs. `code` is enum hf_code. */
void fleet_judge_watch(struct node *node); /* a lock node */
void fleet_judge_begun(struct fleet_task *task, const struct hf_job *job);
void fleet_judge_ended(struct fleet_task *task, const struct hf_job *job, int code);
void fleet_judge_tick(void);                              /* now and then */
bool fleet_judge_runs_at(unsigned resource);              /* a handler whose lock is valid for all that it knows */
bool fleet_judge_runs_for(pid_t pid);                     /* a handler, for this worker */
void fleet_judge_taken(unsigned resource, unsigned seat); /* by a program */
void fleet_judge_left(const struct fleet_task *task);     /* its claim */
/* Others may claim these tasks now: those of a process, or this one. */
void fleet_judge_recovered(pid_t pid);
void fleet_judge_excuse(const struct fleet_task *task);
/* An operator takes its lock away, from now on or until now. */
void fleet_judge_force(unsigned resource, bool begins);
unsigned fleet_failures(const struct fleet_task *task);

/* fleet/states.c: where tasks are, and what the queue node does. */
void fleet_states_watch(struct node *node);
void fleet_states_rolled_back(void); /* the queue node has lost data */
void fleet_states_tick(void);        /* now and then */
bool fleet_queue_is_paused(unsigned queue);
bool fleet_is_idle(void); /* nothing is left to do, as the queue node says */
void fleet_states_end(void);
void fleet_states_ended(const struct process *process); /* a worker ended by itself */

/* fleet/remains.c: after the last worker has ended. */
void fleet_remains_end(void);

/* fleet/blame.c */
void fleet_blame_moved(struct fleet_task *task, enum fleet_state from, const char *script);

/* fleet/waiters.c: who waits for locks. */
struct server_event;
void fleet_waiter_moved(struct fleet_task *task, enum fleet_state from, const struct server_event *event);
void fleet_line_executed(const struct server_event *event);
void fleet_line_tick(void);
bool fleet_group_is_known(void); /* the lock group, at a majority */
/* A node keeps its key for longer than any lock lasts: its clock was ahead when it was granted. */
bool fleet_lock_is_stuck(unsigned resource);

#endif
