/* Bulk pushing: every task that was added has exactly one end, and that end is the truth. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "queue/push.h"
#include "tests/support/queue_fixture.h"

static struct push *producer;
static unsigned ends[4], told_up, told_down;
static size_t ended; /* tasks */
static struct push_report last;
static char last_reason[256];

static void slice_ended(void *context, const struct push_report *report)
{
    (void)context;
    ends[report->end]++;
    ended += report->count;
    last = *report;
    snprintf(last_reason, sizeof last_reason, "%s", report->reason);
    assert_true(report->last - report->first + 1 >= report->count);
}

static void node_changed(void *context, enum redis_node_state state, const char *reason)
{
    (void)context, (void)reason;
    told_up += state == REDIS_NODE_UP;
    told_down += state == REDIS_NODE_DOWN;
}

static int setup(void **state)
{
    memset(ends, 0, sizeof ends);
    told_up = told_down = 0;
    ended = 0;
    return queue_setup(state);
}

static int teardown(void **state)
{
    push_destroy(producer);
    producer = NULL;
    return queue_teardown(state);
}

static void produce(unsigned port, unsigned slices_max, int64_t timeout_ns)
{
    producer = push_create(loop, &(struct push_options){.node = {.name = "queue",
                                                                 .host = "127.0.0.1",
                                                                 .port = port,
                                                                 .backoff_min_ns = 2 * NS_PER_MS,
                                                                 .backoff_max_ns = 20 * NS_PER_MS},
                                                        .timeout_ns = timeout_ns,
                                                        .slices_max = slices_max,
                                                        .ended = slice_ended,
                                                        .changed = node_changed});
}

static bool is_idle(void *context)
{
    (void)context;
    return push_is_idle(producer);
}

static void wait_idle(void)
{
    if (!loop_until(loop, is_idle, NULL, TEST_PATIENCE_NS))
        fail_msg("%zu tasks have ended", ended);
}

static bool is_up(void *context)
{
    (void)context;
    return redis_node_state(push_node(producer)) == REDIS_NODE_UP;
}

static void wait_up(void)
{
    assert_true(loop_until(loop, is_up, NULL, TEST_PATIENCE_NS));
}

/* The payload is its number. */
static void add(const char *queue, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        char payload[16];
        int length = snprintf(payload, sizeof payload, "%u", i);
        push_add(producer, queue, payload, (size_t)length, i);
    }
}

/* All tasks of the queue, in the order in which workers would get them, are first, first + 1, ... */
static void assert_in_order(const char *queue, unsigned first, unsigned count)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%u", count);
    assert_reply(server, expected, "LLEN queue:%s", queue);
    assert_reply(server, "in order",
                 "EVAL \"local all = redis.call('LRANGE', KEYS[1], 0, -1) for i = #all, 1, -1 do if all[i] ~= "
                 "tostring(ARGV[1] + #all - i) then return all[i] end end return 'in order'\" 1 queue:%s %u",
                 queue, first);
}

/* --- slices ------------------------------------------------------------------------------------------------------- */

static void test_tasks_arrive_in_order_in_slices(void **state)
{
    (void)state;
    produce(redis_server_port(server), 0, NS_PER_S);
    add("a", 1, 2500);
    push_flush(producer);
    wait_idle();
    assert_in_order("a", 1, 2500);
    assert_int_equal(redis_server_calls(server, "lpush"), 3);
    assert_int_equal(redis_server_calls(server, "sadd"), 1);
    assert_reply(server, "a", "SMEMBERS queues");
    const struct push_counters *counters = push_counters(producer);
    assert_int_equal(counters->added, 2500);
    assert_int_equal(counters->sent, 2500);
    assert_int_equal(counters->acknowledged, 2500);
    assert_int_equal(counters->slices, 3);
    assert_int_equal(ends[PUSH_ACKNOWLEDGED], 3);
    assert_int_equal(last.first, 2001);
    assert_int_equal(last.last, 2500);
}

static void test_what_is_not_flushed_waits(void **state)
{
    (void)state;
    produce(redis_server_port(server), 0, NS_PER_S);
    wait_up();
    add("a", 1, 999);
    loop_for(loop, 20 * NS_PER_MS);
    assert_reply(server, "0", "LLEN queue:a");
    assert_false(push_is_idle(producer));
    add("a", 1000, 1);
    wait_idle();
    assert_in_order("a", 1, 1000);
}

static void test_slices_are_bounded_in_bytes(void **state)
{
    (void)state;
    static char payload[400000];
    memset(payload, 'x', sizeof payload);
    produce(redis_server_port(server), 0, 5 * NS_PER_S);
    for (unsigned i = 0; i < 9; i++)
        push_add(producer, "a", payload, sizeof payload, i);
    push_flush(producer);
    wait_idle();
    assert_int_equal(redis_server_calls(server, "lpush"), 5);
    assert_reply(server, "9", "LLEN queue:a");
    push_add(producer, "b", payload, sizeof payload, 9);
    static char larger[3000000];
    push_add(producer, "b", larger, sizeof larger, 10);
    wait_idle();
    assert_reply(server, "2", "LLEN queue:b");
    assert_reply(server, "3000000", "EVAL \"return #redis.call('LINDEX', 'queue:b', 0)\" 0");
}

static void test_queues_are_announced_once_and_keep_their_order(void **state)
{
    (void)state;
    produce(redis_server_port(server), 2, NS_PER_S);
    for (unsigned i = 0; i < 6000; i += 2) {
        add("a", i / 2, 1);
        add("b", i / 2, 1);
    }
    add("c", 0, 1);
    push_flush(producer);
    wait_idle();
    assert_in_order("a", 0, 3000);
    assert_in_order("b", 0, 3000);
    assert_in_order("c", 0, 1);
    assert_reply(server, "a\nb\nc", "SORT queues ALPHA");
    assert_int_equal(redis_server_calls(server, "sadd"), 3);
    free(redis_server_command(server, "CLIENT KILL TYPE normal"));
    free(redis_server_command(server, "DEL queues"));
    while (told_up < 2)
        loop_for(loop, NS_PER_MS);
    add("a", 3000, 1);
    push_flush(producer);
    wait_idle();
    assert_reply(server, "a", "SMEMBERS queues");
    assert_in_order("a", 0, 3001);
}

static void test_a_filled_producer_says_so(void **state)
{
    (void)state;
    produce(redis_server_port(server), 3, NS_PER_S);
    wait_up();
    redis_server_pause(server);
    unsigned added = 0;
    while (!push_is_full(producer) && added < 100000)
        add("a", added++, 1);
    assert_int_equal(added, 6000);
    redis_server_resume(server);
    wait_idle();
    assert_false(push_is_full(producer));
    assert_in_order("a", 0, 6000);
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

static void test_tasks_wait_for_a_node_that_is_down(void **state)
{
    (void)state;
    redis_server_kill(server);
    produce(redis_server_port(server), 2, NS_PER_S);
    add("a", 0, 5000);
    push_flush(producer);
    assert_true(push_is_full(producer));
    while (told_down == 0)
        loop_for(loop, NS_PER_MS);
    assert_int_equal(ended, 0);
    redis_server_restart(server);
    wait_idle();
    assert_int_equal(push_counters(producer)->acknowledged, 5000);
    assert_in_order("a", 0, 5000);
}

static void test_a_lost_reply_is_unknown_and_not_pushed_again(void **state)
{
    (void)state;
    produce(relay_port(relay), 0, 10 * NS_PER_S);
    wait_up();
    relay_swallow(relay, true);
    add("a", 0, 1500);
    push_flush(producer);
    while (queue_probe_number(server, "LLEN queue:a") < 1500)
        loop_for(loop, NS_PER_MS);
    assert_int_equal(ended, 0);
    relay_cut(relay);
    relay_swallow(relay, false);
    wait_idle();
    assert_int_equal(ends[PUSH_UNKNOWN], 2);
    assert_int_equal(push_counters(producer)->unknown, 1500);
    assert_int_equal(push_counters(producer)->sent, 1500);
    add("a", 1500, 1);
    push_flush(producer);
    wait_idle();
    assert_in_order("a", 0, 1501);
    assert_int_equal(ends[PUSH_ACKNOWLEDGED], 1);
}

static void test_a_late_reply_is_unknown_too(void **state)
{
    (void)state;
    produce(redis_server_port(server), 0, 50 * NS_PER_MS);
    wait_up();
    redis_server_pause(server);
    add("a", 0, 10);
    push_flush(producer);
    wait_idle();
    assert_int_equal(ends[PUSH_UNKNOWN], 1);
    assert_int_equal(last.count, 10);
    assert_int_equal(last.first, 0);
    assert_int_equal(last.last, 9);
    redis_server_resume(server);
    add("a", 10, 10);
    push_flush(producer);
    wait_idle();
    assert_in_order("a", 0, 20);
}

/* What was not written waits for the next connection, in its order; what was written in part is unknown. */
static void test_what_was_not_sent_is_pushed_later(void **state)
{
    (void)state;
    enum { TASKS = 64, IN_FLIGHT = 40, BYTES = 1 << 20 };
    static char payload[BYTES];
    produce(redis_server_port(server), IN_FLIGHT, 20 * NS_PER_S);
    wait_up();
    redis_server_pause(server);
    for (unsigned i = 0; i < TASKS; i++) {
        memset(payload, ' ', sizeof payload);
        payload[snprintf(payload, sizeof payload, "%u", i)] = ' ';
        push_add(producer, "a", payload, sizeof payload, i);
    }
    loop_for(loop, 50 * NS_PER_MS);
    redis_server_restart(server); /* empty */
    wait_idle();
    const struct push_counters *counters = push_counters(producer);
    assert_true(counters->unknown > 0 && counters->acknowledged > 0);
    assert_int_equal(counters->unknown + counters->acknowledged, TASKS);
    assert_int_equal(counters->sent, TASKS);
    char expected[32];
    snprintf(expected, sizeof expected, "%u", (unsigned)counters->acknowledged);
    assert_reply(server, expected, "LLEN queue:a");
    assert_reply(server, "in order",
                 "EVAL \"local n = tonumber(ARGV[1]) local all = redis.call('LRANGE', 'queue:a', 0, -1) for i = #all, "
                 "1, -1 do if tonumber(string.sub(all[i], 1, 8)) ~= n then return i end n = n + 1 end return 'in "
                 "order'\" 0 %u",
                 (unsigned)counters->unknown);
}

static void test_a_refusal_is_certain(void **state)
{
    (void)state;
    produce(redis_server_port(server), 0, NS_PER_S);
    wait_up();
    free(redis_server_command(server, "SET queue:b foreign"));
    add("b", 0, 5);
    add("a", 0, 5);
    push_flush(producer);
    wait_idle();
    assert_int_equal(ends[PUSH_REFUSED], 1);
    assert_int_equal(ends[PUSH_ACKNOWLEDGED], 1);
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    add("a", 5, 5);
    push_flush(producer);
    wait_idle();
    assert_int_equal(ends[PUSH_REFUSED], 2);
    assert_contains(last_reason, "OOM");
    assert_int_equal(push_counters(producer)->refused, 10);
    assert_in_order("a", 0, 5);
}

static void test_what_is_dropped_is_told(void **state)
{
    (void)state;
    produce(redis_server_port(server), 1, NS_PER_S);
    wait_up();
    redis_server_pause(server);
    add("a", 0, 2500);
    add("b", 2500, 1);
    push_drop(producer);
    assert_int_equal(ends[PUSH_DROPPED], 3);
    assert_int_equal(ended, 1501);
    assert_int_equal(push_counters(producer)->dropped, 1501);
    redis_server_resume(server);
    wait_idle();
    assert_int_equal(push_counters(producer)->acknowledged, 1000);
    assert_in_order("a", 0, 1000);
    assert_reply(server, "0", "EXISTS queue:b");
}

static void test_the_end_with_tasks_in_every_state(void **state)
{
    (void)state;
    produce(redis_server_port(server), 1, NS_PER_S);
    wait_up();
    redis_server_pause(server);
    add("a", 0, 2500); /* in flight, waiting, filling; the memory checker sees what is forgotten */
    loop_for(loop, 5 * NS_PER_MS);
    push_destroy(producer);
    producer = NULL;
    assert_int_equal(ended, 0);
}

#define producer_test(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        producer_test(test_tasks_arrive_in_order_in_slices),
        producer_test(test_what_is_not_flushed_waits),
        producer_test(test_slices_are_bounded_in_bytes),
        producer_test(test_queues_are_announced_once_and_keep_their_order),
        producer_test(test_a_filled_producer_says_so),
        producer_test(test_tasks_wait_for_a_node_that_is_down),
        producer_test(test_a_lost_reply_is_unknown_and_not_pushed_again),
        producer_test(test_a_late_reply_is_unknown_too),
        producer_test(test_what_was_not_sent_is_pushed_later),
        producer_test(test_a_refusal_is_certain),
        producer_test(test_what_is_dropped_is_told),
        producer_test(test_the_end_with_tasks_in_every_state),
    };
    return cmocka_run_group_tests(tests, one_server_set_up, one_server_tear_down);
}
