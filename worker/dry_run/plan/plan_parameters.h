/* The single values of a plan, each declared once: plan_options.c makes options of these rows, plan_json.c members of
 * the JSON that results have. Both refuse what is outside of the range.
 *
 *     X(kind, member of struct dry_run_plan, name in JSON, least, most, option, its value, its help)
 *
 * Durations are in seconds here. A share is written as 0.05 or 5%, a rate as 200/s. Only those stand here of which an
 * option sets this one value; what else a plan has, the two files say themselves. */
#ifndef WORKER_DRY_RUN_PLAN_PARAMETERS_H
#define WORKER_DRY_RUN_PLAN_PARAMETERS_H

#include "worker/dry_run/plan/plan.h"

#define PLAN_SECONDS_MAX ((double)(DRY_RUN_FOR_MAX_NS / NS_PER_S))

#define PLAN_FOR(X) X(TIME, for_ns, "for", 1, PLAN_SECONDS_MAX, "for", "DURATION", "how long the load lasts (20s)")
#define PLAN_WARM_UP(X)                                                                                                \
    X(TIME, warm_up_ns, "warm_up", 0, PLAN_SECONDS_MAX, "warm-up", "DURATION", "of it, what is not measured (a tenth)")
#define PLAN_THREADS(X) X(NUMBER, threads, "threads", 1, DRY_RUN_THREADS_MAX, "threads", "N", "of each process (16)")
#define PLAN_PROCESSES(X)                                                                                              \
    X(NUMBER, processes, "processes", 1, DRY_RUN_PROCESSES_MAX, "processes", "N", "worker processes on this host (1)")
#define PLAN_HOSTS(X)                                                                                                  \
    X(NUMBER, hosts, "hosts", 1, DRY_RUN_HOSTS_MAX, "hosts", "N", "begin when so many of this name are ready (1)")
#define PLAN_PER_TASK(X)                                                                                               \
    X(NUMBER, resources_per_task, "resources_per_task", 1, DRY_RUN_PER_TASK_MAX, "resources-per-task", "N",            \
      "how many a task locks at once (1)")
#define PLAN_FAILURES(X)                                                                                               \
    X(SHARE, failures, "failures", 0, 1, "failures", "SHARE", "of the runs that fail: 0.05 or 5% (0)")
#define PLAN_NODE_SHARE(X)                                                                                             \
    X(SHARE, node_share, "node_share", 0, 1, "node-share", "SHARE", "of a node's time for a shadow (0.1)")
#define PLAN_SPEED(X)                                                                                                  \
    X(FACTOR, speed, "speed", DRY_RUN_SPEED_MIN, DRY_RUN_SPEED_MAX, "speed", "FACTOR", "holds are shorter by it (1)")
/* An option cannot say 0: that is what a plan has until a seed is drawn. */
#define PLAN_SEED(X) X(SEED, seed, "seed", 0, DRY_RUN_SEED_MAX, "seed", "N", "the same one gives the same load (drawn)")

#define PLAN_PARAMETERS(X)                                                                                             \
    PLAN_SEED(X)                                                                                                       \
    PLAN_WARM_UP(X)                                                                                                    \
    PLAN_FOR(X)                                                                                                        \
    PLAN_PROCESSES(X)                                                                                                  \
    PLAN_THREADS(X)                                                                                                    \
    PLAN_HOSTS(X)                                                                                                      \
    PLAN_PER_TASK(X)                                                                                                   \
    PLAN_FAILURES(X)                                                                                                   \
    PLAN_NODE_SHARE(X)                                                                                                 \
    PLAN_SPEED(X)

#endif
