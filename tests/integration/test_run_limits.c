/* How long a run may take, and when its task comes again if the handler says so: in threads of the worker. */
#include "tests/support/test.h"

#include <string.h>

#include "tests/support/one_fleet.h"

static void assert_retry_says(const char *text)
{
    char *retry = fleet_ask(&fleet, "zrange retry 0 -1");
    assert_contains(retry, text);
    free(retry);
}

TEST(a_run_that_takes_too_long_is_cancelled_and_fails)
{
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.classes = "{ class = \"careful\"; timeout = \"100ms\"; }"});
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"slow\"}");
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[1],\"jid\":\"quick\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    assert_retry_says("HF::TimedOut");
    assert_retry_says("0.1 s");
    assert_int_equal(fleet_noted(&fleet, "stopped slow"), 1);
    test_await(fleet_noted(&fleet, "end quick") == 1);
    test_await(fleet_logged(&fleet, worker, "task_timed_out jid=slow"));
    one_fleet_stop(worker);
}

TEST(a_run_that_does_not_listen_and_gets_done_is_done)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = "{ class = \"note\"; timeout = \"50ms\"; }"});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[300],\"jid\":\"deaf\"}");
    test_await(fleet_noted(&fleet, "end deaf") == 1);
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
    test_await(fleet_logged(&fleet, worker, "task_timed_out jid=deaf"));
}

TEST(a_snoozed_task_comes_again_and_no_retry_is_used_up)
{
    unsigned worker = fleet_work(&fleet, NULL);
    struct wall_time pushed = wall_now();
    fleet_push(&fleet, "{\"class\":\"moody\",\"args\":[600000,\"m\"],\"jid\":\"m\",\"resource\":\"m\"}");
    test_await(fleet_number(&fleet, "zcard schedule") == 1);
    fleet_assert_due(&fleet, "schedule", pushed, 600, 600);
    char *entry = fleet_ask(&fleet, "zrange schedule 0 -1");
    assert_null(strstr(entry, "retry_count"));
    assert_null(strstr(entry, "hf_parked"));
    free(entry);
    assert_int_equal(fleet_number(&fleet, "exists hf:2:waiting:resource:m"), 0);
    free(fleet_ask(&fleet, "eval \"local t = redis.call('zrange', 'schedule', 0, 0)[1] redis.call('zadd', 'schedule', "
                           "1, t) return 1\" 0"));
    test_await(fleet_noted(&fleet, "end m") == 1);
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
    test_await(fleet_logged(&fleet, worker, "ending=snoozed jid=m"));
}

TEST(a_failed_task_comes_again_when_its_handler_says)
{
    unsigned worker = fleet_work(&fleet, NULL);
    struct wall_time pushed = wall_now();
    fleet_push(&fleet, "{\"class\":\"moody\",\"args\":[600000,\"far\",\"fail\"],\"jid\":\"far\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    fleet_assert_due(&fleet, "retry", pushed, 600, 600);
    free(fleet_ask(&fleet, "del retry"));
    fleet_push(&fleet, "{\"class\":\"moody\",\"args\":[50,\"n\",\"fail\"],\"jid\":\"n\"}");
    test_await(fleet_noted(&fleet, "end n") == 1); /* the usual delay is 15 s at least */
    assert_int_equal(fleet_noted(&fleet, "not now n"), 1);
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
}

TEST(a_stop_during_a_timeout_gives_the_task_back_once)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = "{ class = \"careful\"; timeout = \"1h\"; }",
                                                               .worker = "stop_timeout = \"10ms\";"});
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"s\"}");
    test_await(fleet_noted(&fleet, "begin s") == 1);
    one_fleet_stop(worker);
    assert_int_equal(fleet_number(&fleet, "llen queue:jobs"), 1);
    assert_int_equal(fleet_left(&fleet), 1);
}

RUN_FLEET_TESTS
