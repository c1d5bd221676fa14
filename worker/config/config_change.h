/* What has changed between two configurations, and how a running worker takes over what it can: by the table.
 *
 * A setting that is reloadable is taken by exchanging its value: the running configuration stays where it is, and the
 * fresh one is left with the old values. A list (classes, ...) is taken as a whole, and only when something changed in
 * it and all of that is reloadable. Everything else stays at its address: plugins hold pointers to their settings, and
 * periodic tasks to their entries. */
#ifndef WORKER_CONFIG_CHANGE_H
#define WORKER_CONFIG_CHANGE_H

#include "worker/config/config.h"

struct config_change {
    const char *setting; /* "worker.threads", "lock_nodes[2].timeout", "classes" when their number changed */
    const char *before;  /* as it is written in the file; secrets are not shown */
    const char *after;
    bool is_reloadable;
};

/* Tells every change from `before` to `after`, in the order of the table; the change is lent. */
void config_changes(const struct config *before, const struct config *after,
                    void (*tell)(void *context, const struct config_change *change), void *context);

/* Exchanges what is reloadable and differs. Doing it again takes it back. */
void config_exchange(struct config *running, struct config *fresh);

#endif
