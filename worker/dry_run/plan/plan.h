/* What a dry run is to do: all of it, as data. Made from the command line (plan_options.h), and part of the
 * result as JSON (plan_json.h). Pure.
 *
 *     struct dry_run_plan plan;
 *     plan_init(&plan);                          what holds when nothing is said
 *     options_read(plan_options, ...);            what the command line says
 *     plan_complete(&plan);                      what follows from that; once, last
 *     random_digits(plan.id, DRY_RUN_ID_BYTES);  the caller's, as is the seed when none was given (it is 0 then)
 *     plan_check(&plan, config, &findings);      refuses what cannot work
 *     plan_check_group(&plan, config, ...);      the same, once the lock nodes have said what they are
 *     plan_fini(&plan);
 *
 * A plan that is assigned shares what it points to: plan_copy makes one that stands alone, as a result needs. */
#ifndef WORKER_DRY_RUN_PLAN_H
#define WORKER_DRY_RUN_PLAN_H

#include "base/clock.h"
#include "base/error.h"
#include "worker/config/config.h"
#include "worker/dry_run/plan/distribution.h"
#include "worker/dry_run/plan/popularity.h"

enum {
    DRY_RUN_ID_BYTES = 12, /* small hexadecimal digits */
    DRY_RUN_THREADS_MAX = 1024,
    DRY_RUN_PROCESSES_MAX = 64,
    DRY_RUN_HOSTS_MAX = 64,
    DRY_RUN_RUNNERS_MAX = 4096, /* threads of all processes of a host */
    DRY_RUN_RESOURCES_MAX = 1000000,
    DRY_RUN_PER_TASK_MAX = 16,
    DRY_RUN_CLASS_BYTES_MAX = 256,
    DRY_RUN_POPULATION_MAX = 1000000,
    DRY_RUN_TASKS_MAX = 50000000, /* that are remembered while a run lasts */
    DRY_RUN_FAULTS_MAX = 64,
    DRY_RUN_POINTS_MAX = 16,
};

#define DRY_RUN_CLASS "dry.hold" /* has no settings of its own */

/* Above it a seed could not go through every reader of JSON. */
#define DRY_RUN_SEED_MAX ((INT64_C(1) << 53) - 1)
/* Entries of live queues that a shadow reads a second, and tasks that it plays at most. */
#define DRY_RUN_COPY_RATE 1000.0
/* Tasks a second; far more than one queue node can take. */
#define DRY_RUN_RATE_MAX 1e6
/* Holds are divided by a factor between these. */
#define DRY_RUN_SPEED_MIN 0.001
#define DRY_RUN_SPEED_MAX 1000.0
/* The longest durations of a plan. */
#define DRY_RUN_FOR_MAX_NS  (24 * 3600 * NS_PER_S)
#define DRY_RUN_HOLD_MAX_NS (24 * 3600 * NS_PER_S)

enum dry_run_kind {
    DRY_RUN_REHEARSAL, /* a generated load */
    DRY_RUN_SHADOW,    /* what a live fleet has, and gets meanwhile */
};

/* How tasks arrive. */
enum dry_run_arrivals {
    DRY_RUN_OPEN,   /* at `rate`, by chance (a Poisson process), whatever becomes of them */
    DRY_RUN_CLOSED, /* so many are always there: when one leaves, to its end or to its retry, the next comes */
};

enum dry_run_fault_kind {
    DRY_RUN_FAULT_STOP,   /* a node: SIGSTOP, for `lasts_ns` */
    DRY_RUN_FAULT_KILL,   /* a node or a worker process: SIGKILL. A node comes back empty after `lasts_ns` */
    DRY_RUN_FAULT_WIPE,   /* a node: all its keys are gone, and it goes on */
    DRY_RUN_FAULT_SLOW,   /* a node: each answer takes `amount_ns` longer, for `lasts_ns` */
    DRY_RUN_FAULT_CLOCK,  /* a node: its wall clock jumps by `amount_ns`, may be negative */
    DRY_RUN_FAULT_FREEZE, /* a worker process: SIGSTOP, for `lasts_ns` */
};
enum { DRY_RUN_FAULT_KINDS = DRY_RUN_FAULT_FREEZE + 1 };

struct dry_run_fault {
    enum dry_run_fault_kind kind;
    int64_t at_ns; /* after the load began */
    int64_t lasts_ns, amount_ns;
    bool at_worker;  /* else at a node */
    unsigned number; /* of the worker process, or of the lock node, from 1 on; 0 = the queue node */
};

struct dry_run_plan {
    char id[DRY_RUN_ID_BYTES + 1]; /* of this host of it: its tasks begin with it, and its locks unless it is named */
    char run_id[DRY_RUN_ID_BYTES + 1]; /* of all hosts with one --name; "" = there is no other */
    enum dry_run_kind kind;
    bool is_local;        /* on nodes of its own */
    unsigned local_nodes; /* lock nodes then */
    uint64_t seed;
    int64_t warm_up_ns;          /* of it, what is not measured; below 0 before plan_complete = as usual */
    int64_t for_ns;              /* the load lasts so long, warm-up included */
    unsigned processes, threads; /* of this host; each process has so many threads */
    unsigned hosts;              /* that begin together, each with a load of its own */
    /* the load of a rehearsal */
    enum dry_run_arrivals arrivals;
    double rate;         /* DRY_RUN_OPEN: tasks a second */
    unsigned population; /* DRY_RUN_CLOSED; 0 before plan_complete = twice the threads of this host */
    bool is_population_given;
    struct popularity popularity;
    bool is_count_given; /* of the resources, by --resources */
    unsigned resources_per_task;
    struct distribution hold;
    double failures;                              /* share of the runs that fail */
    char class_name[DRY_RUN_CLASS_BYTES_MAX + 1]; /* whose settings hold for its tasks; DRY_RUN_CLASS = the defaults */
    /* of a shadow */
    double node_share; /* of a node's time that the run may use, 0 to 1 */
    double speed;      /* holds are divided by it */
    struct dry_run_fault faults[DRY_RUN_FAULTS_MAX];
    unsigned fault_count;
    unsigned points[DRY_RUN_POINTS_MAX]; /* --what-if threads=...; each is a run of its own */
    unsigned point_count;
};

/* So many tasks are there all the time. */
static inline bool plan_is_closed(const struct dry_run_plan *plan)
{
    return plan->kind == DRY_RUN_REHEARSAL && plan->arrivals == DRY_RUN_CLOSED;
}

/* By which the nodes know the run. */
static inline const char *plan_run(const struct dry_run_plan *plan)
{
    return plan->run_id[0] != '\0' ? plan->run_id : plan->id;
}

void plan_init(struct dry_run_plan *plan);
void plan_fini(struct dry_run_plan *plan);
void plan_copy(struct dry_run_plan *copy, const struct dry_run_plan *plan);

/* Warm-up and population, where nothing was said, and the popularity prepared. Changes nothing when it is called again
 * without a change in between; after one of `threads`, of a what-if, plan_at_point has done it. */
void plan_complete(struct dry_run_plan *plan);
/* A copy of a complete plan that is one point of its what-if: with so many threads, and without points. A population
 * that was not given follows the threads. */
void plan_at_point(struct dry_run_plan *point, const struct dry_run_plan *plan, unsigned threads);

/* What cannot work is an error, each with what would; what is odd is a warning. Of a complete plan. `config` may be
 * NULL when there is none. */
void plan_check(const struct dry_run_plan *plan, const struct config *config, struct findings *findings);
/* What can only be judged when the lock nodes were asked: `max_ttl_ns` is the group's, 0 = it has none (one node) or it
 * is not known; `reachable` of `count` nodes may vote. */
void plan_check_group(const struct dry_run_plan *plan, const struct config *config, int64_t max_ttl_ns,
                      unsigned reachable, unsigned count, struct findings *findings);

/* "stop", ...; NULL ends them */
extern const char *const dry_run_fault_names[];
/* "lock2", "queue", "worker1"; `out` has DRY_RUN_TARGET_MAX bytes. */
enum { DRY_RUN_TARGET_MAX = 24 };
const char *dry_run_fault_target(const struct dry_run_fault *fault, char *out);

#endif
