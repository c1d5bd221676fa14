/* What a server answers about itself, that tests rely on: in the world and, with REAL=1, at real servers. */
#include "tests/support/test.h"

#include <string.h>

#include "tests/support/loop_until.h"
#include "tests/support/one_server.h"
#include "tests/support/queue_probe.h"

static int set_up(void **state)
{
    (void)state;
    redis_server_heal(server);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(redis_server_command(server, "ACL SETUSER default on nopass +@all allchannels"));
    return 0;
}

/* Of errors as much as all kinds of servers say. */
static void assert_answer(const char *expected, const char *command)
{
    char *answer = redis_server_command(server, "%s", command);
    if (strncmp(answer, expected, expected[0] == '-' ? strlen(expected) : strlen(answer) + 1) != 0)
        fail_msg("%s: %s, not %s", command, answer, expected);
    free(answer);
}

TEST(a_user_may_not_run_what_it_is_denied)
{
    assert_answer("OK", "ACL SETUSER default -lmove");
    assert_answer("-NOPERM ", "LMOVE a b LEFT LEFT");
    assert_answer("-ERR wrong number", "LMOVE");
    assert_answer("-ERR ", "EVAL \"return redis.call('LMOVE', 'a', 'b', 'LEFT', 'LEFT')\" 0");
    assert_answer("1", "EVAL \"return redis.call('LPUSH', 'a', 'x')\" 0");
    assert_answer("OK", "ACL SETUSER default +lmove");
    assert_answer("x", "LMOVE a b LEFT LEFT");
    assert_answer("-ERR Error in ACL SETUSER", "ACL SETUSER default -nonsense");
    assert_answer("-ERR Error in ACL SETUSER", "ACL SETUSER default bogus");
    assert_answer("-ERR unknown subcommand", "ACL BOGUS");
}

TEST(a_user_without_channels_may_not_use_them)
{
    assert_answer("OK", "ACL SETUSER default resetchannels");
    assert_answer("-NOPERM ", "SUBSCRIBE c");
    assert_answer("-NOPERM ", "PUBLISH c x");
    assert_answer("-ERR ", "EVAL \"return redis.call('PUBLISH', 'c', 'x')\" 0");
    assert_answer("OK", "ACL SETUSER default allchannels");
    assert_answer("0", "PUBLISH c x");
}

TEST(users_have_names_and_passwords)
{
    assert_answer("default", "ACL WHOAMI");
    assert_answer("OK", "ACL SETUSER narrow on >secret ~* +ping +auth");
    assert_answer("OK", "AUTH narrow secret");
    assert_answer("-WRONGPASS ", "AUTH narrow wrong");
    assert_answer("-WRONGPASS ", "AUTH nobody secret");
    assert_answer("OK", "ACL SETUSER narrow off");
    assert_answer("-WRONGPASS ", "AUTH narrow secret");
    assert_answer("1", "ACL DELUSER narrow nobody");
    assert_answer("-ERR ", "ACL DELUSER default");
    assert_answer("-ERR AUTH ", "AUTH secret");
}

TEST(a_restart_keeps_what_was_saved)
{
    assert_answer("OK", "SET saved 1");
    assert_answer("OK", "SAVE");
    assert_answer("OK", "SET lost 1");
    redis_server_restart(server);
    assert_answer("1", "EXISTS saved lost");
    assert_answer("1", "GET saved");
}

static bool is_waiting(void *context)
{
    (void)context;
    return redis_server_info(server, "clients", "blocked_clients:") == 1;
}

/* What waits is counted when it begins to, and not again. */
TEST(a_command_that_waits_counts_once)
{
    struct loop *loop = loop_create(NULL);
    static struct queue_probe probe;
    queue_probe_start(&probe, loop, redis_server_port(server), "a", NULL);
    queue_probe_wait_up(&probe);
    unsigned calls = redis_server_calls(server, "blmove");
    queue_listen(probe.queue, true);
    assert_true(loop_until(loop, is_waiting, NULL, TEST_PATIENCE_NS));
    assert_int_equal(redis_server_calls(server, "blmove"), calls + 1);
    queue_listen(probe.queue, false);
    assert_answer("1", "LPUSH queue:a task");
    queue_probe_wait_rings(&probe, 0);
    assert_int_equal(redis_server_calls(server, "blmove"), calls + 1);
    queue_probe_stop(&probe);
    loop_destroy(loop);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, set_up, tear_down)
