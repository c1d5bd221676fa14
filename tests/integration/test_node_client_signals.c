/* The blocking questions of the commands, where a real server or a real signal is in the way. */
#include "tests/support/test.h"

#include <pthread.h>

#include "tests/support/node_client_fixture.h"

static char *given_busy; /* what the long script answered */

static void *keep_busy(void *ignored)
{
    given_busy = redis_server_command(server, "EVAL \"local n = 0 while n < 1e8 do n = n + 1 end return 'over'\" 0");
    return ignored;
}

static bool is_busy(void)
{
    char *reply = redis_server_command(server, "PING");
    bool busy = strncmp(reply, "-BUSY", 5) == 0;
    free(reply);
    return busy;
}

TEST(a_node_that_is_busy_is_asked_again)
{
    struct config_node node = node_at(redis_server_port(server));
    struct node_client *client = open_at(&node, TEST_PATIENCE_NS);
    pthread_t other;
    node_client_begin(client);
    node_client_ask(client, "CONFIG", "SET", "lua-time-limit", "10", NULL);
    assert_true(node_client_run(client));
    assert_int_equal(pthread_create(&other, NULL, keep_busy, NULL), 0);
    test_await(is_busy());
    node_client_begin(client);
    node_client_ask(client, "PING", NULL);
    assert_true(node_client_run(client));
    assert_true(redis_reply_is_status(node_client_reply(client, 0), "PONG"));
    pthread_join(other, NULL);
    assert_string_equal(given_busy, "over");
    free(given_busy);
    node_client_close(client);
}

static void *interrupt_when_asked(void *ignored)
{
    while (queue_probe_number(server, "EXISTS mark") == 0)
        poll(NULL, 0, 1);
    kill(getpid(), SIGINT);
    return ignored;
}

TEST(a_signal_ends_the_waiting)
{
    struct node_client *client = open_and_deafen(TEST_PATIENCE_NS);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, interrupt_when_asked, NULL), 0);
    node_client_begin(client);
    node_client_ask(client, "SET", "mark", "1", NULL);
    assert_false(node_client_run(client));
    assert_int_equal(node_client_ended(client), NODE_CLIENT_INTERRUPTED);
    assert_int_equal(node_client_complain(client, "test"), EXIT_CODE_FAILURE);
    pthread_join(other, NULL);
    node_client_close(client);
    relay_destroy(relay);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, node_client_set_up, NULL)
