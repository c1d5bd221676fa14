/* Which process runs what: when one is made, kept, replaced and given up, and what becomes of runs for which there is
 * none. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/lock_cluster.h"
#include "tests/support/loop_until.h"
#include "tests/support/private_directory.h"
#include "tests/support/process_pool_fixture.h"

static pid_t runner_pid(void)
{
    assert_int_equal(trip_run("[\"tell\"]"), HF_OK);
    return (pid_t)trip_number(&trips[0], "pid");
}

TEST(one_process_serves_run_after_run)
{
    pid_t pid = runner_pid();
    for (int runs = 2; runs <= 5; runs++) {
        assert_int_equal(runner_pid(), pid);
        assert_int_equal(trip_number(&trips[0], "runs"), runs);
    }
}

TEST(there_are_no_more_processes_than_threads)
{
    for (int i = 0; i < 3; i++)
        trip_start(&trips[i], "[\"listen\"]");
    trip_await_begin(&trips[0]);
    trip_await_begin(&trips[1]);
    loop_for(loop, 20 * NS_PER_MS);
    assert_int_equal(trips[2].begun, 0);
    job_cancel(&trips[1].job, HF_USER);
    trip_await_begin(&trips[2]);
    assert_true(trips[1].has_ended);
    assert_false(trips[0].has_ended);
}

TEST(a_run_that_waits_can_be_withdrawn)
{
    for (int i = 0; i < 3; i++)
        trip_start(&trips[i], "[\"listen\"]");
    trip_await_begin(&trips[1]);
    assert_false(process_pool_withdraw(pool, &trips[0].run));
    assert_true(process_pool_withdraw(pool, &trips[2].run));
    job_cancel(&trips[0].job, HF_USER);
    assert_int_equal(trip_await(&trips[0]), HF_CANCELLED);
    loop_for(loop, 20 * NS_PER_MS);
    assert_int_equal(trips[2].begun, 0);
}

TEST(a_process_is_replaced_after_so_many_tasks)
{
    trips[0].rules.tasks_per_process = 2;
    pid_t first = runner_pid();
    assert_int_equal(runner_pid(), first);
    pid_t second = runner_pid();
    assert_int_not_equal(second, first);
    assert_int_equal(trip_number(&trips[0], "runs"), 1);
    test_await(process_is_dead(first));
}

/* Its memory is looked at in one of sixteen runs at least. */
TEST(a_process_that_has_grown_is_replaced)
{
    trips[0].rules.memory_per_process = 256 << 20;
    pid_t first = runner_pid();
    assert_int_equal(trip_run("[\"leak\",300000000]"), HF_OK);
    pid_t now = first;
    for (int i = 0; i < 16 && now == first; i++)
        now = runner_pid();
    assert_int_not_equal(now, first);
}

/* Processes with other limits are other processes; the one that was idle makes room when there is none. */
TEST(limits_are_those_of_the_class)
{
    process_pool_config->worker.threads = 1;
    pid_t first = runner_pid();
    trips[0].rules.open_files_limit = 64;
    pid_t second = runner_pid();
    assert_int_not_equal(second, first);
    char line[64] = "", path[64];
    snprintf(path, sizeof path, "/proc/%d/limits", (int)second);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (strncmp(line, "Max open files", 14) != 0)
        assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_contains(line, " 64 ");
    test_await(process_is_dead(first));
}

TEST(a_renewed_process_pool_has_new_processes)
{
    pid_t first = runner_pid();
    trip_start(&trips[1], "[\"listen\"]");
    trip_await_begin(&trips[1]);
    process_pool_renew(pool);
    assert_int_not_equal(runner_pid(), first);
    assert_false(trips[1].has_ended); /* what runs goes on */
    job_cancel(&trips[1].job, HF_USER);
    assert_int_equal(trip_await(&trips[1]), HF_CANCELLED);
    loop_await(loop, process_pool_count(pool) == 1); /* and then its process ends as well */
}

TEST(an_idle_process_that_dies_is_replaced)
{
    pid_t first = runner_pid();
    assert_int_equal(kill(first, SIGKILL), 0);
    test_await(process_is_dead(first));
    loop_for(loop, 20 * NS_PER_MS);
    assert_int_not_equal(runner_pid(), first);
}

TEST(a_plugin_is_closed_when_its_process_ends)
{
    char directory[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 32];
    private_directory_create(directory);
    snprintf(path, sizeof path, "%s/farewell", directory);
    restless_set("farewell", path);
    assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    process_pool_renew(pool);
    test_await(access(path, F_OK) == 0);
    unlink(path);
    rmdir(directory);
}

/* --- plugins that do not open ----------------------------------------------------------------------------------- */

TEST(a_plugin_that_does_not_open_puts_its_tasks_off)
{
    static const char *const ways[] = {"refuse", "crash"};
    static const char *const reasons[] = {"the plugin refused to open: \"it is closed on refuse\"",
                                          "the plugin restless did not open in its process: was killed by signal 6"};
    for (int i = 0; i < 2; i++) {
        restless_set("opening", ways[i]);
        assert_int_equal(trip_run("[\"ok\"]"), HF_SNOOZE);
        assert_int_equal(trips[0].job.outcome.retry_in_ms, 10000);
        assert_string_equal(trips[0].job.outcome.failure.error_class, "HF::NotStarted");
        assert_contains(trips[0].job.outcome.failure.message, reasons[i]);
        assert_int_equal(trips[0].begun, 0);
        assert_int_equal(trip_run("[\"ok\"]"), HF_SNOOZE); /* at once: it is not tried again that soon */
        restless_set("none", "");
        process_pool_renew(pool);
        assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
        process_pool_renew(pool);
    }
}

TEST(a_plugin_that_hangs_while_it_opens_is_given_up)
{
    pool->times.open_ns = 50 * NS_PER_MS;
    restless_set("opening", "hang");
    assert_int_equal(trip_run("[\"ok\"]"), HF_SNOOZE);
    loop_await(loop, process_pool_count(pool) == 0);
}

/* One process a time of back-off, however many tasks come. */
TEST(opening_is_tried_again_after_a_while)
{
    pool->times.back_off_ns = 50 * NS_PER_MS;
    restless_set("opening", "refuse");
    assert_int_equal(trip_run("[\"ok\"]"), HF_SNOOZE);
    restless_set("none", "");
    while (trip_run("[\"ok\"]") == HF_SNOOZE)
        loop_for(loop, 5 * NS_PER_MS);
    assert_int_equal(trips[0].code, HF_OK);
}

/* Although the other process of the plugin works, so that nobody is refused, and nothing else happens meanwhile. */
TEST(who_waits_is_served_when_the_back_off_is_over)
{
    pool->times.back_off_ns = 50 * NS_PER_MS;
    trip_start(&trips[1], "[\"listen\"]");
    trip_await_begin(&trips[1]);
    restless_set("opening", "refuse");
    trip_start(&trips[0], "[\"ok\"]");
    loop_await(loop, process_pool_count(pool) == 2);
    loop_await(loop, process_pool_count(pool) == 1);
    restless_set("none", "");
    assert_int_equal(trip_await(&trips[0]), HF_OK);
    assert_false(trips[1].has_ended);
}

TEST(a_plugin_that_hangs_while_it_closes_is_killed)
{
    pool->times.leave_ns = 50 * NS_PER_MS;
    restless_set("farewell", "hang");
    pid_t pid = runner_pid();
    process_pool_renew(pool);
    assert_int_not_equal(runner_pid(), pid); /* which is not waited for */
    test_await(process_is_dead(pid) || (loop_for(loop, NS_PER_MS), false));
}

TEST(a_process_that_was_idle_for_long_ends)
{
    pool->times.idle_ns = 50 * NS_PER_MS;
    trip_start(&trips[1], "[\"listen\"]");
    trip_await_begin(&trips[1]);
    pid_t pid = runner_pid();
    loop_await(loop, process_pool_count(pool) == 1);
    assert_true(process_is_dead(pid));
    assert_false(trips[1].has_ended);
}

TEST(a_run_whose_lock_is_gone_does_not_begin)
{
    struct redlock_validity gone = {.until = 0};
    trips[0].job.validity = &gone;
    assert_int_equal(trip_run("[\"ok\"]"), ISOLATION_NOT_STARTED);
    assert_int_equal(trips[0].begun, 0);
}

/* --- what it costs ---------------------------------------------------------------------------------------------- */

TEST(crashes_leak_no_descriptors)
{
    assert_int_equal(trip_run("[\"abort\"]"), HF_FAIL);
    unsigned before = descriptors_open(getpid());
    for (int i = 0; i < 10; i++)
        assert_int_equal(trip_run("[\"abort\"]"), HF_FAIL);
    assert_int_equal(descriptors_open(getpid()), before);
    pid_t pid = runner_pid();
    unsigned of_runner = descriptors_open(pid);
    for (int i = 0; i < 50; i++)
        assert_int_equal(trip_run("[\"talk\"]"), HF_OK);
    assert_int_equal(runner_pid(), pid);
    assert_int_equal(descriptors_open(pid), of_runner);
}

RUN_GROUP(process_pool_group_set_up, process_pool_group_tear_down, process_pool_set_up, process_pool_tear_down)
