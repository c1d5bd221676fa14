/* A process that cleans up after a trial that was killed: it waits for its death, and removes what the run has on
 * the nodes and the temporary directory. Workers and private servers need no care: the kernel kills them with that
 * process. After an orderly end it has nothing to do.
 *
 *     pid_t cleanup = cleanup_start(&options, &error);        before there is anything to clean up, threads or a loop
 *     ...
 *     cleanup_dismiss(cleanup);                               after everything was removed; if it was not, just end
 *
 * It is in a session of its own and ignores SIGINT, SIGTERM and SIGHUP. It outlives the trial by some seconds: a
 * minute when nodes do not answer, and up to two hours where walking through all keys takes so long, with a fifth of
 * the nodes' time. Nothing depends on it: what it leaves has a ttl, or the next dry run removes it (name_space.h).
 *
 * One thread. */
#ifndef WORKER_DRY_RUN_CLEANUP_H
#define WORKER_DRY_RUN_CLEANUP_H

#include <sys/types.h>

#include "base/error.h"
#include "worker/config/config.h"

struct cleanup_options {
    const char *run, *host; /* name_space.h */
    unsigned hosts;
    const struct config *config; /* its nodes, and lock.prefix of production; NULL = the run has nothing on nodes that
                                    outlive it */
    const char *directory;       /* which need not be there yet; NULL = there will be none */
};

/* 0 when it cannot be started. */
pid_t cleanup_start(const struct cleanup_options *options, struct error *error) MUST_CHECK;
/* Returns when it has ended. 0, and in a process that did not start it, are fine. */
void cleanup_dismiss(pid_t cleanup);

#endif
