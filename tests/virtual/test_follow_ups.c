/* The end of a task that pushes others and leaves a result: all of it in one instant, once, or nothing of it. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "queue/keys.h"
#include "tests/support/queue_fixture.h"

#define UNIQUE "0123456789012345678901234567890123456789"

static const struct queue_task_name parent = {.jid = "parent"};

#define TEXT(text)                                                                                                     \
    (struct text_span)                                                                                                 \
    {                                                                                                                  \
        text, sizeof text - 1                                                                                          \
    }

/* To two queues and twice into the schedule. */
static const struct queue_follow_up mixed[] = {
    {.queue = "x", .payload = {"one", 3}},          {.queue = "x", .payload = {"two", 3}},
    {.at_us = 2000000000, .payload = {"later", 5}}, {.at_us = 2000000000, .payload = {"last", 4}},
    {.queue = "y", .payload = {"three", 5}},        {.queue = "x", .payload = {"four", 4}},
};

#define ALL_PLACES "queue:x four\nqueue:x one\nqueue:x two\nqueue:y three\nschedule last\nschedule later"

static struct queue_extras mixed_extras(void)
{
    return (struct queue_extras){.follow_ups = mixed,
                                 .follow_up_count = sizeof mixed / sizeof mixed[0],
                                 .result = TEXT("{\"result\":7}"),
                                 .result_ttl_ns = 60 * NS_PER_S};
}

static void finish_mixed(const struct queue_task_name *task)
{
    struct queue_extras extras = mixed_extras();
    queue_probe_finish_with(&probe, 0, task, &extras);
}

static void start_with_the_parent(const char *names)
{
    start(names);
    queue_probe_wait_up(&probe);
    push("a", "task");
    queue_probe_claim(&probe, 0, "task");
}

static const char *claimed_place(void)
{
    static char text[256];
    snprintf(text, sizeof text, "%s task", queue_keys_of(probe.queue)->process);
    return text;
}

/* --- what it does ------------------------------------------------------------------------------------------------- */

static void assert_mixed_is_there(void)
{
    assert_reply(server, "four\ntwo\none", "LRANGE queue:x 0 -1");
    assert_reply(server, "three", "LRANGE queue:y 0 -1");
    assert_reply(server, "later\nlast", "ZRANGE schedule 0 -1");
    assert_reply(server, "later", "ZRANGEBYSCORE schedule 2000 2000");
    assert_reply(server, "last", "ZRANGEBYSCORE schedule 2000.000001 2000.000001");
    assert_reply(server, "x\ny", "SORT queues ALPHA");
    assert_reply(server, "{\"result\":7}", "GET hf:2:result:parent");
    assert_reply(server, "1",
                 "EVAL \"local ttl = redis.call('PTTL', 'hf:2:result:parent') return ttl > 50000 and ttl <= 60000 "
                 "and 1 or 0\" 0");
}

TEST(test_everything_is_done_in_one_call)
{
    start_with_the_parent("a");
    free(redis_server_command(server, "HSET it-parent ex 1 c {} rt 1 run r"));
    finish_mixed(&parent);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_mixed_is_there();
    assert_reply(server, "0", "EXISTS it-parent");
    queue_probe_claim(&probe, 0, NULL);
    assert_reply(server, "3", "LLEN queue:x");
}

TEST(test_a_result_alone_and_follow_ups_alone)
{
    start_with_the_parent("a");
    push("a", "task");
    queue_probe_finish_with(&probe, 0, &parent,
                            &(struct queue_extras){.result = TEXT("7"), .result_ttl_ns = 60 * NS_PER_S});
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_reply(server, "7", "GET hf:2:result:parent");
    assert_reply(server, "0", "EXISTS queues");
    free(redis_server_command(server, "DEL hf:2:result:parent"));
    queue_probe_claim(&probe, 0, "task");
    queue_probe_finish_with(&probe, 0, &parent, &(struct queue_extras){.follow_ups = mixed, .follow_up_count = 1});
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_tasks("queue:x one");
    assert_reply(server, "0", "EXISTS hf:2:result:parent");
}

/* Less than a millisecond, which is the least that the node takes. */
TEST(test_a_result_that_is_kept_for_no_time_does_no_harm)
{
    start_with_the_parent("a");
    queue_probe_finish_with(&probe, 0, &parent,
                            &(struct queue_extras){.result = TEXT("7"), .result_ttl_ns = NS_PER_MS / 2});
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
}

/* Of an earlier run, perhaps: it counts from now. */
TEST(test_a_result_replaces_a_former_one)
{
    start_with_the_parent("a");
    free(redis_server_command(server, "RPUSH hf:2:result:parent foreign"));
    finish_mixed(&parent);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_reply(server, "{\"result\":7}", "GET hf:2:result:parent");
}

TEST(test_what_was_unique_and_cancelled_is_given_free)
{
    start_with_the_parent("a");
    free(redis_server_command(server, "SET hf:2:unique:" UNIQUE " parent"));
    free(redis_server_command(server, "ZADD hf:2:cancels 1 parent 2 another"));
    finish_mixed(&(struct queue_task_name){.jid = "parent", .unique = UNIQUE, .is_cancelled = true});
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_reply(server, "0", "EXISTS hf:2:unique:" UNIQUE);
    assert_reply(server, "another", "ZRANGE hf:2:cancels 0 -1");
}

/* It was ended before it ran: its slot is empty but for the id. */
TEST(test_the_result_of_a_task_that_runs_at_most_once)
{
    start_with_the_parent("a");
    probe.slots[0].asked++;
    queue_open(probe.queue, 0, "parent", true);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_OPENED);
    assert_tasks("");
    struct queue_extras extras = {.result = TEXT("7"), .result_ttl_ns = 60 * NS_PER_S};
    queue_probe_finish_with(&probe, 0, &(struct queue_task_name){.jid = "parent", .is_ended = true}, &extras);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_reply(server, "7", "GET hf:2:result:parent");
}

TEST(test_a_thousand_to_one_queue_and_to_many)
{
    enum { MANY = QUEUE_FOLLOW_UPS_MAX };
    struct queue_follow_up *tasks = memory_zeroed(MANY, sizeof tasks[0]);
    char(*names)[16] = memory_zeroed(MANY, sizeof names[0]), (*texts)[16] = memory_zeroed(MANY, sizeof texts[0]);
    start("a");
    queue_probe_wait_up(&probe);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            snprintf(names[i], sizeof names[i], "q%u", round == 0 ? 0 : i);
            snprintf(texts[i], sizeof texts[i], "task%u", i);
            tasks[i] = (struct queue_follow_up){
                .queue = round < 2 ? names[i] : NULL, .at_us = 5000000, .payload = {texts[i], strlen(texts[i])}};
        }
        push("a", "task");
        queue_probe_claim(&probe, 0, "task");
        queue_probe_finish_with(&probe, 0, &parent,
                                &(struct queue_extras){.follow_ups = tasks, .follow_up_count = MANY});
        assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    }
    assert_reply(server, "1001", "LLEN queue:q0");
    assert_reply(server, "task0", "LINDEX queue:q0 0");
    assert_reply(server, "task0", "LINDEX queue:q0 -1");
    assert_reply(server, "1", "LLEN queue:q999");
    assert_reply(server, "1000", "SCARD queues");
    assert_reply(server, "1000",
                 "EVAL \"local seen, count = {}, 0 "
                 "local all = redis.call('ZRANGE', 'schedule', 0, -1, 'WITHSCORES') "
                 "for i = 2, #all, 2 do if not seen[all[i]] then seen[all[i]] = 1 count = count + 1 "
                 "end end return count\" 0");
    free(tasks);
    free(names);
    free(texts);
}

/* Dashboards address an entry of the schedule by its score. */
TEST(test_no_two_entries_of_the_schedule_have_one_score)
{
    start_with_the_parent("a");
    free(redis_server_command(server, "ZADD schedule 2000 there 2000.000002 too"));
    finish_mixed(&parent);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_reply(server, "there\nlater\ntoo\nlast", "ZRANGE schedule 0 -1");
    assert_reply(server, "1", "ZCOUNT schedule 2000.000003 2000.000003");
}

TEST(test_a_follow_up_takes_no_others_place)
{
    start_with_the_parent("a");
    free(redis_server_command(server, "ZADD schedule 5 later"));
    finish_mixed(&parent);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_reply(server, "3", "ZCARD schedule");
    assert_reply(server, "5", "ZSCORE schedule later");
}

/* --- refused ------------------------------------------------------------------------------------------------------ */

static void assert_refused(const char *foreign_key)
{
    free(redis_server_command(server, "SET %s foreign", foreign_key));
    free(redis_server_command(server, "SET hf:2:unique:" UNIQUE " parent"));
    finish_mixed(&(struct queue_task_name){.jid = "parent", .unique = UNIQUE, .is_cancelled = true});
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_REFUSED);
    assert_tasks(claimed_place());
    assert_reply(server, "parent", "GET hf:2:unique:" UNIQUE);
    assert_reply(server, "0", "EXISTS hf:2:result:parent queues");
    assert_reply(server, "foreign", "GET %s", foreign_key);
}

TEST(test_a_foreign_value_refuses_all_of_it)
{
    start_with_the_parent("a");
    static const char *const keys[] = {"queue:x", "queue:y", "schedule"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_refused(keys[i]);
        free(redis_server_command(server, "DEL %s", keys[i]));
    }
}

/* What is refused is still claimed: it can fail, be buried, or be tried once more. */
TEST(test_a_refused_task_goes_on)
{
    start_with_the_parent("a");
    assert_refused("queue:y");
    queue_probe_postpone(&probe, 0, QUEUE_RETRY, NS_PER_S, "failed");
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_tasks("retry failed");
    free(redis_server_command(server, "DEL queue:y retry"));
    push("a", "task");
    queue_probe_claim(&probe, 0, "task");
    assert_refused("queue:y");
    free(redis_server_command(server, "DEL queue:y"));
    finish_mixed(&parent);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_mixed_is_there();
}

TEST(test_nothing_is_pushed_for_a_claim_in_other_hands)
{
    start_with_the_parent("a");
    free(redis_server_command(server, "HSET %s 0 AAAAAAAAAAAAAAAA", queue_keys_of(probe.queue)->process));
    finish_mixed(&parent);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_LOST);
    assert_tasks("");
    assert_reply(server, "0", "EXISTS hf:2:result:parent queues");
}

TEST(test_foreign_values_beside_it_do_not_keep_it)
{
    start_with_the_parent("a");
    free(redis_server_command(server, "SET queues foreign"));
    free(redis_server_command(server, "SET hf:2:cancels foreign"));
    free(redis_server_command(server, "SET it-parent foreign"));
    free(redis_server_command(server, "SADD hf:2:unique:" UNIQUE " foreign"));
    finish_mixed(&(struct queue_task_name){.jid = "parent", .unique = UNIQUE, .is_cancelled = true});
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_tasks(ALL_PLACES);
    assert_reply(server, "foreign", "GET it-parent");
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

TEST(test_out_of_memory_it_goes_on)
{
    start_with_the_parent("a");
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    finish_mixed(&parent);
    enum queue_answer answer = queue_probe_wait(&probe, 0);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    assert_int_equal(answer, QUEUE_NOTHING);
    assert_mixed_is_there();
}

TEST(test_a_reply_is_lost)
{
    queue_probe_start(&probe, loop, relay_port(relay), "a", NULL);
    queue_probe_wait_up(&probe);
    push("a", "task");
    queue_probe_claim(&probe, 0, "task");
    relay_swallow(relay, true);
    finish_mixed(&parent);
    wait_tasks(ALL_PLACES);
    relay_cut(relay);
    relay_swallow(relay, false);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_true(queue_counters(probe.queue)->repeats >= 1);
    assert_mixed_is_there();
}

static bool place_has_changed(void *before)
{
    char *claim = redis_server_command(server, "HGET %s 0", queue_keys_of(probe.queue)->process);
    bool has_changed = strcmp(claim, before) != 0;
    free(claim);
    return has_changed;
}

TEST(test_the_reply_of_a_refusal_is_lost)
{
    queue_probe_start(&probe, loop, relay_port(relay), "a", NULL);
    queue_probe_wait_up(&probe);
    push("a", "task");
    queue_probe_claim(&probe, 0, "task");
    free(redis_server_command(server, "SET queue:y foreign"));
    char *before = redis_server_command(server, "HGET %s 0", queue_keys_of(probe.queue)->process);
    relay_swallow(relay, true);
    finish_mixed(&parent);
    assert_true(loop_until(loop, place_has_changed, before, TEST_PATIENCE_NS));
    free(before);
    free(redis_server_command(server, "DEL queue:y")); /* the repetition must not find another world */
    relay_cut(relay);
    relay_swallow(relay, false);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_REFUSED);
    assert_tasks(claimed_place());
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
