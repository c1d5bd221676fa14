/* The blocking questions of the commands: answers that can be kept, lost replies, and nodes that do not answer. */
#include "tests/support/test.h"

#include <pthread.h>
#include <unistd.h>

#include "base/memory.h"
#include "tests/support/node_client_fixture.h"
#include "tests/support/private_directory.h"

TEST(a_pipeline_is_answered_in_order_and_errors_are_answers)
{
    struct config_node node = node_at(redis_server_port(server));
    struct node_client *client = open_at(&node, 0);
    node_client_begin(client);
    assert_int_equal(node_client_ask(client, "RPUSH", "list", "one", "two words", NULL), 0);
    assert_int_equal(node_client_ask(client, "GET", "list", NULL), 1);
    assert_int_equal(node_client_ask(client, "LRANGE", "list", "0", "-1", NULL), 2);
    struct buffer *request = node_client_compose(client);
    redis_request_begin(request, 2);
    redis_request_text(request, "ECHO");
    redis_request_bytes(request, "a\0b", 3);
    assert_int_equal(node_client_ask(client, "EVAL", "return {1, {'x', {}}, false, 'y'}", "0", NULL), 4);
    assert_true(node_client_run(client));
    assert_int_equal(node_client_integer(client, 0, -1), 2);
    assert_int_equal(node_client_integer(client, 1, -7), -7);
    assert_contains(node_client_reply_of(client, 1, REDIS_FAILURE)->bytes, "WRONGTYPE");
    assert_int_equal(node_client_complain_reply(client, 1, "test"), EXIT_CODE_FAILURE);
    assert_null(node_client_reply_of(client, 1, REDIS_STRING));
    assert_memory_equal(node_client_reply(client, 3)->bytes, "a\0b", 4);

    struct redis_reply *list = node_client_take(client, 2), *nested = node_client_take(client, 4);
    assert_int_equal(node_client_reply(client, 2)->kind, REDIS_NIL);
    node_client_close(client);
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

TEST(one_node_client_runs_many_pipelines)
{
    struct config_node node = node_at(redis_server_port(server));
    struct node_client *client = open_at(&node, 0);
    for (int i = 1; i <= 20; i++) {
        node_client_begin(client);
        for (int j = 0; j < 50; j++)
            node_client_ask(client, "INCR", "counter", NULL);
        assert_true(node_client_run(client));
        assert_int_equal(node_client_integer(client, 49, 0), i * 50);
    }
    node_client_begin(client);
    assert_true(node_client_run(client)); /* nothing asked, nothing waited for */
    assert_true(node_client_pause(client, NS_PER_MS));
    node_client_close(client);
}

TEST(a_node_that_is_not_there_is_told_at_once)
{
    struct config_node node = node_at(free_port());
    struct node_client *client = open_at(&node, 20 * NS_PER_S);
    struct instant start = instant_now();
    node_client_begin(client);
    node_client_ask(client, "PING", NULL);
    assert_false(node_client_run(client));
    assert_true(instant_since(start, instant_now()) < 15 * NS_PER_S);
    assert_int_equal(node_client_ended(client), NODE_CLIENT_UNREACHABLE);
    assert_int_equal(node_client_complain(client, "test"), EXIT_CODE_TEMPORARY);
    node_client_close(client);
}

TEST(a_wrong_password_is_no_passing_trouble)
{
    char somebody[] = "somebody", wrong[] = "wrong";
    struct config_node node = node_at(redis_server_port(server));
    node.user = somebody;
    node.password = wrong;
    struct node_client *client = open_at(&node, 0);
    free(redis_server_command(server, "ACL SETUSER somebody on >right"));
    node_client_begin(client);
    node_client_ask(client, "PING", NULL);
    assert_false(node_client_run(client));
    assert_int_equal(node_client_ended(client), NODE_CLIENT_REFUSED);
    assert_int_equal(node_client_complain(client, "test"), EXIT_CODE_FAILURE);
    node_client_close(client);
}

/* Its password may be about to be replaced in its file, and then the client goes on. */
TEST(a_node_that_has_let_us_in_is_asked_again)
{
    char somebody[] = "somebody", path[PRIVATE_DIRECTORY_MAX];
    int file = private_file_create(path);
    struct config_node node = node_at(redis_server_port(server));
    node.user = somebody;
    node.password_file = path;
    assert_int_equal(pwrite(file, "one\n", 4, 0), 4);
    free(redis_server_command(server, "ACL SETUSER somebody on >one ~* &* +@all"));
    struct node_client *client = open_at(&node, 2 * NS_PER_S);
    node_client_begin(client);
    node_client_ask(client, "PING", NULL);
    assert_true(node_client_run(client));

    free(redis_server_command(server, "ACL DELUSER somebody"));
    free(redis_server_command(server, "ACL SETUSER somebody on >two ~* &* +@all"));
    struct instant start = instant_now();
    node_client_begin(client);
    node_client_ask(client, "PING", NULL);
    assert_false(node_client_run(client));
    assert_true(instant_since(start, instant_now()) >= 2 * NS_PER_S);
    assert_int_equal(node_client_ended(client), NODE_CLIENT_REFUSED);
    assert_contains(node_client_reason(client), "WRONGPASS");
    assert_int_equal(pwrite(file, "two\n", 4, 0), 4);
    assert_true(node_client_run(client));
    node_client_close(client);
    close(file);
    unlink(path);
}

/* --- trouble ---------------------------------------------------------------------------------------------------- */

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
    struct node_client *client = open_and_deafen(TEST_PATIENCE_NS);
    pthread_t healer;
    assert_int_equal(pthread_create(&healer, NULL, heal_when_asked, NULL), 0);
    node_client_begin(client);
    node_client_ask(client, "SET", "mark", "1", NULL);
    node_client_ask(client, "INCR", "times", NULL);
    assert_true(node_client_run(client));
    assert_int_equal(node_client_integer(client, 1, 0), 2); /* sent twice, as promised */
    pthread_join(healer, NULL);
    node_client_close(client);
    relay_destroy(relay);
}

TEST(patience_ends_and_what_was_sent_is_unknown)
{
    struct node_client *client = open_and_deafen(10 * NS_PER_S);
    node_client_begin(client);
    node_client_ask(client, "SET", "mark", "1", NULL);
    assert_false(node_client_run(client));
    assert_int_equal(node_client_ended(client), NODE_CLIENT_UNKNOWN);
    assert_int_equal(node_client_complain(client, "test"), EXIT_CODE_TEMPORARY);
    node_client_close(client);
    relay_destroy(relay);
}

/* A server closes a connection for which too much waits. */
static void large_answers(size_t count, size_t size)
{
    char *text = memory_zeroed(size + 1, 1);
    memset(text, 'x', size);
    for (size_t i = 0; i < count; i++)
        free(redis_server_command(server, "RPUSH large %s", text));
    free(text);
    free(redis_server_command(server, "CONFIG SET client-output-buffer-limit 'normal 100000 0 0'"));
}

TEST(answers_that_are_too_large_together_come_one_after_the_other)
{
    enum { COUNT = 20 };
    struct config_node node = node_at(redis_server_port(server));
    struct node_client *client = open_at(&node, TEST_PATIENCE_NS);
    large_answers(COUNT, 60000);
    node_client_begin(client);
    for (int i = 0; i < COUNT; i++)
        node_client_ask(client, "LRANGE", "large", "0", "0", NULL);
    assert_true(node_client_run(client));
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(node_client_reply(client, i)->elements[0].length, 60000);
    free(redis_server_command(server, "CONFIG SET client-output-buffer-limit 'normal 0 0 0'"));
    node_client_close(client);
}

TEST(who_may_ask_for_less_learns_of_a_cut_answer_at_once)
{
    struct config_node node = node_at(redis_server_port(server));
    struct node_client *client = open_at(&node, 3 * NS_PER_S);
    large_answers(3, 60000);
    node_client_begin(client);
    node_client_ask(client, "LRANGE", "large", "0", "-1", NULL);
    node_client_may_divide(client, true);
    assert_false(node_client_run(client));
    assert_int_equal(node_client_ended(client), NODE_CLIENT_CUT);
    node_client_may_divide(client, false);
    assert_false(node_client_run(client));
    assert_int_equal(node_client_ended(client), NODE_CLIENT_UNKNOWN);
    free(redis_server_command(server, "CONFIG SET client-output-buffer-limit 'normal 0 0 0'"));
    node_client_close(client);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, node_client_set_up, NULL)
