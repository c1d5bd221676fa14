/* Private to the configuration: the nodes, their keys and what is checked about them as a whole. */
#ifndef WORKER_CONFIG_NODE_H
#define WORKER_CONFIG_NODE_H

#include "worker/config/config.h"
#include "worker/config/config_table.h"

extern const struct config_key config_queue_node_keys[], config_lock_node_keys[]; /* end with name == NULL */

/* Checks the queue node and all lock nodes, and reads their passwords. */
void config_nodes_check(struct config *config, struct findings *findings);
/* Overwrites and frees what was read. */
void config_nodes_forget(struct config *config);

#endif
