/* What a dry run is to do: all of it, as data. Made from the command line (plan_options.h), sent to hosts that join as
 * JSON (plan_json.h), and part of the result. Pure. */
#ifndef WORKER_DRY_RUN_PLAN_H
#define WORKER_DRY_RUN_PLAN_H

#include "base/clock.h"
#include "base/error.h"
#include "worker/dry_run/distribution.h"
#include "worker/dry_run/popularity.h"

enum {
    DRY_RUN_ID_BYTES = 12, /* small hexadecimal digits */
    DRY_RUN_THREADS_MAX = 1024,
    DRY_RUN_PROCESSES_MAX = 64,
    DRY_RUN_RESOURCES_MAX = 1000000,
    DRY_RUN_FAULTS_MAX = 64,
    DRY_RUN_POINTS_MAX = 16,
};

enum dry_run_kind {
    DRY_RUN_REHEARSAL, /* a generated load */
    DRY_RUN_SHADOW,    /* what a live fleet has, and gets meanwhile */
};

/* How tasks arrive. */
enum dry_run_arrivals {
    DRY_RUN_OPEN,   /* at `rate`, by chance (a Poisson process), whatever becomes of them */
    DRY_RUN_CLOSED, /* so many are always there: when one ends, the next comes */
};

enum dry_run_fault_kind {
    DRY_RUN_FAULT_STOP,   /* a node: SIGSTOP, for `lasts_ns` */
    DRY_RUN_FAULT_KILL,   /* a node or a worker process: SIGKILL. A node comes back empty after `lasts_ns` */
    DRY_RUN_FAULT_WIPE,   /* a node: all its keys are gone, and it goes on */
    DRY_RUN_FAULT_SLOW,   /* a node: each answer takes `amount_ns` longer, for `lasts_ns` */
    DRY_RUN_FAULT_CLOCK,  /* a node: its wall clock jumps by `amount_ns`, may be negative */
    DRY_RUN_FAULT_FREEZE, /* a worker process: SIGSTOP, for `lasts_ns` */
};

struct dry_run_fault {
    enum dry_run_fault_kind kind;
    int64_t at_ns; /* after the load began */
    int64_t lasts_ns, amount_ns;
    bool at_worker;  /* else at a node */
    unsigned number; /* of the worker process, or of the lock node, from 1 on; 0 = the queue node */
};

struct dry_run_plan {
    char id[DRY_RUN_ID_BYTES + 1];
    enum dry_run_kind kind;
    bool is_local;        /* on nodes of its own */
    unsigned local_nodes; /* lock nodes then */
    uint64_t seed;
    int64_t warm_up_ns;          /* of it, what is not measured */
    int64_t for_ns;              /* the load lasts so long, warm-up included */
    unsigned processes, threads; /* of this host; each process has so many threads */
    unsigned hosts;              /* waits until so many are there, this one included */
    /* the load of a rehearsal */
    enum dry_run_arrivals arrivals;
    double rate;         /* DRY_RUN_OPEN: tasks a second */
    unsigned population; /* DRY_RUN_CLOSED */
    struct popularity popularity;
    unsigned resources_per_task;
    struct distribution hold;
    double failures;        /* share of the runs that fail */
    const char *class_name; /* whose settings hold for its tasks; "dry.hold" = the defaults */
    /* of a shadow */
    double node_share; /* of a node's time that the run may use, 0 to 1 */
    double copy_rate;  /* entries a second that are read of the live queues */
    double speed;      /* holds are divided by it */
    struct dry_run_fault faults[DRY_RUN_FAULTS_MAX];
    unsigned fault_count;
    unsigned points[DRY_RUN_POINTS_MAX]; /* --what-if threads=...; each is a run of its own */
    unsigned point_count;
};

#endif
