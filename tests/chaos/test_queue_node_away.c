/* The queue node is away for longer than everybody's lease while tasks run: nobody is declared dead, nothing runs
 * again, and the results count once it is back. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/one_fleet.h"

enum { WORKERS = 2, TASKS = 12, AWAY_MS = 5000 };

#define LEASE "lease = \"2s\";"

static unsigned workers[WORKERS];

/* Tasks of 0 to 7.7 s run when it returns, and both workers have held their leases long enough to recover others. */
static void start_working(void)
{
    for (unsigned i = 0; i < WORKERS; i++)
        workers[i] = fleet_work(&fleet, &(struct fleet_setup){.worker = LEASE, .threads = TASKS});
    for (unsigned i = 0; i < WORKERS; i++)
        test_await(fleet_logged(&fleet, workers[i], "node_up node=queue address"));
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[3500],\"jid\":\"first\"}");
    test_await(fleet_noted(&fleet, "end first") == 1);
    for (unsigned i = 0; i < TASKS; i++)
        fleet_push(&fleet, "{\"class\":\"%s\",\"args\":[%u],\"jid\":\"t%u\",\"resource\":\"r%u\"}",
                   i % 2 == 0 ? "guarded" : "note", i * 700, i, i);
    test_await(fleet_noted_all(&fleet, "begin t") == TASKS);
}

static void assert_done_once(void)
{
    test_await(fleet_left(&fleet) == 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        fleet_signal(&fleet, workers[i], SIGTERM);
        assert_int_equal(fleet_wait(&fleet, workers[i]), 0);
        assert_false(fleet_logged(&fleet, workers[i], "process_recovered"));
        assert_false(fleet_logged(&fleet, workers[i], "ending=claim_lost"));
    }
    assert_int_equal(fleet_noted_all(&fleet, "begin t"), TASKS);
    assert_int_equal(fleet_noted_all(&fleet, "end t"), TASKS);
    assert_int_equal(fleet_number(&fleet, "EVAL \"return #redis.call('KEYS', 'hf:2:recovered:*')\" 0"), 0);
}

static void it_hangs(void **state)
{
    (void)state;
    start_working();
    redis_server_pause(fleet.queue);
    poll(NULL, 0, AWAY_MS);
    redis_server_resume(fleet.queue);
    assert_done_once();
}

static void it_is_killed_and_comes_back(void **state)
{
    (void)state;
    start_working();
    redis_server_kill(fleet.queue);
    poll(NULL, 0, AWAY_MS);
    redis_server_restart(fleet.queue);
    assert_done_once();
}

static void it_comes_back_again_and_again(void **state)
{
    (void)state;
    start_working();
    for (unsigned times = 0; times < 4; times++) {
        redis_server_kill(fleet.queue);
        poll(NULL, 0, AWAY_MS / 2);
        redis_server_restart(fleet.queue);
        poll(NULL, 0, AWAY_MS / 10);
    }
    assert_done_once();
}

/* Whoever dies while it is away is recovered all the same, later. */
static void who_dies_meanwhile_is_recovered(void **state)
{
    (void)state;
    start_working();
    redis_server_pause(fleet.queue);
    fleet_signal(&fleet, workers[0], SIGKILL);
    fleet_wait(&fleet, workers[0]);
    poll(NULL, 0, AWAY_MS);
    redis_server_resume(fleet.queue);
    test_await(fleet_left(&fleet) == 0);
    for (unsigned i = 0; i < TASKS; i++) {
        char line[32];
        snprintf(line, sizeof line, "end t%u", i);
        assert_in_range(fleet_noted(&fleet, line), 1, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fleet_test(it_hangs),
        fleet_test(it_is_killed_and_comes_back),
        fleet_test(it_comes_back_again_and_again),
        fleet_test(who_dies_meanwhile_is_recovered),
    };
    return cmocka_run_group_tests(tests, one_fleet_set_up, one_fleet_tear_down);
}
