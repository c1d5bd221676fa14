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
    FLEET_GRACE_MS = 2000 /* of handlers outside of the worker */
};

/* --- what tasks are like ------------------------------------------------------------------------------------------ */

enum fleet_class {
    CLASS_WORK,
    CLASS_SERIAL, /* one at a time in a process */
    CLASS_ONCE,   /* at most once */
    CLASS_CACHE,  /* efficiency: skipped when its lock is held, which it keeps for a while */
    CLASS_LATER,  /* comes again when its lock is held */
    CLASS_STRICT, /* fails when its lock is held */
    CLASS_BRIEF,  /* has a time limit */
    CLASS_HELD,   /* may hold its lock for so long */
    CLASS_FRAIL,  /* one retry */
    CLASS_GONE,   /* no retry and no grave */
    CLASS_NOBODY, /* that no worker serves */
    CLASSES
};
extern const char *const fleet_class_names[CLASSES];

enum fleet_habit { HABIT_DOES, HABIT_FAILS, HABIT_SNOOZES, HABIT_DISCARDS, HABIT_BURIES };

enum fleet_origin { OF_PRODUCER, OF_HANDLER, OF_FOREIGN };

enum fleet_place { NOWHERE, IN_QUEUE, IN_BELL, IN_CLAIM, IN_SCHEDULE, IN_RETRY, IN_DEAD };

/* What is known of a task from outside. */
struct fleet_task {
    char jid[32];
    unsigned number, queue;
    unsigned resources[2], resource_count;
    enum fleet_class kind;
    enum fleet_habit habit;
    enum fleet_origin origin;
    unsigned child; /* that its handler pushes; 0 = none */
    int64_t in_ms, expires_ms;
    bool is_unique;
    unsigned key; /* what its arguments are: those of unique tasks may be the same */
    bool is_slow; /* its handler takes longer than it should, and does not listen */
    enum hf_push_answer pushed;
    unsigned slice; /* what is pushed as a whole or not at all has the same; 0 = it is pushed alone */
    /* what became of it */
    unsigned begun, ended, failures, snoozed; /* runs: of its handler, that were its last, that failed or came again */
    unsigned programs;                        /* of its own that started, whether its handler began in them or not */
    unsigned crashes, refusals;               /* of processes of its handler; of its program, which did not start */
    unsigned deaths;                          /* of workers that it was recovered from */
    pid_t died_with;                          /* the last of those */
    unsigned retries;                         /* times it came to `retry` */
    bool is_unwanted;                         /* an operator cancelled, deleted or buried it */
    bool is_lost;                             /* the queue node forgot it */
    struct instant seen_at, said_at;          /* for the first time; by its producer, whose push may come later */
    bool was_seen, was_forgotten;             /* anywhere; by the queue node, once */
    bool is_over, is_orphan;                  /* its claimer is dead */
    bool is_heir;                             /* claimed as one */
    struct instant orphan_at;
    /* where it is */
    unsigned copies;
    enum fleet_place place;
    pid_t claimer, claimer_before; /* the last one; and before its last move */
    char claim[17];
    long retry_count;     /* of its record; -1 = none */
    char blamed[24];      /* in `retry` and `dead`: the class of its error; "" = none */
    double due;           /* in a sorted set: its time, by the queue node's clock */
    struct instant since; /* it is there */
    /* its place in line (line.c) */
    unsigned rank;
    char line[40]; /* the list */
    bool is_parked, is_on_its_way, is_unordered;
    unsigned parks; /* in all, since it was parked for the first time */
    struct instant parked_first_at;
    struct instant heir_since; /* of a place of its resource; 0 = it is none, or runs */
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
    struct host *host;
    struct process *process;
    unsigned lives;
    struct instant since; /* when it was started */
    bool is_told_to_stop;
    struct instant quiet_at; /* it claims nothing from then on; 0 = it was not told */
    int64_t ending_ns,
        idle_ns; /* since then, and since then without a handler: of time in which it does not stand still */
};

enum fleet_peace {
    PEACE_NONE,    /* all kinds of trouble */
    PEACE_KILLS,   /* only processes that are killed, until others take their places */
    PEACE_LEASES,  /* what outlasts leases, and has late consequences */
    PEACE_OF_MIND, /* none at all, but what handlers do */
};

struct fleet {
    struct chance chance; /* of what the schedule is like; the world has its own */
    struct node *queue, *replica, *nodes[FLEET_NODES_MAX];
    unsigned node_count, worker_count, producer_count, task_count, resource_count, threads;
    unsigned limit; /* so many tasks may hold a resource at once */
    unsigned share; /* so many tasks of CLASS_WORK may run at once for a worker; 0 = any number */
    int64_t stop_timeout_ms;
    uint64_t max_tasks; /* of the first worker, as long as there is trouble; 0 = it has no limit */
    bool has_no_locks;  /* and no lock nodes in its configuration */
    char config[4096], config_path[64];
    struct redlock_node lock_nodes[FLEET_NODES_MAX];
    struct redlock_options lock_options;
    struct fleet_worker workers[FLEET_WORKERS_MAX];
    struct host *producers[FLEET_PRODUCERS_MAX];
    struct fleet_task tasks[FLEET_TASKS_MAX];
    unsigned runs, vague_runs; /* of handlers that ended: as they said, and as somebody else may have decided */
    bool has_foreigner_ended;
    unsigned nonsense; /* texts that are no tasks, and were pushed */
    int64_t push_gap_ns, hold_ns, ttl_ms;
    enum fleet_peace peace;
    enum config_isolation isolation; /* of handlers */
    bool has_operators, has_ticks;
    bool is_made;                          /* the lock group */
    bool is_calm;                          /* the trouble has ended */
    bool is_wild, is_minor;                /* as in trouble.h */
    struct instant calm_at, healthy_since; /* since when queue node and a worker have been well */
    bool was_killed, was_rolled_back;      /* anything, in this schedule */
    struct instant vanished_at;            /* the former queue node, as in node.h */
};

extern struct fleet fleet; /* one schedule in a process */

/* Nothing is in anybody's way. */
static inline bool fleet_is_quiet(void)
{
    return fleet.peace == PEACE_OF_MIND && !fleet.has_operators;
}
extern const char *const fleet_queues[FLEET_QUEUES];

void fleet_play(uint64_t seed);

/* fleet/plan.c: draws what the schedule is like. */
void fleet_plan(uint64_t seed);
struct buffer;
void fleet_task_write(const struct fleet_task *task, struct buffer *out); /* as JSON */
struct fleet_task *fleet_task_of(const char *jid);                        /* NULL = none of ours */

/* fleet/worker.c */
void fleet_worker_start(struct fleet_worker *worker);
void fleet_worker_start_to_drain(struct fleet_worker *worker); /* it ends when there is nothing to do */
const struct fleet_worker *fleet_worker_of(pid_t pid);         /* NULL = none that is there */
void fleet_signal(struct process *process, int number);
void fleet_stop(struct fleet_worker *worker);
void fleet_quiet(struct fleet_worker *worker, bool drains);

/* fleet/handlers.c */
struct plugins *fleet_handlers_make(void);
int fleet_handler_run(hf_job *job, void *state);

/* fleet/zygote.c: in the process that becomes a worker. */
struct zygote;
struct run_table;
void fleet_zygote_start(struct zygote *zygote, struct run_table *run_table);

/* fleet/producer.c */
struct host *fleet_producer_start(unsigned number);
bool fleet_producers_have_ended(void);                 /* and the foreigner */
bool fleet_push_denies(const struct fleet_task *task); /* its producer was told that it is not there */
void fleet_pushes_end(void);
void fleet_foreigner_start(void);

/* fleet/former.c */
void fleet_former_start(uint64_t seed);
bool fleet_former_has(pid_t pid);   /* it is one of these workers */
bool fleet_former_was_killed(void); /* one of them */
bool fleet_former_has_ended(void);

/* fleet/programs.c: that use locks of tasks */
void fleet_programs_start(uint64_t seed);
bool fleet_has_programs(void);
bool fleet_programs_have_ended(void);
bool fleet_program_holds(unsigned resource, unsigned place); /* and believes it */

/* fleet/operators.c */
void fleet_group_make(void);
void fleet_group_heal(void);
void fleet_operate(struct chance *chance);
void fleet_resume(void); /* what was paused; as often as it takes */
void fleet_rescue(void); /* what killed workers of the former release had; likewise */

/* fleet/judge.c: runs. `code` is enum hf_code. */
void fleet_judge_watch(struct node *node); /* a lock node */
void fleet_judge_begun(struct fleet_task *task, const struct hf_job *job);
void fleet_judge_ended(struct fleet_task *task, const struct hf_job *job, int code);
void fleet_judge_tick(void);                               /* now and then */
bool fleet_judge_runs_at(unsigned resource);               /* a handler, that believes in its lock */
bool fleet_judge_runs_for(pid_t pid);                      /* a handler, for this worker */
void fleet_judge_taken(unsigned resource, unsigned place); /* by a program */
/* A worker of the former release runs it to its end. */
void fleet_judge_ran(struct fleet_task *task, pid_t pid);
void fleet_judge_left(const struct fleet_task *task); /* its claim */
/* Others may have these tasks now: those of a process, or this one. */
void fleet_judge_recovered(pid_t pid);
void fleet_judge_excuse(const struct fleet_task *task);
/* An operator takes its lock away, from now on or until now. */
void fleet_judge_force(unsigned resource, bool begins);
unsigned fleet_failures(const struct fleet_task *task);

/* fleet/places.c: where tasks are, and what the queue node does. */
void fleet_places_watch(struct node *node);
void fleet_places_rolled_back(void); /* the queue node has forgotten something */
void fleet_places_tick(void);        /* now and then */
bool fleet_queue_is_paused(unsigned queue);
bool fleet_is_idle(void); /* nothing is left to do, as the queue node says */
void fleet_places_end(void);
void fleet_places_ended(const struct process *process); /* a worker ended by itself */

/* fleet/remains.c: after the last worker has ended. */
void fleet_remains_end(void);

/* fleet/blame.c */
void fleet_blame_moved(struct fleet_task *task, enum fleet_place from, const char *script);

/* fleet/line.c: who waits for locks. */
struct server_event;
void fleet_line_moved(struct fleet_task *task, enum fleet_place from, const struct server_event *event);
void fleet_line_executed(const struct server_event *event);
void fleet_line_tick(void);

#endif
