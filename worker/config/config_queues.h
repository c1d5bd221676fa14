/* Private to the configuration: what is said about queues, checked as a whole. The questions about it are in config.h.
 */
#ifndef WORKER_CONFIG_QUEUES_H
#define WORKER_CONFIG_QUEUES_H

#include "worker/config/config.h"

/* Names that cannot be queues and second entries for one are errors; an entry for a queue that is not served, or a
 * weight that nobody looks at, is a warning: files are shared between groups of processes. */
void config_queues_check(const struct config *config, struct findings *findings);

#endif
