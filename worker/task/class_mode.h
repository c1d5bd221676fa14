/* What the tasks of a class need their locks for: its mode. The one place that answers it, from what the configuration
 * says of the class (`mode`, or `lock = "none"`), else from what its handler says, else from what its locks can
 * promise: correctness when they have tokens from at least three lock nodes, efficiency otherwise.
 *
 * Pure; any thread. */
#ifndef WORKER_CLASS_MODE_H
#define WORKER_CLASS_MODE_H

#include <stdbool.h>

#include "worker/config/config.h"
#include "worker/plugin/plugin.h"

/* Fewer are no Redlock: a lock there is gone when one node is. */
enum { CLASS_MODE_NODES_LEAST = 3 };

/* `entry` is what the configuration says of the class that the handler serves; NULL = nothing. Never
 * CONFIG_MODE_BY_HANDLER. */
enum config_mode class_mode_of(const struct config *config, const struct config_class *entry,
                               const struct plugin_handler *handler);
/* Whether tasks of a class of this mode are buried when they have nothing to lock; never in CONFIG_MODE_NONE. */
bool class_mode_must_lock(enum config_mode mode, const struct config_class *entry,
                          const struct plugin_handler *handler);
/* How long the lock of a task that went well stays; 0 in all but CONFIG_MODE_EFFICIENCY. */
int64_t class_mode_hold_at_least_ns(enum config_mode mode, const struct config_class *entry,
                                    const struct plugin_handler *handler);
/* Whether its locks have fencing tokens. */
bool class_mode_is_fenced(const struct config *config, const struct config_class *entry);
const char *class_mode_name(enum config_mode mode); /* "correctness", ... */

#endif
