/* How the nodes of a group stand, counted: for a caller that decides whether to go on. On the loop. */
#include "redlock/group.h"

void redlock_group_standing(const struct redlock_group *group, struct redlock_standing *standing)
{
    if (standing != NULL)
        *standing = (struct redlock_standing){0};
    if (group == NULL || standing == NULL)
        return;
    *standing = (struct redlock_standing){
        .nodes = group->node_count,
        .up = redlock_group_nodes_up(group),
        .voters = redlock_group_voters(group),
        .max_ttl_ns = trust_max_ttl_ns(&group->trust),
    };
    for (unsigned i = 0; group->node_count > 1 && i < group->node_count; i++) {
        const struct trust_node *node = &group->trust.node[i];
        standing->blank += node->seen && !node->has_marker && node->known_id[0] == '\0';
    }
}
