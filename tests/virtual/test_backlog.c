/* What is left to do, as a worker asks that ends when all is done. */
#include "tests/support/waiting_list_fixture.h"

/* As far as tests look ahead, and back. */
#define AHEAD_NS (10 * NS_PER_S)

static struct queue_backlog backlog;
static bool is_told;

static void told(void *context, const struct queue_backlog *told_now)
{
    (void)context;
    backlog = *told_now;
    is_told = true;
}

static bool was_told(void *context)
{
    (void)context;
    return is_told;
}

static void assert_backlog(struct queue_probe *process, long long waiting, long long pending)
{
    is_told = false;
    queue_count(process->queue, AHEAD_NS, AHEAD_NS, told);
    assert_true(loop_until(loop, was_told, NULL, TEST_PATIENCE_NS));
    assert_true(backlog.known);
    assert_int_equal(backlog.waiting, waiting);
    assert_int_equal(backlog.pending, pending);
}

/* `probe` serves a and b, `other` serves only b. */
static int backlog_setup(void **state)
{
    (void)queue_setup(state);
    start("a b");
    queue_probe_wait_up(&probe);
    queue_probe_start(&other, loop, redis_server_port(server), "b", NULL);
    queue_probe_wait_up(&other);
    return 0;
}

static void plan_in(const char *set, int seconds, const char *entry)
{
    free(redis_server_command(server,
                              "EVAL \"return redis.call('ZADD', KEYS[1], redis.call('TIME')[1] + %d, '%s')\" 1 %s",
                              seconds, entry, set));
}

TEST(test_tasks_in_queues_are_counted_unless_they_are_paused)
{
    assert_backlog(&probe, 0, 0);
    push("a", "one");
    push("b", "two");
    assert_backlog(&probe, 2, 0);
    assert_backlog(&other, 1, 0);
    free(redis_server_command(server, "SADD paused a"));
    assert_backlog(&probe, 1, 0);
}

TEST(test_what_a_process_has_is_not_done_until_it_has_ended)
{
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    assert_backlog(&probe, 0, 1);
    assert_backlog(&other, 0, 0);
    free(redis_server_command(server, "SADD paused a"));
    assert_backlog(&probe, 0, 1);
    queue_probe_claim(&probe, 0, NULL);
    assert_backlog(&probe, 0, 0);
}

TEST(test_what_a_dead_process_had_is_not_done)
{
    push("b", "one");
    queue_probe_claim(&probe, 0, "one");
    free(redis_server_command(server, "LPUSH hf:2:bell:%s:b rung", probe.identity));
    queue_probe_stop(&probe); /* it does not leave */
    assert_backlog(&other, 0, 2);
}

TEST(test_who_waits_for_a_lock_is_not_done_however_late_it_is_due)
{
    push("b", "bee");
    queue_probe_claim(&probe, 0, "bee");
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    park_new(&probe, 0, "one");
    assert_due_far("one");
    assert_backlog(&probe, 0, 1);
    assert_backlog(&other, 0, 1);
    free(redis_server_command(server, "ZREM schedule bee"));
    assert_backlog(&probe, 0, 1);
    assert_backlog(&other, 0, 0);
    free(redis_server_command(server, "SADD paused a"));
    assert_backlog(&probe, 0, 0);
}

TEST(test_what_comes_back_soon_is_counted_and_later_is_not)
{
    plan_in("schedule", -30, "seen");
    plan_in("schedule", -5, "due");
    plan_in("schedule", 5, "soon");
    plan_in("schedule", 60, "later");
    assert_backlog(&probe, 0, 2);
    free(redis_server_command(server, "DEL schedule"));
    plan_in("retry", -30, "seen");
    plan_in("retry", 5, "soon");
    assert_backlog(&probe, 0, 0);
    plan_in("retry", -5, "due");
    assert_backlog(&probe, 0, 1);
}

/* Values of others are no tasks, and hide none. */
TEST(test_foreign_values_are_nothing_to_do)
{
    free(redis_server_command(server, "SET queue:b foreign"));
    free(redis_server_command(server, "SET retry foreign"));
    free(redis_server_command(server, "SET schedule foreign"));
    free(redis_server_command(server, "ZADD hf:2:processes 1 clash"));
    free(redis_server_command(server, "SET hf:2:process:clash foreign"));
    free(redis_server_command(server, "SET hf:2:bell:clash:a foreign"));
    free(redis_server_command(server, "ZADD hf:2:contended 1 resource:clash"));
    free(redis_server_command(server, "SET hf:2:waiters:resource:clash foreign"));
    assert_backlog(&probe, 0, 0);
    push("a", "one");
    assert_backlog(&probe, 1, 0);
    free(redis_server_command(server, "SET hf:2:processes foreign"));
    assert_backlog(&probe, 1, 0);
}

TEST(what_is_left_is_not_known_while_the_node_is_away)
{
    push("a", "one");
    for (int i = 0; i < 2; i++) {
        is_told = false;
        backlog.known = true;
        if (i == 0)
            redis_server_pause(server);
        queue_count(probe.queue, AHEAD_NS, AHEAD_NS, told);
        if (i == 0)
            redis_server_kill(server);
        assert_true(loop_until(loop, was_told, NULL, TEST_PATIENCE_NS));
        assert_false(backlog.known);
    }
    redis_server_restart(server);
    queue_probe_wait_up(&probe);
    assert_backlog(&probe, 0, 0);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, backlog_setup, queue_teardown)
