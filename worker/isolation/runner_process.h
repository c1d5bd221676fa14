/* A runner process: forked by the zygote, it loads one plugin and runs its tasks, one at a time, as the worker tells it
 * over its socket (runner_message.h).
 *
 *     worker   HELLO -> READY | REFUSED             the plugin was opened, or why not
 *              RUN   -> LOG, EVENT, PROGRESS, VERIFY and DESCRIPTOR (answered), at last END
 *              BYE   -> it closes the plugin and ends
 *
 * The file of the plugin is the one that the worker has vetted: it comes as a descriptor. What the lock and the worker
 * want of a run is on the run table, so a handler learns it also when the worker is stuck.
 *
 * A handler may do what it likes to this process. What is certain nevertheless is the worker's and the zygote's part: a
 * process that says nonsense, says nothing, or dies ends as a failure of its run, and is replaced. */
#ifndef WORKER_RUNNER_PROCESS_H
#define WORKER_RUNNER_PROCESS_H

#include "worker/task/run_table.h"

/* How a runner process ends that was not told to. */
enum {
    RUNNER_CUT_OFF = 74,  /* its socket is gone */
    RUNNER_CONFUSED = 76, /* what came over it is no message */
};

/* For zygote_options.runner: with the plugin's file as RUNNER_PLUGIN_DESCRIPTOR. Returns the exit status. */
int runner_main(struct run_table *run_table, int socket);

#endif
