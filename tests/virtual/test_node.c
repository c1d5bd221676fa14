/* Calls over one connection: order, deadlines, cancellation, forgotten scripts, limits. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "redis/node_private.h"
#include "tests/support/node_fixture.h"
#include "tests/support/one_server.h"

static const struct redis_script script_one = {
    .name = "one", .sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", .source = "return 1", .length = 8};
static const struct redis_script script_two = {
    .name = "two", .sha1 = "7f923f79fe76194c868d7e1d0820de36700eb649", .source = "return 2", .length = 8};
static const struct redis_script *const scripts[] = {&script_one, &script_two};

static struct redis_node_options default_options(void)
{
    struct redis_node_options options = node_options_for(redis_server_port(server));
    options.scripts = scripts;
    options.script_count = 2;
    return options;
}

static void start(const struct redis_node_options *options)
{
    probe = (struct node_probe){.node = NULL};
    node_probe_start(&probe, loop, options);
    node_probe_wait_up(&probe);
}

static int setup(void **state)
{
    redis_server_heal(server);
    (void)node_setup(state);
    struct redis_node_options options = default_options();
    start(&options);
    return 0;
}

/* The same node with other options. */
static void start_again(const struct redis_node_options *options)
{
    node_probe_stop(&probe);
    start(options);
}

static void issue(struct call_probe *call, int64_t timeout_ms, const char *command)
{
    assert_true(call_probe_send(call, &probe, timeout_ms * NS_PER_MS, "%s", command));
}

/* --- order -------------------------------------------------------------------------------------------------- */

enum { MANY = 1000 };

TEST(test_a_thousand_calls_of_a_turn_leave_in_few_writes_and_return_in_order)
{
    static struct call_probe calls[MANY];
    memset(calls, 0, sizeof calls);
    uint64_t writes = counters()->writes;
    for (int i = 0; i < MANY; i++)
        issue(&calls[i], 5000, "INCR counter");
    assert_true(redis_node_unanswered(probe.node) > MANY);
    call_probe_wait(&calls[MANY - 1], loop);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(calls[i].completions, 1);
        assert_int_equal(calls[i].integer, i + 1);
        assert_int_equal(calls[i].order, calls[0].order + (unsigned)i);
    }
    assert_true(counters()->writes - writes <= 3);
    assert_int_equal(counters()->replies, MANY + 3); /* and ROLE and two SCRIPT LOAD */
    assert_int_equal(redis_node_unanswered(probe.node), 0);
}

static long long streamed;

static void stream_on(struct call_probe *call)
{
    assert_int_equal(call->outcome, REDIS_VALUE);
    assert_int_equal(call->integer, ++streamed);
    if (streamed <= 20000)
        issue(call, 5000, "INCR counter");
}

TEST(test_a_stream_of_calls_that_never_runs_dry)
{
    static struct call_probe calls[50];
    memset(calls, 0, sizeof calls);
    streamed = 0;
    for (int i = 0; i < 50; i++) {
        calls[i].on_done = stream_on;
        issue(&calls[i], 5000, "INCR counter");
    }
    while (redis_node_unanswered(probe.node) > 0)
        loop_for(loop, NS_PER_MS);
    assert_int_equal(streamed, 20050);
    assert_int_equal(probe.downs, 0);
}

TEST(test_what_was_answered_is_dropped)
{
    for (unsigned i = 0; i < 3; i++) {
        struct call_probe call = {.completions = 0};
        call_probe_run(&call, &probe, "PING");
        assert_int_equal(probe.node->out.length, 0);
    }
}

TEST(test_nothing_completes_inside_a_call)
{
    struct call_probe call = {.completions = 0};
    assert_true(call_probe_send(&call, &probe, 0, "PING"));
    assert_int_equal(call.completions, 0);
    assert_true(redis_call_is_outstanding(&call.call));
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_UNKNOWN);
}

TEST(test_values_of_every_kind)
{
    struct call_probe call[5] = {{.completions = 0}};
    call_probe_run(&call[0], &probe, "SET k value");
    assert_int_equal(call[0].kind, REDIS_STATUS);
    call_probe_run(&call[1], &probe, "GET k");
    assert_int_equal(call[1].kind, REDIS_STRING);
    assert_string_equal(call[1].text, "value");
    call_probe_run(&call[2], &probe, "GET missing");
    assert_int_equal(call[2].kind, REDIS_NIL);
    call_probe_run(&call[3], &probe, "MGET k k missing");
    assert_int_equal(call[3].kind, REDIS_ARRAY);
    assert_int_equal(call[3].count, 3);
    call_probe_run(&call[4], &probe, "EVAL return{1,{err='NO!'}} 0");
    assert_int_equal(call[4].kind, REDIS_ARRAY);
    assert_int_equal(call[4].count, 2);
}

TEST(test_e11_a_server_error_is_no_value_and_keeps_the_connection)
{
    struct call_probe call[2] = {{.completions = 0}};
    issue(&call[0], 5000, "SET k v");
    issue(&call[1], 5000, "LPUSH k v");
    call_probe_wait(&call[1], loop);
    assert_int_equal(call[1].outcome, REDIS_ERROR);
    assert_int_equal(call[1].error, REDIS_ERROR_WRONGTYPE);
    assert_contains(call[1].reason, "WRONGTYPE");
    assert_int_equal(probe.downs, 0);
}

TEST(test_a_reply_larger_than_the_read_buffer)
{
    struct call_probe call[2] = {{.completions = 0}};
    issue(&call[0], 5000, "EVAL return(string.rep('x',500000)) 0");
    issue(&call[1], 5000, "INCR counter");
    call_probe_wait(&call[1], loop);
    assert_int_equal(call[0].kind, REDIS_STRING);
    assert_int_equal(call[0].length, 500000);
    assert_int_equal(call[1].integer, 1);
}

TEST(test_a_reply_beyond_the_limit_closes_the_connection)
{
    struct call_probe call = {.completions = 0};
    issue(&call, 5000, "EVAL return(string.rep('x',2000000)) 0");
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_UNKNOWN);
    assert_int_equal(counters()->desyncs, 1);
    node_probe_wait_up(&probe);
}

TEST(test_a_call_that_nobody_waits_for)
{
    struct buffer request = {0};
    redis_request_begin(&request, 2);
    redis_request_text(&request, "INCR");
    redis_request_text(&request, "counter");
    for (int i = 0; i < 10; i++)
        assert_true(redis_node_call(probe.node, &request, INSTANT_NEVER, NULL));
    buffer_fini(&request);
    struct call_probe call = {.completions = 0};
    call_probe_run(&call, &probe, "GET counter");
    assert_string_equal(call.text, "10");
    assert_int_equal(counters()->late_replies, 0);
}

/* --- deadlines ---------------------------------------------------------------------------------------------- */

TEST(test_e50_late_replies_are_discarded_and_the_connection_is_kept)
{
    struct call_probe calls[4] = {{.completions = 0}};
    redis_server_pause(server);
    for (int i = 0; i < 3; i++)
        issue(&calls[i], 30, "INCR counter");
    issue(&calls[3], 60000, "INCR counter");
    call_probe_wait(&calls[2], loop);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(calls[i].outcome, REDIS_UNKNOWN);
        assert_int_equal(calls[i].completions, 1);
    }
    assert_int_equal(calls[3].completions, 0);

    redis_server_resume(server);
    call_probe_wait(&calls[3], loop);
    assert_int_equal(calls[3].outcome, REDIS_VALUE);
    assert_int_equal(calls[3].integer, 4); /* the three were executed, and their replies are nobody else's */
    assert_int_equal(calls[0].completions, 1);
    assert_int_equal(counters()->late_replies, 3);
    assert_int_equal(probe.ups, 1);
    assert_int_equal(probe.downs, 0);
}

/* Nothing of the loop runs while this thread waits, and the answer comes in time. */
TEST(test_an_answer_that_is_here_is_not_late_although_we_stood_still)
{
    struct call_probe call = {.completions = 0};
    unsigned before = redis_server_calls(server, "incr");
    redis_server_pause(server);
    issue(&call, 300, "INCR counter");
    loop_for(loop, NS_PER_MS);
    struct instant late = instant_after(instant_now(), 400 * NS_PER_MS);
    redis_server_resume(server);
    test_await(redis_server_calls(server, "incr") > before);
    test_await(instant_reached(instant_now(), late));
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_VALUE);
}

TEST(test_late_answers_make_patient)
{
    struct call_probe call = {.completions = 0};
    assert_int_equal(redis_node_timeout_ns(probe.node, 10 * NS_PER_S, 20 * NS_PER_S), 10 * NS_PER_S);
    redis_server_pause(server);
    issue(&call, 30, "PING");
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_UNKNOWN);
    redis_server_resume(server);
    loop_await(loop, counters()->late_replies == 1);
    assert_true(redis_node_timeout_ns(probe.node, 1, 20 * NS_PER_S) >= 60 * NS_PER_MS);
}

TEST(test_each_call_has_a_deadline_of_its_own)
{
    struct call_probe calls[4] = {{.completions = 0}};
    redis_server_pause(server);
    issue(&calls[0], 60000, "PING");
    issue(&calls[1], 3000, "PING");
    issue(&calls[2], 20, "PING");
    issue(&calls[3], 500, "PING");
    call_probe_wait(&calls[1], loop);
    assert_true(calls[2].order < calls[3].order);
    assert_true(calls[3].order < calls[1].order);
    assert_int_equal(calls[0].completions, 0);
    redis_server_resume(server);
    call_probe_wait(&calls[0], loop);
    assert_int_equal(calls[0].outcome, REDIS_VALUE);
}

TEST(test_silence_beyond_its_limit_closes_the_connection)
{
    struct redis_node_options options = default_options();
    options.silence_limit_ns = 100 * NS_PER_MS;
    options.connect_timeout_ns = 100 * NS_PER_MS;
    start_again(&options);
    struct call_probe calls[2] = {{.completions = 0}};
    redis_server_pause(server);
    issue(&calls[0], 20, "PING");
    issue(&calls[1], 60000, "PING");
    call_probe_wait(&calls[1], loop);
    assert_int_equal(calls[0].outcome, REDIS_UNKNOWN);
    assert_int_equal(calls[1].outcome, REDIS_UNKNOWN);
    assert_contains(calls[1].reason, "no reply for 100 ms");
    assert_int_equal(probe.downs, 1);
    redis_server_resume(server);
    node_probe_wait_up(&probe);
}

TEST(test_silence_counts_although_every_call_has_expired)
{
    struct redis_node_options options = default_options();
    options.silence_limit_ns = 100 * NS_PER_MS;
    start_again(&options);
    struct call_probe call = {.completions = 0};
    redis_server_pause(server);
    issue(&call, 10, "PING");
    node_probe_wait_downs(&probe, 1);
    assert_int_equal(call.completions, 1);
}

TEST(test_an_idle_connection_is_not_silent)
{
    struct redis_node_options options = default_options();
    options.silence_limit_ns = 50 * NS_PER_MS;
    start_again(&options);
    struct call_probe call = {.completions = 0};
    call_probe_run(&call, &probe, "PING");
    loop_for(loop, 200 * NS_PER_MS);
    assert_int_equal(probe.downs, 0);
}

/* --- cancellation and re-entry ------------------------------------------------------------------------------ */

TEST(test_a_cancelled_call_stays_silent_and_shifts_nobody)
{
    struct call_probe calls[3] = {{.completions = 0}};
    for (int i = 0; i < 3; i++)
        issue(&calls[i], 5000, "INCR counter");
    redis_call_cancel(&calls[1].call);
    assert_false(redis_call_is_outstanding(&calls[1].call));
    redis_call_cancel(&calls[1].call);
    call_probe_wait(&calls[2], loop);
    assert_int_equal(calls[1].completions, 0);
    assert_int_equal(calls[2].integer, 3);
    assert_int_equal(counters()->late_replies, 0);
}

static struct call_probe chain[64];

static void cancel_next_and_go_on(struct call_probe *call)
{
    size_t place = (size_t)(call - chain);
    if (place + 1 < 32)
        redis_call_cancel(&chain[place + 1].call);
    if (place + 32 < 64)
        issue(&chain[place + 32], 5000, "INCR counter");
}

TEST(test_a_callback_may_call_and_cancel)
{
    memset(chain, 0, sizeof chain);
    for (size_t i = 0; i < 32; i++) {
        chain[i].on_done = cancel_next_and_go_on;
        issue(&chain[i], 5000, "INCR counter");
    }
    call_probe_wait(&chain[62], loop);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(chain[i].completions, i % 2 == 0);
        if (i % 2 == 0)
            assert_int_equal(chain[i].integer, i < 32 ? i + 1 : 33 + (i - 32) / 2);
    }
}

TEST(test_a_callback_of_an_expired_call_may_call_and_cancel)
{
    memset(chain, 0, sizeof chain);
    redis_server_pause(server);
    for (size_t i = 0; i < 32; i++) {
        chain[i].on_done = cancel_next_and_go_on;
        issue(&chain[i], 20, "INCR counter");
    }
    call_probe_wait(&chain[30], loop);
    redis_server_resume(server);
    call_probe_wait(&chain[62], loop);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(chain[i].completions, i % 2 == 0);
    assert_int_equal(chain[62].integer, 48);
}

TEST(test_destroy_drops_outstanding_calls)
{
    struct call_probe calls[2] = {{.completions = 0}};
    issue(&calls[0], 5000, "PING");
    issue(&calls[1], 5000, "PING");
    node_probe_stop(&probe);
    loop_for(loop, 50 * NS_PER_MS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(calls[i].completions, 0);
        assert_false(redis_call_is_outstanding(&calls[i].call));
        redis_call_cancel(&calls[i].call);
    }
    assert_int_equal(probe.downs, 0);
}

/* --- scripts ------------------------------------------------------------------------------------------------ */

static void send_script(struct call_probe *call, const struct redis_script *script, int64_t timeout_ms)
{
    assert_true(call_probe_send(call, &probe, timeout_ms * NS_PER_MS, "EVALSHA %s 0", script->sha1));
}

TEST(test_e43_a_forgotten_script_is_loaded_and_the_call_repeated)
{
    struct call_probe calls[6] = {{.completions = 0}};
    send_script(&calls[0], &script_one, 5000);
    call_probe_wait(&calls[0], loop);
    assert_int_equal(calls[0].integer, 1);
    assert_int_equal(counters()->script_reloads, 0);

    free(redis_server_command(server, "SCRIPT FLUSH"));
    for (int i = 1; i < 6; i++)
        send_script(&calls[i], i % 2 == 0 ? &script_one : &script_two, 5000);
    call_probe_wait(&calls[5], loop);
    for (int i = 1; i < 6; i++) {
        assert_int_equal(calls[i].outcome, REDIS_VALUE);
        assert_int_equal(calls[i].integer, i % 2 == 0 ? 1 : 2);
        assert_int_equal(calls[i].completions, 1);
        assert_int_equal(calls[i].order, calls[1].order + (unsigned)i - 1);
    }
    assert_int_equal(counters()->script_reloads, 2);
    assert_int_equal(redis_node_unanswered(probe.node), 0);
}

TEST(test_e43_an_expired_call_is_not_repeated)
{
    struct call_probe calls[2] = {{.completions = 0}};
    free(redis_server_command(server, "SCRIPT FLUSH"));
    redis_server_pause(server);
    send_script(&calls[0], &script_one, 20);
    call_probe_wait(&calls[0], loop);
    assert_int_equal(calls[0].outcome, REDIS_UNKNOWN);
    redis_server_resume(server);
    call_probe_run(&calls[1], &probe, "PING");
    assert_int_equal(counters()->late_replies, 1);
    assert_int_equal(counters()->script_reloads, 0);
}

TEST(test_e43_a_repeated_call_can_be_cancelled_and_expires)
{
    struct call_probe calls[3] = {{.completions = 0}};
    free(redis_server_command(server, "SCRIPT FLUSH"));
    for (int i = 0; i < 2; i++)
        send_script(&calls[i], &script_one, 300);
    issue(&calls[2], 60000, "BRPOP nothing 1");
    loop_await(loop, counters()->script_reloads == 1); /* the repeats wait in the server, behind the pop */
    redis_call_cancel(&calls[0].call);
    call_probe_wait(&calls[1], loop);
    assert_int_equal(calls[0].completions, 0);
    assert_int_equal(calls[1].outcome, REDIS_UNKNOWN);
    struct call_probe last = {.completions = 0};
    call_probe_run(&last, &probe, "PING");
    assert_int_equal(counters()->script_reloads, 1);
}

TEST(test_e43_a_script_that_the_node_does_not_know_is_an_error)
{
    struct call_probe call = {.completions = 0};
    issue(&call, 5000, "EVALSHA 0123456789012345678901234567890123456789 0");
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_ERROR);
    assert_int_equal(call.error, REDIS_ERROR_NOSCRIPT);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, setup, node_teardown)
