/* The blocking questions of the commands, where a real server or a real signal is in the way. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdio.h>

#include "tests/support/node_client_fixture.h"
#include "tests/support/relay.h"

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
    struct inquiry *inquiry = open_at(&node, TEST_PATIENCE_NS);
    pthread_t other;
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "CONFIG", "SET", "lua-time-limit", "10", NULL);
    assert_true(inquiry_run(inquiry));
    assert_int_equal(pthread_create(&other, NULL, keep_busy, NULL), 0);
    test_await(is_busy());
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "PING", NULL);
    assert_true(inquiry_run(inquiry));
    assert_true(redis_reply_is_status(inquiry_reply(inquiry, 0), "PONG"));
    pthread_join(other, NULL);
    assert_string_equal(given_busy, "over");
    free(given_busy);
    inquiry_close(inquiry);
}

static struct relay *relay;

static void *interrupt_when_asked(void *ignored)
{
    while (queue_probe_number(server, "EXISTS mark") == 0)
        poll(NULL, 0, 1);
    kill(getpid(), SIGINT);
    return ignored;
}

TEST(a_signal_ends_the_waiting)
{
    relay = relay_start(redis_server_port(server));
    struct config_node node = node_at(relay_port(relay));
    struct inquiry *inquiry = open_at(&node, TEST_PATIENCE_NS);
    pthread_t other;
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "PING", NULL);
    assert_true(inquiry_run(inquiry));
    relay_swallow(relay, true);
    assert_int_equal(pthread_create(&other, NULL, interrupt_when_asked, NULL), 0);
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "SET", "mark", "1", NULL);
    assert_false(inquiry_run(inquiry));
    assert_int_equal(inquiry_ended(inquiry), INQUIRY_INTERRUPTED);
    assert_int_equal(inquiry_complain(inquiry, "test"), EXIT_CODE_FAILURE);
    pthread_join(other, NULL);
    inquiry_close(inquiry);
    relay_destroy(relay);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, inquiry_set_up, NULL)
