/* Nothing is counted twice or lost, whatever happens to the node; and what is left of a process that left. */
#include "tests/support/heartbeat_fixture.h"
#include "tests/support/log_capture.h"

/* --- once, and not lost ------------------------------------------------------------------------------------------ */

/* The first beat is answered, and the next comes when it is asked for: nothing that was sent before is under way. */
static void start_and_rest(void)
{
    start(3600 * NS_PER_S);
    wait_beats(1);
}

TEST(a_lost_reply_counts_once)
{
    start_and_rest();
    relay_swallow(relay, true);
    ran("echo", false, 5 * NS_PER_MS);
    extra_add("a|x:|", "lost 2 wait.3 1 ");
    heartbeat_soon(heartbeat);
    wait_reply("1", "GET stat:processed");
    wait_repeats(2); /* the call was given up, and it or another is on its way */
    ran("echo", true, 5 * NS_PER_MS);
    extra_add("a|x:|", "lost 40 ");
    relay_swallow(relay, false);
    relay_cut(relay);
    wait_beats(1);
    heartbeat_soon(heartbeat);
    wait_beats(1);
    heartbeat_soon(heartbeat); /* and one that has nothing to add */
    wait_beats(1);
    assert_reply(server, "2\n2\n1", "MGET stat:processed stat:processed:2026-11-21 stat:failed");
    assert_reply(server, "5\n2\n1", "HMGET j|20261121|9:5 echo|ms echo|p echo|f");
    assert_reply(server, "1", "BITFIELD echo-21-09:5 GET u16 #0");
    assert_reply(server, "42\n1", "HMGET hf:2:locks:20261121 a|x:|lost a|x:|wait.3");
    assert_reply(server, "2", "HLEN hf:2:locks:20261121");
}

TEST(nothing_is_lost_while_the_node_is_away_for_minutes)
{
    start(20 * NS_PER_MS);
    ran("echo", false, 5 * NS_PER_MS);
    wait_reply("1", "GET stat:processed");
    redis_server_pause(server);
    for (int minute = 0; minute < 3; minute++) {
        now.us += 60 * US_PER_S;
        ran("echo", false, 5 * NS_PER_MS);
        ran("echo", true, 5 * NS_PER_MS);
        wait_repeats(1);
    }
    now.us += 86400 * US_PER_S;
    redis_server_resume(server);
    wait_reply("7", "GET stat:processed");
    wait_beats(2);
    assert_reply(server, "7\n3", "MGET stat:processed stat:failed");
    long long days = queue_probe_number(server, "GET stat:processed:2026-11-21") +
                     queue_probe_number(server, "GET stat:processed:2026-11-22");
    assert_int_equal(days, 7);
}

/* As after a minute without a beat: the node counts the number of beats on, and has forgotten the rest. */
TEST(a_process_that_the_node_forgot_shows_itself_again)
{
    log_capture_begin();
    start(20 * NS_PER_MS);
    wait_beats(3);
    assert_lacks(log_capture_end(NULL), "heartbeat_recovered");
    log_capture_begin();
    free(redis_server_command(server, "UNLINK processes " IDENTITY));
    wait_beats(2);
    assert_contains(log_capture_end(NULL), "heartbeat_recovered");
    assert_reply(server, "1", "EXISTS " IDENTITY);
    assert_reply(server, IDENTITY, "SMEMBERS processes");
}

TEST(it_beats_on_a_node_that_is_out_of_memory)
{
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    start(20 * NS_PER_MS);
    ran("echo", false, 5 * NS_PER_MS);
    wait_beats(2);
    assert_reply(server, "1", "GET stat:processed");
    assert_reply(server, IDENTITY, "SMEMBERS processes");
}

TEST(a_foreign_value_under_one_key_spoils_only_that)
{
    free(redis_server_command(server, "LPUSH stat:processed x"));
    free(redis_server_command(server, "LPUSH hf:2:locks:20261121 x"));
    start(20 * NS_PER_MS);
    ran("echo", true, 5 * NS_PER_MS);
    extra_add("a|x:|", "lost 1 ");
    wait_beats(3);
    assert_reply(server, "1\n1", "MGET stat:processed:2026-11-21 stat:failed");
    assert_reply(server, "1", "HGET j|261121|9:05 echo|p");
}

/* --- leaving ----------------------------------------------------------------------------------------------------- */

static unsigned lefts;
static bool was_left;

static void left(void *context, bool left)
{
    (void)context;
    lefts++;
    was_left = left;
}

static bool has_left(void *context)
{
    (void)context;
    return lefts > 0;
}

static void leave(int64_t limit_ns)
{
    lefts = 0;
    heartbeat_leave(heartbeat, instant_after(loop_now(loop), limit_ns), left);
    assert_true(loop_until(loop, has_left, NULL, TEST_PATIENCE_NS));
    assert_int_equal(lefts, 1);
}

TEST(leaving_writes_the_last_counts_and_leaves_nothing)
{
    run_show(example);
    start(3600 * NS_PER_S);
    wait_beats(1);
    free(redis_server_command(server, "LPUSH " IDENTITY "-signals TSTP"));
    free(redis_server_command(server, "LPUSH hf:2:calls:" IDENTITY " LOOK"));
    ran("echo", false, 5 * NS_PER_MS);
    extra_add("a|x:|", "lost 1 ");
    leave(20 * NS_PER_S);
    assert_true(was_left);
    assert_reply(server, "1", "GET stat:processed");
    assert_reply(server, "1", "HGET hf:2:locks:20261121 a|x:|lost");
    heartbeat_soon(heartbeat); /* somebody who has not heard of it */
    loop_for(loop, NS_PER_S);
    assert_reply(server, "", "KEYS *" IDENTITY "*");
    assert_reply(server, "0", "EXISTS processes");
}

TEST(leaving_after_a_lost_reply_counts_once)
{
    start_and_rest();
    relay_swallow(relay, true);
    ran("echo", false, 5 * NS_PER_MS);
    heartbeat_soon(heartbeat);
    wait_reply("1", "GET stat:processed");
    ran("echo", false, 5 * NS_PER_MS);
    lefts = 0;
    heartbeat_leave(heartbeat, instant_after(loop_now(loop), 20 * NS_PER_S), left);
    wait_repeats(1);
    relay_swallow(relay, false);
    relay_cut(relay);
    assert_true(loop_until(loop, has_left, NULL, TEST_PATIENCE_NS));
    assert_true(was_left);
    assert_reply(server, "2", "GET stat:processed");
    assert_reply(server, "0", "EXISTS processes");
    assert_reply(server, "hf:2:beat:" IDENTITY, "KEYS *" IDENTITY "*"); /* a beat may still be under way */
    assert_between(500, 600, "TTL hf:2:beat:" IDENTITY);
}

/* What a server that was stopped reads long after. */
TEST(a_late_beat_does_not_bring_it_back)
{
    start(20 * NS_PER_MS);
    wait_beats(2);
    redis_server_pause(server);
    wait_repeats(1);
    redis_server_resume(server);
    leave(20 * NS_PER_S);
    heartbeat_destroy(heartbeat);
    start(3600 * NS_PER_S); /* counts its beats from 1 */
    ran("echo", false, 5 * NS_PER_MS);
    wait_beats(1);
    assert_reply(server, "0", "EXISTS processes stat:processed " IDENTITY);
}

TEST(leaving_ends_in_time_without_the_node)
{
    start(20 * NS_PER_MS);
    wait_beats(1);
    redis_server_pause(server);
    ran("echo", false, 5 * NS_PER_MS);
    loop_for(loop, 30 * NS_PER_MS); /* a beat is on its way, and not the last */
    leave(50 * NS_PER_MS);
    assert_false(was_left);
    redis_server_resume(server); /* that is executed, and nothing follows */
    loop_for(loop, 2 * NS_PER_S);
    assert_int_equal(lefts, 1);
    assert_reply(server, IDENTITY, "SMEMBERS processes");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, heartbeat_setup, heartbeat_teardown)
