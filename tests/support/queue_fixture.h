/* What tests at one queue node share: for each test a loop, a relay before the server, and up to two processes. Its
 * state is in the header, because a test program is one file. */
#ifndef SUPPORT_QUEUE_FIXTURE_H
#define SUPPORT_QUEUE_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/loop_until.h"
#include "tests/support/one_server.h"
#include "tests/support/queue_probe.h"
#include "tests/support/relay.h"

static struct loop *loop;
static struct relay *relay;
static struct queue_probe probe, other;

static inline int queue_setup(void **state)
{
    (void)state;
    redis_server_heal(server);
    free(redis_server_command(server, "CONFIG RESETSTAT"));
    loop = loop_create(NULL);
    assert_non_null(loop);
    relay = relay_start(redis_server_port(server));
    return 0;
}

static inline int queue_teardown(void **state)
{
    (void)state;
    queue_probe_stop(&probe);
    queue_probe_stop(&other);
    relay_destroy(relay);
    loop_destroy(loop);
    return 0;
}

static inline void start(const char *names)
{
    queue_probe_start(&probe, loop, redis_server_port(server), names, NULL);
}

static inline void push(const char *queue, const char *payload)
{
    free(redis_server_command(server, "LPUSH queue:%s %s", queue, payload));
}

/* --- what is on the node --------------------------------------------------------------------------------------- */

static inline bool tasks_are(void *expected)
{
    char *tasks = queue_probe_tasks(server);
    bool same = strcmp(tasks, expected) == 0;
    free(tasks);
    return same;
}

/* See queue_probe_tasks. */
static inline void assert_tasks(const char *expected)
{
    char *tasks = queue_probe_tasks(server);
    assert_string_equal(tasks, expected);
    free(tasks);
}

static inline void wait_tasks(const char *expected)
{
    if (!loop_until(loop, tasks_are, (char *)expected, TEST_PATIENCE_NS))
        assert_tasks(expected);
}

static inline void assert_keys(const char *expected)
{
    assert_reply(server, expected, "EVAL \"local keys = redis.call('KEYS', '*') table.sort(keys) return keys\" 0");
}

static inline unsigned blocked_clients(void)
{
    return redis_server_info(server, "clients", "blocked_clients:");
}

static inline bool blocked_are(void *clients)
{
    return blocked_clients() == *(const unsigned *)clients;
}

/* Until so many blocking claims wait. */
static inline void wait_blocked(unsigned clients)
{
    if (!loop_until(loop, blocked_are, &clients, TEST_PATIENCE_NS))
        fail_msg("%u clients are blocked instead of %u", blocked_clients(), clients);
}

#endif
