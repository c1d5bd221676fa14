/* Removing keys from one node with long patience: for as long as it answers, and no longer. */
#include "tests/support/test.h"

#include "tests/support/loop_until.h"
#include "tests/support/one_server.h"
#include "tests/support/queue_probe.h"
#include "worker/dry_run/nodes/key_deletion.h"

/* Longer than a machine may keep anybody waiting, and shorter than the walk of the first test. */
#define SILENCE_NS (4 * NS_PER_S)

static struct loop *loop;
static struct key_deletion *deletion;
static bool is_done;

static int set_up(void **state)
{
    (void)state;
    free(redis_server_command(server, "FLUSHALL"));
    is_done = false;
    loop = loop_create(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    key_deletion_close(deletion);
    loop_destroy(loop);
    return 0;
}

static void done(void *context)
{
    (void)context;
    is_done = true;
}

static bool is_over(void *context)
{
    (void)context;
    return is_done;
}

static void key_deletion_begin(unsigned port, double share, int64_t silence_ns)
{
    deletion =
        key_deletion_open(&(struct key_deletion_options){.loop = loop,
                                                         .node = {.name = "node", .host = "127.0.0.1", .port = port},
                                                         .prefix = "mine:",
                                                         .set = "shared",
                                                         .unlinks = true,
                                                         .share = share,
                                                         .deadline = instant_after(instant_now(), 3600 * NS_PER_S),
                                                         .silence_ns = silence_ns,
                                                         .done = done});
    assert_true(loop_until(loop, is_over, NULL, TEST_PATIENCE_NS));
}

/* It rests for a second after each step. */
TEST(a_walk_goes_on_for_as_long_as_there_are_answers)
{
    free(redis_server_command(
        server, "EVAL \"for i = 1, 3000 do redis.call('SET', (i %% 2 == 0 and 'mine:' or 'other:') .. i, 1) "
                "redis.call('ZADD', 'shared', i, (i %% 3 == 0 and 'mine:' or 'other:mine:') .. i) end\" 0"));
    key_deletion_begin(redis_server_port(server), 1e-6, SILENCE_NS);
    assert_string_equal(key_deletion_state(deletion)->trouble, "");
    assert_true(key_deletion_state(deletion)->is_clean);
    assert_int_equal(key_deletion_state(deletion)->deleted, 1500 + 1000);
    assert_int_equal(key_deletion_state(deletion)->left, 0);
    assert_int_equal(queue_probe_number(server, "DBSIZE"), 1500 + 1);
    assert_int_equal(queue_probe_number(server, "ZCARD shared"), 2000);
}

TEST(a_node_that_is_not_there_is_not_waited_for)
{
    key_deletion_begin(1, 1, NS_PER_S);
    assert_false(key_deletion_state(deletion)->is_clean);
    assert_string_not_equal(key_deletion_state(deletion)->trouble, "");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, set_up, tear_down)
