/* Servers that answer badly (reference: F39, F40). Each ends as an ordinary failure of the node within the deadline of
 * the call; the process neither crashes nor hoards memory, no reply reaches a call it is not for, and the node comes up
 * again as soon as the server behaves. */
#include "tests/support/test.h"

#include <string.h>

#include "redis/node.h"
#include "tests/support/hostile_server.h"
#include "tests/support/node_fixture.h"
#include "tests/support/redis_server.h"

static struct hostile_server *hostile;

static struct redis_node_options options_for(unsigned port)
{
    struct redis_node_options options = node_options_for(port);
    options.silence_limit_ns = 60 * NS_PER_S;
    return options;
}

static void start_hostile(enum hostile_mode mode)
{
    hostile = hostile_server_start(mode);
    struct redis_node_options options = options_for(hostile_server_port(hostile));
    node_probe_start(&probe, loop, &options);
}

static int teardown(void **state)
{
    (void)node_teardown(state);
    hostile_server_destroy(hostile);
    hostile = NULL;
    return 0;
}

static void assert_recovers(void)
{
    hostile_server_set_mode(hostile, HOSTILE_GOOD);
    struct call_probe call = {.completions = 0};
    for (int i = 0; i < 100; i++) {
        node_probe_wait_up(&probe);
        call = (struct call_probe){.completions = 0};
        if (!call_probe_send(&call, &probe, 60 * NS_PER_S, "GET key"))
            continue;
        call_probe_wait(&call, loop);
        if (call.outcome == REDIS_VALUE)
            break; /* a connection may have been made before the mode was changed */
    }
    assert_int_equal(call.outcome, REDIS_VALUE);
    assert_string_equal(call.text, "OK");
}

/* The connection is closed because of what the server sent, long before the deadline; the call is UNKNOWN. */
static void assert_closes(enum hostile_mode mode, const char *reason, unsigned desyncs)
{
    start_hostile(mode);
    node_probe_wait_up(&probe);
    struct call_probe calls[2] = {{.completions = 0}};
    assert_true(call_probe_send(&calls[0], &probe, 60 * NS_PER_S, "GET key"));
    assert_true(call_probe_send(&calls[1], &probe, 60 * NS_PER_S, "GET key"));
    call_probe_wait(&calls[0], loop);
    call_probe_wait(&calls[1], loop);
    assert_int_equal(calls[0].outcome, REDIS_UNKNOWN);
    assert_int_equal(calls[1].outcome, REDIS_UNKNOWN);
    if (strstr(calls[0].reason, reason) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", hostile_mode_name(mode), calls[0].reason, reason);
    assert_int_equal(counters()->desyncs, desyncs);
    assert_int_equal(probe.downs, 1);
    assert_recovers();
}

TEST(test_f39_f40_what_is_no_reply_closes_the_connection)
{
    static const struct {
        enum hostile_mode mode;
        const char *reason;
        unsigned desyncs;
    } cases[] = {
        {HOSTILE_GARBAGE, "an unacceptable reply", 1},
        {HOSTILE_HUGE_ARRAY, "an unacceptable reply", 1},
        {HOSTILE_NEGATIVE, "an unacceptable reply", 1},
        {HOSTILE_DEEP_NESTING, "an unacceptable reply", 1},
        {HOSTILE_HUGE_BULK, "more bytes than the limit", 1},
        {HOSTILE_ENDLESS_LINE, "a line without an end", 1},
        {HOSTILE_RESP3, "an unacceptable reply", 1},
        {HOSTILE_HALF_REPLY, "closed the connection", 0},
        {HOSTILE_RESET, "reset by peer", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_closes(cases[i].mode, cases[i].reason, cases[i].desyncs);
        teardown(state);
        node_setup(state);
    }
}

static void send_at_turn(struct call_probe *call)
{
    /* A call that is made when the surplus reply has arrived already: it must not take that for its own. */
    struct call_probe *next = call + 1;
    assert_true(call_probe_send(next, &probe, 60 * NS_PER_S, "GET next"));
}

static void assert_surplus_is_nobodys(enum hostile_mode mode, const char *reason)
{
    start_hostile(mode);
    node_probe_wait_up(&probe);
    struct call_probe calls[2] = {{.on_done = send_at_turn}};
    assert_true(call_probe_send(&calls[0], &probe, 60 * NS_PER_S, "GET key"));
    call_probe_wait(&calls[1], loop);
    assert_int_equal(calls[0].outcome, REDIS_VALUE);
    assert_string_equal(calls[0].text, "OK");
    assert_int_equal(calls[1].outcome, REDIS_ERROR);
    assert_int_equal(calls[1].error, REDIS_ERROR_DOWN);
    assert_contains(calls[1].reason, reason);
    assert_int_equal(counters()->desyncs, 1);
    assert_recovers();
}

TEST(test_e50_an_extra_reply_never_answers_another_call)
{
    assert_surplus_is_nobodys(HOSTILE_EXTRA_REPLY, "a reply that nothing asked for");
}

TEST(test_e50_half_an_extra_reply_never_answers_another_call)
{
    assert_surplus_is_nobodys(HOSTILE_EXTRA_HALF, "bytes that nothing asked for");
}

TEST(test_e50_an_extra_reply_to_an_idle_connection)
{
    start_hostile(HOSTILE_EXTRA_REPLY);
    node_probe_wait_up(&probe);
    struct call_probe call = {.completions = 0};
    assert_true(call_probe_send(&call, &probe, 60 * NS_PER_S, "GET key"));
    node_probe_wait_downs(&probe, 1);
    assert_int_equal(call.outcome, REDIS_VALUE);
    assert_int_equal(counters()->desyncs, 1);
    assert_recovers();
}

TEST(test_f39_a_late_reply_is_discarded)
{
    start_hostile(HOSTILE_LATE);
    node_probe_wait_up(&probe);
    struct call_probe calls[2] = {{.completions = 0}};
    assert_true(call_probe_send(&calls[0], &probe, 30 * NS_PER_MS, "GET key"));
    call_probe_wait(&calls[0], loop);
    assert_int_equal(calls[0].outcome, REDIS_UNKNOWN);
    hostile_server_set_mode(hostile, HOSTILE_GOOD);
    assert_true(call_probe_send(&calls[1], &probe, 60 * NS_PER_S, "GET key"));
    call_probe_wait(&calls[1], loop);
    assert_int_equal(calls[1].outcome, REDIS_VALUE);
    assert_int_equal(calls[0].completions, 1);
    assert_int_equal(counters()->late_replies, 1);
    assert_int_equal(probe.downs, 0);
}

/* It would go on for minutes. */
TEST(test_f39_a_dripping_reply_does_not_stretch_the_deadline)
{
    start_hostile(HOSTILE_DRIP);
    node_probe_wait_up(&probe);
    struct call_probe calls[2] = {{.completions = 0}};
    assert_true(call_probe_send(&calls[0], &probe, 100 * NS_PER_MS, "GET key"));
    call_probe_wait(&calls[0], loop);
    assert_int_equal(calls[0].outcome, REDIS_UNKNOWN);
    assert_int_equal(counters()->late_replies, 0);
    hostile_server_set_mode(hostile, HOSTILE_GOOD);
    assert_true(call_probe_send(&calls[1], &probe, 60 * NS_PER_S, "GET key"));
    call_probe_wait(&calls[1], loop);
    assert_int_equal(calls[1].outcome, REDIS_VALUE);
    assert_string_equal(calls[1].text, "OK");
    assert_int_equal(counters()->late_replies, 1);
    assert_int_equal(probe.downs, 0);
}

TEST(test_silence_ends_at_the_deadline_and_then_the_connection)
{
    hostile = hostile_server_start(HOSTILE_SILENT);
    struct redis_node_options options = options_for(hostile_server_port(hostile));
    options.silence_limit_ns = 4 * NS_PER_S; /* longer than this process stands still before it sees the deadline */
    node_probe_start(&probe, loop, &options);
    node_probe_wait_up(&probe);
    struct call_probe call = {.completions = 0};
    assert_true(call_probe_send(&call, &probe, 30 * NS_PER_MS, "GET key"));
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_UNKNOWN);
    assert_contains(call.reason, "deadline");
    assert_int_equal(probe.downs, 0);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "no reply for");
    assert_recovers();
}

TEST(test_e11_a_server_error_is_an_error_and_no_failure_of_the_node)
{
    start_hostile(HOSTILE_BUSY_ERROR);
    node_probe_wait_up(&probe);
    struct call_probe call = {.completions = 0};
    assert_true(call_probe_send(&call, &probe, 60 * NS_PER_S, "GET key"));
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_ERROR);
    assert_int_equal(call.error, REDIS_ERROR_BUSY);
    assert_int_equal(probe.downs, 0);
}

TEST(test_a_greeting_is_not_the_reply_to_the_handshake)
{
    start_hostile(HOSTILE_UNASKED);
    node_probe_wait_downs(&probe, 1);
    assert_int_equal(probe.ups, 0);
    assert_recovers();
}

TEST(test_who_refuses_to_tell_its_role_in_words_of_its_own_is_let_in)
{
    struct call_probe call = {.completions = 0};
    start_hostile(HOSTILE_PROXY);
    node_probe_wait_up(&probe);
    call_probe_run(&call, &probe, "GET key");
    assert_int_equal(probe.ups, 1);
}

TEST(test_the_connect_deadline_covers_the_handshake)
{
    hostile = hostile_server_start(HOSTILE_MUTE);
    struct redis_node_options options = options_for(hostile_server_port(hostile));
    options.connect_timeout_ns = 50 * NS_PER_MS;
    node_probe_start(&probe, loop, &options);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "the handshake took longer than 50 ms");
    assert_int_equal(probe.ups, 0);
    assert_recovers();
}

TEST(test_e43_a_call_is_repeated_once_at_most)
{
    static const struct redis_script script = {
        .name = "one", .sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", .source = "return 1", .length = 8};
    const struct redis_script *const scripts[] = {&script};
    hostile = hostile_server_start(HOSTILE_NOSCRIPT);
    struct redis_node_options options = options_for(hostile_server_port(hostile));
    options.scripts = scripts;
    options.script_count = 1;
    node_probe_start(&probe, loop, &options);
    node_probe_wait_up(&probe);
    struct call_probe call = {.completions = 0};
    assert_true(call_probe_send(&call, &probe, 60 * NS_PER_S, "EVALSHA %s 0", script.sha1));
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_ERROR);
    assert_int_equal(call.error, REDIS_ERROR_NOSCRIPT);
    assert_int_equal(counters()->script_reloads, 1);
}

TEST(test_attempts_to_connect_back_off)
{
    hostile = hostile_server_start(HOSTILE_MUTE);
    struct redis_node_options options = options_for(hostile_server_port(hostile));
    options.connect_timeout_ns = 10 * NS_PER_MS;
    options.backoff_min_ns = 20 * NS_PER_MS;
    options.backoff_max_ns = 100 * NS_PER_MS;
    struct instant began = instant_now();
    node_probe_start(&probe, loop, &options);
    loop_await(loop, hostile_server_accepted(hostile) >= 10);
    /* One in (10 + 20) ms at most, and a slow machine takes longer; without a pause it would be a third of that. */
    assert_true(instant_since(began, instant_now()) >= 9 * 30 * NS_PER_MS);
}

TEST(test_a_real_server_takes_the_place_of_a_hostile_one)
{
    start_hostile(HOSTILE_GARBAGE);
    node_probe_wait_up(&probe);
    struct call_probe calls[2] = {{.completions = 0}};
    assert_true(call_probe_send(&calls[0], &probe, 60 * NS_PER_S, "GET key"));
    call_probe_wait(&calls[0], loop);
    assert_int_equal(calls[0].outcome, REDIS_UNKNOWN);

    unsigned port = hostile_server_port(hostile);
    hostile_server_destroy(hostile);
    hostile = NULL;
    loop_await(loop, redis_node_state(probe.node) != REDIS_NODE_UP);
    struct redis_server *server = redis_server_start(&(struct redis_server_options){.port = port});
    node_probe_wait_up(&probe);
    call_probe_run(&calls[1], &probe, "SET key value");
    assert_string_equal(calls[1].text, "OK");
    redis_server_destroy(server);
}

RUN_TESTS_WITH(node_setup, teardown)
