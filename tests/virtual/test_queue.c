/* The life of a task at the queue node, one arrow and one rule a test. What trouble does to it, fleets of
 * the world show (tests/sim/fleet); waking and leaving are in test_blocking_claim.c and test_queue_leave.c. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "queue/keys.h"
#include "queue/waiting.h"
#include "tests/support/queue_fixture.h"

/* --- claiming ----------------------------------------------------------------------------------------------------- */

TEST(test_tasks_are_claimed_in_the_order_of_pushing)
{
    start("a");
    push("a", "one");
    push("a", "two");
    push("a", "three");
    queue_probe_claim(&probe, 0, "one");
    queue_probe_claim(&probe, 1, "two");
    queue_probe_claim(&probe, 2, "three");
    queue_probe_claim(&probe, 3, NULL);
    assert_string_equal(probe.slots[0].queue, "a");
    assert_int_equal(queue_counters(probe.queue)->claims, 3);
}

TEST(test_slots_of_one_call_get_tasks_in_order)
{
    start("a");
    push("a", "one");
    push("a", "two");
    push("a", "three");
    for (unsigned slot = 0; slot < 4; slot++)
        queue_probe_settle(&probe, slot, true);
    queue_probe_wait_all(&probe);
    assert_string_equal(probe.slots[0].payload, "one");
    assert_string_equal(probe.slots[1].payload, "two");
    assert_string_equal(probe.slots[2].payload, "three");
    assert_int_equal(probe.slots[3].answer, QUEUE_NOTHING);
}

TEST(test_a_slot_that_only_settles_gets_nothing)
{
    start("a");
    push("a", "one");
    push("a", "two");
    queue_probe_settle(&probe, 0, false);
    queue_probe_settle(&probe, 1, true);
    queue_probe_settle(&probe, 2, false);
    queue_probe_wait_all(&probe);
    assert_int_equal(probe.slots[0].answer, QUEUE_NOTHING);
    assert_string_equal(probe.slots[1].payload, "one");
    assert_int_equal(probe.slots[2].answer, QUEUE_NOTHING);
    assert_int_equal(queue_probe_number(server, "LLEN queue:a"), 1);
}

TEST(test_queues_are_emptied_in_the_order_given)
{
    start("urgent normal idle");
    push("idle", "i1");
    push("normal", "n1");
    push("urgent", "u1");
    push("normal", "n2");
    for (unsigned slot = 0; slot < 4; slot++)
        queue_probe_settle(&probe, slot, true);
    queue_probe_wait_all(&probe);
    static const char *const expected[][2] = {{"urgent", "u1"}, {"normal", "n1"}, {"normal", "n2"}, {"idle", "i1"}};
    for (unsigned slot = 0; slot < 4; slot++) {
        assert_string_equal(probe.slots[slot].queue, expected[slot][0]);
        assert_string_equal(probe.slots[slot].payload, expected[slot][1]);
    }
}

TEST(test_payloads_keep_their_bytes)
{
    start("a");
    free(redis_server_command(server, "LPUSH queue:a \"x\\n\\x00\\xff\\r\\n\\\"y\""));
    queue_probe_settle(&probe, 0, true);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_CLAIMED);
    assert_int_equal(probe.slots[0].length, 8);
    assert_memory_equal(probe.slots[0].payload, "x\n\0\xff\r\n\"y", 8);
    queue_probe_give_back(&probe, 0);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_reply(server, "1", "LREM queue:a 0 \"x\\n\\x00\\xff\\r\\n\\\"y\"");
}

TEST(test_finish_and_claim_are_one_call)
{
    start("a");
    push("a", "one");
    push("a", "two");
    queue_probe_claim(&probe, 0, "one");
    char tasks[128];
    snprintf(tasks, sizeof tasks, "%s one\nqueue:a two", queue_keys_of(probe.queue)->process);
    assert_tasks(tasks);
    unsigned before = queue_probe_scripts(server);
    queue_probe_claim(&probe, 0, "two");
    assert_int_equal(queue_probe_scripts(server), before + 1);
    queue_probe_settle(&probe, 0, false);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_tasks("");
}

TEST(test_slots_of_one_turn_share_one_call)
{
    queue_probe_start(&probe, loop, redis_server_port(server), "a b", &(struct queue_options){.slots = 64});
    queue_probe_wait_up(&probe);
    for (int i = 0; i < 50; i++)
        push(i % 2 == 0 ? "a" : "b", "task");
    unsigned before = queue_probe_scripts(server);
    for (unsigned slot = 0; slot < 64; slot++)
        queue_probe_settle(&probe, slot, true);
    queue_probe_wait_all(&probe);
    assert_int_equal(queue_counters(probe.queue)->claim_calls, 1);
    assert_int_equal(queue_counters(probe.queue)->claims, 50);
    assert_int_equal(queue_probe_scripts(server), before + 1);
}

TEST(test_a_call_takes_no_more_slots_than_it_may)
{
    queue_probe_start(&probe, loop, redis_server_port(server), "a",
                      &(struct queue_options){.slots = 64, .call_slots = 25});
    queue_probe_wait_up(&probe);
    for (int i = 0; i < 64; i++)
        push("a", (char[]){(char)('0' + i), '\0'});
    for (unsigned slot = 0; slot < 64; slot++)
        queue_probe_settle(&probe, slot, true);
    queue_probe_wait_all(&probe);
    assert_int_equal(queue_counters(probe.queue)->claim_calls, 3);
    for (unsigned slot = 0; slot < 64; slot++) {
        assert_int_equal(probe.slots[slot].answer, QUEUE_CLAIMED);
        assert_int_equal(probe.slots[slot].payload[0] - '0', slot);
    }

    /* Unless one of them had a lock. */
    struct waiting_end end = {.lists = (const char *[]){"resource:r"}, .list_count = 1, .jid = "jid"};
    probe.slots[0].asked++;
    queue_settle_and_free(probe.queue, 0, true, &end);
    for (unsigned slot = 1; slot < 64; slot++)
        queue_probe_settle(&probe, slot, true);
    queue_probe_wait_all(&probe);
    assert_int_equal(queue_counters(probe.queue)->claim_calls, 4);

    for (unsigned slot = 0; slot < 64; slot++)
        queue_probe_settle(&probe, slot, true); /* and nobody waits for the rest */
    loop_for(loop, 0);
}

TEST(test_a_call_claims_a_bounded_number_of_bytes)
{
    queue_probe_start(&probe, loop, redis_server_port(server), "a",
                      &(struct queue_options){.slots = 8, .claim_bytes = 2500000});
    free(redis_server_command(
        server, "EVAL \"for i = 1, 8 do redis.call('LPUSH', KEYS[1], i .. string.rep('x', 1000000)) end\" 1 queue:a"));
    unsigned next = 1;
    while (next <= 8) {
        for (unsigned slot = 0; slot < 8; slot++)
            queue_probe_settle(&probe, slot, true);
        queue_probe_wait_all(&probe);
        for (unsigned slot = 0; slot < 8; slot++) {
            unsigned expected = slot < 2 ? next + slot : 0;
            bool is_claimed = probe.slots[slot].answer == QUEUE_CLAIMED;
            assert_int_equal(is_claimed ? probe.slots[slot].payload[0] - '0' : 0, expected);
        }
        next += 2;
        char expected[2 * 8 + 1] = "";
        for (unsigned i = 8; i >= next; i--)
            snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%u", i);
        assert_reply(server, expected,
                     "EVAL \"local s = '' for _, t in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do s = s .. "
                     "string.sub(t, 1, 1) end return s\" 1 queue:a");
    }
}

TEST(test_a_task_larger_than_the_budget_is_claimed_alone)
{
    queue_probe_start(&probe, loop, redis_server_port(server), "a", &(struct queue_options){.claim_bytes = 10});
    push("a", "much-longer-than-ten-bytes");
    push("a", "two");
    queue_probe_settle(&probe, 0, true);
    queue_probe_settle(&probe, 1, true);
    queue_probe_wait_all(&probe);
    assert_string_equal(probe.slots[0].payload, "much-longer-than-ten-bytes");
    assert_int_equal(probe.slots[1].answer, QUEUE_NOTHING);
    queue_probe_claim(&probe, 1, "two");
}

TEST(test_what_the_budget_has_no_room_for_stays_in_the_next_queue)
{
    queue_probe_start(&probe, loop, redis_server_port(server), "a b", &(struct queue_options){.claim_bytes = 10});
    push("a", "one");
    push("b", "longer-than-the-rest");
    queue_probe_settle(&probe, 0, true);
    queue_probe_settle(&probe, 1, true);
    queue_probe_wait_all(&probe);
    assert_string_equal(probe.slots[0].payload, "one");
    assert_int_equal(probe.slots[1].answer, QUEUE_NOTHING);
    assert_reply(server, "longer-than-the-rest", "LRANGE queue:b 0 -1");
}

/* --- postponing and giving back ----------------------------------------------------------------------------------- */

static void assert_postponed(enum queue_state state, const char *key, double delay)
{
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    double before = (double)wall_now().us / 1e6;
    queue_probe_postpone(&probe, 0, state, (int64_t)(delay * 1e9), "rewritten");
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    double after = (double)wall_now().us / 1e6;

    char *entry = redis_server_command(server, "ZRANGE %s 0 -1 WITHSCORES", key);
    assert_memory_equal(entry, "rewritten\n", 10);
    double score = strtod(entry + 10, NULL);
    assert_true(score >= before + delay - 1e-5 && score <= after + delay + 1e-5);
    free(entry);
    char text[64];
    snprintf(text, sizeof text, "%s rewritten", key);
    assert_tasks(text);
    queue_probe_claim(&probe, 0, NULL);
}

TEST(test_postponed_to_retry)
{
    assert_postponed(QUEUE_RETRY, "retry", 15.25);
}

TEST(test_postponed_to_schedule)
{
    assert_postponed(QUEUE_SCHEDULE, "schedule", 0.000001);
}

TEST(test_buried)
{
    assert_postponed(QUEUE_DEAD, "dead", 0);
}

/* To the node the same bytes would be one entry. */
TEST(test_of_two_tasks_with_the_same_bytes_none_is_lost)
{
    static const char *const keys[] = {[QUEUE_RETRY] = "retry", [QUEUE_SCHEDULE] = "schedule", [QUEUE_DEAD] = "dead"};
    enum { TWINS = 3 };
    start("a");
    for (enum queue_state to = QUEUE_RETRY; to <= QUEUE_DEAD; to++) {
        for (unsigned i = 0; i < TWINS; i++) {
            push("a", "one");
            queue_probe_claim(&probe, i, "one");
        }
        for (unsigned i = 0; i < TWINS; i++)
            queue_probe_postpone(&probe, i, to, NS_PER_S, "{}");
        queue_probe_wait_all(&probe);
        assert_reply(server, "3", "ZCARD %s", keys[to]);
        assert_reply(server, "{}{}{}",
                     "EVAL \"return string.gsub(table.concat(redis.call('ZRANGE', KEYS[1], 0, -1)), '%%s', '')\" 1 %s",
                     keys[to]);
    }
}

TEST(test_dead_keeps_9999_entries_of_half_a_year)
{
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    free(redis_server_command(server, "EVAL \"local t = redis.call('TIME')[1] for i = 1, 10500 do "
                                      "redis.call('ZADD', 'dead', t - 10501 + i, 'young' .. i) end "
                                      "redis.call('ZADD', 'dead', t - 15552100, 'old') return 1\" 0"));
    queue_probe_postpone(&probe, 0, QUEUE_DEAD, 0, "one");
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_reply(server, "9999", "ZCARD dead");
    assert_reply(server, "one", "ZRANGE dead -1 -1");
    assert_reply(server, "(nil)", "ZSCORE dead old");

    free(redis_server_command(server, "ZREMRANGEBYRANK dead 0 5000"));
    free(redis_server_command(server,
                              "EVAL \"return redis.call('ZADD', 'dead', redis.call('TIME')[1] - 15552100, 'old')\" 0"));
    push("a", "two");
    queue_probe_claim(&probe, 0, "two");
    queue_probe_postpone(&probe, 0, QUEUE_DEAD, 0, "two");
    queue_probe_wait(&probe, 0);
    assert_reply(server, "4999", "ZCARD dead");
    assert_reply(server, "(nil)", "ZSCORE dead old");
}

TEST(test_retry_and_schedule_are_not_trimmed)
{
    start("a");
    free(
        redis_server_command(server, "EVAL \"for i = 1, 10500 do redis.call('ZADD', 'retry', i, 'task' .. i) end\" 0"));
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    queue_probe_postpone(&probe, 0, QUEUE_RETRY, 0, "one");
    queue_probe_wait(&probe, 0);
    assert_reply(server, "10501", "ZCARD retry");
}

TEST(test_given_back_at_the_head)
{
    start("a");
    push("a", "one");
    push("a", "two");
    queue_probe_claim(&probe, 0, "one");
    queue_probe_give_back(&probe, 0);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_tasks("queue:a one\nqueue:a two");
    queue_probe_claim(&probe, 0, "one");
    queue_probe_claim(&probe, 1, "two");
}

/* --- losing ------------------------------------------------------------------------------------------------------- */

/* A recovery empties the slot; whatever the slot says then is answered LOST and changes nothing. */
TEST(test_lost_when_the_claim_was_taken)
{
    start("a");
    for (unsigned slot = 0; slot < 4; slot++) {
        push("a", "task");
        queue_probe_claim(&probe, slot, "task");
    }
    free(redis_server_command(server, "DEL %s hf:2:processes", queue_keys_of(probe.queue)->process));
    push("a", "later");
    queue_probe_settle(&probe, 0, true);
    queue_probe_settle(&probe, 1, false);
    queue_probe_postpone(&probe, 2, QUEUE_RETRY, 0, "task");
    queue_probe_give_back(&probe, 3);
    for (unsigned slot = 0; slot < 4; slot++)
        assert_int_equal(queue_probe_wait(&probe, slot), QUEUE_LOST);
    assert_tasks("queue:a later");
    queue_probe_claim(&probe, 0, "later");
    assert_reply(server, probe.identity, "ZRANGE hf:2:processes 0 -1");
}

/* After a fail-over the node may know an older state: another id and another task in the slot. That task is
 * not forgotten, and the slot can go on. */
TEST(test_an_older_claim_is_given_back)
{
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    free(redis_server_command(server, "HSET %s 0 \"0123456789abcdefa\\nolder\"", queue_keys_of(probe.queue)->process));
    queue_probe_settle(&probe, 0, true);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_LOST);
    assert_tasks("queue:a older");
    queue_probe_claim(&probe, 0, "older");

    free(redis_server_command(server, "HSET %s 0 \"0123456789abcdef\"", queue_keys_of(probe.queue)->process));
    queue_probe_postpone(&probe, 0, QUEUE_RETRY, 0, "older");
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_LOST);
    assert_tasks("");
    queue_probe_settle(&probe, 0, true);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_LOST);
    queue_probe_claim(&probe, 0, NULL);
}

/* --- a foreign value under one of our keys ------------------------------------------------------------------------ */

static bool refused_twice(void *context)
{
    (void)context;
    return queue_counters(probe.queue)->repeats >= 2;
}

/* Nothing moves while the clash lasts, and the call succeeds once it is gone. */
static void assert_waits_for_the_end_of_the_clash(const char *key, const char *tasks)
{
    assert_true(loop_until(loop, refused_twice, NULL, TEST_PATIENCE_NS));
    assert_tasks(tasks);
    free(redis_server_command(server, "DEL %s", key));
}

TEST(test_a_foreign_key_does_not_swallow_a_postponed_task)
{
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    free(redis_server_command(server, "SET retry foreign"));
    queue_probe_postpone(&probe, 0, QUEUE_RETRY, 0, "one");
    char tasks[128];
    snprintf(tasks, sizeof tasks, "%s one", queue_keys_of(probe.queue)->process);
    assert_waits_for_the_end_of_the_clash("retry", tasks);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_tasks("retry one");
}

TEST(test_a_foreign_key_does_not_swallow_a_task_given_back)
{
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    free(redis_server_command(server, "SET queue:a foreign"));
    queue_probe_give_back(&probe, 0);
    char tasks[128];
    snprintf(tasks, sizeof tasks, "%s one", queue_keys_of(probe.queue)->process);
    assert_waits_for_the_end_of_the_clash("queue:a", tasks);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_tasks("queue:a one");
}

TEST(test_a_foreign_key_does_not_stop_other_queues)
{
    start("a b");
    push("a", "one");
    free(redis_server_command(server, "SET queue:b foreign"));
    queue_probe_settle(&probe, 0, true);
    queue_probe_settle(&probe, 1, true);
    queue_probe_wait_all(&probe);
    assert_string_equal(probe.slots[0].payload, "one");
    assert_int_equal(probe.slots[1].answer, QUEUE_NOTHING);
}

/* --- out of memory ------------------------------------------------------------------------------------------------ */

/* What frees a slot works without memory; a finish does so together with the next claim. */
TEST(test_settling_works_without_memory)
{
    start("a");
    free(redis_server_command(server, "LPUSH queue:a one two three four five six"));
    queue_probe_claim(&probe, 0, "one");
    queue_probe_claim(&probe, 1, "two");
    queue_probe_claim(&probe, 2, "three");
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    uint64_t repeats = queue_counters(probe.queue)->repeats;
    queue_probe_claim(&probe, 0, "four");
    queue_probe_postpone(&probe, 1, QUEUE_RETRY, 0, "two");
    assert_int_equal(queue_probe_wait(&probe, 1), QUEUE_NOTHING);
    queue_probe_give_back(&probe, 2);
    assert_int_equal(queue_probe_wait(&probe, 2), QUEUE_NOTHING);
    queue_probe_claim(&probe, 3, "three");
    queue_probe_settle(&probe, 3, false);
    assert_int_equal(queue_probe_wait(&probe, 3), QUEUE_NOTHING);
    assert_int_equal(queue_counters(probe.queue)->repeats, repeats);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    char *tasks = queue_probe_tasks(server), expected[256];
    const char *claims = queue_keys_of(probe.queue)->process;
    snprintf(expected, sizeof expected, "%s four\nqueue:a five\nqueue:a six\nretry two", claims);
    assert_string_equal(tasks, expected);
    free(tasks);
}

/* --- progress ----------------------------------------------------------------------------------------------------- */

static bool claimed_has_no_progress(const char *payload)
{
    free(redis_server_command(server, "LPUSH queue:a '%s'", payload));
    queue_probe_claim(&probe, 0, payload);
    return queue_has_no_progress(probe.queue, 0);
}

/* It may start before the node has said what an earlier run left. */
TEST(test_a_claim_tells_which_task_has_no_progress)
{
    static const struct {
        const char *payload;
        bool has_none;
    } cases[] = {
        {"{\"class\":\"c\",\"jid\":\"new\"}", true},
        {"{\"class\":\"c\",\"jid\":\"old\"}", false},
        {"{\"jid\" :\t\"new\"}", true},
        {"{\"jid\" :\t\"old\"}", false},
        {"{\"args\":[{\"jid\":\"new\"}],\"jid\":\"old\"}", false},
        {"{\"args\":[{\"jid\":\"new\"}],\"jid\":\"other\"}", true},
        {"{\"args\":[{\"jid\":\"new\"}],\"j\\u0069d\":\"old\"}", false},
        {"{\"args\":[{\"jid\":\"new\"}],\"jid\":\"\\/\"}", false},
        {"{\"args\":[{\"jid\":\"1\"},{\"jid\":\"2\"},{\"jid\":\"3\"},{\"jid\":\"4\"}],\"jid\":\"new\"}", false},
        {"none", false},
    };
    start("a");
    free(redis_server_command(server, "HSET it-old ex 1 c 7 rt 1"));
    assert_false(claimed_has_no_progress("{\"jid\":\"new\"}")); /* nobody had asked yet */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(claimed_has_no_progress(cases[i].payload), cases[i].has_none);
    queue_probe_settle(&probe, 0, false);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_false(queue_has_no_progress(probe.queue, 0));
}

/* --- names -------------------------------------------------------------------------------------------------------- */

TEST(test_the_space_is_put_before_every_key)
{
    queue_probe_start(&probe, loop, redis_server_port(server), "a", &(struct queue_options){.space = "dry:"});
    free(redis_server_command(server, "LPUSH dry:queue:a one"));
    queue_probe_claim(&probe, 0, "one");
    queue_probe_postpone(&probe, 0, QUEUE_RETRY, 0, "one");
    queue_probe_wait(&probe, 0);
    char expected[128];
    snprintf(expected, sizeof expected, "dry:hf:2:process:%s\ndry:hf:2:processes\ndry:retry", probe.identity);
    assert_keys(expected);
}

TEST(test_until_the_node_tells_the_time_ours_counts)
{
    start("a");
    struct wall_time before = wall_now(), now = queue_now(probe.queue);
    assert_in_range(now.us, before.us, wall_now().us);
    queue_probe_claim(&probe, 0, NULL);
    loop_for(loop, 2 * NS_PER_S);
    now = queue_now(probe.queue); /* and the node's goes on with our own */
    assert_in_range(now.us, before.us + 2 * US_PER_S - 100000, wall_now().us + US_PER_S);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
