/* What tests of one connection share: a loop and a node for each test, and whether it comes up. Its state is in the
 * header, because a test program is one file. */
#ifndef SUPPORT_NODE_FIXTURE_H
#define SUPPORT_NODE_FIXTURE_H

#include "tests/support/test.h"

#include "tests/support/loop_until.h"
#include "tests/support/node_probe.h"

static struct loop *loop;
static struct node_probe probe;

static inline const struct redis_node_counters *counters(void)
{
    return redis_node_counters(probe.node);
}

static inline int node_setup(void **state)
{
    (void)state;
    loop = loop_create(NULL);
    assert_non_null(loop);
    probe = (struct node_probe){.node = NULL};
    return 0;
}

static inline struct redis_node_options node_options_for(unsigned port)
{
    return (struct redis_node_options){.name = "probe",
                                       .host = "127.0.0.1",
                                       .port = port,
                                       .connect_timeout_ns = TEST_PATIENCE_NS,
                                       .backoff_min_ns = 2 * NS_PER_MS,
                                       .backoff_max_ns = 10 * NS_PER_MS};
}

static inline void assert_comes_up(const struct redis_node_options *options)
{
    node_probe_start(&probe, loop, options);
    assert_int_equal(redis_node_state(probe.node), REDIS_NODE_DOWN);
    assert_false(redis_node_was_tried(probe.node));
    node_probe_wait_up(&probe);
    assert_true(redis_node_was_tried(probe.node));
    assert_string_equal(redis_node_reason(probe.node), "");
    assert_int_equal(probe.ups, 1);
    assert_int_equal(probe.downs, 0);
    struct call_probe call = {.completions = 0};
    call_probe_run(&call, &probe, "PING");
}

/* The attempt fails for this reason, again and again, and is told once. */
static inline void assert_never_up(const struct redis_node_options *options, const char *reason)
{
    node_probe_start(&probe, loop, options);
    assert_string_equal(redis_node_reason(probe.node), "");
    node_probe_wait_downs(&probe, 1);
    assert_true(redis_node_was_tried(probe.node));
    if (strstr(probe.reason, reason) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", probe.reason, reason);
    assert_string_equal(redis_node_reason(probe.node), probe.reason);
    loop_for(loop, 100 * NS_PER_MS);
    assert_int_equal(probe.downs, 1);
    assert_int_equal(probe.ups, 0);

    struct call_probe call = {.completions = 0};
    assert_false(call_probe_send(&call, &probe, NS_PER_S, "PING"));
    assert_false(redis_call_is_outstanding(&call.call));
}

/* The attempts go on failing for this reason, and that is told once. */
static inline void assert_stays_down(const char *reason)
{
    node_probe_wait_downs(&probe, 1);
    loop_for(loop, 150 * NS_PER_MS);
    assert_int_equal(probe.ups, 0);
    assert_int_equal(probe.downs, 1);
    assert_contains(probe.reason, reason);
}

static inline void run_one(const char *command)
{
    struct call_probe call = {.completions = 0};
    call_probe_run(&call, &probe, command);
}

static inline int node_teardown(void **state)
{
    (void)state;
    node_probe_stop(&probe);
    loop_destroy(loop);
    return 0;
}

#endif
