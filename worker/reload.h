/* Reading the configuration again while the worker runs.
 *
 * A thread of its own reads the files (nothing in the loop may block, and files may lie anywhere) and posts the result
 * to the loop. There it is judged: when anything in it is wrong, every error is logged with file and line and nothing
 * changes. Else what is reloadable is taken over, and each other setting that changed is named with its old and new
 * value, as one that takes effect after a restart.
 *
 * Ownership: the running configuration stays the same object from the start, so pointers into it (of plugins to their
 * settings, of nodes) stay valid. Only values of reloadable settings change, on the loop
 * thread, and only the loop thread reads those. A task may keep pointers to them as long as its slot has it: the old
 * values are freed when every task that was claimed under them has left its slot. The fresh configuration belongs to
 * the thread until it is posted, then to the loop.
 *
 * Plugins and programs belong to it, and what is wrong with one refuses the whole. The thread does all that may block:
 * it looks at the files, has those that changed vetted in a child, loads them beside what is there, judges them
 * together with the fresh configuration, and opens what will run in threads. The loop then takes the result at one
 * instant: a task that was claimed before goes on with the handler that it has, one that is claimed later has the new
 * one. Nothing is unloaded (plugin.h). Processes of a plugin that is gone end when they are idle.
 *
 * A request that comes while the thread reads is done after it. Loop thread. */
#ifndef WORKER_RELOAD_H
#define WORKER_RELOAD_H

#include <stdbool.h>

struct plugins;
struct reload;
struct worker;

struct reload *reload_create(struct worker *worker);
void worker_reload(struct worker *worker, const char *reason);
/* Whether the thread is at it. A worker that leaves waits for that as long as the loop runs, and takes nothing of what
 * was read. */
bool reload_is_reading(const struct reload *reload);
/* After the loop has run. False when the thread hangs in reading: then nothing may be freed, the process can only
 * end. */
bool reload_end(struct reload *reload);
/* After that. */
void reload_destroy(struct reload *reload);

/* A line in the log about each plugin that was loaded after the generation `after`. */
void plugins_tell(const struct plugins *plugins, unsigned after);

#endif
