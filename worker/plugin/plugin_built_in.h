/* Handlers that are part of the program: a set of plugins that were loaded from nowhere. */
#ifndef WORKER_PLUGIN_BUILT_IN_H
#define WORKER_PLUGIN_BUILT_IN_H

#include "worker/plugin/plugin.h"

/* A set of one plugin without handlers, which is open: `state` is what its handlers are given, and stays the caller's.
 * `name` is copied. */
struct plugins *plugins_create_built_in(const char *name, void *state);
/* Adds a copy of the handler, as one of that plugin. What it points to is the caller's, and stays until plugins_close.
 * A class that is there already is not added again: false. Before anybody looks it up. */
bool plugins_add_built_in(struct plugins *plugins, const struct plugin_handler *handler);

#endif
