/* Converts nodes and locks of the configuration to options of the libraries. The texts still belong to the
 * configuration. */
#ifndef WORKER_NODE_OPTIONS_H
#define WORKER_NODE_OPTIONS_H

#include "base/error.h"
#include "redis/address.h"
#include "redis/node.h"
#include "redlock/redlock.h"
#include "redlock/redlock_loop.h"
#include "worker/config/config.h"

/* A host with a scheme (redis/address.h) is taken apart: it becomes host, port, user, database and tls. False with a
 * reason if it is wrong, contradicts these, or has a password. */
bool node_host_take(struct config_node *node, struct error *error) MUST_CHECK;
/* The same with any address; the user and the password move. */
void node_address_take(struct config_node *node, struct redis_address *address);
/* False, with what is wrong, unless the settings go together and the files for TLS can be used as they are now. Sets
 * `tls` if a sentinel's address asks for it. */
bool node_options_check(struct config_node *node, struct error *error) MUST_CHECK;
struct redis_node_options node_options(const struct config_node *node, const char *client_name);

/* The options of the group. Fills `nodes`, which must live as long as the options, like the configuration. */
struct redlock_options lock_setup_options(const struct config *config, const char *identity,
                                          struct redlock_node nodes[REDLOCK_NODES_MAX]);
/* The terms of new locks; false, without changing `terms`, if they do not fit the nodes. */
bool lock_setup_terms(const struct config *config, struct redlock_terms *terms, struct error *error) MUST_CHECK;
/* How long verify() of a handler waits for an answer. */
int64_t lock_setup_verify_patience_ns(const struct config *config);

#endif
