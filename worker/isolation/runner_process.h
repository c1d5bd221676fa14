/* A runner process: forked by the zygote, it loads one plugin and runs the tasks that the worker sends over the socket
 * (runner_message.h), one at a time.
 *
 *     worker   HELLO -> READY | REFUSED             the plugin is open, or why not
 *              RUN   -> LOG, EVENT, PROGRESS, VERIFY and DESCRIPTOR (answered), finally END
 *              BYE   -> closes the plugin and exits
 *
 * The plugin's file comes as a descriptor, so it is the file that the worker has checked. Requests to stop a run are on
 * the run table, so a handler sees them even if the worker is stuck.
 *
 * A handler may do anything to this process. The worker and the zygote do not rely on it: if the process sends
 * invalid messages, is silent, or dies, its run fails, and a new process replaces it. */
#ifndef WORKER_RUNNER_PROCESS_H
#define WORKER_RUNNER_PROCESS_H

#include "worker/task/run_table.h"

/* Exit statuses of a runner process without BYE. */
enum {
    RUNNER_CUT_OFF = 74,  /* its socket is gone */
    RUNNER_CONFUSED = 76, /* it received no valid message */
};

/* For zygote_options.runner. Needs the plugin's file as RUNNER_PLUGIN_DESCRIPTOR. Returns the exit status. */
int runner_main(struct run_table *run_table, int socket, const void *context);

#endif
