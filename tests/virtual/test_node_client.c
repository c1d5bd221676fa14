/* The blocking questions of the commands: answers that can be kept, lost replies, and nodes that do not answer. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdio.h>

#include "base/memory.h"
#include "tests/support/node_client_fixture.h"
#include "tests/support/relay.h"

TEST(a_pipeline_is_answered_in_order_and_errors_are_answers)
{
    struct config_node node = node_at(redis_server_port(server));
    struct inquiry *inquiry = open_at(&node, 0);
    inquiry_begin(inquiry);
    assert_int_equal(inquiry_ask(inquiry, "RPUSH", "list", "one", "two words", NULL), 0);
    assert_int_equal(inquiry_ask(inquiry, "GET", "list", NULL), 1);
    assert_int_equal(inquiry_ask(inquiry, "LRANGE", "list", "0", "-1", NULL), 2);
    struct buffer *request = inquiry_compose(inquiry);
    redis_request_begin(request, 2);
    redis_request_text(request, "ECHO");
    redis_request_bytes(request, "a\0b", 3);
    assert_int_equal(inquiry_ask(inquiry, "EVAL", "return {1, {'x', {}}, false, 'y'}", "0", NULL), 4);
    assert_true(inquiry_run(inquiry));
    assert_int_equal(inquiry_integer(inquiry, 0, -1), 2);
    assert_int_equal(inquiry_integer(inquiry, 1, -7), -7);
    assert_contains(inquiry_reply_of(inquiry, 1, REDIS_FAILURE)->bytes, "WRONGTYPE");
    assert_int_equal(inquiry_complain_reply(inquiry, 1, "test"), EXIT_CODE_FAILURE);
    assert_null(inquiry_reply_of(inquiry, 1, REDIS_STRING));
    assert_memory_equal(inquiry_reply(inquiry, 3)->bytes, "a\0b", 4);

    struct redis_reply *list = inquiry_take(inquiry, 2), *nested = inquiry_take(inquiry, 4);
    assert_int_equal(inquiry_reply(inquiry, 2)->kind, REDIS_NIL);
    inquiry_close(inquiry);
    assert_int_equal(list->count, 2);
    assert_string_equal(list->elements[1].bytes, "two words");
    assert_int_equal(nested->count, 4);
    assert_string_equal(nested->elements[1].elements[0].bytes, "x");
    assert_int_equal(nested->elements[1].elements[1].count, 0);
    assert_int_equal(nested->elements[2].kind, REDIS_NIL);
    assert_string_equal(nested->elements[3].bytes, "y");
    free(list);
    free(nested);
}

TEST(one_inquiry_runs_many_pipelines)
{
    struct config_node node = node_at(redis_server_port(server));
    struct inquiry *inquiry = open_at(&node, 0);
    for (int i = 1; i <= 20; i++) {
        inquiry_begin(inquiry);
        for (int j = 0; j < 50; j++)
            inquiry_ask(inquiry, "INCR", "counter", NULL);
        assert_true(inquiry_run(inquiry));
        assert_int_equal(inquiry_integer(inquiry, 49, 0), i * 50);
    }
    inquiry_begin(inquiry);
    assert_true(inquiry_run(inquiry)); /* nothing asked, nothing waited for */
    assert_true(inquiry_pause(inquiry, NS_PER_MS));
    inquiry_close(inquiry);
}

TEST(a_node_that_is_not_there_is_told_at_once)
{
    struct config_node node = node_at(free_port());
    struct inquiry *inquiry = open_at(&node, 20 * NS_PER_S);
    struct instant start = instant_now();
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "PING", NULL);
    assert_false(inquiry_run(inquiry));
    assert_true(instant_since(start, instant_now()) < 15 * NS_PER_S);
    assert_int_equal(inquiry_ended(inquiry), INQUIRY_UNREACHABLE);
    assert_int_equal(inquiry_complain(inquiry, "test"), EXIT_CODE_TEMPORARY);
    inquiry_close(inquiry);
}

TEST(a_wrong_password_is_no_passing_trouble)
{
    char somebody[] = "somebody", wrong[] = "wrong";
    struct config_node node = node_at(redis_server_port(server));
    node.user = somebody;
    node.password = wrong;
    struct inquiry *inquiry = open_at(&node, 0);
    free(redis_server_command(server, "ACL SETUSER somebody on >right"));
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "PING", NULL);
    assert_false(inquiry_run(inquiry));
    assert_int_equal(inquiry_ended(inquiry), INQUIRY_REFUSED);
    assert_int_equal(inquiry_complain(inquiry, "test"), EXIT_CODE_FAILURE);
    inquiry_close(inquiry);
}

/* --- trouble ---------------------------------------------------------------------------------------------------- */

static struct relay *relay;

static void *heal_when_asked(void *ignored)
{
    while (queue_probe_number(server, "EXISTS mark") == 0)
        poll(NULL, 0, 1);
    relay_cut(relay);
    relay_swallow(relay, false);
    return ignored;
}

TEST(a_lost_reply_is_asked_for_again)
{
    relay = relay_start(redis_server_port(server));
    struct config_node node = node_at(relay_port(relay));
    struct inquiry *inquiry = open_at(&node, 0);
    pthread_t healer;
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "PING", NULL);
    assert_true(inquiry_run(inquiry));
    relay_swallow(relay, true);
    assert_int_equal(pthread_create(&healer, NULL, heal_when_asked, NULL), 0);
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "SET", "mark", "1", NULL);
    inquiry_ask(inquiry, "INCR", "times", NULL);
    assert_true(inquiry_run(inquiry));
    assert_int_equal(inquiry_integer(inquiry, 1, 0), 2); /* sent twice, as promised */
    pthread_join(healer, NULL);
    inquiry_close(inquiry);
    relay_destroy(relay);
}

TEST(patience_ends_and_what_was_sent_is_unknown)
{
    relay = relay_start(redis_server_port(server));
    struct config_node node = node_at(relay_port(relay));
    struct inquiry *inquiry = open_at(&node, NS_PER_S / 2);
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "PING", NULL);
    assert_true(inquiry_run(inquiry));
    relay_swallow(relay, true);
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "SET", "mark", "1", NULL);
    assert_false(inquiry_run(inquiry));
    assert_int_equal(inquiry_ended(inquiry), INQUIRY_UNKNOWN);
    assert_int_equal(inquiry_complain(inquiry, "test"), EXIT_CODE_TEMPORARY);
    inquiry_close(inquiry);
    relay_destroy(relay);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, inquiry_set_up, NULL)
