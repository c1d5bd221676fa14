/* Reading what a plugin says about itself: the structs of jobs/job.h in the version that it was built with. */
#ifndef WORKER_PLUGIN_DESCRIPTOR_H
#define WORKER_PLUGIN_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/job.h"
#include "worker/config/findings.h"

/* False when it is refused; then the reason is among the findings. The texts stay the plugin's. `path` is for messages
 * only. Pure. */
bool plugin_descriptor_read(const hf_plugin *found, const char *path, hf_plugin *descriptor, struct findings *findings);
/* The same of its handler number `index`. `*handler` is zeroed before. */
bool plugin_handler_read(const hf_handler *found, const char *path, size_t index, hf_handler *handler,
                         struct findings *findings);

#endif
