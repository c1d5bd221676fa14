/* The engine of libholdfast: what arrives, where, and in which order. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/producer_fixture.h"

/* --- slices ------------------------------------------------------------------------------------------------------- */

TEST(test_tasks_arrive_in_order_in_slices)
{
    produce(redis_server_port(server), 0, NS_PER_S);
    add("a", 1, 2500);
    push_flush(producer, &source);
    wait_idle();
    assert_in_order("a", 1, 2500);
    assert_int_equal(redis_server_calls(server, "lpush"), 3);
    assert_reply(server, "a", "SMEMBERS queues");
    assert_int_equal(tasks[HF_PUSH_QUEUED], 2500);
    assert_int_equal(ends[HF_PUSH_QUEUED], 3);
    assert_int_equal(last_first, 2001);
    assert_int_equal(last_last, 2500);
}

TEST(test_what_is_not_flushed_waits)
{
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

TEST(test_slices_are_bounded_in_bytes)
{
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

/* Of many queues, so that none of their slices is full. */
TEST(test_what_fills_is_bounded_in_bytes)
{
    static char payload[900000];
    memset(payload, 'x', sizeof payload);
    produce(redis_server_port(server), 0, 5 * NS_PER_S);
    for (unsigned i = 0; i < 10; i++) {
        char name[4];
        snprintf(name, sizeof name, "q%u", i);
        add_bytes(name, payload, sizeof payload, i);
        if (i < 9)
            assert_int_equal(redis_node_unanswered(push_node(producer)), 0);
        wait_up();
    }
    wait_idle();
    assert_int_equal(ends[HF_PUSH_QUEUED], 10);
}

TEST(test_queues_are_announced_and_keep_their_order)
{
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
TEST(test_what_is_in_flight_is_bounded)
{
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

TEST(test_scheduled_tasks)
{
    struct built_task task = {.payload = {"x", 1}, .queue = "a", .jid = "j", .digest = "", .at_us = 4102444800000000};
    char payload[16];
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    for (unsigned i = 0; i < 250; i++) {
        task.payload = (struct text_span){payload, (size_t)snprintf(payload, sizeof payload, "%u", i)};
        add_task(&task, i);
    }
    push_flush(producer, &source);
    wait_idle();
    assert_int_equal(ends[HF_PUSH_SCHEDULED], 3);
    assert_reply(server, "250", "ZCARD schedule");
    assert_reply(server, "250", "ZCOUNT schedule 4102444800 4102444800.000250");
    assert_reply(
        server, "different",
        "EVAL \"local all, seen = redis.call('ZRANGE', 'schedule', 0, -1, 'WITHSCORES'), {} "
        "for i = 2, #all, 2 do if seen[all[i]] then return all[i] end seen[all[i]] = true end return 'different'\" 0");
    assert_reply(server, "0", "EXISTS queues");
}

#define DIGEST "0123456789012345678901234567890123456789"
#define ONE    "{\"jid\":\"one\",\"hf_unique\":\"" DIGEST "\"}"
#define TWO    "{\"jid\":\"two\",\"hf_unique\":\"" DIGEST "\"}"

static void begin_unique(const char *jid, int64_t at_us, uint64_t number)
{
    const char *text = strcmp(jid, "one") == 0 ? ONE : TWO;
    add_task(&(struct built_task){.payload = {text, strlen(text)},
                                  .queue = "a",
                                  .jid = jid,
                                  .digest = DIGEST,
                                  .unique_ms = 60000,
                                  .at_us = at_us},
             number);
    push_flush(producer, &source);
}

static void add_unique(const char *jid, int64_t at_us, uint64_t number)
{
    begin_unique(jid, at_us, number);
    wait_idle();
}

TEST(test_unique_tasks)
{
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    add_unique("one", 0, 1);
    add_unique("two", 0, 2);
    assert_int_equal(ends[HF_PUSH_DUPLICATE], 1);
    assert_string_equal(last_holder, "one");
    add_unique("two", 4102444800000000, 2);
    assert_int_equal(ends[HF_PUSH_DUPLICATE], 2);
    add_unique("one", 0, 3); /* repeated by its owner */
    assert_int_equal(ends[HF_PUSH_QUEUED], 2);
    assert_reply(server, ONE, "LRANGE queue:a 0 -1");
    assert_reply(server, "a", "SMEMBERS queues");
    assert_reply(server, "one", "GET hf:2:unique:" DIGEST);
    free(redis_server_command(server, "DEL hf:2:unique:" DIGEST));
    add_unique("two", 4102444800000000, 2);
    assert_reply(server, TWO, "ZRANGE schedule 0 -1");
    assert_true(queue_probe_number(server, "PTTL hf:2:unique:" DIGEST) > 50000);
}

/* --- unique tasks that others deleted ----------------------------------------------------------------------------- */

/* What a look noted is over. */
static void forget_looks(void)
{
    free(redis_server_command(server, "DEL hf:2:looked: hf:2:looked:" DIGEST));
}

static void assert_held(const char *by)
{
    unsigned before = ends[HF_PUSH_DUPLICATE];
    forget_looks();
    add_unique("two", 0, 2);
    assert_int_equal(ends[HF_PUSH_DUPLICATE], before + 1);
    assert_string_equal(last_holder, by);
}

static void assert_free(void)
{
    unsigned before = ends[HF_PUSH_QUEUED];
    forget_looks();
    add_unique("two", 0, 2);
    assert_int_equal(ends[HF_PUSH_QUEUED], before + 1);
    assert_reply(server, "two", "GET hf:2:unique:" DIGEST);
    assert_reply(server, TWO, "LINDEX queue:a 0");
}

static void given_a_unique_task(void)
{
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    add_unique("one", 0, 1);
}

TEST(test_a_unique_task_that_was_deleted_holds_nothing)
{
    given_a_unique_task();
    assert_held("one");
    assert_reply(server, "0", "EXISTS hf:2:looked:" DIGEST); /* who looks so cheaply may look again */
    free(redis_server_command(server, "DEL queue:a"));
    assert_free();
    assert_reply(server, "1", "LLEN queue:a");
}

/* By a dashboard, a foreign scheduler, an operator, a failure: whoever moves it. */
TEST(test_a_unique_task_holds_wherever_it_waits)
{
    static const char *const places[] = {"LPUSH queue:b '" ONE "'", "ZADD schedule 9999999999 '" ONE "'",
                                         "ZADD retry 1 '" ONE "'", "LPUSH hf:2:bell:h:1:a:b '" ONE "'",
                                         "HSET hf:2:process:h:1:a 7 '0123456789abcdefb\\n" ONE "'"};
    static const char *const keys[] = {"queue:b", "schedule", "retry", "hf:2:bell:h:1:a:b", "hf:2:process:h:1:a"};
    given_a_unique_task();
    free(redis_server_command(server, "DEL queue:a"));
    free(redis_server_command(server, "SADD queues b"));
    free(redis_server_command(server, "ZADD hf:2:processes 1 h:1:a"));
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        free(redis_server_command(server, "HSET hf:2:process:h:1:a queues b"));
        free(redis_server_command(server, "%s", places[i]));
        assert_held("one");
        free(redis_server_command(server, "DEL %s", keys[i]));
    }
    free(redis_server_command(server,
                              "RPUSH queue:c '" ONE "'")); /* given back by a process, in a queue without a name */
    free(redis_server_command(server, "HSET hf:2:process:h:1:a gone \"1b\\nc\""));
    assert_held("one");
    free(redis_server_command(server, "DEL queue:c"));
    assert_free();
}

/* It was ended before it ran, so it is in no place. */
TEST(test_a_unique_task_that_runs_at_most_once_holds)
{
    given_a_unique_task();
    start("a");
    queue_probe_claim(&probe, 0, ONE);
    assert_held("one");
    probe.slots[0].asked++;
    queue_open(probe.queue, 0, "one", true);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_OPENED);
    assert_held("one");
    queue_probe_settle(&probe, 0, false); /* its end is not told to the key: as if it had been lost */
    queue_probe_wait(&probe, 0);
    assert_free();
}

/* Another program has it in its hands when the first look misses it. */
TEST(test_a_unique_task_that_is_being_moved_is_not_gone)
{
    given_a_unique_task();
    free(redis_server_command(server, "DEL queue:a"));
    begin_unique("two", 0, 2);
    loop_await(loop, redis_server_calls(server, "lrange") > 0 || ended == added);
    free(redis_server_command(server, "LPUSH queue:a '" ONE "'"));
    wait_idle();
    assert_int_equal(ends[HF_PUSH_DUPLICATE], 1);
    assert_reply(server, "1", "LLEN queue:a");
}

/* The next to look is not the one who missed it. */
TEST(test_what_is_missed_once_is_not_gone_for_others)
{
    given_a_unique_task();
    free(redis_server_command(server, "DEL queue:a"));
    push_destroy(producer);
    produce(redis_server_port(server), 0, NS_PER_S / 2); /* has no time for a second look */
    for (int i = 0; i < 3; i++)
        assert_held("one");
    assert_reply(server, "0", "LLEN queue:a");
}

/* While unique tasks rest between two looks, others go their way: each rests for itself, and no later push makes the
 * node forget that they may be asked about again. */
TEST(test_those_who_look_twice_are_in_nobodys_way)
{
    given_a_unique_task();
    free(redis_server_command(server, "DEL queue:a"));
    begin_unique("two", 0, 2);
    loop_await(loop, redis_server_calls(server, "lrange") > 0 || ended == added);
    loop_for(loop, 400 * NS_PER_MS);
    for (unsigned i = 0; i < 3; i++) {
        add("b", i, 1);
        push_flush(producer, &source);
        loop_await(loop, ended >= i + 2);
    }
    wait_idle();
    assert_int_equal(ends[HF_PUSH_QUEUED], 5);
    assert_int_equal(ends[HF_PUSH_UNKNOWN], 0);
    assert_in_order("b", 0, 3);
    assert_reply(server, "1", "LLEN queue:a");
}

TEST(test_who_pushes_a_deleted_task_again_pushes_it)
{
    given_a_unique_task();
    add_unique("one", 0, 2);
    assert_reply(server, "1", "LLEN queue:a");
    free(redis_server_command(server, "DEL queue:a"));
    forget_looks();
    add_unique("one", 0, 2);
    assert_int_equal(ends[HF_PUSH_QUEUED], 3);
    assert_reply(server, "1", "LLEN queue:a");
}

/* --- what can't be known counts as there -------------------------------------------------------------------------- */

TEST(test_a_look_is_bounded)
{
    given_a_unique_task();
    free(redis_server_command(server, "DEL queue:a"));
    free(redis_server_command(server,
                              "EVAL \"for i = 1, 5001 do redis.call('ZADD', 'schedule', i, i) end return 1\" 0"));
    unsigned pages = redis_server_calls(server, "zrange");
    assert_held("one");
    assert_true(redis_server_calls(server, "zrange") - pages < 5);
    free(redis_server_command(server, "ZREMRANGEBYRANK schedule 0 999"));
    assert_free();
}

/* A second one, so soon, is not worth what it costs; and a push that meets nobody looks at nothing. */
TEST(test_looks_are_rare)
{
    given_a_unique_task();
    assert_int_equal(redis_server_calls(server, "zrange") + redis_server_calls(server, "exists"), 0);
    free(redis_server_command(server, "EVAL \"for i = 1, 1000 do redis.call('LPUSH', 'queue:a', i) end return 1\" 0"));
    assert_held("one");
    unsigned pages = redis_server_calls(server, "lrange");
    assert_true(pages > 10);
    assert_true(queue_probe_number(server, "PTTL hf:2:looked:" DIGEST) > 15000);
    free(redis_server_command(server, "DEL hf:2:looked:"));
    add_unique("two", 0, 2);
    assert_int_equal(ends[HF_PUSH_DUPLICATE], 2);
    assert_int_equal(redis_server_calls(server, "lrange"), pages);
    free(redis_server_command(server, "DEL hf:2:looked:" DIGEST));
    free(redis_server_command(server, "SET hf:2:looked: 1"));
    add_unique("two", 0, 2);
    assert_int_equal(redis_server_calls(server, "lrange"), pages);
}

static void show(const char *info)
{
    free(redis_server_command(server, "SADD processes other:1:z"));
    free(redis_server_command(server, "HSET other:1:z info '%s'", info));
}

/* A process of Sidekiq, say: what it has taken is nowhere. */
TEST(test_a_process_of_another_kind_may_have_it)
{
    given_a_unique_task();
    free(redis_server_command(server, "DEL queue:a"));
    show("{\"queues\":[\"b\",\"a\"]}");
    assert_held("one");
    show("no json");
    assert_held("one");
    show("{\"queues\":[\"b\"]}");
    assert_free();
}

TEST(test_what_may_not_be_read_may_be_there)
{
    given_a_unique_task();
    free(redis_server_command(server, "DEL queue:a"));
    free(redis_server_command(server, "SET retry foreign"));
    free(redis_server_command(server, "ACL SETUSER default -lrange"));
    assert_held("one");
    free(redis_server_command(server, "ACL SETUSER default +lrange"));
    assert_free();
}

TEST(test_a_refused_unique_task_leaves_nothing)
{
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    wait_up();
    free(redis_server_command(server, "SET queue:a foreign"));
    add_unique("one", 0, 1);
    assert_int_equal(ends[HF_PUSH_REFUSED], 1);
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    add_unique("two", 0, 1);
    add_unique("two", 4102444800000000, 1);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    assert_int_equal(ends[HF_PUSH_REFUSED], 3);
    assert_reply(server, "1", "DBSIZE");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, producer_setup, producer_teardown)
