/* Private to lib/redlock: the driver of trust.c. Every node is inspected when its connection is up, when a script meets
 * another marker there, and every few seconds: that shows a clock that steps, a policy that begins to evict, and a
 * marker that another client healed, at a cost that does not grow with the locks. While anything is held, every node
 * answers about once a second, so that a stop of our own clock shows. All on the loop. */
#ifndef REDLOCK_INSPECTION_H
#define REDLOCK_INSPECTION_H

#include "redlock/group_private.h"

void inspections_init(struct redlock_group *group);
/* Asks the node, unless an inspection is under way. */
void inspection_ask(struct group_node *node);
void inspection_node_down(struct group_node *node);
/* A script met a marker other than the one that we know. */
void inspection_doubts(struct group_node *node);
/* A script read the node's clock. */
void inspection_sampled(struct group_node *node, struct instant asked, struct instant answered, int64_t node_us);
/* Every node was tried, and those that are connected have answered an inspection. */
bool inspections_are_settled(const struct redlock_group *group);

#endif
