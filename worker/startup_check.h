/* What the configuration and the plugins have to say about each other: checked by `holdfast check` and before a
 * worker starts. */
#ifndef WORKER_STARTUP_CHECK_H
#define WORKER_STARTUP_CHECK_H

#include "worker/config/config.h"
#include "worker/config/findings.h"
#include "worker/plugin/plugin.h"
#include "worker/task/job_host.h"

/* Leaves out, with a warning each, the classes whose mode is correctness when there are fewer lock nodes than that
 * needs: their tasks count as those of a class that this worker does not serve. Before startup_check. */
void startup_leave_out(const struct config *config, struct plugins *plugins, struct findings *findings);
/* Finds periodic tasks that no worker would run. For `holdfast check`: a worker may serve only some queues. */
void startup_check_periodic(const struct config *config, const struct plugins *plugins, struct findings *findings);
/* Whether the log file can be written, without making it: a worker finds out when it opens the file. */
void startup_check_log(const struct config *config, struct findings *findings);
/* Both of what follows. May block: not on the loop. */
void startup_check(const struct config *config, const struct plugins *plugins, struct findings *findings);
/* Does not block. */
void startup_check_plugins(const struct config *config, const struct plugins *plugins, struct findings *findings);
/* Looks at the program of `on_event`, and returns its variables as surroundings_read does; NULL if there is none. May
 * block. */
char **startup_check_events(const struct config *config, struct findings *findings) MUST_CHECK;
/* What can only be judged when the lock nodes have said how long a key may live there; 0 = not known. */
void startup_check_holds(const struct config *config, const struct plugins *plugins, int64_t max_ttl_ns,
                         struct findings *findings);

/* Opens the plugins whose handlers run in the worker itself. While one takes long, the log names it. */
bool startup_open(struct plugins *plugins, struct job_hosts *hosts, struct config *config,
                  struct error *error) MUST_CHECK;

#endif
