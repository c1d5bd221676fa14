/* Private to lib/redlock: how a lock node that a caller describes is connected to, by the group and by the operator's
 * session alike. */
#ifndef REDLOCK_NODE_OPTIONS_H
#define REDLOCK_NODE_OPTIONS_H

#include "redis/node.h"
#include "redlock/redlock.h"

enum { NODE_NAME_SIZE = 128 };

#define NODE_CONNECT_TIMEOUT_NS (1 * NS_PER_S)

/* What logs call it: its name, or where it is. */
void node_name_write(const struct redlock_node *wanted, char name[NODE_NAME_SIZE]);
/* Everything but callbacks and limits; points into its arguments, and into `name`. */
struct redis_node_options node_options_of(const struct redlock_node *wanted, const struct redlock_options *options,
                                          const char *name);

#endif
