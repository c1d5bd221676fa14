/* A process that cleans up after a coordinator that was killed: it waits for its death, sees that the workers and the
 * private servers are gone, removes what the run has on the nodes of the configuration, and the temporary directory.
 * After an orderly end it has nothing to do.
 *
 *     janitor = janitor_start(&options, &error);        before there is anything to clean up, threads or a loop
 *     janitor_watch(janitor, pid);                      each worker, when it was forked; private servers too
 *     ...
 *     janitor_dismiss(janitor);                         after everything was removed; or janitor_leave, if it was not
 *
 * It is in a session of its own and hears neither SIGINT nor SIGTERM nor SIGHUP. It outlives the coordinator by some
 * seconds, a minute when nodes do not answer, and longer only where nodes have so many keys that walking through them
 * takes longer, with a fifth of their time: an hour for each of two walks at most. Nothing depends on it: what it does
 * not remove has a ttl, or is removed by the next dry run (name_space.h).
 *
 * Threads: the one of the coordinator. janitor_watch, _dismiss and _leave do nothing in a process that was forked from
 * it. If the janitor dies, nobody notices. */
#ifndef WORKER_DRY_RUN_JANITOR_H
#define WORKER_DRY_RUN_JANITOR_H

#include <sys/types.h>

#include "base/error.h"
#include "worker/config/config.h"

struct janitor;

struct janitor_options {
    const char *run;
    const struct config *config; /* its nodes, and lock.prefix of production; NULL = the run has nothing on nodes that
                                    outlive it */
    const char *directory;       /* which need not be there yet; NULL = there will be none */
};

struct janitor *janitor_start(const struct janitor_options *options, struct error *error) MUST_CHECK;
/* It is killed when the coordinator dies. NULL is fine. */
void janitor_watch(struct janitor *janitor, pid_t pid);
/* Returns when it has ended. NULL is fine. */
void janitor_dismiss(struct janitor *janitor);
/* From now on it waits for the end of this process only, and then removes what there is. NULL is fine. */
void janitor_leave(struct janitor *janitor);
/* For tests. */
pid_t janitor_pid(const struct janitor *janitor);

#endif
