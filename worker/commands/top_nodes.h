/* The lock nodes, looked at again and again beside everything else: a thread of its own, because a node that does not
 * answer may take its time.
 *
 *     struct top_nodes *nodes = top_nodes_start(config, NS_PER_S);
 *     unsigned count = top_nodes_copy(nodes, views, reason);          what the last look found
 *     top_nodes_stop(nodes);                                          waits for the end of a look
 *
 * Threads: the thread and its nodes_session are its own; start, copy and stop belong to one other thread. */
#ifndef WORKER_TOP_NODES_H
#define WORKER_TOP_NODES_H

#include <stdint.h>

#include "redlock/redlock_nodes.h"
#include "worker/config/config.h"

struct top_nodes;

enum { TOP_NODES_REASON_MAX = 256 };

/* NULL when there are no lock nodes. `config` outlives it. */
struct top_nodes *top_nodes_start(const struct config *config, int64_t interval_ns);
void top_nodes_stop(struct top_nodes *nodes); /* NULL is fine */
/* Until the first look is over there are none. `reason` is "" unless they cannot be looked at at all. */
unsigned top_nodes_copy(struct top_nodes *nodes, struct redlock_node_view views[REDLOCK_NODES_MAX],
                        char reason[TOP_NODES_REASON_MAX]);
/* Waits for the first look. */
void top_nodes_wait(struct top_nodes *nodes);

#endif
