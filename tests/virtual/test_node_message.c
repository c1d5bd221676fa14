/* Subscriptions over one connection: messages of a server, and servers that say things nobody asked for. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/node.h"
#include "tests/support/hostile_server.h"
#include "tests/support/node_fixture.h"
#include "tests/support/one_server.h"

static struct hostile_server *hostile;

/* What came. */
static unsigned messages;
static char channel_seen[64], payload_seen[64];
static size_t payload_seen_length;
static void (*on_message)(struct redis_node *node);

static void message_came(void *context, struct redis_node *node, const char *channel, size_t channel_length,
                         const char *payload, size_t payload_length)
{
    assert_ptr_equal(context, &probe);
    assert_ptr_equal(node, probe.node);
    assert_int_equal(channel[channel_length], '\0');
    assert_int_equal(payload[payload_length], '\0');
    messages++;
    snprintf(channel_seen, sizeof channel_seen, "%s", channel);
    payload_seen_length = payload_length;
    memcpy(payload_seen, payload, payload_length < sizeof payload_seen ? payload_length : sizeof payload_seen);
    if (on_message != NULL)
        on_message(node);
}

static struct redis_node_options options_for(unsigned port)
{
    struct redis_node_options options = node_options_for(port);
    options.message = message_came;
    return options;
}

static void start(const struct redis_node_options *options)
{
    messages = 0;
    on_message = NULL;
    node_probe_start(&probe, loop, options);
    node_probe_wait_up(&probe);
}

static int setup(void **state)
{
    redis_server_heal(server);
    (void)node_setup(state);
    struct redis_node_options options = options_for(redis_server_port(server));
    start(&options);
    return 0;
}

static int teardown(void **state)
{
    (void)node_teardown(state);
    hostile_server_destroy(hostile);
    hostile = NULL;
    return 0;
}

#define HOSTILE_TEST(name) TEST_WITH(name, node_setup, teardown)

static void publish(const char *channel, const char *text)
{
    free(redis_server_command(server, "PUBLISH %s %s", channel, text));
}

static void run(const char *command)
{
    struct call_probe call = {.completions = 0};
    call_probe_run(&call, &probe, command);
    assert_int_equal(call.kind, REDIS_ARRAY);
    assert_int_equal(call.count, 3);
}

/* --- a server ----------------------------------------------------------------------------------------------------- */

TEST(test_messages_come_while_subscribed_and_not_afterwards)
{
    publish("a", "early");
    run("SUBSCRIBE a");
    publish("b", "other");
    publish("a", "hello");
    loop_await(loop, messages == 1);
    assert_string_equal(channel_seen, "a");
    assert_int_equal(payload_seen_length, 5);
    assert_memory_equal(payload_seen, "hello", 5);
    run("SUBSCRIBE b");
    run("UNSUBSCRIBE a");
    publish("a", "gone");
    publish("b", "last");
    loop_await(loop, messages == 2);
    assert_memory_equal(payload_seen, "last", 4);
    run("UNSUBSCRIBE b");
    publish("b", "gone");
    struct call_probe call = {.completions = 0};
    call_probe_run(&call, &probe, "SET key value"); /* it is a connection like others again */
    assert_string_equal(call.text, "OK");
    assert_int_equal(messages, 2);
    assert_int_equal(probe.downs, 0);
}

TEST(test_payloads_are_bytes)
{
    static const char payload[] = {'*', '1', '\r', '\n', '\0', '$', (char)0xff};
    run("SUBSCRIBE a");
    free(redis_server_command(server, "EVAL \"redis.call('PUBLISH', 'a', string.char(42,49,13,10,0,36,255))\" 0"));
    loop_await(loop, messages == 1);
    assert_int_equal(payload_seen_length, sizeof payload);
    assert_memory_equal(payload_seen, payload, sizeof payload);
}

/* SUBSCRIBE and UNSUBSCRIBE of a channel in turn, while messages arrive on another: each reply is its call's. */
struct told {
    struct redis_call call;
    char word[16], channel[16];
    long long left;
    bool is_done;
};

static void told_done(struct redis_call *call, const struct redis_result *result)
{
    struct told *told = list_owner(call, struct told, call);
    assert_int_equal(result->outcome, REDIS_VALUE);
    assert_int_equal(result->reply->kind, REDIS_ARRAY);
    assert_int_equal(result->reply->count, 3);
    snprintf(told->word, sizeof told->word, "%s", result->reply->elements[0].bytes);
    snprintf(told->channel, sizeof told->channel, "%s", result->reply->elements[1].bytes);
    told->left = result->reply->elements[2].integer;
    told->is_done = true;
}

static void send_told(struct told *told, const char *word, unsigned channel)
{
    char name[16];
    struct buffer request = {0};
    snprintf(name, sizeof name, "c%u", channel);
    *told = (struct told){.call.done = told_done};
    redis_request_begin(&request, 2);
    redis_request_text(&request, word);
    redis_request_text(&request, name);
    assert_true(redis_node_call(probe.node, &request, loop_after(loop, 20 * NS_PER_S), &told->call));
    buffer_fini(&request);
}

enum { PAIRS = 40, ROUNDS = 20 };

TEST(test_messages_never_take_the_place_of_replies)
{
    static struct told told[2 * PAIRS];
    run("SUBSCRIBE noise");
    unsigned published = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < PAIRS; i++) {
            send_told(&told[2 * i], "SUBSCRIBE", i);
            send_told(&told[2 * i + 1], "UNSUBSCRIBE", i);
            if (i % 4 == 0) {
                loop_for(loop, 0); /* they are on their way, and so is the noise */
                publish("noise", "message");
                published++;
            }
        }
        loop_await(loop, told[2 * PAIRS - 1].is_done);
        for (unsigned i = 0; i < PAIRS; i++) {
            char name[16];
            snprintf(name, sizeof name, "c%u", i);
            assert_string_equal(told[2 * i].word, "subscribe");
            assert_string_equal(told[2 * i].channel, name);
            assert_int_equal(told[2 * i].left, 2);
            assert_string_equal(told[2 * i + 1].word, "unsubscribe");
            assert_string_equal(told[2 * i + 1].channel, name);
            assert_int_equal(told[2 * i + 1].left, 1);
        }
    }
    loop_await(loop, messages == published);
    assert_int_equal(probe.downs, 0);
}

static struct call_probe from_within;

static void subscribe_further(struct redis_node *node)
{
    (void)node;
    on_message = NULL;
    assert_true(call_probe_send(&from_within, &probe, TEST_PATIENCE_NS, "SUBSCRIBE b"));
}

TEST(test_calls_can_be_made_from_within_a_message)
{
    from_within = (struct call_probe){.completions = 0};
    run("SUBSCRIBE a");
    on_message = subscribe_further;
    publish("a", "go");
    publish("a", "on");
    loop_await(loop, messages == 2);
    call_probe_wait(&from_within, loop);
    publish("b", "end");
    loop_await(loop, messages == 3);
    assert_string_equal(channel_seen, "b");
}

TEST(test_an_idle_subscription_has_a_pulse_and_stays)
{
    node_probe_stop(&probe);
    struct redis_node_options options = options_for(redis_server_port(server));
    options.pulse_interval_ns = 5 * NS_PER_MS;
    options.silence_limit_ns = 20 * NS_PER_S;
    start(&options);
    unsigned pings = redis_server_calls(server, "ping");
    loop_for(loop, 50 * NS_PER_MS);
    assert_int_equal(redis_server_calls(server, "ping"), pings); /* not before */
    run("SUBSCRIBE a");
    loop_await(loop, redis_server_calls(server, "ping") >= pings + 5);
    publish("a", "still");
    loop_await(loop, messages == 1);
    run("UNSUBSCRIBE a");
    struct call_probe call = {.completions = 0};
    call_probe_run(&call, &probe, "PING"); /* behind a pulse that may be under way */
    pings = redis_server_calls(server, "ping");
    loop_for(loop, 50 * NS_PER_MS);
    assert_int_equal(redis_server_calls(server, "ping"), pings);
    assert_int_equal(probe.downs, 0);
}

TEST(test_the_silence_limit_leaves_a_quiet_subscription_alone)
{
    node_probe_stop(&probe);
    struct redis_node_options options = options_for(redis_server_port(server));
    options.pulse_interval_ns = 3600 * NS_PER_S;
    options.silence_limit_ns = 200 * NS_PER_MS;
    start(&options);
    run("SUBSCRIBE a");
    loop_for(loop, 500 * NS_PER_MS);
    assert_int_equal(probe.downs, 0);
    publish("a", "still");
    loop_await(loop, messages == 1);
}

TEST(test_a_server_that_hangs_is_found)
{
    node_probe_stop(&probe);
    struct redis_node_options options = options_for(redis_server_port(server));
    options.pulse_interval_ns = 10 * NS_PER_MS;
    options.silence_limit_ns = 100 * NS_PER_MS;
    start(&options);
    run("SUBSCRIBE a");
    redis_server_pause(server);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "no reply for");
    redis_server_resume(server);
    node_probe_wait_up(&probe);
}

TEST(test_a_new_connection_has_no_subscriptions)
{
    run("SUBSCRIBE a");
    free(redis_server_command(server, "CLIENT KILL TYPE pubsub"));
    node_probe_wait_downs(&probe, 1);
    node_probe_wait_up(&probe);
    publish("a", "lost");
    struct call_probe call = {.completions = 0};
    call_probe_run(&call, &probe, "SET key value");
    assert_int_equal(messages, 0);
    run("SUBSCRIBE a");
    publish("a", "heard");
    loop_await(loop, messages == 1);
}

/* --- servers that say too much ------------------------------------------------------------------------------------ */

#define SUBSCRIBED   "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
#define UNSUBSCRIBED "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n"
#define MESSAGE      "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n"

static void start_hostile(const char *says, int64_t silence_limit_ns)
{
    hostile = hostile_server_start(HOSTILE_GOOD);
    hostile_server_say(hostile, says);
    struct redis_node_options options = options_for(hostile_server_port(hostile));
    options.silence_limit_ns = silence_limit_ns;
    options.pulse_interval_ns = 20 * NS_PER_MS;
    start(&options);
}

/* The first call is answered, and the connection is closed for what came with the answer. */
static void assert_closes(const char *says, const char *reason, unsigned messages_before)
{
    struct call_probe call = {.completions = 0};
    start_hostile(says, TEST_PATIENCE_NS);
    assert_true(call_probe_send(&call, &probe, 60 * NS_PER_S, "SUBSCRIBE a"));
    node_probe_wait_downs(&probe, 1);
    assert_int_equal(call.outcome, REDIS_VALUE);
    assert_contains(probe.reason, reason);
    assert_int_equal(counters()->desyncs, 1);
    assert_int_equal(messages, messages_before);
}

HOSTILE_TEST(test_messages_behind_the_reply_are_messages)
{
    struct call_probe call = {.completions = 0};
    start_hostile(SUBSCRIBED MESSAGE MESSAGE, TEST_PATIENCE_NS);
    assert_true(call_probe_send(&call, &probe, 60 * NS_PER_S, "SUBSCRIBE a"));
    loop_await(loop, messages == 2);
    assert_int_equal(call.completions, 1);
    loop_for(loop, 100 * NS_PER_MS); /* some pulses */
    assert_int_equal(probe.downs, 0);
}

HOSTILE_TEST(test_a_message_without_a_subscription_closes)
{
    assert_closes("+OK\r\n" MESSAGE, "that nothing asked for", 0);
}

HOSTILE_TEST(test_a_message_on_a_new_connection_closes)
{
    struct call_probe calls[2] = {{.completions = 0}};
    start_hostile(SUBSCRIBED, TEST_PATIENCE_NS);
    run("SUBSCRIBE a");
    hostile_server_set_mode(hostile, HOSTILE_RESET);
    assert_true(call_probe_send(&calls[0], &probe, 60 * NS_PER_S, "SUBSCRIBE b"));
    node_probe_wait_downs(&probe, 1);
    hostile_server_say(hostile, "+OK\r\n" MESSAGE);
    node_probe_wait_up(&probe);
    assert_true(call_probe_send(&calls[1], &probe, 60 * NS_PER_S, "GET key"));
    node_probe_wait_downs(&probe, 2);
    assert_contains(probe.reason, "that nothing asked for");
    assert_int_equal(messages, 0);
}

HOSTILE_TEST(test_a_message_after_the_last_channel_closes)
{
    assert_closes(UNSUBSCRIBED MESSAGE, "that nothing asked for", 0);
}

HOSTILE_TEST(test_half_a_message_without_a_subscription_closes)
{
    assert_closes("+OK\r\n*3\r\n$7\r\nmess", "that nothing asked for", 0);
}

HOSTILE_TEST(test_what_is_no_message_closes_a_subscription)
{
    static const char *const others[] = {
        SUBSCRIBED ":1\r\n",
        SUBSCRIBED "*2\r\n$7\r\nmessage\r\n$1\r\na\r\n",
        SUBSCRIBED "*0\r\n",
        SUBSCRIBED "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n:1\r\n",
        SUBSCRIBED "*3\r\n$7\r\nmessage\r\n$-1\r\n$1\r\na\r\n",
        SUBSCRIBED "*3\r\n$8\r\npmessage\r\n$1\r\na\r\n$1\r\na\r\n",
        SUBSCRIBED SUBSCRIBED,
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_closes(others[i], "that nothing asked for", 0);
        node_probe_stop(&probe);
        hostile_server_destroy(hostile);
        hostile = NULL;
        probe = (struct node_probe){.node = NULL};
    }
    hostile = hostile_server_start(HOSTILE_GOOD);
}

HOSTILE_TEST(test_half_a_message_does_not_hang_for_ever)
{
    struct call_probe call = {.completions = 0};
    start_hostile(SUBSCRIBED "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$100\r\nhi", 200 * NS_PER_MS);
    assert_true(call_probe_send(&call, &probe, 60 * NS_PER_S, "SUBSCRIBE a"));
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "no reply for");
    assert_int_equal(messages, 0);
}

HOSTILE_TEST(test_a_message_that_looks_like_a_reply_is_one_before_the_subscription)
{
    struct call_probe call = {.completions = 0};
    start_hostile(MESSAGE, TEST_PATIENCE_NS);
    call_probe_run(&call, &probe, "LRANGE list 0 -1");
    assert_int_equal(call.count, 3);
    assert_int_equal(messages, 0);
}

HOSTILE_TEST(test_a_server_that_goes_mute_is_found)
{
    start_hostile(SUBSCRIBED, 200 * NS_PER_MS);
    run("SUBSCRIBE a");
    hostile_server_set_mode(hostile, HOSTILE_MUTE);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "no reply for");
}

HOSTILE_TEST(test_a_pulse_is_answered_by_a_pulse)
{
    start_hostile(SUBSCRIBED, TEST_PATIENCE_NS);
    run("SUBSCRIBE a");
    hostile_server_set_mode(hostile, HOSTILE_BAD_PONG);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "another reply than one to PING");
    assert_int_equal(counters()->desyncs, 1);
}

HOSTILE_TEST(test_a_pulse_may_be_refused)
{
    redis_server_heal(server);
    struct redis_node_options options = options_for(redis_server_port(server));
    options.pulse_interval_ns = 2 * NS_PER_MS;
    start(&options);
    run("SUBSCRIBE a");
    free(redis_server_command(server, "ACL SETUSER default -ping"));
    uint64_t replies = counters()->replies;
    loop_await(loop, counters()->replies >= replies + 20);
    free(redis_server_command(server, "ACL SETUSER default +ping"));
    assert_int_equal(probe.downs, 0);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, setup, teardown)
