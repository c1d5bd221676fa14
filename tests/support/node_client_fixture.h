/* What tests of the blocking questions share. */
#ifndef SUPPORT_NODE_CLIENT_FIXTURE_H
#define SUPPORT_NODE_CLIENT_FIXTURE_H

#include "tests/support/test.h"

#include "base/log.h"
#include "tests/support/one_server.h"
#include "tests/support/queue_probe.h"
#include "tests/support/relay.h"
#include "worker/nodes/node_client.h"

static inline struct config_node node_at(unsigned port)
{
    static char none[] = "", local[] = "127.0.0.1", name[] = "queue";
    return (struct config_node){.name = name,
                                .host = local,
                                .port = port,
                                .unix_path = none,
                                .user = none,
                                .connect_timeout_ns = 5 * NS_PER_S,
                                .call_timeout_ns = NS_PER_S};
}

static inline struct node_client *open_at(const struct config_node *node, int64_t patience_ns)
{
    struct node_client *client = node_client_open(
        &(struct node_client_options){.node = node, .client_name = "test", .patience_ns = patience_ns}, NULL);
    assert_non_null(client);
    return client;
}

static struct relay *relay;

/* A client of the server that has been answered, and will hear nothing more until the relay lets it. */
static inline struct node_client *open_and_deafen(int64_t patience_ns)
{
    static struct config_node node; /* it has to outlive the client */
    relay = relay_start(redis_server_port(server));
    node = node_at(relay_port(relay));
    node.call_timeout_ns = TEST_PATIENCE_NS; /* nothing is repeated because whoever heals the relay is late */
    struct node_client *client = open_at(&node, patience_ns);
    node_client_begin(client);
    node_client_ask(client, "PING", NULL);
    assert_true(node_client_run(client));
    relay_swallow(relay, true);
    return client;
}

static inline int node_client_set_up(void **state)
{
    (void)state;
    log_set_level(LOG_NOTHING);
    redis_server_heal(server);
    return 0;
}

#endif
