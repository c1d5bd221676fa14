/* How a connection comes up, why it does not, and what happens when it ends. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/node.h"
#include "tests/support/hostile_server.h"
#include "tests/support/log_capture.h"
#include "tests/support/node_server_fixture.h"

/* --- who we are --------------------------------------------------------------------------------------------- */

TEST(test_password)
{
    start_server(&(struct redis_server_options){.password = "s3cret"});
    struct redis_node_options options = options_for_server();
    options.password = "s3cret";
    assert_comes_up(&options);
}

TEST(test_wrong_password_is_told_without_the_password)
{
    start_server(&(struct redis_server_options){.password = "s3cret"});
    struct redis_node_options options = options_for_server();
    options.password = "wr0ng";
    assert_never_up(&options, "WRONGPASS");
    assert_contains(probe.reason, "127.0.0.1");
    assert_contains(probe.reason, "check user and password");
    assert_lacks(probe.reason, "wr0ng");
}

TEST(test_missing_password_is_told)
{
    start_server(&(struct redis_server_options){.password = "s3cret"});
    struct redis_node_options options = options_for_server();
    assert_never_up(&options, "NOAUTH");
}

TEST(test_a_server_that_repeats_the_password_in_its_error)
{
    struct hostile_server *hostile = hostile_server_start(HOSTILE_GOOD);
    hostile_server_say(hostile, "-ERR unknown command 'AUTH', with args beginning with: 's3cret'\r\n");
    struct redis_node_options options = node_options_for(hostile_server_port(hostile));
    options.password = "s3cret";
    assert_never_up(&options, "refused AUTH (ERR)");
    assert_lacks(probe.reason, "s3cret");
    node_probe_stop(&probe);
    hostile_server_destroy(hostile);
}

TEST(test_acl_user)
{
    start_server(&(struct redis_server_options){.acl = "user default on nopass ~* &* +@all\n"
                                                       "user worker on >w0rk ~* &* +@all -set\n"});
    struct redis_node_options options = options_for_server();
    options.user = "worker";
    options.password = "w0rk";
    assert_comes_up(&options);
    struct call_probe calls[2] = {{.completions = 0}};
    call_probe_run(&calls[0], &probe, "GET a");
    assert_true(call_probe_send(&calls[1], &probe, NS_PER_S, "SET a 1"));
    call_probe_wait(&calls[1], loop);
    assert_int_equal(calls[1].outcome, REDIS_ERROR);
    assert_int_equal(calls[1].error, REDIS_ERROR_AUTH);
}

TEST(test_acl_user_without_the_right_to_a_handshake_command)
{
    start_server(&(struct redis_server_options){.acl = "user default on nopass ~* &* +@all\n"
                                                       "user worker on >w0rk ~* &* +@all -ping\n"});
    struct redis_node_options options = options_for_server();
    options.user = "worker";
    options.password = "w0rk";
    assert_never_up(&options, "NOPERM");
    assert_contains(probe.reason, "its rights");
}

/* The name of a connection is a comfort. */
TEST(test_acl_user_without_the_right_to_name_the_connection)
{
    start_server(&(struct redis_server_options){.acl = "user default on nopass ~* &* +@all\n"
                                                       "user worker on >w0rk ~* &* +@all -client\n"});
    struct redis_node_options options = options_for_server();
    options.user = "worker";
    options.password = "w0rk";
    options.client_name = "holdfast-test";
    assert_comes_up(&options);
}

/* --- what the connection is --------------------------------------------------------------------------------- */

/* A server that cannot be a node is asked again rarely, and told each time once. */
static void assert_unfit(const char *answer, const char *reason)
{
    struct call_probe call = {.completions = 0};
    struct hostile_server *hostile = hostile_server_start(HOSTILE_GOOD);
    struct redis_node_options options = node_options_for(hostile_server_port(hostile));
    probe = (struct node_probe){.node = NULL};
    node_probe_start(&probe, loop, &options);
    node_probe_wait_up(&probe);
    hostile_server_say(hostile, answer);
    assert_true(call_probe_send(&call, &probe, NS_PER_S, "GET key"));
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_ERROR);
    assert_contains(call.reason, reason);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, reason);
    hostile_server_set_mode(hostile, HOSTILE_GOOD);
    loop_for(loop, 25 * NS_PER_S);
    assert_int_equal(probe.ups, 1);
    loop_for(loop, 10 * NS_PER_S);
    assert_int_equal(probe.ups, 2);
    node_probe_stop(&probe);
    hostile_server_destroy(hostile);
}

TEST(test_a_server_that_cannot_be_a_node_is_asked_rarely)
{
    assert_unfit("-CROSSSLOT Keys in request don't hash to the same slot\r\n", "is part of a Redis Cluster; the nodes");
    assert_unfit("-MOVED 3999 127.0.0.1:6381\r\n", "is part of a Redis Cluster; the nodes");
    assert_unfit("-ERR unknown command 'EVALSHA', with args beginning with:\r\n", "refused to run Lua scripts");
}

/* Commands judge the server themselves: its answer is an answer. */
TEST(test_an_answer_of_a_cluster_may_be_kept)
{
    struct call_probe call = {.completions = 0};
    struct hostile_server *hostile = hostile_server_start(HOSTILE_GOOD);
    struct redis_node_options options = node_options_for(hostile_server_port(hostile));
    options.unfit_pause_ns = -1;
    node_probe_start(&probe, loop, &options);
    node_probe_wait_up(&probe);
    hostile_server_say(hostile, "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
    assert_true(call_probe_send(&call, &probe, NS_PER_S, "GET key"));
    call_probe_wait(&call, loop);
    assert_int_equal(call.error, REDIS_ERROR_CLUSTER);
    assert_contains(call.text, "is part of a Redis Cluster; the nodes have to be single masters");
    loop_for(loop, 100 * NS_PER_MS);
    assert_int_equal(probe.downs, 0);
    node_probe_stop(&probe);
    hostile_server_destroy(hostile);
}

static void ask_for_too_much(struct node_probe *node, enum redis_node_state state)
{
    static struct call_probe call;
    if (state != REDIS_NODE_UP)
        return;
    call = (struct call_probe){.completions = 0};
    assert_true(call_probe_send(&call, node, NS_PER_S, "GET big"));
}

/* A connection that ends as soon as it is used is no success, and then it is told why that may be. */
TEST(test_the_pauses_between_short_connections_grow)
{
    size_t length;
    start_server(NULL);
    free(redis_server_command(server, "SET big %0200d", 7));
    free(redis_server_command(server, "CONFIG SET client-output-buffer-limit 'normal 100 0 0'"));
    struct redis_node_options options = options_for_server();
    options.backoff_min_ns = options.backoff_max_ns = 0;
    probe.on_change = ask_for_too_much;
    log_capture_begin();
    node_probe_start(&probe, loop, &options);
    loop_for(loop, 60 * NS_PER_S);
    assert_in_range(probe.ups, 20, 70);
    assert_contains(log_capture_end(&length), "is the answer larger than its client-output-buffer-limit");
    free(redis_server_command(server, "CONFIG SET client-output-buffer-limit 'normal 0 0 0'"));
    node_probe_wait_up(&probe);
    loop_for(loop, 3 * NS_PER_S);
    probe.on_change = NULL;
    unsigned ups = probe.ups;
    free(redis_server_command(server, "CLIENT KILL TYPE normal"));
    loop_for(loop, 150 * NS_PER_MS);
    assert_int_equal(probe.ups, ups + 1);
}

/* One that lasted ended for another reason, however often that happens. */
TEST(test_an_answer_that_is_lost_now_and_then_may_not_be_too_large)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    node_probe_start(&probe, loop, &options);
    for (unsigned i = 0; i < 3; i++) {
        struct call_probe call = {.completions = 0};
        node_probe_wait_up(&probe);
        loop_for(loop, options.backoff_max_ns);
        redis_server_pause(server);
        assert_true(call_probe_send(&call, &probe, 60 * NS_PER_S, "GET key"));
        loop_for(loop, 10 * NS_PER_MS);
        redis_server_kill(server);
        call_probe_wait(&call, loop);
        assert_int_equal(call.outcome, REDIS_UNKNOWN);
        assert_null(strstr(call.reason, "client-output-buffer-limit"));
        redis_server_restart(server);
        loop_await(loop, probe.downs == i + 1);
    }
}

/* Beside its name, whatever is not said is as node.h says. */
TEST(test_what_is_not_set)
{
    node_probe_start(&probe, loop, &(struct redis_node_options){.name = "probe", .host = "127.0.0.1"});
    const struct redis_node_options *options = redis_node_options_of(probe.node);
    assert_int_equal(options->port, 6379);
    assert_null(options->user);
    assert_null(options->password);
    assert_int_equal(options->database, 0);
    assert_false(options->tls.is_on);
    assert_int_equal(options->connect_timeout_ns, NS_PER_S);
    assert_int_equal(options->backoff_min_ns, 50 * NS_PER_MS);
    assert_int_equal(options->backoff_max_ns, 2 * NS_PER_S);
    assert_int_equal(options->silence_limit_ns, 10 * NS_PER_S);
    assert_int_equal(options->unanswered_limit, 4 << 20);
    assert_int_equal(options->reply_limit, 1 << 20);
    assert_int_equal(options->element_limit, 1024);
    assert_int_equal(options->pulse_interval_ns, 5 * NS_PER_S);
}

/* An address with a scheme says what the other options say, and more than they do. */
TEST(test_an_address_says_who_we_are)
{
    char address[64];
    start_server(&(struct redis_server_options){.acl = "user default on nopass ~* &* +@all\n"
                                                       "user worker on >w0rk ~* &* +@all\n"});
    snprintf(address, sizeof address, "redis://worker:w0rk@127.0.0.1:%u/0", redis_server_port(server));
    struct redis_node_options options = node_options_for(0);
    options.host = address;
    assert_comes_up(&options);
    char *list = redis_server_command(server, "CLIENT LIST");
    assert_contains(list, "user=worker");
    free(list);
    node_probe_stop(&probe);
    snprintf(address, sizeof address, "redis://worker:w0rk@127.0.0.1:%u/7777", redis_server_port(server));
    probe = (struct node_probe){.node = NULL};
    assert_never_up(&options, "refused SELECT 7777");
}

TEST(test_the_server_knows_its_name)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    options.client_name = "holdfast-test";
    assert_comes_up(&options);
    char *list = redis_server_command(server, "CLIENT LIST");
    assert_contains(list, "name=holdfast-test");
    free(list);
}

TEST(test_database_out_of_range)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    options.database = 99999;
    assert_never_up(&options, "refused SELECT 99999");
}

TEST(test_a_name_that_does_not_exist)
{
    struct redis_node_options options = options_for_server();
    options.host = "no-such-host.invalid";
    options.connect_timeout_ns = 2 * NS_PER_S;
    assert_never_up(&options, "resolv");
}

TEST(test_destroy_while_resolving)
{
    struct redis_node_options options = options_for_server();
    options.host = "localhost";
    node_probe_start(&probe, loop, &options);
    loop_for(loop, 0);
    node_probe_stop(&probe);
    loop_for(loop, 20 * NS_PER_MS);
    assert_int_equal(probe.ups + probe.downs, 0);
}

TEST(test_scripts_that_are_not_what_the_build_says)
{
    start_server(NULL);
    static const struct redis_script wrong_digest = {
        .name = "wrong", .sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", .source = "return 9", .length = 8};
    static const struct redis_script not_lua = {
        .name = "broken", .sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", .source = "retur n", .length = 7};
    const struct redis_script *script = &wrong_digest;
    struct redis_node_options options = options_for_server();
    options.scripts = &script;
    options.script_count = 1;
    assert_never_up(&options, "SCRIPT LOAD of wrong");
    node_probe_stop(&probe);

    probe = (struct node_probe){.node = NULL};
    script = &not_lua;
    assert_never_up(&options, "SCRIPT LOAD of broken");
}

/* --- failures and recovery ---------------------------------------------------------------------------------- */

TEST(test_e17_while_it_is_down_calls_fail_at_once)
{
    struct redis_node_options options = options_for_server();
    options.port = free_port();
    assert_never_up(&options, "refused");
}

TEST(test_reconnect_after_kill_and_restart)
{
    start_server(NULL);
    static const struct redis_script script = {
        .name = "one", .sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", .source = "return 1", .length = 8};
    const struct redis_script *const scripts[] = {&script};
    struct redis_node_options options = options_for_server();
    options.scripts = scripts;
    options.script_count = 1;
    assert_comes_up(&options);

    for (unsigned i = 1; i <= 3; i++) {
        redis_server_kill(server);
        node_probe_wait_downs(&probe, i);
        assert_true(strstr(probe.reason, "closed the connection") != NULL || strstr(probe.reason, "reset") != NULL);
        redis_server_restart(server);
        node_probe_wait_up(&probe);
        assert_string_equal(redis_node_reason(probe.node), "");
        struct call_probe call = {.completions = 0};
        assert_true(call_probe_send(&call, &probe, TEST_PATIENCE_NS, "EVALSHA %s 0", script.sha1));
        call_probe_wait(&call, loop);
        assert_int_equal(call.integer, 1);
    }
    assert_int_equal(counters()->script_reloads, 0);
    assert_int_equal(probe.ups, 4);
    assert_int_equal(probe.downs, 3);
}

TEST(test_a_server_that_hangs_during_the_handshake)
{
    start_server(NULL);
    redis_server_pause(server);
    struct redis_node_options options = options_for_server();
    options.connect_timeout_ns = 100 * NS_PER_MS;
    node_probe_start(&probe, loop, &options);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "the handshake took longer than 100 ms");
    assert_lacks(probe.reason, "TLS");
    redis_server_resume(server);
    node_probe_wait_up(&probe);
}

static struct call_probe lost[3];

static void cancel_the_second_and_call(struct node_probe *changed, enum redis_node_state state)
{
    if (state != REDIS_NODE_DOWN)
        return;
    assert_int_equal(lost[0].completions, 0); /* `changed` comes first */
    assert_int_equal(redis_node_state(changed->node), REDIS_NODE_DOWN);
    redis_call_cancel(&lost[1].call);
    struct call_probe call = {.completions = 0};
    assert_false(call_probe_send(&call, changed, NS_PER_S, "PING"));
}

static void call_again(struct call_probe *call)
{
    struct call_probe again = {.completions = 0};
    assert_false(call_probe_send(&again, &probe, NS_PER_S, "PING"));
    assert_string_equal(call->reason, redis_node_reason(probe.node));
}

TEST(test_e1_calls_of_a_lost_connection_are_unknown)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    assert_comes_up(&options);
    memset(lost, 0, sizeof lost);
    probe.on_change = cancel_the_second_and_call;
    redis_server_pause(server);
    for (int i = 0; i < 3; i++) {
        lost[i].on_done = call_again;
        assert_true(call_probe_send(&lost[i], &probe, 60 * NS_PER_S, "INCR counter"));
    }
    loop_for(loop, 10 * NS_PER_MS); /* they are written */
    redis_server_kill(server);
    call_probe_wait(&lost[2], loop);
    assert_int_equal(lost[0].outcome, REDIS_UNKNOWN);
    assert_int_equal(lost[1].completions, 0);
    assert_int_equal(lost[2].outcome, REDIS_UNKNOWN);
    assert_int_equal(lost[2].completions, 1);
}

/* --- overload ----------------------------------------------------------------------------------------------- */

enum { BULKY = 400, BULK = 60000 };

TEST(test_calls_that_were_never_written_are_down_and_the_others_unknown)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    options.unanswered_limit = (size_t)64 << 20;
    options.silence_limit_ns = 60 * NS_PER_S;
    assert_comes_up(&options);
    static struct call_probe calls[BULKY];
    static char bulk[BULK + 1];
    memset(calls, 0, sizeof calls);
    memset(bulk, 'x', BULK);
    redis_server_pause(server);
    for (int i = 0; i < BULKY; i++)
        assert_true(call_probe_send(&calls[i], &probe, 60 * NS_PER_S, "SET key %s", bulk));
    loop_for(loop, 0); /* 24 MB are more than two kernels' buffers hold */
    redis_server_kill(server);
    call_probe_wait(&calls[BULKY - 1], loop);

    assert_int_equal(calls[0].outcome, REDIS_UNKNOWN);
    assert_int_equal(calls[BULKY - 1].outcome, REDIS_ERROR);
    for (int i = 1; i < BULKY; i++) {
        assert_int_equal(calls[i].completions, 1);
        assert_true(calls[i].outcome != REDIS_ERROR || calls[i].error == REDIS_ERROR_DOWN);
        assert_false(calls[i - 1].outcome == REDIS_ERROR && calls[i].outcome == REDIS_UNKNOWN);
    }
}

TEST(test_more_unanswered_bytes_than_the_limit_close_the_connection)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    options.unanswered_limit = 1000;
    assert_comes_up(&options);
    struct call_probe calls[100] = {{.completions = 0}};
    unsigned taken = 0;
    redis_server_pause(server);
    while (taken < 100 && call_probe_send(&calls[taken], &probe, 60 * NS_PER_S, "INCR counter"))
        taken++;
    assert_true(taken > 10 && taken < 100);
    assert_true(redis_node_unanswered(probe.node) <= 1000);
    assert_int_equal(probe.downs, 0); /* not from inside the call */
    assert_false(call_probe_send(&calls[99], &probe, NS_PER_S, "PING"));
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "unanswered");
    for (unsigned i = 0; i < taken; i++)
        assert_int_equal(calls[i].completions, 1);
    redis_server_resume(server);
    node_probe_wait_up(&probe);
}

TEST(test_one_request_above_the_limit_is_refused_and_harms_nobody)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    options.unanswered_limit = 1000;
    assert_comes_up(&options);
    static char bulk[2001];
    memset(bulk, 'x', sizeof bulk - 1);
    struct call_probe calls[2] = {{.completions = 0}};
    assert_true(call_probe_send(&calls[0], &probe, TEST_PATIENCE_NS, "PING"));
    assert_false(call_probe_send(&calls[1], &probe, TEST_PATIENCE_NS, "SET key %s", bulk));
    call_probe_wait(&calls[0], loop);
    assert_int_equal(calls[0].outcome, REDIS_VALUE);
    assert_int_equal(probe.downs, 0);
}

RUN_TESTS_WITH(node_setup, node_server_teardown)
