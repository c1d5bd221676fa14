/* Handlers that hold their lock for as long as the plan says and do nothing: a dry run has them instead of those of
 * production. All that decides how a task is treated stays: mode, resources, flags, retries, what a conflict does. Only
 * run() differs, and it runs in a thread. So claiming, locking, extending, parking, handing on and settling are real.
 *
 *     struct simulation *simulation = simulation_create(&options);
 *     struct plugins *plugins = simulated_plugins(simulation, real);
 *     ... worker_run with these plugins ...
 *     plugins_close(plugins);
 *     simulation_destroy(simulation);
 *
 * DRY_RUN_CLASS is one class more, for tasks of rehearsals: its lock is required, in the usual mode (correctness with
 * three lock nodes or more that have tokens, else efficiency).
 *
 * Of a plugin only check() is called; open() never was. A check() that crashes or hangs does so in a process of its own
 * (argument_check.h): a record names its class, and the task is buried, as production buries one that goes on taking
 * workers down.
 *
 * A run writes ENTER, sleeps until its hold is over or it is asked to stop, writes LEAVE, and fails as often as the
 * plan says. Hold and failure follow from the seed, the jid and the attempt (load.h), so a task does the same in every
 * process and at every repetition. A run that is stopped ends as HF_CANCELLED.
 *
 * Threads: create both before there are any; the handlers run in up to `ring_count` threads. */
#ifndef WORKER_DRY_RUN_SIMULATED_HANDLERS_H
#define WORKER_DRY_RUN_SIMULATED_HANDLERS_H

#include "worker/dry_run/plan/plan.h"
#include "worker/dry_run/run/record_ring.h"
#include "worker/plugin/argument_check.h"
#include "worker/plugin/plugin.h"

/* Why a run fails that the plan has fail. */
#define SIMULATED_REASON "the plan of the dry run has this run fail"

/* How long the tasks of a class hold. */
struct simulated_class {
    const char *name;
    struct distribution hold;
};

/* What it points to is the caller's and stays. */
struct simulation_options {
    const struct dry_run_plan *plan;       /* its seed, its hold (of classes that are not listed), failures, speed */
    const struct simulated_class *classes; /* in any order; may be NULL */
    size_t class_count;
    struct record_ring *const
        *rings; /* of the overlap detector: each thread that runs a handler takes one for itself */
    unsigned ring_count;
    _Atomic uint64_t *lost;       /* records of threads for which there was no ring; may be NULL */
    struct argument_check *check; /* NULL = the arguments of all pass */
};

struct simulation; /* opaque */

struct simulation *simulation_create(const struct simulation_options *options);
/* When no handler runs any more. */
void simulation_destroy(struct simulation *simulation);

/* `real` is loaded and not opened; NULL = no plugins, there is DRY_RUN_CLASS alone. It must stay until the result is
 * closed. */
struct plugins *simulated_plugins(struct simulation *simulation, const struct plugins *real);

#endif
