/* Private to lib/redlock: who holds a lock, judged from what each node has under its key. Pure.
 *
 * A value counts where the node votes. Nodes that do not vote now, or did not answer, decide between "nobody holds it"
 * and "not known": the holder may count them. */
#ifndef REDLOCK_HOLDERS_H
#define REDLOCK_HOLDERS_H

#include "redlock/redlock_nodes.h"

struct key_status {
    bool votes;
    const struct redlock_key_view *key;
};

/* Fills one entry per value and reader, the one on most nodes first; returns how many. */
unsigned holders_judge(const struct key_status *statuses, unsigned count,
                       struct redlock_holder holders[REDLOCK_HOLDERS_MAX]);

#endif
