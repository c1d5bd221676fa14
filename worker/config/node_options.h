/* A node of the configuration as the libraries want it. The texts stay those of the configuration. */
#ifndef WORKER_NODE_OPTIONS_H
#define WORKER_NODE_OPTIONS_H

#include "redis/node.h"
#include "redlock/redlock.h"
#include "worker/config/config.h"

struct redis_node_options node_options(const struct config_node *node, const char *client_name);
struct redlock_node node_for_locks(const struct config_node *node);

#endif
