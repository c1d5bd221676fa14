/* A fleet is upgraded while it works: its workers, one after the other, from a release that keeps fences in strings,
 * and then its lock nodes, by `holdfast nodes upgrade`. No task is lost, none runs twice, no two at once, and the
 * tokens of each resource rise all the time. HOLDFAST_FORMER names the program of an earlier release; without it the
 * first workers are of this one, which does the same while markers are of scheme 1. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/one_fleet.h"

enum { WORKERS = 3, RESOURCES = 7, A_SLICE = 10, MAX_TTL_MS = 5000, PUSHED_MAX = 20000 };

static unsigned pushed;

static void tasks_push(void)
{
    for (unsigned i = 0; i < A_SLICE && pushed < PUSHED_MAX; i++, pushed++) {
        unsigned resource = pushed % RESOURCES;
        free(fleet_ask(&fleet,
                       "LPUSH queue:jobs '{\"class\":\"guarded\",\"args\":[3,\"r%u\"],\"jid\":\"t%u\","
                       "\"resource\":\"r%u\"}'",
                       resource, pushed, resource));
    }
}

static unsigned ended(void)
{
    return fleet_noted_all(&fleet, "end t");
}

/* The fleet keeps up with it: enough is waiting all the time, and not more and more. */
static void load(void)
{
    if (pushed < ended() + 100)
        tasks_push();
    poll(NULL, 0, 5);
}

static void load_until_ended(unsigned more)
{
    for (unsigned from = ended(); ended() < from + more;)
        load();
}

static pid_t upgrade_start(unsigned worker)
{
    char program[4096], config[600];
    snprintf(program, sizeof program, "%s/holdfast", test_build());
    snprintf(config, sizeof config, "%s/%s.conf", fleet.directory, fleet.workers[worker].name);
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, "nodes", "-c", config, "upgrade", (char *)NULL);
        _exit(127);
    }
    return child;
}

static void expect_rising_tokens(void)
{
    unsigned long long last[RESOURCES] = {0}, token = 0;
    unsigned resource = 0, seen = 0;
    char *journal = fleet_journal(&fleet);
    for (const char *line = journal; (line = strstr(line, "token r")) != NULL; line++, seen++) {
        assert_int_equal(sscanf(line, "token r%u %llu", &resource, &token), 2);
        if (resource >= RESOURCES || token <= last[resource])
            fail_msg("r%u has token %llu after %llu", resource, token, last[resource]);
        last[resource] = token;
    }
    assert_int_equal(seen, pushed);
    free(journal);
}

static void a_rolling_upgrade_loses_and_doubles_nothing(void **state)
{
    (void)state;
    struct fleet_setup former = {.program = getenv("HOLDFAST_FORMER")};
    unsigned workers[WORKERS];
    int status = -1;
    lock_cluster_scheme(&fleet.locks, MARKER_STRINGS);
    for (unsigned i = 0; i < WORKERS; i++)
        workers[i] = fleet_work(&fleet, &former);
    load_until_ended(200);
    for (unsigned i = 0; i < WORKERS; i++) {
        fleet_signal(&fleet, workers[i], SIGTERM);
        workers[i] = fleet_work(&fleet, NULL);
        load_until_ended(100);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(fleet_wait(&fleet, i), 0);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_string_equal(lock_cluster_ask(&fleet.locks, i, "EXISTS hf:fences"), "0");

    pid_t upgrade = upgrade_start(workers[0]);
    while (waitpid(upgrade, &status, WNOHANG) == 0)
        load();
    assert_int_equal(status, 0);
    load_until_ended(200);
    test_await(ended() == pushed);
    test_await(fleet_left(&fleet) == 0);
    for (unsigned i = 0; i < fleet.locks.count; i++) {
        assert_int_equal(lock_cluster_ask(&fleet.locks, i, "GET " MARKER_KEY)[0], '3');
        assert_int_equal(strtoul(lock_cluster_ask(&fleet.locks, i, "ZCARD hf:fences"), NULL, 10), RESOURCES);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        one_fleet_stop(workers[i]);
    assert_int_equal(fleet_noted_all(&fleet, "begin t"), pushed);
    assert_int_equal(fleet_noted_all(&fleet, "clash "), 0);
    expect_rising_tokens();
}

static int set_up(void **state)
{
    int failed = one_fleet_set_up(state);
    fleet.locks.max_ttl_ms = MAX_TTL_MS;
    lock_cluster_heal(&fleet.locks);
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {fleet_test(a_rolling_upgrade_loses_and_doubles_nothing)};
    return cmocka_run_group_tests(tests, set_up, one_fleet_tear_down);
}
