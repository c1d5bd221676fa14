/* The engine of libholdfast: what arrives, where, and in which order. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/producer_fixture.h"

/* --- slices ------------------------------------------------------------------------------------------------------- */

static void test_tasks_arrive_in_order_in_slices(void **state)
{
    (void)state;
    produce(redis_server_port(server), 0, NS_PER_S);
    add("a", 1, 2500);
    push_flush(producer, &source);
    wait_idle();
    assert_in_order("a", 1, 2500);
    assert_int_equal(redis_server_calls(server, "lpush"), 3);
    assert_reply(server, "a", "SMEMBERS queues");
    assert_int_equal(tasks[PUSH_ACKNOWLEDGED], 2500);
    assert_int_equal(ends[PUSH_ACKNOWLEDGED], 3);
    assert_int_equal(last_first, 2001);
    assert_int_equal(last_last, 2500);
}

static void test_what_is_not_flushed_waits(void **state)
{
    (void)state;
    produce(redis_server_port(server), 0, NS_PER_S);
    wait_up();
    add("a", 1, 999);
    loop_for(loop, 20 * NS_PER_MS);
    assert_reply(server, "0", "LLEN queue:a");
    assert_int_equal(ended, 0);
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
        add_bytes("a", payload, sizeof payload, i);
    push_flush(producer, &source);
    wait_idle();
    assert_int_equal(redis_server_calls(server, "lpush"), 5);
    assert_reply(server, "9", "LLEN queue:a");
    add_bytes("b", payload, sizeof payload, 9);
    static char larger[3000000];
    add_bytes("b", larger, sizeof larger, 10);
    wait_idle();
    assert_reply(server, "2", "LLEN queue:b");
    assert_reply(server, "3000000", "EVAL \"return #redis.call('LINDEX', 'queue:b', 0)\" 0");
}

static void test_queues_are_announced_and_keep_their_order(void **state)
{
    (void)state;
    produce(redis_server_port(server), 2, NS_PER_S);
    for (unsigned i = 0; i < 6000; i += 2) {
        add("a", i / 2, 1);
        add("b", i / 2, 1);
    }
    add("c", 0, 1);
    push_flush(producer, &source);
    wait_idle();
    assert_in_order("a", 0, 3000);
    assert_in_order("b", 0, 3000);
    assert_in_order("c", 0, 1);
    assert_reply(server, "a\nb\nc", "SORT queues ALPHA");
    free(redis_server_command(server, "DEL queues"));
    add("a", 3000, 1);
    push_flush(producer, &source);
    wait_idle();
    assert_reply(server, "a", "SMEMBERS queues");
    assert_in_order("a", 0, 3001);
}

static bool has_commands(void *context)
{
    return redis_server_calls(server, "lpush") >= *(unsigned *)context;
}

/* While three slices have no answer the fourth is not sent, and many small ones are not held back. */
static void test_what_is_in_flight_is_bounded(void **state)
{
    (void)state;
    produce(relay_port(relay), 3, TEST_PATIENCE_NS);
    wait_up();
    relay_swallow(relay, true);
    for (unsigned i = 0; i < 50; i++) {
        add("a", i, 1);
        push_flush(producer, &source);
    }
    unsigned sent = 50;
    assert_true(loop_until(loop, has_commands, &sent, TEST_PATIENCE_NS));
    add("a", 50, 6000);
    sent = 53;
    assert_true(loop_until(loop, has_commands, &sent, TEST_PATIENCE_NS));
    loop_for(loop, 20 * NS_PER_MS);
    assert_int_equal(redis_server_calls(server, "lpush"), 53);
    relay_cut(relay); /* what was swallowed is lost */
    relay_swallow(relay, false);
    push_flush(producer, &source);
    wait_idle();
    assert_in_order("a", 0, 6050);
}

/* --- the schedule, and unique tasks ------------------------------------------------------------------------------- */

static void test_scheduled_tasks(void **state)
{
    (void)state;
    struct intake_task task = {.payload = {"x", 1}, .queue = "a", .jid = "j", .digest = "", .at_us = 4102444800000000};
    char payload[16];
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    for (unsigned i = 0; i < 250; i++) {
        task.payload = (struct text_span){payload, (size_t)snprintf(payload, sizeof payload, "%u", i)};
        add_task(&task, i);
    }
    push_flush(producer, &source);
    wait_idle();
    assert_int_equal(ends[PUSH_ACKNOWLEDGED], 3);
    assert_reply(server, "250", "ZCARD schedule");
    assert_reply(server, "250", "ZCOUNT schedule 4102444800 4102444800.000250");
    assert_reply(
        server, "different",
        "EVAL \"local all, seen = redis.call('ZRANGE', 'schedule', 0, -1, 'WITHSCORES'), {} "
        "for i = 2, #all, 2 do if seen[all[i]] then return all[i] end seen[all[i]] = true end return 'different'\" 0");
    assert_reply(server, "0", "EXISTS queues");
}

static void add_unique(const char *jid, const char *digest, int64_t at_us, uint64_t number)
{
    add_task(&(struct intake_task){.payload = {jid, strlen(jid)},
                                   .queue = "a",
                                   .jid = jid,
                                   .digest = digest,
                                   .unique_ms = 60000,
                                   .at_us = at_us},
             number);
    push_flush(producer, &source);
    wait_idle();
}

static void test_unique_tasks(void **state)
{
    (void)state;
    static const char digest[] = "0123456789012345678901234567890123456789";
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    add_unique("one", digest, 0, 1);
    add_unique("two", digest, 0, 2);
    assert_int_equal(ends[PUSH_DUPLICATE], 1);
    assert_string_equal(last_holder, "one");
    add_unique("two", digest, 4102444800000000, 2);
    assert_int_equal(ends[PUSH_DUPLICATE], 2);
    add_unique("one", digest, 0, 3); /* repeated by its owner */
    assert_int_equal(ends[PUSH_ACKNOWLEDGED], 2);
    assert_reply(server, "one", "LRANGE queue:a 0 -1");
    assert_reply(server, "a", "SMEMBERS queues");
    assert_reply(server, "one", "GET hf:2:unique:%s", digest);
    free(redis_server_command(server, "DEL hf:2:unique:%s", digest));
    add_unique("two", digest, 4102444800000000, 2);
    assert_reply(server, "two", "ZRANGE schedule 0 -1");
    assert_true(queue_probe_number(server, "PTTL hf:2:unique:0123456789012345678901234567890123456789") > 50000);
}

/* Refused for want of memory: then the key is not taken either. */
static void test_a_refused_unique_task_leaves_nothing(void **state)
{
    (void)state;
    static const char digest[] = "0123456789012345678901234567890123456789";
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    wait_up();
    free(redis_server_command(server, "SET queue:a foreign"));
    add_unique("one", digest, 0, 1);
    assert_int_equal(ends[PUSH_REFUSED], 1);
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    add_unique("two", digest, 0, 1);
    add_unique("two", digest, 4102444800000000, 1);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    assert_int_equal(ends[PUSH_REFUSED], 3);
    assert_reply(server, "1", "DBSIZE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        producer_test(test_tasks_arrive_in_order_in_slices),
        producer_test(test_what_is_not_flushed_waits),
        producer_test(test_slices_are_bounded_in_bytes),
        producer_test(test_queues_are_announced_and_keep_their_order),
        producer_test(test_what_is_in_flight_is_bounded),
        producer_test(test_scheduled_tasks),
        producer_test(test_unique_tasks),
        producer_test(test_a_refused_unique_task_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, one_server_set_up, one_server_tear_down);
}
