/* What a worker does on a signal. SIGPIPE is ignored by the loop; SIGCONT has no meaning here, for quiet is for good.
 *
 *   SIGTERM, SIGINT   stop within stop_timeout; the second one: stop now
 *   SIGTSTP           quiet: nothing more is claimed, what runs goes on, the process stays until it is stopped
 *   SIGUSR2           drain: quiet, and stop without a deadline when nothing runs any more
 *   SIGHUP            read the configuration again (reload.h) and open the log file again
 *   SIGUSR1           open the log file again
 *   SIGTTIN           write one line into the log for each task that runs
 *
 * Loop thread. */
#ifndef WORKER_SIGNALS_H
#define WORKER_SIGNALS_H

#include "base/error.h"

struct signals;
struct worker;

/* The first call of the process; also after a fork, in the child. SIGTERM and SIGINT end it with exit code 0
 * from now on, as it has nothing yet; the others are kept until signals_create. */
void signals_hold(void);
/* Once in a process, after signals_hold. NULL with `error` when there is no descriptor left. */
struct signals *signals_create(struct worker *worker, struct error *error) MUST_CHECK;
/* From then on they are without effect. */
void signals_destroy(struct signals *signals);

#endif
