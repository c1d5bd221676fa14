/* Handlers in processes of their own: what they are told and say, and whatever they do to their process, the worker
 * goes on and their run ends as it should. */
#include "tests/support/test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "tests/support/launcher_fixture.h"
#include "tests/support/lock_cluster.h"
#include "tests/support/log_capture.h"
#include "tests/support/loop_until.h"
#include "tests/support/private_directory.h"
#include "tests/support/process_pool_fixture.h"

static const struct failure *failure(void)
{
    return &trips[0].job.outcome.failure;
}

/* The run fails because its process came to an end that is described so; the next one has another. */
static void crashes(const char *args, const char *description)
{
    assert_int_equal(trip_run(args), HF_FAIL);
    assert_string_equal(failure()->error_class, "HF::Crashed");
    assert_contains(failure()->message, description);
    assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
}

static pid_t runner_pid(void)
{
    assert_int_equal(trip_run("[\"tell\"]"), HF_OK);
    return (pid_t)trip_number(&trips[0], "pid");
}

/* --- what a handler is told, and says ----------------------------------------------------------------------------- */

TEST(a_handler_is_told_the_facts_of_its_task)
{
    static const char *const resources[] = {"account:1", "account:2"};
    struct hf_job *job = &trips[0].job;
    job->attempt = 3;
    job->resources = resources;
    job->checkpoint = "{\"at\":7}";
    assert_int_equal(trip_run("[\"tell\",\"\xc3\xa9\"]"), HF_OK);
    assert_contains(trip_result(), "\"jid\":\"0123456789abcdef01234567\",\"class\":\"restless\",\"queue\":\"low\"");
    assert_contains(trip_result(), "\"attempt\":3,\"fence\":\"\",\"resources\":0");
    assert_contains(trip_result(), "\"checkpoint\":{\"at\":7},\"length\":13,\"valid\":1");
    assert_int_not_equal(trip_number(&trips[0], "pid"), getpid());
    assert_int_equal(trips[0].begun, 1);
}

TEST(what_a_handler_says_arrives_in_order)
{
    assert_int_equal(trip_run("[\"talk\"]"), HF_OK);
    assert_string_equal(buffer_text(&trips[0].said),
                        "log 2 said 1\nevent 1 painted colour=blue\nprogress {\"done\":1}\n");
    assert_string_equal(trip_result(), "{\"ok\":true}");
    assert_int_equal(trips[0].job.outcome.follow_up_count, 1);
    assert_string_equal(trips[0].job.outcome.follow_ups[0], "{\"class\":\"next\",\"args\":[]}");
}

TEST(a_failure_keeps_its_reason_and_its_delay)
{
    trips[0].job.backtrace_lines = 5;
    assert_int_equal(trip_run("[\"fail\"]"), HF_FAIL);
    assert_string_equal(failure()->error_class, "Restless::Tired");
    assert_string_equal(failure()->message, "it is late");
    assert_int_equal(trips[0].job.outcome.retry_in_ms, 7000);
    assert_true(trips[0].job.outcome.backtrace.count > 0);
    assert_contains(trips[0].job.outcome.backtrace.lines[0], "restless.so(");
}

TEST(what_a_handler_returns_is_its_verdict)
{
    char args[64];
    static const int codes[] = {-1, 12345, INT32_MAX, -INT32_MAX};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        snprintf(args, sizeof args, "[\"answer\",%d]", codes[i]);
        assert_int_equal(trip_run(args), codes[i]);
        assert_int_not_equal(trips[0].code, ISOLATION_NOT_STARTED);
    }
    assert_int_equal(trip_run("[\"answer\",-2147483648]"), -INT32_MAX); /* that one is kept free */
}

TEST(arguments_that_the_handler_refuses_are_buried)
{
    assert_int_equal(trip_run("[]"), HF_BURY);
    assert_string_equal(failure()->error_class, "HF::BadArguments");
    assert_string_equal(failure()->message, "[] says nothing");
}

TEST(a_large_task_arrives_whole)
{
    static char args[900000];
    struct trip *trip = &trips[0];
    process_pool_config->worker.max_task_size = 1000; /* raised by a reload after the process was made */
    memset(args, ' ', sizeof args);
    memcpy(args, "[\"tell\"", 7);
    args[sizeof args - 2] = ']';
    trip_start(trip, "");
    assert_true(process_pool_withdraw(pool, &trip->run));
    trip->job.args = (struct text_span){args, sizeof args - 1};
    process_pool_start(pool, &trip->run);
    assert_int_equal(trip_await(trip), HF_OK);
    assert_int_equal(trip_number(trip, "length"), sizeof args - 1);
}

TEST(what_it_prints_does_not_disturb_the_run)
{
    assert_int_equal(trip_run("[\"print\",3]"), HF_OK);
    assert_int_equal(trip_run("[\"print\",200000]"), HF_OK);
    assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
}

TEST(a_flood_of_output_is_counted_and_dropped)
{
    assert_int_equal(trip_run("[\"flood\",4096]"), HF_OK);
    assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
}

TEST(a_handler_may_have_threads)
{
    unsigned lines = 0;
    assert_int_equal(trip_run("[\"crowd\"]"), HF_OK);
    for (const char *at = buffer_text(&trips[0].said); (at = strstr(at, "log 1 one of many\n")) != NULL; at++)
        lines++;
    assert_int_equal(lines, 400);
    assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
}

TEST(only_what_is_heard_is_said)
{
    trips[0].is_deaf = true;
    assert_int_equal(trip_run("[\"talk\"]"), HF_OK);
    assert_string_equal(buffer_text(&trips[0].said), "progress {\"done\":1}\n");
}

/* --- crashes ------------------------------------------------------------------------------------------------------ */

TEST(a_handler_that_crashes_fails_alone)
{
    trip_start(&trips[1], "[\"listen\"]");
    trip_await_begin(&trips[1]);
    crashes("[\"segv\"]", "its process was killed by signal 11 (Segmentation fault)");
    crashes("[\"abort\"]", "its process was killed by signal 6 (Aborted)");
    assert_false(trips[1].has_ended);
    job_cancel(&trips[1].job, HF_USER);
    assert_int_equal(trip_await(&trips[1]), HF_CANCELLED);
}

TEST(a_handler_that_exits_fails)
{
    crashes("[\"exit\",3]", "its process exited with status 3");
    crashes("[\"exit\",0]", "its process exited with status 0");
}

TEST(a_handler_that_throws_fails)
{
    int code = trip_run("[\"throw\"]");
    if (code == HF_DISCARD)
        test_skip("this machine has no library of C++");
    assert_int_equal(code, HF_FAIL);
    assert_contains(failure()->message, "its process was killed by signal 6 (Aborted)");
}

TEST(a_process_that_says_nonsense_is_killed)
{
    crashes("[\"babble\"]", "its process sent an invalid message to the worker");
}

TEST(a_process_that_only_asks_is_killed)
{
    crashes("[\"pester\"]", "its process sent an invalid message to the worker");
}

TEST(a_handler_cannot_write_on_the_run_table)
{
    assert_int_equal(trip_run("[\"board\"]"), HF_OK);
}

TEST(a_handler_that_closes_everything_fails)
{
    char directory[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 32], args[PRIVATE_DIRECTORY_MAX + 64];
    struct stat facts;
    crashes("[\"close_all\"]", "closed a descriptor");
    crashes("[\"replace_sockets\"]", "closed a descriptor");
    private_directory_create(directory);
    snprintf(path, sizeof path, "%s/file", directory);
    snprintf(args, sizeof args, "[\"replace_all\",\"%s\"]", path);
    crashes(args, "closed a descriptor");
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_size, 0); /* the end of the run was not written into it */
    unlink(path);
    rmdir(directory);
}

/* --- what is left behind ------------------------------------------------------------------------------------------ */

TEST(low_descriptors_may_be_closed)
{
    pid_t pid = runner_pid();
    assert_int_equal(trip_run("[\"close\"]"), HF_OK);
    assert_int_equal(runner_pid(), pid);
}

TEST(a_process_that_the_handler_forked_says_nothing)
{
    pid_t pid = runner_pid();
    for (int i = 0; i < 20; i++)
        assert_int_equal(trip_run("[\"fork\"]"), HF_OK);
    assert_int_equal(trips[0].said.length, 0);
    assert_int_equal(runner_pid(), pid);
}

TEST(surroundings_are_as_before_in_the_next_run)
{
    char before[4096];
    assert_int_equal(trip_run("[\"surroundings\"]"), HF_OK);
    snprintf(before, sizeof before, "%s", trip_result());
    pid_t pid = runner_pid();
    assert_int_equal(trip_run("[\"upset\"]"), HF_OK);
    assert_int_equal(trip_run("[\"surroundings\"]"), HF_OK);
    assert_string_equal(trip_result(), before);
    assert_contains(before, "\"blocked\":0");
    assert_contains(before, "\"alarm\":0");
    assert_int_equal(runner_pid(), pid);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

TEST(a_handler_that_never_returns_is_killed_in_time)
{
    trips[0].kill_after_ns = 100 * NS_PER_MS;
    log_capture_begin();
    assert_int_equal(trip_run("[\"loop\"]"), HF_FAIL);
    assert_contains(log_capture_end(NULL), "was killed because its run took longer than its class may");
    assert_string_equal(failure()->error_class, "HF::TimedOut");
    trips[0].kill_after_ns = 0;
    assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
}

/* The process has begun the run before it calls the handler, and would not call it for a cancelled task. */
static void loop_await_handler(void)
{
    loop_await(loop, strstr(buffer_text(&trips[0].said), "progress {\"loops\":1}") != NULL);
}

TEST(a_handler_that_does_not_heed_its_cancelling_is_killed)
{
    log_capture_begin();
    trip_start(&trips[0], "[\"loop\"]");
    loop_await_handler();
    job_cancel(&trips[0].job, HF_USER);
    if (run_entry_kill_by(run_table, trips[0].run.run_entry, loop_after(loop, 50 * NS_PER_MS)))
        launcher_ring(launcher);
    assert_int_equal(trip_await(&trips[0]), HF_CANCELLED);
    assert_contains(log_capture_end(NULL), "was killed because its task was cancelled");
}

TEST(a_run_that_is_killed_at_a_stop_has_not_timed_out)
{
    trip_start(&trips[0], "[\"loop\"]");
    loop_await_handler();
    log_capture_begin();
    atomic_store(&run_table->must_stop, true);
    if (run_entry_kill_by(run_table, trips[0].run.run_entry, loop_after(loop, 50 * NS_PER_MS)))
        launcher_ring(launcher);
    int code = trip_await(&trips[0]);
    atomic_store(&run_table->must_stop, false);
    assert_int_equal(code, HF_CANCELLED);
    assert_contains(log_capture_end(NULL), "was killed because the worker stops");
}

TEST(a_handler_sees_that_it_is_cancelled)
{
    pid_t pid = runner_pid();
    trip_start(&trips[0], "[\"listen\"]");
    trip_await_begin(&trips[0]);
    job_cancel(&trips[0].job, HF_SHUTDOWN);
    assert_int_equal(trip_await(&trips[0]), HF_CANCELLED);
    assert_int_equal(runner_pid(), pid);
}

/* The kill came for the run before, which had just ended. */
TEST(a_late_kill_is_not_blamed_on_the_next_run)
{
    struct child_exit end = {.wait_status = SIGKILL, .killed_run = 7, .killed_run_entry = 1};

    assert_int_equal(process_pool_verdict(&trips[0].run, 8, run_table, &end, ""), ISOLATION_NOT_STARTED);
    assert_int_equal(process_pool_verdict(&trips[0].run, 7, run_table, &end, ""),
                     ISOLATION_NOT_STARTED); /* another run entry */
    assert_int_equal(process_pool_verdict(&trips[1].run, 7, run_table, &end, ""), HF_FAIL);
}

RUN_GROUP(process_pool_group_set_up, process_pool_group_tear_down, process_pool_set_up, process_pool_tear_down)
