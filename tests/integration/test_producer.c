/* Bulk pushing: every task that was added has exactly one end, and that end is the truth. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "queue/push.h"
#include "tests/support/loop_until.h"
#include "tests/support/queue_probe.h"
#include "tests/support/redis_server.h"
#include "tests/support/relay.h"

static struct loop *loop;
static struct redis_server *server;
static struct relay *relay;
static struct push *push;
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
    (void)state;
    loop = loop_create(NULL);
    assert_non_null(loop);
    relay = relay_start(redis_server_port(server));
    free(redis_server_command(server, "FLUSHALL"));
    free(redis_server_command(server, "CONFIG RESETSTAT"));
    memset(ends, 0, sizeof ends);
    told_up = told_down = 0;
    ended = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    redis_server_resume(server);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    push_destroy(push);
    push = NULL;
    relay_destroy(relay);
    loop_destroy(loop);
    return 0;
}

static int group_setup(void **state)
{
    (void)state;
    server = redis_server_start(NULL);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    redis_server_destroy(server);
    return 0;
}

static void start(unsigned port, unsigned slices_max, int64_t timeout_ns)
{
    push = push_create(loop, &(struct push_options){.node = {.name = "queue",
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
    return push_is_idle(push);
}

static void wait_idle(void)
{
    if (!loop_until(loop, is_idle, NULL, TEST_PATIENCE_NS))
        fail_msg("%zu tasks have ended", ended);
}

static bool is_up(void *context)
{
    (void)context;
    return redis_node_state(push_node(push)) == REDIS_NODE_UP;
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
        push_add(push, queue, payload, (size_t)length, i);
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

static unsigned calls_of(const char *command)
{
    char *stats = redis_server_command(server, "INFO commandstats");
    char pattern[64];
    snprintf(pattern, sizeof pattern, "cmdstat_%s:calls=", command);
    const char *at = strstr(stats, pattern);
    unsigned calls = at != NULL ? (unsigned)strtoul(at + strlen(pattern), NULL, 10) : 0;
    free(stats);
    return calls;
}

/* --- slices ------------------------------------------------------------------------------------------------------- */

static void test_tasks_arrive_in_order_in_slices(void **state)
{
    (void)state;
    start(redis_server_port(server), 0, NS_PER_S);
    add("a", 1, 2500);
    push_flush(push);
    wait_idle();
    assert_in_order("a", 1, 2500);
    assert_int_equal(calls_of("lpush"), 3);
    assert_int_equal(calls_of("sadd"), 1);
    assert_reply(server, "a", "SMEMBERS queues");
    const struct push_counters *counters = push_counters(push);
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
    start(redis_server_port(server), 0, NS_PER_S);
    wait_up();
    add("a", 1, 999);
    loop_for(loop, 20 * NS_PER_MS);
    assert_reply(server, "0", "LLEN queue:a");
    assert_false(push_is_idle(push));
    add("a", 1000, 1);
    wait_idle();
    assert_in_order("a", 1, 1000);
}

static void test_slices_are_bounded_in_bytes(void **state)
{
    (void)state;
    static char payload[400000];
    memset(payload, 'x', sizeof payload);
    start(redis_server_port(server), 0, 5 * NS_PER_S);
    for (unsigned i = 0; i < 9; i++)
        push_add(push, "a", payload, sizeof payload, i);
    push_flush(push);
    wait_idle();
    assert_int_equal(calls_of("lpush"), 5);
    assert_reply(server, "9", "LLEN queue:a");
    push_add(push, "b", payload, sizeof payload, 9);
    static char larger[3000000];
    push_add(push, "b", larger, sizeof larger, 10);
    wait_idle();
    assert_reply(server, "2", "LLEN queue:b");
    assert_reply(server, "3000000", "EVAL \"return #redis.call('LINDEX', 'queue:b', 0)\" 0");
}

static void test_queues_are_announced_once_and_keep_their_order(void **state)
{
    (void)state;
    start(redis_server_port(server), 2, NS_PER_S);
    for (unsigned i = 0; i < 6000; i += 2) {
        add("a", i / 2, 1);
        add("b", i / 2, 1);
    }
    add("c", 0, 1);
    push_flush(push);
    wait_idle();
    assert_in_order("a", 0, 3000);
    assert_in_order("b", 0, 3000);
    assert_in_order("c", 0, 1);
    assert_reply(server, "a\nb\nc", "SORT queues ALPHA");
    assert_int_equal(calls_of("sadd"), 3);
    free(redis_server_command(server, "CLIENT KILL TYPE normal"));
    free(redis_server_command(server, "DEL queues"));
    while (told_up < 2)
        loop_for(loop, NS_PER_MS);
    add("a", 3000, 1);
    push_flush(push);
    wait_idle();
    assert_reply(server, "a", "SMEMBERS queues");
    assert_in_order("a", 0, 3001);
}

static void test_a_filled_producer_says_so(void **state)
{
    (void)state;
    start(redis_server_port(server), 3, NS_PER_S);
    wait_up();
    redis_server_pause(server);
    unsigned added = 0;
    while (!push_is_full(push) && added < 100000)
        add("a", added++, 1);
    assert_int_equal(added, 6000);
    redis_server_resume(server);
    wait_idle();
    assert_false(push_is_full(push));
    assert_in_order("a", 0, 6000);
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

static void test_tasks_wait_for_a_node_that_is_down(void **state)
{
    (void)state;
    redis_server_kill(server);
    start(redis_server_port(server), 2, NS_PER_S);
    add("a", 0, 5000);
    push_flush(push);
    assert_true(push_is_full(push));
    while (told_down == 0)
        loop_for(loop, NS_PER_MS);
    assert_int_equal(ended, 0);
    redis_server_restart(server);
    wait_idle();
    assert_int_equal(push_counters(push)->acknowledged, 5000);
    assert_in_order("a", 0, 5000);
}

static void test_a_lost_reply_is_unknown_and_not_pushed_again(void **state)
{
    (void)state;
    start(relay_port(relay), 0, 10 * NS_PER_S);
    wait_up();
    relay_swallow(relay, true);
    add("a", 0, 1500);
    push_flush(push);
    while (queue_probe_number(server, "LLEN queue:a") < 1500)
        loop_for(loop, NS_PER_MS);
    assert_int_equal(ended, 0);
    relay_cut(relay);
    relay_swallow(relay, false);
    wait_idle();
    assert_int_equal(ends[PUSH_UNKNOWN], 2);
    assert_int_equal(push_counters(push)->unknown, 1500);
    assert_int_equal(push_counters(push)->sent, 1500);
    add("a", 1500, 1);
    push_flush(push);
    wait_idle();
    assert_in_order("a", 0, 1501);
    assert_int_equal(ends[PUSH_ACKNOWLEDGED], 1);
}

static void test_a_late_reply_is_unknown_too(void **state)
{
    (void)state;
    start(redis_server_port(server), 0, 50 * NS_PER_MS);
    wait_up();
    redis_server_pause(server);
    add("a", 0, 10);
    push_flush(push);
    wait_idle();
    assert_int_equal(ends[PUSH_UNKNOWN], 1);
    assert_int_equal(last.count, 10);
    assert_int_equal(last.first, 0);
    assert_int_equal(last.last, 9);
    redis_server_resume(server);
    add("a", 10, 10);
    push_flush(push);
    wait_idle();
    assert_in_order("a", 0, 20);
}

/* What was not written waits for the next connection, in its order; what was written in part is unknown. */
static void test_what_was_not_sent_is_pushed_later(void **state)
{
    (void)state;
    enum { TASKS = 64, BYTES = 1 << 20 };
    static char payload[BYTES];
    start(redis_server_port(server), TASKS, 20 * NS_PER_S);
    wait_up();
    redis_server_pause(server);
    for (unsigned i = 0; i < TASKS; i++) {
        memset(payload, ' ', sizeof payload);
        payload[snprintf(payload, sizeof payload, "%u", i)] = ' ';
        push_add(push, "a", payload, sizeof payload, i);
    }
    loop_for(loop, 50 * NS_PER_MS);
    redis_server_restart(server); /* empty */
    wait_idle();
    const struct push_counters *counters = push_counters(push);
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
    start(redis_server_port(server), 0, NS_PER_S);
    wait_up();
    free(redis_server_command(server, "SET queue:b foreign"));
    add("b", 0, 5);
    add("a", 0, 5);
    push_flush(push);
    wait_idle();
    assert_int_equal(ends[PUSH_REFUSED], 1);
    assert_int_equal(ends[PUSH_ACKNOWLEDGED], 1);
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    add("a", 5, 5);
    push_flush(push);
    wait_idle();
    assert_int_equal(ends[PUSH_REFUSED], 2);
    assert_non_null(strstr(last_reason, "OOM"));
    assert_int_equal(push_counters(push)->refused, 10);
    assert_in_order("a", 0, 5);
}

static void test_what_is_dropped_is_told(void **state)
{
    (void)state;
    start(redis_server_port(server), 1, NS_PER_S);
    wait_up();
    redis_server_pause(server);
    add("a", 0, 2500);
    add("b", 2500, 1);
    push_drop(push);
    assert_int_equal(ends[PUSH_DROPPED], 3);
    assert_int_equal(ended, 1501);
    assert_int_equal(push_counters(push)->dropped, 1501);
    redis_server_resume(server);
    wait_idle();
    assert_int_equal(push_counters(push)->acknowledged, 1000);
    assert_in_order("a", 0, 1000);
    assert_reply(server, "0", "EXISTS queue:b");
}

static void test_the_end_with_tasks_in_every_state(void **state)
{
    (void)state;
    start(redis_server_port(server), 1, NS_PER_S);
    wait_up();
    redis_server_pause(server);
    add("a", 0, 2500); /* in flight, waiting, filling; the memory checker sees what is forgotten */
    loop_for(loop, 5 * NS_PER_MS);
    push_destroy(push);
    push = NULL;
    assert_int_equal(ended, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tasks_arrive_in_order_in_slices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_flushed_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slices_are_bounded_in_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_queues_are_announced_once_and_keep_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_filled_producer_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tasks_wait_for_a_node_that_is_down, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_lost_reply_is_unknown_and_not_pushed_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_late_reply_is_unknown_too, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_was_not_sent_is_pushed_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_refusal_is_certain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_dropped_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_end_with_tasks_in_every_state, setup, teardown),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
