/* Only a master is ever up: replicas at connect time, and masters that become replicas while we are connected. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "redis/node.h"
#include "tests/support/node_server_fixture.h"

/* --- when it connects --------------------------------------------------------------------------------------- */

static void demote(void)
{
    free(redis_server_command(server, "REPLICAOF 127.0.0.1 1"));
}

TEST(test_a_replica_is_told_and_never_up)
{
    start_server(NULL);
    demote();
    struct redis_node_options options = options_for_server();
    node_probe_start(&probe, loop, &options);
    assert_stays_down("is a replica of 127.0.0.1:1");
    free(redis_server_command(server, "REPLICAOF NO ONE"));
    node_probe_wait_up(&probe);
}

static void start_without_role(void)
{
    start_server(
        &(struct redis_server_options){.acl = "user default on nopass ~* &* +@all\nuser w on >w ~* &* +@all -role\n"});
}

TEST(test_a_user_without_the_right_to_role_is_let_in)
{
    start_without_role();
    struct redis_node_options options = options_for_server();
    options.user = options.password = "w";
    node_probe_start(&probe, loop, &options);
    node_probe_wait_up(&probe);
    run_one("SET key value");
}

/* --- a master that becomes a replica ------------------------------------------------------------------------ */

static void start_alone(void)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    node_probe_start(&probe, loop, &options);
    node_probe_wait_up(&probe);
}

static void write_from_inside(struct call_probe *call)
{
    struct call_probe again = {.completions = 0};
    assert_false(call_probe_send(&again, &probe, NS_PER_S, "SET again 1"));
    call->on_done = NULL;
}

TEST(test_readonly_closes_the_connection_behind_the_answers_that_came_with_it)
{
    start_alone();
    run_one("SET key value");
    demote();
    struct call_probe calls[3] = {{.completions = 0}, {.on_done = write_from_inside}, {.completions = 0}};
    assert_true(call_probe_send(&calls[0], &probe, TEST_PATIENCE_NS, "GET key"));
    assert_true(call_probe_send(&calls[1], &probe, TEST_PATIENCE_NS, "SET key other"));
    assert_true(call_probe_send(&calls[2], &probe, TEST_PATIENCE_NS, "GET key"));
    call_probe_wait(&calls[2], loop);
    assert_string_equal(calls[0].text, "value");
    assert_int_equal(calls[1].outcome, REDIS_ERROR);
    assert_int_equal(calls[1].error, REDIS_ERROR_READONLY);
    assert_string_equal(calls[2].text, "value");
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "is no master any more (READONLY)");

    loop_for(loop, 150 * NS_PER_MS);
    assert_int_equal(probe.ups, 1);
    assert_contains(redis_node_reason(probe.node), "is a replica of 127.0.0.1:1");
    free(redis_server_command(server, "REPLICAOF NO ONE"));
    node_probe_wait_up(&probe);
    run_one("SET key other");
}

TEST(test_a_call_that_expired_shows_it_too)
{
    start_alone();
    demote();
    redis_server_pause(server);
    struct call_probe call = {.completions = 0};
    assert_true(call_probe_send(&call, &probe, 10 * NS_PER_MS, "SET key value"));
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_UNKNOWN);
    redis_server_resume(server);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "is no master any more");
}

static bool has_blocked(void *context)
{
    (void)context;
    return redis_server_info(server, "clients", "blocked_clients:") == 1;
}

TEST(test_a_wait_that_ends_because_of_it)
{
    start_alone();
    struct call_probe call = {.completions = 0};
    assert_true(call_probe_send(&call, &probe, 60 * NS_PER_S, "BRPOP list 0"));
    assert_true(loop_until(loop, has_blocked, NULL, TEST_PATIENCE_NS));
    demote();
    call_probe_wait(&call, loop);
    assert_int_equal(call.outcome, REDIS_ERROR);
    assert_int_equal(call.error, REDIS_ERROR_UNBLOCKED);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "is no master any more");
}

TEST(test_a_wait_that_an_operator_ends_is_no_demotion)
{
    start_alone();
    struct call_probe id = {.completions = 0}, call = {.completions = 0};
    call_probe_run(&id, &probe, "CLIENT ID");
    assert_true(call_probe_send(&call, &probe, 60 * NS_PER_S, "BRPOP list 0"));
    assert_true(loop_until(loop, has_blocked, NULL, TEST_PATIENCE_NS));
    free(redis_server_command(server, "CLIENT UNBLOCK %lld ERROR", id.integer));
    call_probe_wait(&call, loop);
    assert_int_equal(call.error, REDIS_ERROR_UNBLOCKED);
    run_one("SET key value");
    assert_int_equal(probe.downs, 0);
}

static void write_when_up(struct node_probe *changed, enum redis_node_state state)
{
    static struct call_probe call;
    call = (struct call_probe){.completions = 0};
    if (state == REDIS_NODE_UP)
        assert_true(call_probe_send(&call, changed, TEST_PATIENCE_NS, "SET key value"));
}

TEST(test_a_replica_that_hides_its_role_is_not_hammered)
{
    start_without_role();
    demote();
    struct redis_node_options options = options_for_server();
    options.user = options.password = "w";
    options.backoff_min_ns = 10 * NS_PER_MS;
    options.backoff_max_ns = 500 * NS_PER_MS;
    probe.on_change = write_when_up;
    node_probe_start(&probe, loop, &options);
    loop_for(loop, 1000 * NS_PER_MS);
    /* With a pause of 10 to 20 ms, which is what a first failure gets, there would be some sixty. */
    assert_in_range(probe.ups, 2, 30);
    assert_true(probe.downs >= probe.ups - 1);
}

RUN_TESTS_WITH(node_setup, node_server_teardown)
