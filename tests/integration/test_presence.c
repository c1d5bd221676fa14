/* Whole worker processes as dashboards see and call them: shown, counted, quieted, stopped, their tasks cancelled, and
 * progress that outlives a worker. */
#include "tests/support/test.h"

#include "tests/support/one_fleet.h"

static bool is_noted(const char *line)
{
    return fleet_noted(&fleet, line) == 1;
}

/* The identity of the only process that is shown. */
static char *identity(void)
{
    test_await(fleet_number(&fleet, "SCARD processes") == 1);
    return fleet_ask(&fleet, "SMEMBERS processes");
}

static void call(const char *text)
{
    char *who = identity();
    free(fleet_ask(&fleet, "LPUSH %s-signals %s", who, text));
    free(who);
}

TEST(a_running_task_is_shown_and_what_was_done_is_counted)
{
    unsigned worker = fleet_work(&fleet, NULL);
    char *who = identity();
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"long\",\"retry\":true}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"good\"}");
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[],\"jid\":\"bad\",\"retry\":false}");
    test_await(fleet_number(&fleet, "HGET %s busy", who) == 1); /* with the next beat */
    char *work = fleet_ask(&fleet, "HVALS %s:work", who);
    assert_contains(work, "\"payload\":\"{\\\"class\\\":\\\"careful\\\"");
    free(work);
    test_await(fleet_number(&fleet, "EVAL \"return redis.call('GET', 'stat:processed') or 0\" 0") == 2);
    assert_int_equal(fleet_number(&fleet, "GET stat:failed"), 1);
    call("TTIN");
    test_await(fleet_logged(&fleet, worker, "task_running slot="));
    call("TERM");
    free(fleet_ask(&fleet, "LPUSH hf:2:calls:%s 'CANCEL long'", who));
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_true(is_noted("stopped long"));
    assert_int_equal(fleet_left(&fleet), 0); /* cancelled, not given back */
    assert_int_equal(fleet_number(&fleet, "GET stat:processed"), 3);
    assert_int_equal(fleet_number(&fleet, "DEL hf:2:result:long"), 1); /* that it was cancelled */
    assert_int_equal(fleet_keys(&fleet), 0);
    free(who);
}

/* By the name that a template made: the task itself names none. */
TEST(what_a_task_locks_is_shown_and_its_lock_is_counted)
{
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.classes = "{ class = \"careful\"; resource = \"acct:{0}\"; }"});
    char *who = identity();
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"long\"}");
    test_await(fleet_number(&fleet, "HGET %s busy", who) == 1);
    char *work = fleet_ask(&fleet, "HVALS %s:work", who);
    assert_contains(work, "\"hf_resources\":[\"acct:60000\"]");
    assert_contains(work, "\"hf_fence\":\"");
    free(work);
    free(fleet_ask(&fleet, "LPUSH hf:2:calls:%s 'CANCEL long'", who));
    test_await(fleet_noted(&fleet, "stopped long") == 1);
    one_fleet_stop(worker);
    char *counts = fleet_ask(&fleet, "EVAL \"local key = redis.call('KEYS', 'hf:2:locks:*')[1] local holds = 0 "
                                     "for i = 0, 127 do holds = holds + "
                                     "(redis.call('HGET', key, 'careful|acct:|hold.' .. i) or 0) end "
                                     "return redis.call('HGET', key, 'careful|acct:|acquired') .. holds\" 0");
    assert_string_equal(counts, "11");
    free(counts);
    free(who);
}

/* Also when its handler buried the task; and a class of error alone does not make a fence. */
TEST(runs_that_a_fence_refused_are_counted_by_class_and_resource)
{
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"stale\",\"HF::FencedOff\"],\"jid\":\"a\",\"resource\":"
                       "\"acct:7\",\"retry\":0}");
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"other\",\"HF::Fenced\"],\"jid\":\"b\",\"resource\":"
                       "\"acct:8\",\"retry\":0}");
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"stale\",\"HF::FencedOff\"],\"jid\":\"c\",\"retry\":0}");
    test_await(fleet_number(&fleet, "ZCARD dead") == 3);
    one_fleet_stop(worker);
    char *counts = fleet_ask(&fleet, "EVAL \"local key = redis.call('KEYS', 'hf:2:locks:*')[1] "
                                     "return redis.call('HGET', key, 'fail|acct:|fenced_off')\" 0");
    assert_string_equal(counts, "1");
    free(counts);
}

TEST(quiet_shows_at_once_and_stop_ends_it)
{
    unsigned worker = fleet_work(&fleet, NULL);
    char *who = identity();
    call("TSTP");
    char *quiet = NULL;
    for (struct instant limit = instant_after(instant_now(), TEST_PATIENCE_NS); quiet == NULL;) {
        quiet = fleet_ask(&fleet, "HGET %s quiet", who);
        if (strcmp(quiet, "true") == 0)
            break;
        free(quiet);
        quiet = NULL;
        assert_true(instant_before(instant_now(), limit));
    }
    free(quiet);
    test_await(fleet_logged(&fleet, worker, "worker_quiet reason=called"));
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"later\"}");
    call("TERM TERM"); /* twice is no harm */
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 0);
    assert_int_equal(fleet_left(&fleet), 1);
    free(who);
}

TEST(progress_outlives_the_worker_and_goes_when_the_task_is_done)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.worker = "stop_timeout = \"0s\";"});
    fleet_push(&fleet, "{\"class\":\"count\",\"args\":[10,1000000],\"jid\":\"c1\"}");
    test_await(is_noted("begin c1"));
    assert_int_equal(fleet_number(&fleet, "HGET it-c1 ex"), 1);
    test_await(fleet_number(&fleet, "HEXISTS it-c1 c") == 1);
    test_await(fleet_number(&fleet, "EVAL \"return string.match(redis.call('HGET', 'it-c1', 'c'), '%%d+') or 0\" 0") >
               0);
    one_fleet_stop(worker);
    assert_true(is_noted("stopped c1"));
    long long reached =
        fleet_number(&fleet, "EVAL \"return string.match(redis.call('HGET', 'it-c1', 'c'), '%%d+')\" 0");
    assert_true(reached > 0);
    free(fleet_ask(&fleet, "HSET it-c1 c '{\"done\":999999}'"));
    worker = fleet_work(&fleet, &(struct fleet_setup){.arguments = "--drain"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_true(is_noted("from 999999 c1"));
    assert_true(is_noted("end c1"));
    assert_int_equal(fleet_number(&fleet, "EXISTS it-c1"), 0);
}

/* As a dashboard, or a client of Sidekiq, does it: it knows nothing of our own list. */
TEST(a_task_that_was_cancelled_before_does_not_run)
{
    free(fleet_ask(&fleet, "HSET it-c1 cancelled 1795194349 ex 0 c null rt 0"));
    fleet_push(&fleet, "{\"class\":\"count\",\"args\":[10,5],\"jid\":\"c1\"}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.arguments = "--drain"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 0);
    test_await(fleet_logged(&fleet, worker, "ending=cancelled jid=c1"));
    assert_int_equal(fleet_left(&fleet), 0);
}

TEST(a_task_that_is_cancelled_while_it_runs_stops)
{
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"count\",\"args\":[10,1000000],\"jid\":\"c1\"}");
    test_await(is_noted("begin c1"));
    free(fleet_ask(&fleet, "HSETNX it-c1 cancelled 1795194349"));
    test_await(is_noted("stopped c1"));
    test_await(fleet_logged(&fleet, worker, "ending=cancelled jid=c1"));
    one_fleet_stop(worker);
    assert_int_equal(fleet_left(&fleet), 0);
}

RUN_FLEET_TESTS
