/* What tests of a connection share whose server is of their own kind: they start it, and it ends with the test. */
#ifndef SUPPORT_NODE_SERVER_FIXTURE_H
#define SUPPORT_NODE_SERVER_FIXTURE_H

#include "tests/support/node_fixture.h"
#include "tests/support/redis_server.h"

static struct redis_server *server;

static inline void start_server(const struct redis_server_options *options)
{
    server = redis_server_start(options);
}

static inline struct redis_node_options options_for_server(void)
{
    return node_options_for(server != NULL ? redis_server_port(server) : 1);
}

static inline int node_server_teardown(void **state)
{
    (void)node_teardown(state);
    redis_server_destroy(server);
    server = NULL;
    return 0;
}

#endif
