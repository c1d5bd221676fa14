/* Loading plugins again while the worker runs, as a part of reading its configuration again (reload.h).
 *
 * The thread that reads does all that may block: it looks at the files, has those that changed vetted in a child, loads
 * them beside what is there, judges them together with the fresh configuration, and opens what will run in threads. The
 * loop then takes the result at one instant: a task that was claimed before goes on with the handler that it has, one
 * that is claimed later has the new one. Nothing is unloaded (plugin.h). Processes of a plugin that is gone end when
 * they are idle. */
#ifndef WORKER_PLUGIN_RELOAD_H
#define WORKER_PLUGIN_RELOAD_H

#include "worker/worker.h"

struct worker;

/* What there would be to run tasks with the fresh configuration; what is wrong is among the findings. To be given to
 * plugin_reload_take or plugins_keep. Any thread. */
struct plugins *plugin_reload_read(const struct worker_options *options, const struct config *fresh,
                                   struct findings *findings);
/* Loop thread. */
void plugin_reload_take(struct worker *worker, struct plugins *fresh);
/* A line about each plugin that was loaded after the generation `after`. */
void plugins_tell(const struct plugins *plugins, unsigned after);

#endif
