/* How a worker treats tasks that ask for more than to be run: those that expire, run at most once, are cancelled, are
 * unique, stand in a queue that may not run them or is paused. */
#include "tests/support/test.h"

#include "tests/support/one_fleet.h"

static void assert_dead(const char *error_class)
{
    char *dead = fleet_ask(&fleet, "zrange dead 0 -1");
    assert_contains(dead, error_class);
    free(dead);
}

TEST(a_task_that_was_not_started_in_time_ends_as_expired)
{
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"late\",\"expires_at\":1000000.5}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"later\",\"created_at\":1e6,\"expires_in\":5}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"again\",\"expires_at\":5.5,\"retry_count\":0}");
    test_await(fleet_noted(&fleet, "end again") == 1);
    test_await(fleet_left(&fleet) == 0);
    assert_int_equal(fleet_noted_all(&fleet, "begin late"), 0);
    one_fleet_stop(worker);
    test_await(fleet_logged(&fleet, worker, "ending=expired jid=late"));
    test_await(fleet_logged(&fleet, worker, "ending=expired jid=later"));
}

/* Seconds by the clock of the queue node, which is that of this machine. */
static long long node_seconds(void)
{
    return fleet_number(&fleet, "eval \"return tonumber(redis.call('time')[1])\" 0");
}

TEST(a_host_whose_clock_is_ahead_drops_nothing_that_is_fresh)
{
    if (!FLEET_HAS_CLOCKS)
        test_skip("every host here has the one clock");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.ahead_ns = 3600 * NS_PER_S});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"fresh\",\"created_at\":%lld,\"expires_in\":600}",
               node_seconds());
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted(&fleet, "end fresh"), 1);
}

/* What it promotes, and what follows from its tasks, is stamped as others read it. */
TEST(a_host_whose_clock_is_behind_runs_nothing_that_is_late)
{
    if (!FLEET_HAS_CLOCKS)
        test_skip("every host here has the one clock");
    static const char child[] =
        "{\\\"class\\\":\\\"note\\\",\\\"args\\\":[],\\\"jid\\\":\\\"child\\\",\\\"expires_in\\\":600}";
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.ahead_ns = -3600 * NS_PER_S});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"late\",\"created_at\":%lld,\"expires_in\":600}",
               node_seconds() - 1200);
    free(fleet_ask(&fleet, "zadd schedule 1 '{\"class\":\"note\",\"args\":[],\"jid\":\"planned\",\"queue\":\"jobs\","
                           "\"expires_in\":600}'"));
    fleet_push(&fleet, "{\"class\":\"parent\",\"args\":[0,\"%s\"],\"jid\":\"first\"}", child);
    test_await(fleet_noted(&fleet, "end first") == 1 && fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted(&fleet, "begin late"), 0);
    assert_int_equal(fleet_noted(&fleet, "end planned"), 1);
    assert_int_equal(fleet_noted(&fleet, "end child"), 1);
}

static const char at_most_once[] =
    "{ class = \"note\"; at_most_once = \"yes\"; }, { class = \"fail\"; at_most_once = \"yes\"; }";

TEST(a_task_that_runs_at_most_once_dies_with_its_process)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = at_most_once, .worker = "lease = \"1s\";"});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[60000],\"jid\":\"once\"}");
    test_await(fleet_noted(&fleet, "begin once") == 1);
    assert_int_equal(fleet_left(&fleet), 0);
    one_fleet_kill(worker);
    unsigned other = fleet_work(&fleet, &(struct fleet_setup){.classes = at_most_once, .worker = "lease = \"1s\";"});
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[2500],\"jid\":\"wait\"}");
    test_await(fleet_noted(&fleet, "end wait") == 1);
    assert_int_equal(fleet_noted(&fleet, "begin once"), 1);
    one_fleet_stop(other);
}

TEST(a_failure_of_one_that_runs_at_most_once_is_buried)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = at_most_once});
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"once\"],\"jid\":\"once\"}");
    test_await(fleet_number(&fleet, "zcard dead") == 1);
    assert_dead("Witness::Failure");
    assert_int_equal(fleet_number(&fleet, "zcard retry"), 0);
    one_fleet_stop(worker);
}

TEST(one_that_runs_at_most_once_and_asks_for_another_time_is_buried)
{
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.classes = "{ class = \"moody\"; at_most_once = \"yes\"; }"});
    fleet_push(&fleet, "{\"class\":\"moody\",\"args\":[100,\"thing\"],\"jid\":\"once\"}");
    test_await(fleet_number(&fleet, "zcard dead") == 1);
    assert_dead("HF::AtMostOnce");
    assert_int_equal(fleet_number(&fleet, "zcard schedule"), 0);
    one_fleet_stop(worker);
}

TEST(a_cancelled_task_is_not_run)
{
    free(fleet_ask(&fleet, "zadd hf:2:cancels 1 unwanted"));
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[],\"jid\":\"unwanted\",\"resource\":\"r\"}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"wanted\"}");
    unsigned worker = fleet_work(&fleet, NULL);
    test_await(fleet_noted(&fleet, "end wanted") == 1);
    test_await(fleet_left(&fleet) == 0);
    assert_int_equal(fleet_noted(&fleet, "begin unwanted"), 0);
    assert_int_equal(fleet_number(&fleet, "exists hf:2:cancels"), 0); /* nobody is asked any more */
    one_fleet_stop(worker);
    test_await(fleet_logged(&fleet, worker, "ending=cancelled jid=unwanted"));
}

TEST(a_running_task_that_is_called_off_ends_as_cancelled)
{
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"long\"}");
    test_await(fleet_noted(&fleet, "begin long") == 1);
    char *identity = fleet_ask(&fleet, "zrange hf:2:processes 0 0");
    free(fleet_ask(&fleet, "zadd hf:2:cancels 1 long"));
    free(fleet_ask(&fleet, "lpush hf:2:calls:%s 'CANCEL long'", identity));
    free(identity);
    test_await(fleet_logged(&fleet, worker, "ending=cancelled jid=long"));
    test_await(fleet_number(&fleet, "exists hf:2:cancels") == 0);
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
}

TEST(a_unique_task_gives_its_key_free_when_it_is_done_or_dead)
{
    static const char digest[] = "0123456789abcdef0123456789abcdef01234567";
    unsigned worker = fleet_work(&fleet, NULL);
    static const char *const tasks[] = {"\"note\",\"args\":[]", "\"fail\",\"retry\":0,\"args\":[]",
                                        "\"note\",\"args\":[],\"expires_at\":5.5"};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        free(fleet_ask(&fleet, "set hf:2:unique:%s j%zu", digest, i));
        fleet_push(&fleet, "{\"class\":%s,\"jid\":\"j%zu\",\"hf_unique\":\"%s\"}", tasks[i], i, digest);
        test_await(fleet_number(&fleet, "exists hf:2:unique:%s", digest) == 0);
    }
    assert_int_equal(fleet_number(&fleet, "zcard dead"), 1);
    one_fleet_stop(worker);
}

TEST(a_queue_runs_only_the_classes_that_it_may)
{
    unsigned worker = fleet_work(
        &fleet, &(struct fleet_setup){.sections = "queue_settings = ({ queue = \"jobs\"; classes = [\"note\"]; });"});
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[],\"jid\":\"foreign\"}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"own\"}");
    test_await(fleet_noted(&fleet, "end own") == 1);
    test_await(fleet_number(&fleet, "zcard dead") == 1);
    assert_dead("HF::ClassNotAllowed");
    one_fleet_stop(worker);
}

TEST(what_only_others_can_run_is_buried_with_the_reason)
{
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"batch\",\"bid\":\"b1\"}");
    test_await(fleet_number(&fleet, "zcard dead") == 1);
    assert_int_equal(fleet_noted(&fleet, "begin batch"), 0);
    char *entry = fleet_ask(&fleet, "zrange dead 0 0");
    assert_contains(entry, "\"jid\":\"batch\"");
    assert_contains(entry, "\"error_class\":\"HF::Batch\"");
    assert_contains(entry, "it belongs to a batch");
    free(entry);
    one_fleet_stop(worker);
}

TEST(a_paused_queue_is_left_alone_and_resumed)
{
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.queues = "\"jobs\", \"more\"", .worker = "lease = \"1s\";"});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"first\"}");
    test_await(fleet_noted(&fleet, "end first") == 1);
    free(fleet_ask(&fleet, "sadd paused jobs"));
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"paused\"}");
    free(fleet_ask(&fleet, "lpush queue:more '{\"class\":\"note\",\"args\":[],\"jid\":\"more\"}'"));
    test_await(fleet_noted(&fleet, "end more") == 1);
    assert_int_equal(fleet_noted(&fleet, "begin paused"), 0);
    test_await(fleet_number(&fleet, "llen queue:jobs") == 1);
    free(fleet_ask(&fleet, "srem paused jobs"));
    test_await(fleet_noted(&fleet, "end paused") == 1);
    one_fleet_stop(worker);
}

TEST(a_drain_does_not_wait_for_a_paused_queue)
{
    free(fleet_ask(&fleet, "sadd paused jobs"));
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"paused\"}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.arguments = "--drain"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_number(&fleet, "llen queue:jobs"), 1);
}

/* Every order occurs in which the two queues can be served. */
TEST(weighted_queues_are_all_served)
{
    free(fleet_ask(&fleet, "eval \"for i = 1, 200 do redis.call('lpush', i %% 2 == 0 and 'queue:jobs' or "
                           "'queue:more', '{\\\"class\\\":\\\"note\\\",\\\"args\\\":[],\\\"jid\\\":\\\"t' .. i .. "
                           "'\\\"}') end return 1\" 0"));
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 1,
                                                               .queues = "\"jobs\", \"more\"",
                                                               .worker = "queue_order = \"weighted\";",
                                                               .arguments = "--max-tasks 100"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    long long jobs = fleet_number(&fleet, "llen queue:jobs"), more = fleet_number(&fleet, "llen queue:more");
    assert_int_equal(jobs + more, 100);
    assert_in_range(jobs, 20, 80);
}

RUN_FLEET_TESTS
