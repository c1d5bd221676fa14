/* Handlers in processes of their own: what they are told and say, and whatever they do to their process, the worker
 * goes on and their run ends as it should. */
#include "tests/support/test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "tests/support/crew_fixture.h"
#include "tests/support/launcher_fixture.h"
#include "tests/support/loop_until.h"
#include "tests/support/private_directory.h"
#include "worker/isolation/crew_private.h"

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

/* --- what a handler is told, and says --------------------------------------------------------------------------- */

static void a_handler_is_told_the_facts_of_its_task(void **state)
{
    (void)state;
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

static void what_a_handler_says_arrives_in_order(void **state)
{
    (void)state;
    assert_int_equal(trip_run("[\"talk\"]"), HF_OK);
    assert_string_equal(buffer_text(&trips[0].said),
                        "log 2 said 1\nevent 1 painted colour=blue\nprogress {\"done\":1}\n");
    assert_string_equal(trip_result(), "{\"ok\":true}");
    assert_int_equal(trips[0].job.outcome.follow_up_count, 1);
    assert_string_equal(trips[0].job.outcome.follow_ups[0], "{\"class\":\"next\",\"args\":[]}");
}

static void a_failure_keeps_its_reason_and_its_delay(void **state)
{
    (void)state;
    trips[0].job.backtrace_lines = 5;
    assert_int_equal(trip_run("[\"fail\"]"), HF_FAIL);
    assert_string_equal(failure()->error_class, "Restless::Tired");
    assert_string_equal(failure()->message, "it is late");
    assert_int_equal(trips[0].job.outcome.retry_in_ms, 7000);
    assert_true(trips[0].job.outcome.backtrace.count > 0);
    assert_contains(trips[0].job.outcome.backtrace.lines[0], "restless.so(");
}

static void arguments_that_the_handler_refuses_are_buried(void **state)
{
    (void)state;
    assert_int_equal(trip_run("[]"), HF_BURY);
    assert_string_equal(failure()->error_class, "HF::BadArguments");
    assert_string_equal(failure()->message, "[] says nothing");
}

static void a_large_task_arrives_whole(void **state)
{
    (void)state;
    static char args[900000];
    struct trip *trip = &trips[0];
    memset(args, ' ', sizeof args);
    memcpy(args, "[\"tell\"", 7);
    args[sizeof args - 2] = ']';
    trip_start(trip, "");
    assert_true(isolation_withdraw(isolation, &trip->run));
    trip->job.args = (struct text_span){args, sizeof args - 1};
    isolation_start(isolation, &trip->run);
    assert_int_equal(trip_await(trip), HF_OK);
    assert_int_equal(trip_number(trip, "length"), sizeof args - 1);
}

static void what_it_prints_does_not_disturb_the_run(void **state)
{
    (void)state;
    assert_int_equal(trip_run("[\"print\",3]"), HF_OK);
    assert_int_equal(trip_run("[\"print\",200000]"), HF_OK);
    assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
}

/* --- crashes ---------------------------------------------------------------------------------------------------- */

static void a_handler_that_crashes_fails_alone(void **state)
{
    (void)state;
    trip_start(&trips[1], "[\"listen\"]");
    trip_await_begin(&trips[1]);
    crashes("[\"segv\"]", "its process was killed by signal 11 (Segmentation fault)");
    crashes("[\"abort\"]", "its process was killed by signal 6 (Aborted)");
    assert_false(trips[1].has_ended);
    job_cancel(&trips[1].job, HF_USER);
    assert_int_equal(trip_await(&trips[1]), HF_CANCELLED);
}

static void a_handler_that_exits_fails(void **state)
{
    (void)state;
    crashes("[\"exit\",3]", "its process exited with status 3");
    crashes("[\"exit\",0]", "its process exited with status 0");
}

static void a_handler_that_throws_fails(void **state)
{
    (void)state;
    int code = trip_run("[\"throw\"]");
    if (code == HF_DISCARD)
        skip(); /* there is no library of C++ on this machine */
    assert_int_equal(code, HF_FAIL);
    assert_contains(failure()->message, "its process was killed by signal 6 (Aborted)");
}

static void a_process_that_says_nonsense_is_killed(void **state)
{
    (void)state;
    crashes("[\"babble\"]", "its process said nonsense to the worker");
}

static void a_handler_that_closes_everything_fails(void **state)
{
    (void)state;
    char directory[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 32], args[PRIVATE_DIRECTORY_MAX + 64];
    struct stat facts;
    crashes("[\"close_all\"]", "closed a descriptor");
    private_directory_create(directory);
    snprintf(path, sizeof path, "%s/file", directory);
    snprintf(args, sizeof args, "[\"replace_all\",\"%s\"]", path);
    crashes(args, "closed a descriptor");
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_size, 0); /* the end of the run was not written into it */
    unlink(path);
    rmdir(directory);
}

/* --- what is left behind ---------------------------------------------------------------------------------------- */

static void low_descriptors_may_be_closed(void **state)
{
    (void)state;
    pid_t pid = runner_pid();
    assert_int_equal(trip_run("[\"close\"]"), HF_OK);
    assert_int_equal(runner_pid(), pid);
}

static void a_process_that_the_handler_forked_says_nothing(void **state)
{
    (void)state;
    pid_t pid = runner_pid();
    for (int i = 0; i < 20; i++)
        assert_int_equal(trip_run("[\"fork\"]"), HF_OK);
    assert_int_equal(trips[0].said.length, 0);
    assert_int_equal(runner_pid(), pid);
}

static void surroundings_are_as_before_in_the_next_run(void **state)
{
    (void)state;
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

/* --- time ------------------------------------------------------------------------------------------------------- */

static void a_handler_that_never_returns_is_killed_in_time(void **state)
{
    (void)state;
    trips[0].kill_after_ns = 100 * NS_PER_MS;
    assert_int_equal(trip_run("[\"loop\"]"), HF_FAIL);
    assert_string_equal(failure()->error_class, "HF::TimedOut");
    trips[0].kill_after_ns = 0;
    assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
}

static void a_handler_that_does_not_heed_its_cancelling_is_killed(void **state)
{
    (void)state;
    trip_start(&trips[0], "[\"loop\"]");
    trip_await_begin(&trips[0]);
    job_cancel(&trips[0].job, HF_USER);
    if (berth_kill_by(board, trips[0].run.berth, loop_after(loop, 50 * NS_PER_MS)))
        launcher_ring(launcher);
    assert_int_equal(trip_await(&trips[0]), HF_CANCELLED);
}

static void a_handler_sees_that_it_is_cancelled(void **state)
{
    (void)state;
    pid_t pid = runner_pid();
    trip_start(&trips[0], "[\"listen\"]");
    trip_await_begin(&trips[0]);
    job_cancel(&trips[0].job, HF_SHUTDOWN);
    assert_int_equal(trip_await(&trips[0]), HF_CANCELLED);
    assert_int_equal(runner_pid(), pid);
}

/* The kill came for the run before, which had just ended. */
static void a_late_kill_is_not_blamed_on_the_next_run(void **state)
{
    (void)state;
    struct child_exit end = {.wait_status = SIGKILL, .killed_run = 7, .killed_berth = 1};

    assert_int_equal(crew_verdict(&trips[0].run, 8, board, &end, ""), ISOLATION_NOT_STARTED);
    assert_int_equal(crew_verdict(&trips[0].run, 7, board, &end, ""), ISOLATION_NOT_STARTED); /* another berth */
    assert_int_equal(crew_verdict(&trips[1].run, 7, board, &end, ""), HF_FAIL);
}

/* --- the pool --------------------------------------------------------------------------------------------------- */

static void one_process_serves_run_after_run(void **state)
{
    (void)state;
    pid_t pid = runner_pid();
    for (int runs = 2; runs <= 5; runs++) {
        assert_int_equal(runner_pid(), pid);
        assert_int_equal(trip_number(&trips[0], "runs"), runs);
    }
}

static void there_are_no_more_processes_than_threads(void **state)
{
    (void)state;
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

static void a_run_that_waits_can_be_withdrawn(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        trip_start(&trips[i], "[\"listen\"]");
    trip_await_begin(&trips[1]);
    assert_false(isolation_withdraw(isolation, &trips[0].run));
    assert_true(isolation_withdraw(isolation, &trips[2].run));
    job_cancel(&trips[0].job, HF_USER);
    assert_int_equal(trip_await(&trips[0]), HF_CANCELLED);
    loop_for(loop, 20 * NS_PER_MS);
    assert_int_equal(trips[2].begun, 0);
}

static void a_process_is_replaced_after_so_many_tasks(void **state)
{
    (void)state;
    trips[0].rules.tasks_per_process = 2;
    pid_t first = runner_pid();
    assert_int_equal(runner_pid(), first);
    pid_t second = runner_pid();
    assert_int_not_equal(second, first);
    assert_int_equal(trip_number(&trips[0], "runs"), 1);
    test_await(process_is_dead(first));
}

/* Its memory is looked at in one of sixteen runs at least. */
static void a_process_that_has_grown_is_replaced(void **state)
{
    (void)state;
    trips[0].rules.memory_per_process = 256 << 20;
    pid_t first = runner_pid();
    assert_int_equal(trip_run("[\"leak\",300000000]"), HF_OK);
    pid_t now = first;
    for (int i = 0; i < 16 && now == first; i++)
        now = runner_pid();
    assert_int_not_equal(now, first);
}

/* Processes with other limits are other processes; the one that was idle makes room when there is none. */
static void limits_are_those_of_the_class(void **state)
{
    (void)state;
    crew_config->worker.threads = 1;
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

static void a_renewed_crew_has_new_processes(void **state)
{
    (void)state;
    pid_t first = runner_pid();
    trip_start(&trips[1], "[\"listen\"]");
    trip_await_begin(&trips[1]);
    isolation_renew(isolation);
    assert_int_not_equal(runner_pid(), first);
    assert_false(trips[1].has_ended); /* what runs goes on */
    job_cancel(&trips[1].job, HF_USER);
    assert_int_equal(trip_await(&trips[1]), HF_CANCELLED);
}

static void an_idle_process_that_dies_is_replaced(void **state)
{
    (void)state;
    pid_t first = runner_pid();
    assert_int_equal(kill(first, SIGKILL), 0);
    test_await(process_is_dead(first));
    loop_for(loop, 20 * NS_PER_MS);
    assert_int_not_equal(runner_pid(), first);
}

static void a_plugin_is_closed_when_its_process_ends(void **state)
{
    (void)state;
    char directory[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 32];
    private_directory_create(directory);
    snprintf(path, sizeof path, "%s/farewell", directory);
    restless_set("farewell", path);
    assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    isolation_renew(isolation);
    test_await(access(path, F_OK) == 0);
    unlink(path);
    rmdir(directory);
}

/* --- plugins that do not open ----------------------------------------------------------------------------------- */

static void a_plugin_that_does_not_open_puts_its_tasks_off(void **state)
{
    (void)state;
    static const char *const ways[] = {"refuse", "crash"};
    for (int i = 0; i < 2; i++) {
        restless_set("opening", ways[i]);
        assert_int_equal(trip_run("[\"ok\"]"), HF_SNOOZE);
        assert_int_equal(trips[0].job.outcome.retry_in_ms, 10000);
        assert_int_equal(trips[0].begun, 0);
        assert_int_equal(trip_run("[\"ok\"]"), HF_SNOOZE); /* at once: it is not tried again that soon */
        restless_set("none", "");
        isolation_renew(isolation);
        assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
        isolation_renew(isolation);
    }
}

static void a_run_whose_lock_is_gone_does_not_begin(void **state)
{
    (void)state;
    struct redlock_validity gone = {.until = 0};
    trips[0].job.validity = &gone;
    assert_int_equal(trip_run("[\"ok\"]"), ISOLATION_NOT_STARTED);
    assert_int_equal(trips[0].begun, 0);
}

/* --- what it costs ---------------------------------------------------------------------------------------------- */

static void crashes_leak_no_descriptors(void **state)
{
    (void)state;
    crashes("[\"abort\"]", "Aborted");
    unsigned before = descriptors_open(getpid());
    for (int i = 0; i < 10; i++)
        crashes("[\"abort\"]", "Aborted");
    assert_int_equal(descriptors_open(getpid()), before);
    pid_t pid = runner_pid();
    unsigned of_runner = descriptors_open(pid);
    for (int i = 0; i < 50; i++)
        assert_int_equal(trip_run("[\"talk\"]"), HF_OK);
    assert_int_equal(runner_pid(), pid);
    assert_int_equal(descriptors_open(pid), of_runner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        crew_test(a_handler_is_told_the_facts_of_its_task),
        crew_test(what_a_handler_says_arrives_in_order),
        crew_test(a_failure_keeps_its_reason_and_its_delay),
        crew_test(arguments_that_the_handler_refuses_are_buried),
        crew_test(a_large_task_arrives_whole),
        crew_test(what_it_prints_does_not_disturb_the_run),
        crew_test(a_handler_that_crashes_fails_alone),
        crew_test(a_handler_that_exits_fails),
        crew_test(a_handler_that_throws_fails),
        crew_test(a_process_that_says_nonsense_is_killed),
        crew_test(a_handler_that_closes_everything_fails),
        crew_test(low_descriptors_may_be_closed),
        crew_test(a_process_that_the_handler_forked_says_nothing),
        crew_test(surroundings_are_as_before_in_the_next_run),
        crew_test(a_handler_that_never_returns_is_killed_in_time),
        crew_test(a_handler_that_does_not_heed_its_cancelling_is_killed),
        crew_test(a_handler_sees_that_it_is_cancelled),
        crew_test(a_late_kill_is_not_blamed_on_the_next_run),
        crew_test(one_process_serves_run_after_run),
        crew_test(there_are_no_more_processes_than_threads),
        crew_test(a_run_that_waits_can_be_withdrawn),
        crew_test(a_process_is_replaced_after_so_many_tasks),
        crew_test(a_process_that_has_grown_is_replaced),
        crew_test(limits_are_those_of_the_class),
        crew_test(a_renewed_crew_has_new_processes),
        crew_test(an_idle_process_that_dies_is_replaced),
        crew_test(a_plugin_is_closed_when_its_process_ends),
        crew_test(a_plugin_that_does_not_open_puts_its_tasks_off),
        crew_test(a_run_whose_lock_is_gone_does_not_begin),
        crew_test(crashes_leak_no_descriptors),
    };
    return cmocka_run_group_tests_name("crew", tests, crew_group_set_up, crew_group_tear_down);
}
