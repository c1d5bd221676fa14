/* Calls reach a running process at once, from dashboards and from our own commands, and survive trouble with the
 * connection. */
#include "tests/support/presence_fixture.h"

#include "queue/control.h"

static struct control *control;
static char told[256]; /* what was called, a word each */
static unsigned told_count;

static void called(void *context, enum control_call call, const char *jid)
{
    (void)context;
    static const char *const names[] = {
        [CONTROL_QUIET] = "quiet", [CONTROL_STOP] = "stop",     [CONTROL_DUMP] = "dump", [CONTROL_LOOK] = "look",
        [CONTROL_DRAIN] = "drain", [CONTROL_CANCEL] = "cancel", [CONTROL_LOSE] = "lose"};
    size_t length = strlen(told);
    snprintf(told + length, sizeof told - length, "%s%s%s%s", length > 0 ? " " : "", names[call],
             jid != NULL ? "=" : "", jid != NULL ? jid : "");
    told_count++;
}

static int setup(void **state)
{
    (void)state;
    presence_setup();
    told[0] = '\0';
    told_count = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    control_destroy(control);
    presence_teardown();
    return 0;
}

static bool waits(void *context)
{
    (void)context;
    return redis_server_info(server, "clients", "blocked_clients:") > 0;
}

static void start(void)
{
    control = control_create(loop, &(struct control_options){.node = relay_options(), .keys = &keys, .called = called});
    assert_true(loop_until(loop, waits, NULL, TEST_PATIENCE_NS));
}

static bool is_told(void *count)
{
    return told_count >= *(const unsigned *)count;
}

static void wait_told(unsigned count)
{
    assert_true(loop_until(loop, is_told, &count, TEST_PATIENCE_NS));
}

TEST(what_dashboards_push_arrives)
{
    start();
    unsigned pops = redis_server_calls(server, "brpop");
    free(redis_server_command(server, "LPUSH " IDENTITY "-signals TSTP"));
    wait_told(1);
    assert_int_equal(redis_server_calls(server, "brpop"), pops + 1); /* woken, not asked again */
    free(redis_server_command(server, "LPUSH " IDENTITY "-signals TTIN TERM"));
    wait_told(3);
    assert_string_equal(told, "quiet dump stop");
    assert_reply(server, "0", "EXISTS " IDENTITY "-signals");
}

TEST(what_was_called_before_it_listened_arrives_in_order)
{
    free(redis_server_command(server, "LPUSH hf:2:calls:" IDENTITY " LOOK"));
    free(redis_server_command(server, "LPUSH hf:2:calls:" IDENTITY " 'CANCEL j1'"));
    control = control_create(loop, &(struct control_options){.node = relay_options(), .keys = &keys, .called = called});
    wait_told(2);
    assert_string_equal(told, "look cancel=j1");
}

TEST(unknown_calls_are_ignored)
{
    start();
    free(redis_server_command(server, "LPUSH " IDENTITY "-signals HUP '' CANCEL 'CANCEL ' TERMINATE term"));
    free(redis_server_command(server, "LPUSH " IDENTITY "-signals TSTP"));
    wait_told(1);
    assert_string_equal(told, "quiet");
}

TEST(calls_arrive_after_the_connection_was_lost)
{
    start();
    for (unsigned i = 1; i <= 3; i++) {
        free(redis_server_command(server, "CLIENT KILL TYPE normal"));
        free(redis_server_command(server, "LPUSH " IDENTITY "-signals TTIN"));
        wait_told(i);
    }
}

TEST(calls_arrive_after_the_node_was_away)
{
    start();
    redis_server_kill(server);
    loop_for(loop, 20 * NS_PER_MS);
    redis_server_restart(server);
    free(redis_server_command(server, "LPUSH " IDENTITY "-signals TTIN"));
    wait_told(1);
}

/* A refusal is not asked again in a tight loop. */
TEST(a_foreign_value_under_the_list_is_survived)
{
    unsigned pops = redis_server_calls(server, "brpop");
    free(redis_server_command(server, "SET " IDENTITY "-signals x"));
    control = control_create(loop, &(struct control_options){.node = relay_options(), .keys = &keys, .called = called});
    loop_for(loop, 300 * NS_PER_MS);
    assert_true(redis_server_calls(server, "brpop") - pops <= 2);
    free(redis_server_command(server, "DEL " IDENTITY "-signals"));
    free(redis_server_command(server, "LPUSH " IDENTITY "-signals TTIN"));
    wait_told(1);
}

static unsigned called_processes;

static void all_called(struct redis_call *call, const struct redis_result *result)
{
    (void)call;
    assert_int_equal(result->outcome, REDIS_VALUE);
    called_processes = (unsigned)result->reply->integer;
}

static bool all_are_called(void *context)
{
    (void)context;
    return called_processes > 0;
}

TEST(all_living_processes_are_called)
{
    struct redis_call call = {.done = all_called};
    struct buffer request = {0};
    start();
    free(redis_server_command(server, "ZADD hf:2:processes 9e9 " IDENTITY " 9.1e9 other:1:0 1 dead:1:0"));
    free(redis_server_command(server, "EVAL \"for i = 1, 300 do redis.call('LPUSH', KEYS[1], i) end\" 1 "
                                      "hf:2:calls:other:1:0"));
    called_processes = 0;
    control_request_call(&keys, "", "LOOK", &request);
    assert_true(redis_node_call(node, &request, instant_after(loop_now(loop), TEST_PATIENCE_NS), &call));
    wait_told(1);
    assert_string_equal(told, "look");
    assert_true(loop_until(loop, all_are_called, NULL, TEST_PATIENCE_NS));
    assert_int_equal(called_processes, 2);
    assert_reply(server, "0", "EXISTS hf:2:calls:dead:1:0");
    assert_reply(server, "100", "LLEN hf:2:calls:other:1:0");
    assert_reply(server, "LOOK", "LINDEX hf:2:calls:other:1:0 0");
    assert_between(55, 60, "TTL hf:2:calls:other:1:0");
    buffer_fini(&request);
}

static struct redis_call hearing;
static bool is_heard;

static void heard(struct redis_call *call, const struct redis_result *result)
{
    (void)call;
    assert_int_equal(result->outcome, REDIS_VALUE);
    is_heard = redis_reply_is_text(result->reply, "LOSE j1");
}

/* As the caller asks. */
static bool is_confirmed(void *context)
{
    (void)context;
    struct buffer request = {0};
    hearing.done = heard;
    if (!redis_call_is_outstanding(&hearing)) {
        control_request_heard(&keys, IDENTITY, &request);
        assert_true(redis_node_call(node, &request, instant_after(loop_now(loop), TEST_PATIENCE_NS), &hearing));
    }
    buffer_fini(&request);
    return is_heard;
}

/* The server takes it out of the list as soon as the process waits for it: only the process can say that it knows. */
TEST(one_process_is_called_and_confirms_what_it_did)
{
    struct redis_call call = {.done = all_called};
    struct buffer request = {0};
    start();
    free(redis_server_command(server, "ZADD hf:2:processes 9e9 " IDENTITY " 9.1e9 other:1:0"));
    free(redis_server_command(server, "SET hf:2:heard:" IDENTITY " 'LOSE j1'")); /* of another time */
    called_processes = 0;
    is_heard = false;
    control_request_call(&keys, IDENTITY, "LOSE j1", &request);
    assert_true(redis_node_call(node, &request, instant_after(loop_now(loop), TEST_PATIENCE_NS), &call));
    assert_true(loop_until(loop, all_are_called, NULL, TEST_PATIENCE_NS));
    assert_int_equal(called_processes, 1);
    wait_told(1);
    assert_string_equal(told, "lose=j1");
    assert_true(loop_until(loop, is_confirmed, NULL, TEST_PATIENCE_NS));
    assert_between(55, 60, "TTL hf:2:heard:" IDENTITY);
    assert_reply(server, "0", "EXISTS hf:2:calls:other:1:0");
    free(redis_server_command(server, "LPUSH hf:2:calls:" IDENTITY " LOOK")); /* and goes on listening */
    wait_told(2);
    is_heard = false;
    assert_true(loop_until(loop, is_confirmed, NULL, TEST_PATIENCE_NS)); /* only what somebody waits for is */
    buffer_fini(&request);
}

TEST(what_was_confirmed_before_is_forgotten_by_a_call)
{
    struct redis_call call = {.done = all_called};
    struct buffer request = {0};
    start();
    free(redis_server_command(server, "ZADD hf:2:processes 9.1e9 other:1:0"));
    free(redis_server_command(server, "SET hf:2:heard:other:1:0 'LOSE j1'"));
    called_processes = 0;
    control_request_call(&keys, "other:1:0", "LOSE j1", &request);
    assert_true(redis_node_call(node, &request, instant_after(loop_now(loop), TEST_PATIENCE_NS), &call));
    assert_true(loop_until(loop, all_are_called, NULL, TEST_PATIENCE_NS));
    assert_reply(server, "LOSE j1", "LINDEX hf:2:calls:other:1:0 0");
    assert_reply(server, "0", "EXISTS hf:2:heard:other:1:0");
    buffer_fini(&request);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, setup, teardown)
