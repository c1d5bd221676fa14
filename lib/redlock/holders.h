/* Private to lib/redlock: who holds a lock, judged from what each node has under its key. Pure.
 *
 * A value counts where the node votes; what a node has that does not vote now, or did not answer, may be known to its
 * holder all the same, so it decides between "held by nobody" and "not known". */
#ifndef REDLOCK_HOLDERS_H
#define REDLOCK_HOLDERS_H

#include "redlock/redlock_nodes.h"

struct key_status {
    bool is_answered, votes;
    const struct redlock_key_view *key;
};

/* Fills `holders`, one entry a value, those on most nodes first; returns how many. */
unsigned holders_judge(const struct key_status *statuses, unsigned count,
                       struct redlock_holder holders[REDLOCK_NODES_MAX]);

#endif
