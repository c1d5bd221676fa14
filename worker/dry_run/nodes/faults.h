/* Performs the faults of a plan at their times, and notes what was done to which node or worker and what could be seen
 * of it from outside: how long a node did not answer, that it was empty, how slow it was, how far its clock is off.
 *
 *     faults = faults_start(&options);       when the load begins
 *     faults_undo(faults);                   when it ends: all goes on as before, a killed node is started
 *     faults_results(faults, &count) ...
 *     faults_destroy(faults);
 *
 * It has a connection of its own to each node that the plan names. Runs on the loop; nothing blocks. */
#ifndef WORKER_DRY_RUN_FAULTS_H
#define WORKER_DRY_RUN_FAULTS_H

#include "base/loop.h"
#include "worker/dry_run/nodes/private_nodes.h"
#include "worker/dry_run/plan/plan.h"
#include "worker/dry_run/report/result.h"

struct faults_options {
    struct loop *loop;
    const struct dry_run_plan *plan; /* must live as long */
    struct private_nodes *nodes;     /* NULL = none: faults of nodes cannot be done then */
    /* To a worker process, from 1 on: SIGSTOP, SIGCONT or SIGKILL. False when it does not run any more. */
    bool (*worker_signal)(void *context, unsigned number, int signal);
    struct instant began; /* the load */
    /* A fault was begun or is over; for the log and the display. May be NULL. */
    void (*told)(void *context, const struct result_fault *fault);
    void *context;
};

struct faults;

struct faults *faults_start(const struct faults_options *options);
void faults_destroy(struct faults *faults); /* NULL is fine */
/* Ends those that go on; none is begun any more. */
void faults_undo(struct faults *faults);
/* As far as is known by now; they live as long as `faults`. */
const struct result_fault *faults_results(const struct faults *faults, unsigned *count);

/* What private nodes have to be started with for the plan. */
void faults_prepare(const struct dry_run_plan *plan, struct private_nodes_options *options);

#endif
