/* A process that cleans up after a coordinator that was killed: it waits for its death, kills what is left of the
 * workers and private servers, and removes what the run has on the nodes and the temporary directory. After an orderly
 * end it has nothing to do.
 *
 *     cleanup = cleanup_start(&options, &error);        before there is anything to clean up, threads or a loop
 *     cleanup_watch(cleanup, pid);                      each worker and private server, once it is forked
 *     ...
 *     cleanup_dismiss(cleanup);                         after everything was removed; or cleanup_leave, if it was not
 *
 * It is in a session of its own and ignores SIGINT, SIGTERM and SIGHUP. It outlives the coordinator by some seconds: a
 * minute when nodes do not answer, and up to two hours where walking through all keys takes so long, with a fifth of
 * the nodes' time. Nothing depends on it: what it leaves has a ttl, or the next dry run removes it (name_space.h).
 *
 * One thread. cleanup_watch, _dismiss and _leave do nothing in a process that was forked from the coordinator. */
#ifndef WORKER_DRY_RUN_CLEANUP_H
#define WORKER_DRY_RUN_CLEANUP_H

#include <sys/types.h>

#include "base/error.h"
#include "worker/config/config.h"

struct cleanup;

struct cleanup_options {
    const char *run;
    const struct config *config; /* its nodes, and lock.prefix of production; NULL = the run has nothing on nodes that
                                    outlive it */
    const char *directory;       /* which need not be there yet; NULL = there will be none */
};

struct cleanup *cleanup_start(const struct cleanup_options *options, struct error *error) MUST_CHECK;
/* It is killed when the coordinator dies. NULL is fine. */
void cleanup_watch(struct cleanup *cleanup, pid_t pid);
/* Returns when it has ended. NULL is fine. */
void cleanup_dismiss(struct cleanup *cleanup);
/* From now on it waits for the end of this process only, and then removes what there is. NULL is fine. */
void cleanup_leave(struct cleanup *cleanup);
/* For tests. */
pid_t cleanup_pid(const struct cleanup *cleanup);

#endif
