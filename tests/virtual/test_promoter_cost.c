/* How often a promoter looks for what is due, what a look asks, and that what it does not ask for is not missed. */
#include "tests/support/test.h"

#include "queue/scripts.h"
#include "tests/support/promoter_fixture.h"

TEST(test_a_page_says_what_else_is_due)
{
    static const char page[] = "EVALSHA %s 4 schedule hf:2:contended paused retry 0 2 1000 hf:2:waiting: hf:2:waiters:";
    free(redis_server_command(server, "ZADD schedule 1 a 2 b 3 c"));
    free(redis_server_command(server, "ZADD retry 9999999999 later"));
    assert_reply(server, "1\na\nb", page, queue_script_due.sha1);
    free(redis_server_command(server, "ZADD retry 1 now"));
    assert_reply(server, "3\na\nb", page, queue_script_due.sha1);
    free(redis_server_command(server, "DEL schedule"));
    assert_reply(server, "2", page, queue_script_due.sha1);
    free(redis_server_command(server, "ZREM retry now"));
    assert_reply(server, "0", page, queue_script_due.sha1);
}

/* --- what a look asks ------------------------------------------------------------------------------------------- */

/* Each page is a ZRANGE in a script, each page of `schedule` a ZCOUNT beside that: of `retry`. */
static unsigned looks(void)
{
    return redis_server_calls(server, "zcount");
}

static unsigned looks_at_retry(void)
{
    return redis_server_calls_beyond(server, "zrange", "zcount");
}

static bool has_looked(void *most)
{
    return looks() >= *(const unsigned *)most;
}

static void wait_looks(unsigned more)
{
    unsigned most = looks() + more;
    assert_true(loop_until(loop, has_looked, &most, TEST_PATIENCE_NS));
}

TEST(test_a_look_that_finds_nothing_is_one_call)
{
    plan("retry", 3600, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    plan("schedule", 3600, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    promote();
    wait_looks(3);
    assert_int_equal(looks_at_retry(), 0);
    plan("retry", -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"b\"}");
    wait_reply("LLEN queue:b", "1");
    assert_int_equal(looks_at_retry(), 1);
    wait_looks(2);
    assert_int_equal(looks_at_retry(), 1);
}

/* What stays in `retry` is looked at again with each look, and makes no looks of its own. */
TEST(test_an_entry_that_stays_in_retry_makes_a_look_two_calls)
{
    plan("retry", -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"foreign\"}");
    promote_a();
    wait_looks(3);
    assert_in_range(looks_at_retry(), 2, 5); /* that of the last one may be on its way */
    loop_for(loop, 100 * NS_PER_MS);
    assert_in_range(looks(), 3, 50);
}

/* A foreign value under the one name keeps nothing of the other set from being moved. */
TEST(test_a_foreign_set_is_not_in_the_way)
{
    free(redis_server_command(server, "SET schedule foreign"));
    plan("retry", -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    promote();
    wait_reply("LLEN queue:a", "1");
    free(redis_server_command(server, "DEL schedule"));
    free(redis_server_command(server, "SET retry foreign"));
    plan("schedule", -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    wait_reply("LLEN queue:a", "2");
    assert_reply(server, "foreign", "GET retry");
}

/* --- how often it looks ------------------------------------------------------------------------------------------- */

static bool is_served_by_41(void *unused)
{
    (void)unused;
    return queue_serving(probe.queue) == 41;
}

static void given_forty_others(void)
{
    free(redis_server_command(server,
                              "EVAL \"for i = 1, 40 do redis.call('ZADD', 'hf:2:processes', 9999999999, 'o' .. i) "
                              "redis.call('HSET', 'hf:2:process:o' .. i, 'queues', 'a') end\" 0"));
    queue_look(probe.queue);
    assert_true(loop_until(loop, is_served_by_41, NULL, TEST_PATIENCE_NS));
    free(redis_server_command(server, "CONFIG RESETSTAT"));
}

/* Alone about once a second: two that began together drift apart. */
TEST(test_the_time_between_two_looks_varies)
{
    unsigned short_waits = 0, long_waits = 0;
    promote();
    wait_looks(1);
    for (unsigned i = 0; i < 12; i++) {
        struct instant before = loop_now(loop);
        wait_looks(1);
        int64_t waited = instant_since(before, loop_now(loop));
        assert_in_range(waited, 690 * NS_PER_MS, 1400 * NS_PER_MS);
        short_waits += waited < NS_PER_S;
        long_waits += waited > NS_PER_S;
    }
    assert_true(short_waits > 0 && long_waits > 0);
}

/* The next usual look comes in 10.5 s or later. */
TEST(test_one_of_many_looks_seldom_but_for_what_it_expects)
{
    given_forty_others();
    promote();
    loop_for(loop, 3 * NS_PER_S);
    assert_int_equal(looks(), 0);
    plan("schedule", 0.05, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    loop_for(loop, 5 * NS_PER_MS); /* so that the loop's time is not an old one */
    promoter_expect(promoters[0], 50 * NS_PER_MS);
    wait_reply("LLEN queue:a", "1");
    assert_in_range(looks(), 1, 10);
}

/* The first look is too early for it, and the first usual one, in 10.5 s, too late. */
TEST(test_of_much_that_is_expected_the_soonest_is_not_forgotten)
{
    given_forty_others();
    plan("schedule", 0.5, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    promote();
    loop_for(loop, 5 * NS_PER_MS);
    struct instant began = instant_now();
    for (int64_t i = 0; i < 16; i++)
        promoter_expect(promoters[0], 19 * NS_PER_S);
    promoter_expect(promoters[0], 510 * NS_PER_MS);
    promoter_expect(promoters[0], 100 * NS_PER_MS);
    wait_reply("LLEN queue:a", "1");
    assert_true(instant_since(began, instant_now()) < 10 * NS_PER_S);
}

/* A turn of a set ends after 5,000 moves, also when there is nothing in the other one. The rest does not wait for the
 * next usual look. */
TEST(test_what_a_turn_leaves_follows_at_once)
{
    given_forty_others();
    free(redis_server_command(
        server, "EVAL \"for i = 1, 11000 do redis.call('ZADD', 'schedule', i, "
                "'{\\\"class\\\":\\\"t\\\",\\\"args\\\":[' .. i .. '],\\\"queue\\\":\\\"a\\\"}') end\" 0"));
    promote();
    promoter_expect(promoters[0], 0);
    loop_await(loop, promoter_moved(promoters[0]) > 0);
    struct instant began = instant_now();
    wait_reply("LLEN queue:a", "11000");
    assert_true(instant_since(began, instant_now()) < 9 * NS_PER_S);
}

/* Each bell is an EXISTS. The first look asks for all of them, and the next do not. */
TEST(test_few_looks_ask_for_bells)
{
    given_forty_others();
    promote();
    for (unsigned i = 0; i < 4; i++) {
        promoter_expect(promoters[0], 0);
        wait_looks(1);
    }
    assert_int_equal(redis_server_calls(server, "exists"), 41);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, promoter_setup, promoter_teardown)
