/* Waiting lists from which tasks are taken: by an operator's command, which tells the list, and by other programs,
 * which do not. The script of the commands is called as operate.c does; a command itself is in test_who_command.c. */
#include "queue/scripts.h"
#include "tests/support/waiting_list_fixture.h"

/* --- what takes them ---------------------------------------------------------------------------------------------- */

/* A task's text is its jid here, and it names LIST. */
static void operate(const char *answers, const char *verb, const char *kind, const char *source, const char *jid)
{
    static unsigned calls;
    char receipt[48];
    snprintf(receipt, sizeof receipt, "hf:2:receipt:%s-%u", verb, ++calls);
    const char *target = strcmp(verb, "retry") == 0 ? "queue:a" : "hf:2:unique:none";
    for (int i = 0; i < 2; i++) /* the answer was lost: a repetition changes nothing */
        assert_reply(
            server, answers,
            "EVALSHA %s 8 %s %s queues dead hf:2:processes schedule paused %s %s %s nobody 1000000 1000 1000 queue: "
            "hf:2:waiting: hf:2:waiters: %s %s a - %s " LIST,
            queue_script_operate_move.sha1, receipt, source, target, verb, kind, jid, jid, jid);
}

static void delete_parked(const char *jid)
{
    operate("1\n0", "delete", "set", "schedule", jid);
}

static void promote(const char *jid)
{
    assert_reply(server, "1",
                 "EVALSHA %s 4 schedule queues dead queue:a 100 100 %s %s a hf:2:waiting: hf:2:waiters: 1 %s " LIST,
                 queue_script_promote.sha1, jid, jid, jid);
}

static void zrem(const char *jid)
{
    assert_reply(server, "1", "ZREM schedule %s", jid);
}

static void examine(void)
{
    free(redis_server_command(server, "ZADD hf:2:contended XX 1 " LIST));
    free(redis_server_command(server, "EVALSHA %s 2 schedule hf:2:contended 100 100 1000 hf:2:waiting: hf:2:waiters:",
                              queue_script_due.sha1));
}

/* Three wait, the first of them with a near time. */
static void given_three(void)
{
    start("a");
    park_new(&probe, 0, "one");
    park_new(&probe, 0, "two");
    park_new(&probe, 0, "three");
}

/* As if it had been parked so that it was due so long ago. */
static void make_due(const char *jid, int seconds_ago)
{
    free(redis_server_command(
        server,
        "EVAL \"local t = redis.call('TIME') local due = string.format('%%.6f', t[1] - ARGV[2]) redis.call('ZADD', "
        "'schedule', due, ARGV[1]) local rest = string.match(redis.call('HGET', KEYS[1], ARGV[1]), '^[^%%c]+(.*)$') "
        "return redis.call('HSET', KEYS[1], ARGV[1], due .. rest)\" 1 " WAITERS " %s %d",
        jid, seconds_ago));
}

/* --- by a command ------------------------------------------------------------------------------------------------- */

TEST(test_when_the_oldest_is_deleted_the_next_is_due_when_it_was)
{
    given_three();
    char *former = redis_server_command(server, "ZSCORE schedule one");
    delete_parked("one");
    assert_waiting("two=P three=P");
    assert_reply(server, former, "ZSCORE schedule two");
    assert_due_far("three");
    free(former);
}

TEST(test_when_one_in_the_middle_is_deleted_nobody_else_moves)
{
    given_three();
    char *before = redis_server_command(server, "ZRANGE schedule 0 -1 WITHSCORES");
    assert_non_null(strstr(before, "two"));
    free(before);
    char *third = redis_server_command(server, "ZSCORE schedule three");
    delete_parked("two");
    assert_waiting("one=P three=P");
    assert_due_near("one");
    assert_reply(server, third, "ZSCORE schedule three");
    free(third);
}

TEST(test_when_all_are_deleted_nothing_is_left)
{
    given_three();
    delete_parked("three");
    assert_waiting("one=P two=P");
    delete_parked("one");
    assert_due_near("two");
    delete_parked("two");
    assert_reply(server, "0", "EXISTS schedule " ORDER " " WAITERS);
}

TEST(test_the_end_of_the_holder_wakes_who_comes_behind_the_deleted)
{
    given_three();
    delete_parked("one");
    struct waiting_end end = end_of(NULL);
    free_seat(&end);
    assert_tasks("queue:a two\nschedule three");
}

TEST(test_a_task_that_is_buried_leaves_its_list)
{
    given_three();
    operate("1\n0", "bury", "set", "schedule", "one");
    assert_waiting("two=P three=P");
    assert_due_near("two");
    assert_reply(server, "one", "ZRANGE dead 0 -1");
}

/* It may stand at the end of a long queue: nobody waits for it for long. */
TEST(test_a_task_that_is_retried_keeps_its_position_and_is_waited_for_briefly)
{
    given_three();
    operate("1\n0", "retry", "set", "schedule", "one");
    assert_waiting("one=P two=P three=P");
    assert_due_near("two");
    queue_probe_claim(&probe, 0, "one");
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    assert_due_near("one");
    struct waiting_end end = end_of(NULL);
    free_seat(&end);
    assert_tasks("queue:a one\nschedule three\nschedule two");
}

TEST(test_another_text_of_the_same_jid_is_not_in_the_list)
{
    given_three();
    free(redis_server_command(server, "ZADD schedule 9999999999 twin"));
    assert_reply(
        server, "1\n0",
        "EVALSHA %s 8 hf:2:receipt:t schedule queues dead hf:2:processes schedule paused none delete set nobody 100 "
        "100 100 queue: hf:2:waiting: hf:2:waiters: twin twin a - one " LIST,
        queue_script_operate_move.sha1);
    assert_waiting("one=P two=P three=P");
    assert_due_near("one");
    assert_due_far("two");
}

TEST(test_when_one_on_its_way_is_deleted_the_next_is_woken)
{
    given_three();
    struct waiting_end end = end_of(NULL);
    free_seat(&end);
    assert_tasks("queue:a one\nschedule three\nschedule two");
    operate("1\n0", "delete", "list", "queue:a", "one");
    assert_waiting("two=O three=P");
    assert_tasks("queue:a two\nschedule three");
}

TEST(test_a_paused_one_is_deleted_and_the_next_that_may_go_stays)
{
    given_three();
    free(redis_server_command(server, "SADD paused a"));
    delete_parked("one");
    assert_waiting("two=P three=P");
    assert_due_far("two"); /* nobody may go: an examination sets it right when the queue goes on */
}

/* --- by other programs -------------------------------------------------------------------------------------------- */

TEST(test_what_vanished_before_its_time_waits_no_more)
{
    given_three();
    zrem("one");
    examine();
    assert_waiting("two=P three=P");
    assert_true(due_in("two") < 1);
    assert_due_far("three");
}

TEST(test_what_vanished_in_the_middle_moves_nobody)
{
    given_three();
    make_due("one", 0);
    zrem("two");
    examine();
    struct waiting_end end = end_of(NULL);
    free_seat(&end);
    assert_tasks("queue:a one\nschedule three");
    assert_due_far("three");
}

/* It was due, and is gone without a note: it is waited for as long as another scheduler may need, not longer. */
TEST(test_what_vanished_after_its_time_is_not_waited_for_long)
{
    given_three();
    make_due("one", 11);
    zrem("one");
    examine();
    assert_true(due_in("two") < 1);
    assert_waiting("one=P two=P three=P"); /* it may come yet, at its position */
    age_waiter("one", 600);
    examine();
    assert_waiting("two=P three=P");
}

TEST(test_what_another_scheduler_promoted_keeps_its_position)
{
    given_three();
    make_due("one", 11);
    zrem("one");
    push("a", "one");
    examine();
    queue_probe_claim(&probe, 0, "one");
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    assert_waiting("one=P two=P three=P");
    struct waiting_end end = end_of(NULL);
    free_seat(&end);
    assert_waiting("one=O two=P three=P");
}

/* --- by workers --------------------------------------------------------------------------------------------------- */

TEST(test_what_a_worker_promotes_is_on_its_way_for_a_minute)
{
    struct waiting_end end = end_of(NULL);
    given_three();
    make_due("one", 300);
    promote("one");
    assert_waiting("one=O two=P three=P");
    assert_tasks("queue:a one\nschedule three\nschedule two");
    age_waiter("one", 30);
    free_seat(&end);
    assert_waiting("one=O two=P three=P");
    age_waiter("one", 31);
    free_seat(&end);
    assert_waiting("one=O two=O three=P");
}

TEST(test_a_worker_promotes_what_is_in_no_list)
{
    start("a");
    free(redis_server_command(server, "ZADD schedule 1 one"));
    promote("one");
    assert_tasks("queue:a one");
    assert_reply(server, "0", "EXISTS " ORDER " " WAITERS);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
