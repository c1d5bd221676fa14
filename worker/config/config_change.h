/* Finds the changes between two configurations, and applies the reloadable ones to a running worker, by the table.
 *
 * Reloadable settings exchange their values: the running configuration keeps its address, and the fresh one gets the
 * old values. A list (classes, ...) is exchanged as a whole, only if it changed and all changes are reloadable.
 * The token of http is exchanged if its file is the same. Everything else keeps its address, also a list that did not
 * change: plugins hold pointers to their settings, and periodic tasks to their entries. */
#ifndef WORKER_CONFIG_CHANGE_H
#define WORKER_CONFIG_CHANGE_H

#include "worker/config/config.h"

struct config_change {
    const char *setting; /* "worker.threads", "lock_nodes[2].timeout", "classes" if their number changed */
    const char *before;  /* as written in the file; hides secrets */
    const char *after;
    bool is_reloadable;
};

/* Reports every change from `before` to `after`, in the order of the table; a change is valid during the call. */
void config_changes(const struct config *before, const struct config *after,
                    void (*tell)(void *context, const struct config_change *change), void *context);

/* Exchanges the reloadable settings that differ. A second call undoes it. */
void config_exchange(struct config *running, struct config *fresh);

#endif
