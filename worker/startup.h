/* What the configuration and the plugins have to say about each other: checked by `holdfast check` and before a
 * worker starts. */
#ifndef WORKER_STARTUP_H
#define WORKER_STARTUP_H

#include "worker/config/config.h"
#include "worker/config/findings.h"
#include "worker/plugin/plugin.h"

/* How tasks of this handler are locked; never CONFIG_LOCK_BY_HANDLER. */
enum config_lock_mode startup_lock_mode(const struct config *config, const struct plugin_handler *handler);

/* Periodic tasks that nobody would run: for `holdfast check`, as a worker may be told to serve some queues only. */
void startup_check_periodic(const struct config *config, const struct plugins *plugins, struct findings *findings);
void startup_check(const struct config *config, const struct plugins *plugins, struct findings *findings);

#endif
