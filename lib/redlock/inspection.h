/* Private to lib/redlock: the driver of trust.c. Every node is inspected when its connection is up, whenever a script
 * says that its marker is another one, and every few seconds while the group lives: a clock that steps, a policy that
 * begins to evict and a marker that is healed by somebody else are seen by that, and nothing of it grows with the
 * locks. While anything is held, every node is heard about once a second, so that our own clock is known. All on the
 * loop. */
#ifndef REDLOCK_INSPECTION_H
#define REDLOCK_INSPECTION_H

#include "redlock/group.h"

void inspections_init(struct redlock_group *group);
void inspections_end(struct redlock_group *group);

void inspection_node_up(struct group_node *node);
void inspection_node_down(struct group_node *node);
/* A script said that the marker is not the one that we know. */
void inspection_doubts(struct group_node *node);
/* A script told the time of the node. */
void inspection_sampled(struct group_node *node, struct instant asked, struct instant answered, int64_t node_us);
/* The connected nodes were inspected, or refused to be. */
bool inspections_are_settled(const struct redlock_group *group);

#endif
