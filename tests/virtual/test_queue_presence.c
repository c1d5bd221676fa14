/* A process is listed before it claims, also where that is not easy; it is told how many serve what it serves; and it
 * serves queues as often as their weights say. */
#include "tests/support/queue_fixture.h"

#include "tests/support/log_capture.h"

TEST(test_a_worker_starts_on_a_node_without_memory)
{
    push("a", "one");
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    start("a");
    queue_probe_claim(&probe, 0, "one");
    assert_reply(server, probe.identity, "ZRANGE hf:2:processes 0 -1");
    queue_probe_settle(&probe, 0, false);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    assert_tasks("");
}

static bool is_listed(void *unused)
{
    (void)unused;
    return queue_probe_number(server, "ZCARD hf:2:processes") == 1;
}

/* No slot has a claim that would be found lost: only the refused call tells. */
TEST(test_a_process_that_was_struck_off_lists_itself_again)
{
    start("a");
    assert_true(loop_until(loop, is_listed, NULL, TEST_PATIENCE_NS));
    free(redis_server_command(server, "FLUSHALL"));
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    assert_true(is_listed(NULL));
}

/* No call is refused: only the renewal of its lease shows it. */
TEST(test_an_idle_process_that_was_struck_off_lists_itself_again)
{
    start("a");
    assert_true(loop_until(loop, is_listed, NULL, TEST_PATIENCE_NS));
    free(redis_server_command(server, "FLUSHALL"));
    assert_false(is_listed(NULL));
    assert_true(loop_until(loop, is_listed, NULL, TEST_PATIENCE_NS));
    assert_reply(server, probe.identity, "ZRANGE hf:2:processes 0 -1");
}

/* It says so once, claims nothing, and begins by itself. */
TEST(a_process_is_not_listed_beside_those_of_another_scheme)
{
    size_t length;
    free(redis_server_command(server, "ZADD hf:3:processes 1 newer"));
    push("a", "one");
    log_capture_begin();
    start("a");
    queue_probe_settle(&probe, 0, true);
    loop_for(loop, 5 * NS_PER_S);
    assert_reply(server, "0", "ZCARD hf:2:processes");
    assert_reply(server, "one", "LRANGE queue:a 0 -1");
    free(redis_server_command(server, "ZREM hf:3:processes newer"));
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_CLAIMED);
    const char *log = log_capture_end(&length), *at = strstr(log, " other_scheme theirs=3 ours=2 ");
    assert_non_null(at);
    assert_null(strstr(at + 1, " other_scheme "));
    assert_true(is_listed(NULL));
}

/* It claims nothing meanwhile: only the renewal of its lease shows it. */
TEST(an_idle_process_learns_which_of_its_queues_is_paused)
{
    size_t length;
    start("a b c");
    assert_true(loop_until(loop, is_listed, NULL, TEST_PATIENCE_NS));
    log_capture_begin();
    free(redis_server_command(server, "SADD paused b"));
    loop_for(loop, 10 * NS_PER_S);
    free(redis_server_command(server, "SREM paused b"));
    loop_for(loop, 10 * NS_PER_S);
    const char *log = log_capture_end(&length), *paused = strstr(log, "queue_paused queue="), *resumed;
    assert_non_null(paused);
    assert_int_equal(strncmp(paused, "queue_paused queue=b\n", 21), 0);
    assert_null(strstr(paused + 1, "queue_paused"));
    resumed = strstr(paused, "queue_resumed queue=b\n");
    assert_non_null(resumed);
    assert_null(strstr(resumed + 1, "queue_resumed"));
}

/* --- how many serve the same -------------------------------------------------------------------------------------- */

/* `queues` is a list with commas; "-" = it was recovered. */
static void list_process(const char *identity, const char *lease_end, const char *queues)
{
    free(redis_server_command(server,
                              "EVAL \"redis.call('ZADD', 'hf:2:processes', ARGV[2], ARGV[1]) if ARGV[3] ~= '-' then "
                              "redis.call('HSET', 'hf:2:process:' .. ARGV[1], 'queues', "
                              "(string.gsub(ARGV[3], ',', string.char(10)))) end\" 0 %s %s %s",
                              identity, lease_end, queues));
}

static bool is_served_by(void *count)
{
    return queue_serving(probe.queue) == *(const unsigned *)count;
}

static void wait_serving(unsigned count)
{
    queue_look(probe.queue);
    if (!loop_until(loop, is_served_by, &count, TEST_PATIENCE_NS))
        fail_msg("%u serve the queue instead of %u", queue_serving(probe.queue), count);
}

#define RUNNING "9999999999"

TEST(test_who_serves_a_queue_that_few_serve_is_told_of_these)
{
    list_process("same", RUNNING, "a,b");
    list_process("one", RUNNING, "a");
    list_process("two", RUNNING, "c,a");
    list_process("ended", "1", "a,b");
    list_process("recovered", RUNNING, "-");
    start("a b");
    assert_int_equal(queue_serving(probe.queue), 0);
    wait_serving(2);
    free(redis_server_command(server, "ZREM hf:2:processes same"));
    wait_serving(1);
    list_process("three", RUNNING, "b,d");
    list_process("four", RUNNING, "b");
    wait_serving(3);
    free(redis_server_command(server, "SET hf:2:process:two foreign"));
    wait_serving(2);
}

TEST(test_of_a_large_fleet_some_are_counted)
{
    start("a");
    wait_serving(1);
    for (unsigned i = 0; i < 100; i++) {
        char identity[16];
        snprintf(identity, sizeof identity, "o%u", i);
        list_process(identity, RUNNING, "a");
    }
    wait_serving(64);
}

/* Of 1,000 draws of a fair coin fewer than 420 show heads once in three million. */
TEST(test_queues_of_the_same_weight_are_served_as_often)
{
    enum { DRAWS = 1000 };
    static const unsigned weights[] = {1, 1};
    unsigned of_a = 0;
    for (unsigned i = 0; i < 2; i++)
        assert_reply(server, "(nil)", "EVAL \"for i = 1, %d do redis.call('LPUSH', KEYS[1], 'one') end\" 1 queue:%c",
                     DRAWS, "ab"[i]);
    queue_probe_start(&probe, loop, redis_server_port(server), "a b", &(struct queue_options){.weights = weights});
    for (unsigned i = 0; i < DRAWS; i++) {
        queue_probe_claim(&probe, 0, "one");
        of_a += probe.slots[0].queue[0] == 'a';
    }
    assert_in_range(of_a, 420, 580);
    queue_probe_settle(&probe, 0, false);
    queue_probe_wait(&probe, 0);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
