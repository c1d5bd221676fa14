/* What tests of heartbeats, calls and iterations share: for each test a loop, a relay before the server, and one
 * connection through the relay with the scripts of the queue layer. Its state is in the header, because a test program
 * is one file. */
#ifndef SUPPORT_PRESENCE_FIXTURE_H
#define SUPPORT_PRESENCE_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "queue/keys.h"
#include "queue/scripts.h"
#include "redis/node.h"
#include "tests/support/loop_until.h"
#include "tests/support/one_server.h"
#include "tests/support/queue_probe.h"
#include "tests/support/relay.h"

#define IDENTITY "hostc:4242:abcdef012345"

static struct loop *loop;
static struct relay *relay;
static struct redis_node *node;
static struct queue_keys keys;

static inline struct redis_node_options relay_options(void)
{
    return (struct redis_node_options){.name = "queue",
                                       .host = "127.0.0.1",
                                       .port = relay_port(relay),
                                       .backoff_min_ns = 2 * NS_PER_MS,
                                       .backoff_max_ns = 20 * NS_PER_MS,
                                       .scripts = queue_scripts,
                                       .script_count = QUEUE_SCRIPT_COUNT};
}

static inline bool node_is_up(void *context)
{
    (void)context;
    return redis_node_state(node) == REDIS_NODE_UP;
}

static inline void node_wait_up(void)
{
    assert_true(loop_until(loop, node_is_up, NULL, TEST_PATIENCE_NS));
}

static inline void presence_setup(void)
{
    redis_server_heal(server);
    loop = loop_create(NULL);
    assert_non_null(loop);
    relay = relay_start(redis_server_port(server));
    queue_keys_init(&keys, "", IDENTITY);
    struct redis_node_options options = relay_options();
    node = redis_node_create(loop, &options);
    node_wait_up();
}

static inline void presence_teardown(void)
{
    redis_node_destroy(node);
    queue_keys_fini(&keys);
    relay_destroy(relay);
    loop_destroy(loop);
}

/* --- what is on the server ------------------------------------------------------------------------------------- */

struct expectation {
    const char *command, *reply;
};

static inline bool reply_is(void *context)
{
    const struct expectation *expected = context;
    char *reply = redis_server_command(server, "%s", expected->command);
    bool same = strcmp(reply, expected->reply) == 0;
    free(reply);
    return same;
}

/* Runs the loop until the command's reply is this. */
static inline void wait_reply(const char *reply, const char *command)
{
    struct expectation expected = {command, reply};
    if (!loop_until(loop, reply_is, &expected, TEST_PATIENCE_NS))
        assert_reply(server, reply, "%s", command);
}

static inline void assert_between(long long low, long long high, const char *command)
{
    long long value = queue_probe_number(server, command);
    if (value < low || value > high)
        fail_msg("%s is %lld and not from %lld to %lld", command, value, low, high);
}

#endif
