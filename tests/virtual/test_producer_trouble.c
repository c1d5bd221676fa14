/* The engine of libholdfast in trouble: every task has exactly one end, that end is the truth, and nothing is
 * doubled. */
#include "tests/support/test.h"

#include "queue/scripts.h"
#include "tests/support/producer_fixture.h"

TEST(test_tasks_wait_for_a_node_that_is_down)
{
    redis_server_kill(server);
    produce(redis_server_port(server), 2, NS_PER_S);
    add("a", 0, 5000);
    push_flush(producer, &source);
    while (!redis_node_was_tried(push_node(producer)))
        loop_for(loop, NS_PER_MS);
    assert_int_equal(ended, 0);
    redis_server_restart(server);
    wait_idle();
    assert_int_equal(tasks[HF_PUSH_QUEUED], 5000);
    assert_in_order("a", 0, 5000);
}

static void clock_told(void *context, struct wall_time node, struct instant at)
{
    int64_t *told_us = context;
    (void)at;
    *told_us = node.us;
}

static void produce_with_clock(int64_t *told_us)
{
    *told_us = -1;
    producer = push_create(loop, &(struct push_options){.node = {.name = "queue",
                                                                 .host = "127.0.0.1",
                                                                 .port = redis_server_port(server),
                                                                 .backoff_min_ns = 2 * NS_PER_MS,
                                                                 .backoff_max_ns = 20 * NS_PER_MS},
                                                        .patience_ns = patience_ns,
                                                        .told = clock_told,
                                                        .told_context = told_us});
}

/* Or the first tasks would count by another clock than the rest. */
TEST(the_clock_of_a_node_that_is_down_is_waited_for)
{
    int64_t told_us = 0;
    redis_server_kill(server);
    produce_with_clock(&told_us);
    while (!redis_node_was_tried(push_node(producer)))
        loop_for(loop, NS_PER_MS);
    loop_for(loop, 100 * NS_PER_MS);
    assert_int_equal(told_us, -1);
    redis_server_restart(server);
    wait_up();
    while (told_us == -1)
        loop_for(loop, NS_PER_MS);
    assert_true(told_us > 0);
}

TEST(the_clock_of_a_node_that_stays_down_is_waited_for_no_longer_than_its_tasks)
{
    int64_t told_us = 0;
    redis_server_kill(server);
    patience_ns = 200 * NS_PER_MS;
    produce_with_clock(&told_us);
    while (told_us == -1)
        loop_for(loop, NS_PER_MS);
    assert_int_equal(told_us, 0);
}

/* It would go on doing so. */
TEST(a_task_for_a_node_that_has_denied_access_does_not_wait)
{
    struct redis_server *closed = redis_server_start(&(struct redis_server_options){.password = "secret"});
    produce(redis_server_port(closed), 1, TEST_PATIENCE_NS);
    while (!redis_node_was_tried(push_node(producer)))
        loop_for(loop, NS_PER_MS);
    struct instant before = loop_now(loop);
    add("a", 0, 1);
    push_flush(producer, &source);
    wait_idle();
    assert_int_equal(tasks[HF_PUSH_DENIED], 1);
    assert_true(instant_since(before, loop_now(loop)) < TEST_PATIENCE_NS / 3);
    redis_server_destroy(closed);
}

/* The tasks are there, the answers are lost: asking again finds that out and doubles nothing. */
TEST(test_lost_replies_are_asked_for_again)
{
    produce(relay_port(relay), 0, TEST_PATIENCE_NS);
    wait_up();
    relay_swallow(relay, true);
    add("a", 0, 1500);
    push_flush(producer, &source);
    while (queue_probe_number(server, "LLEN queue:a") < 1500)
        loop_for(loop, NS_PER_MS);
    assert_int_equal(ended, 0);
    char *record = redis_server_command(server, "KEYS hf:2:producer:*");
    assert_reply(server, "1\nlow\n2", "ZRANGE %s 0 -1", record); /* both may be asked about */
    free(record);
    relay_cut(relay);
    relay_swallow(relay, false);
    wait_idle();
    assert_int_equal(tasks[HF_PUSH_QUEUED], 1500);
    assert_int_equal(redis_server_calls(server, "evalsha"), 4);
    add("a", 1500, 1);
    push_flush(producer, &source);
    wait_idle();
    assert_in_order("a", 0, 1501);
}

/* A connection that never brings an answer: after a while that is said. */
TEST(test_patience_ends_in_unknown)
{
    patience_ns = 100 * NS_PER_MS;
    produce(relay_port(relay), 1, TEST_PATIENCE_NS);
    wait_up();
    relay_swallow(relay, true);
    add("a", 0, 1500);
    push_flush(producer, &source);
    while (queue_probe_number(server, "LLEN queue:a") < 1000)
        loop_for(loop, NS_PER_MS);
    relay_cut(relay);
    wait_idle();
    assert_int_equal(tasks[HF_PUSH_UNKNOWN], 1000);
    assert_int_equal(tasks[HF_PUSH_UNREACHABLE], 500);
    relay_swallow(relay, false);
    assert_in_order("a", 0, 1000);
}

TEST(test_a_late_reply_is_unknown_too)
{
    produce(redis_server_port(server), 0, 50 * NS_PER_MS);
    wait_up();
    redis_server_pause(server);
    add("a", 0, 10);
    push_flush(producer, &source);
    wait_idle();
    assert_int_equal(ends[HF_PUSH_UNKNOWN], 1);
    assert_int_equal(last_first, 0);
    assert_int_equal(last_last, 9);
    redis_server_resume(server);
    add("a", 10, 10);
    push_flush(producer, &source);
    wait_idle();
    assert_in_order("a", 0, 20);
}

/* The server reads what was sent on a dead connection only after the repetition was answered: nothing is doubled. */
TEST(test_a_first_try_that_arrives_last_changes_nothing)
{
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    wait_up();
    add("a", 0, 1);
    push_flush(producer, &source);
    wait_idle();
    char *record = redis_server_command(server, "KEYS hf:2:producer:*");
    add("a", 1, 2);
    push_flush(producer, &source);
    wait_idle();
    static const struct {
        const char *numbers, *answer; /* its own and the lowest */
    } late[] = {{"1 1", "-1"}, {"2 1", "0"}, {"2 2", "0"}};
    for (unsigned i = 0; i < sizeof late / sizeof late[0]; i++)
        assert_reply(server, late[i].answer, "EVALSHA %s 3 %s queue:a queues %s 60000 a late", queue_script_push.sha1,
                     record, late[i].numbers);
    assert_reply(server, "", "EVALSHA %s 4 %s unique queue:a queues 1 1 60000 a jid 60000 '' late",
                 queue_script_push_unique.sha1, record);
    assert_reply(server, "jid", "EVALSHA %s 4 %s unique queue:a queues 2 1 60000 a jid 60000 '' late",
                 queue_script_push_unique.sha1, record);
    assert_reply(server, "0", "EXISTS unique");
    free(record);
    assert_in_order("a", 0, 3);
}

TEST(test_the_record_is_small_and_goes)
{
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    for (unsigned i = 0; i < 50; i++) {
        add("a", i, 1);
        push_flush(producer, &source);
        wait_idle();
    }
    char *record = redis_server_command(server, "KEYS hf:2:producer:*");
    assert_reply(server, "2", "ZCARD %s", record);
    assert_in_range(
        queue_probe_number(server, "EVAL \"return redis.call('TTL', redis.call('KEYS', 'hf:2:producer:*')[1])\" 0"),
        3590, 3600);
    free(record);
    bool finished = false;
    push_finish(producer, finish, &finished);
    assert_true(loop_until(loop, is_true, &finished, TEST_PATIENCE_NS));
    assert_reply(server, "", "KEYS hf:2:producer:*");
}

TEST(test_who_refuses_for_a_while_is_asked_again)
{
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    wait_up();
    free(redis_server_command(server, "CONFIG SET min-replicas-to-write 1"));
    add("a", 0, 5);
    push_flush(producer, &source);
    unsigned asked = 3;
    while (redis_server_calls(server, "evalsha") < asked)
        loop_for(loop, NS_PER_MS);
    assert_int_equal(ended, 0);
    free(redis_server_command(server, "CONFIG SET min-replicas-to-write 0"));
    wait_idle();
    assert_in_order("a", 0, 5);
}

TEST(test_who_goes_on_refusing_has_refused)
{
    patience_ns = 100 * NS_PER_MS;
    produce(redis_server_port(server), 0, TEST_PATIENCE_NS);
    wait_up();
    free(redis_server_command(server, "CONFIG SET min-replicas-to-write 1"));
    add("a", 0, 5);
    push_flush(producer, &source);
    wait_idle();
    free(redis_server_command(server, "CONFIG SET min-replicas-to-write 0"));
    assert_int_equal(tasks[HF_PUSH_REFUSED], 5);
    assert_contains(last_reason, "NOREPLICAS");
    assert_reply(server, "0", "EXISTS queue:a");
}

TEST(test_a_refusal_is_certain)
{
    produce(redis_server_port(server), 0, NS_PER_S);
    wait_up();
    free(redis_server_command(server, "SET queue:b foreign"));
    add("b", 0, 5);
    add("a", 0, 5);
    push_flush(producer, &source);
    wait_idle();
    assert_int_equal(ends[HF_PUSH_REFUSED], 1);
    assert_int_equal(ends[HF_PUSH_QUEUED], 1);
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    add("a", 5, 5);
    push_flush(producer, &source);
    wait_idle();
    assert_int_equal(ends[HF_PUSH_REFUSED], 2);
    assert_contains(last_reason, "OOM");
    assert_int_equal(tasks[HF_PUSH_REFUSED], 10);
    assert_in_order("a", 0, 5);
}

TEST(test_what_is_dropped_is_told)
{
    produce(redis_server_port(server), 1, NS_PER_S);
    wait_up();
    redis_server_pause(server);
    add("a", 0, 2500);
    add("b", 2500, 1);
    push_drop(producer, &source);
    assert_int_equal(ends[HF_PUSH_DROPPED], 3);
    assert_int_equal(ended, 1501);
    assert_int_equal(tasks[HF_PUSH_DROPPED], 1501);
    redis_server_resume(server);
    wait_idle();
    assert_int_equal(tasks[HF_PUSH_QUEUED], 1000);
    assert_in_order("a", 0, 1000);
    assert_reply(server, "0", "EXISTS queue:b");
}

TEST(test_the_end_with_tasks_in_every_state)
{
    produce(redis_server_port(server), 1, NS_PER_S);
    wait_up();
    redis_server_pause(server);
    add("a", 0, 2500); /* in flight, waiting, filling; the memory checker sees what is forgotten */
    loop_for(loop, 5 * NS_PER_MS);
    push_destroy(producer);
    producer = NULL;
    assert_int_equal(ended, 0);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, producer_setup, producer_teardown)
