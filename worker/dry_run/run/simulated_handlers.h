/* Handlers that hold their lock for as long as the plan says, and do nothing: what a dry run has instead of the
 * handlers of production. All that decides how a task is treated is as it was: mode, resources, flags, retries, what
 * becomes of a conflict; only run() is another, and it runs in a thread. So claiming, locking, extending, parking,
 * handing on and settling are those of production.
 *
 *     struct simulation *simulation = simulation_create(&options);
 *     struct plugins *plugins = simulated_plugins(simulation, real);
 *     ... worker_run with these plugins ...
 *     plugins_close(plugins);
 *     simulation_destroy(simulation);
 *
 * There is one class more than in production, DRY_RUN_CLASS, for tasks of rehearsals: its lock is required, its mode
 * is the usual one (correctness with three lock nodes or more that have tokens, else efficiency).
 *
 * Of a plugin only the check() of the arguments is called: open() never was, so run() would find no state. Whoever
 * loaded the plugins has vetted that loading them does not crash. A check() that crashes or hangs does so in a process
 * of its own (argument_check.h): a record tells of which class it is, and the task is buried, as one that goes on
 * taking workers down is in production.
 *
 * A run: ENTER is told to the overlap detector, the thread sleeps until the hold is over or the run is asked to stop
 * (its lock is lost, the worker stops, the task was cancelled), LEAVE is told, and it fails as often as the plan says.
 * How long it holds and whether it fails follow from the seed, the jid and the attempt (load.h): the same task does
 * the same in every process and at every repetition of the run. A run that is stopped ends as HF_CANCELLED, as that of
 * any handler that listens.
 *
 * Threads: simulation_create and simulated_plugins before there are any; the handlers in up to `ring_count` threads. */
#ifndef WORKER_DRY_RUN_SIMULATED_HANDLERS_H
#define WORKER_DRY_RUN_SIMULATED_HANDLERS_H

#include "worker/dry_run/plan/plan.h"
#include "worker/dry_run/run/argument_check.h"
#include "worker/dry_run/run/record_ring.h"
#include "worker/plugin/plugin.h"

/* How long the tasks of a class hold. */
struct simulated_class {
    const char *name;
    struct distribution hold;
};

/* What it points to is the caller's and stays, but for the list of classes. */
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
