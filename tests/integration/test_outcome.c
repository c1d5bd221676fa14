/* What a whole worker leaves behind when a task ends as done: the tasks that follow from it, and its result. */
#include "tests/support/test.h"

#include "tests/support/one_fleet.h"

#define KEEPS "{ class = \"parent\"; result_ttl = \"1h\"; }, { class = \"lonely\"; result_ttl = \"1h\"; }"

static void assert_entry_says(const char *command, const char *text)
{
    char *entry = fleet_ask(&fleet, "%s", command);
    assert_contains(entry, text);
    free(entry);
}

#define CHILD(jid) "\"{\\\"class\\\":\\\"note\\\",\\\"args\\\":[],\\\"jid\\\":\\\"" jid "\\\"}\""

TEST(a_task_pushes_what_follows_when_it_is_done)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = KEEPS});
    fleet_push(&fleet, "{\"class\":\"parent\",\"args\":[1," CHILD("c1") "," CHILD("c2") "],\"jid\":\"p\"}");
    test_await(fleet_noted(&fleet, "end c1") == 1 && fleet_noted(&fleet, "end c2") == 1);
    test_await(fleet_left(&fleet) == 0);
    assert_entry_says("get hf:2:result:p", "{\"jid\":\"p\",\"class\":\"parent\",\"ended_at\":1");
    assert_entry_says("get hf:2:result:p", ",\"result\":{\"children\":2}}");
    long long ttl = fleet_number(&fleet, "ttl hf:2:result:p");
    assert_true(ttl > 3500 && ttl <= 3600);
    one_fleet_stop(worker);
}

TEST(a_class_without_a_ttl_keeps_no_result)
{
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.classes = "{ class = \"parent\"; result_ttl = \"0s\"; }"});
    fleet_push(&fleet, "{\"class\":\"parent\",\"args\":[1," CHILD("c") "],\"jid\":\"p\"}");
    test_await(fleet_noted(&fleet, "end c") == 1);
    assert_int_equal(fleet_number(&fleet, "exists hf:2:result:p"), 0);
    one_fleet_stop(worker);
}

TEST(a_scheduled_follow_up_waits_for_its_time)
{
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"parent\",\"args\":[1,\"{\\\"class\\\":\\\"note\\\",\\\"args\\\":[],\\\"at\\\":"
                       "3000}\"],\"jid\":\"p\"}");
    test_await(fleet_number(&fleet, "zcard schedule") == 1);
    assert_entry_says("zrange schedule 0 -1", "\"hf_parent\":\"p\"");
    assert_entry_says("zrange schedule 0 -1", "\"queue\":\"jobs\"");
    one_fleet_stop(worker);
}

TEST(a_failure_pushes_nothing)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = KEEPS});
    fleet_push(&fleet, "{\"class\":\"parent\",\"args\":[1," CHILD("c") ",\"{}\"],\"jid\":\"p\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    assert_entry_says("zrange retry 0 -1", "Witness::Refused");
    assert_int_equal(fleet_noted(&fleet, "refused p"), 1);
    assert_int_equal(fleet_number(&fleet, "exists hf:2:result:p queue:jobs"), 0);
    one_fleet_stop(worker);
}

/* The foreign value is found when the task is done: it has failed, and comes again. */
TEST(a_queue_that_is_none_makes_it_fail)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = KEEPS});
    free(fleet_ask(&fleet, "set queue:other foreign"));
    fleet_push(&fleet, "{\"class\":\"parent\",\"args\":[1," CHILD(
                           "c") ",\"{\\\"class\\\":\\\"note\\\",\\\"args\\\":[],"
                                "\\\"queue\\\":\\\"other\\\"}\"],\"jid\":\"p\",\"resource\":\"r\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    assert_entry_says("zrange retry 0 -1", "HF::FollowUpRefused");
    assert_entry_says("zrange retry 0 -1", "\"retry_count\":0");
    assert_int_equal(fleet_number(&fleet, "exists hf:2:result:p queue:jobs"), 0);
    test_await(fleet_logged(&fleet, worker, "ending=failed jid=p"));
    assert_false(fleet_logged(&fleet, worker, "ending=done jid=p"));
    free(fleet_ask(&fleet, "del queue:other"));
    free(fleet_ask(&fleet, "eval \"local t = redis.call('zrange', 'retry', 0, 0)[1] redis.call('zadd', 'retry', 1, t) "
                           "return 1\" 0"));
    test_await(fleet_noted(&fleet, "end c") == 1);
    assert_int_equal(fleet_number(&fleet, "llen queue:other"), 1);
    assert_int_equal(fleet_noted(&fleet, "end p"), 2);
    one_fleet_stop(worker);
}

TEST(a_task_that_runs_at_most_once_has_a_result_and_no_follow_ups)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = KEEPS});
    fleet_push(&fleet, "{\"class\":\"lonely\",\"args\":[1],\"jid\":\"one\"}");
    test_await(fleet_number(&fleet, "exists hf:2:result:one") == 1);
    fleet_push(&fleet, "{\"class\":\"lonely\",\"args\":[1," CHILD("c") "],\"jid\":\"two\"}");
    test_await(fleet_number(&fleet, "zcard dead") == 1);
    assert_entry_says("zrange dead 0 -1", "runs at most once has ended before it runs");
    assert_int_equal(fleet_noted(&fleet, "refused two"), 1);
    one_fleet_stop(worker);
}

/* The same through a runner process, to which nothing is known but what its frames say. */
TEST(runs_in_processes_leave_the_same)
{
    unsigned worker = fleet_work(
        &fleet,
        &(struct fleet_setup){.classes = "{ class = \"parent\"; result_ttl = \"1h\"; isolation = \"process\"; }"});
    fleet_push(&fleet, "{\"class\":\"parent\",\"args\":[1," CHILD("c1") "," CHILD("c2") "],\"jid\":\"p\"}");
    test_await(fleet_noted(&fleet, "end c1") == 1 && fleet_noted(&fleet, "end c2") == 1);
    assert_entry_says("get hf:2:result:p", ",\"result\":{\"children\":2}}");
    fleet_push(&fleet, "{\"class\":\"parent\",\"args\":[1," CHILD("c3") ",\"{}\"],\"jid\":\"q\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    assert_entry_says("zrange retry 0 -1", "Witness::Refused");
    assert_int_equal(fleet_noted(&fleet, "refused q"), 1);
    assert_int_equal(fleet_noted_all(&fleet, "begin c3"), 0);
    one_fleet_stop(worker);
}

/* Each end wakes who waits for its lock, although it is told apart from the end. */
TEST(a_line_of_waiting_parents_gets_done)
{
    enum { PARENTS = 60 };
    /* Who is not woken looks again after the ttl, which is longer than this test has patience; and nothing is handed on
     * without a wake. */
    static const struct fleet_setup setup = {.classes = KEEPS,
                                             .lock = "ttl = \"60s\"; tries = 2; retry_delay = \"2ms\"; retry_jitter = "
                                                     "\"4ms\"; prefix = \"lock:\"; hand_over_tasks = 1;"};
    unsigned first = fleet_work(&fleet, &setup), second = fleet_work(&fleet, &setup);
    for (unsigned i = 0; i < PARENTS; i++)
        fleet_push(&fleet, "{\"class\":\"parent\",\"args\":[2," CHILD("c%u") "],\"jid\":\"p%u\",\"resource\":\"r%u\"}",
                   i, i, i % 2);
    test_await(fleet_noted_all(&fleet, "end c") == PARENTS);
    test_await(fleet_left(&fleet) == 0);
    assert_int_equal(fleet_noted_all(&fleet, "begin p"), PARENTS);
    assert_int_equal(fleet_number(&fleet, "eval \"return #redis.call('keys', 'hf:2:result:*')\" 0"), PARENTS);
    assert_int_equal(fleet_number(&fleet, "eval \"return #redis.call('keys', 'hf:2:waiting:*')\" 0"), 0);
    one_fleet_stop(first);
    one_fleet_stop(second);
}

/* A worker that is told to stop waits for the answer of what it has sent. */
TEST(a_stop_leaves_nothing_half_done)
{
    enum { PARENTS = 200 };
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = KEEPS});
    for (unsigned i = 0; i < PARENTS; i++)
        fleet_push(&fleet,
                   "{\"class\":\"parent\",\"args\":[1,\"{\\\"class\\\":\\\"note\\\",\\\"args\\\":[],\\\"queue"
                   "\\\":\\\"other\\\"}\"],\"jid\":\"p%u\"}",
                   i);
    test_await(fleet_noted_all(&fleet, "end p") >= PARENTS / 4);
    one_fleet_stop(worker);
    unsigned done = fleet_noted_all(&fleet, "end p");
    assert_int_equal(fleet_number(&fleet, "llen queue:other"), done);
    assert_int_equal(fleet_number(&fleet, "llen queue:jobs"), PARENTS - done);
    assert_int_equal(fleet_number(&fleet, "eval \"return #redis.call('keys', 'hf:2:result:*')\" 0"), done);
}

RUN_FLEET_TESTS
