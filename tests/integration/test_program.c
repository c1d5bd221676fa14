/* Programs as handlers: what they are told, what they say, how they end, and what they do that they should not. */
#include "tests/support/test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "tests/support/log_capture.h"
#include "tests/support/loop_until.h"
#include "tests/support/private_directory.h"
#include "tests/support/program_fixture.h"
#include "worker/isolation/output.h"

static struct job_outcome *const outcome = &outing.job.outcome;

static bool said(void *text)
{
    return strstr(buffer_text(&outing.said), text) != NULL;
}

#define await_said(text) launcher_until(said, (void *)(uintptr_t)(text))

/* --- what it is told ---------------------------------------------------------------------------------------------- */

/* What it says on descriptor 3 is what it was given. */
TEST(arguments_come_on_standard_input)
{
    assert_int_equal(outing_run("printf '{\"result\":%s}' \"$(cat)\" >&3"), HF_OK);
    assert_string_equal(buffer_text(&outcome->result), "[\"first\",2]");
    assert_true(outing.has_begun);
}

TEST(nobody_can_change_the_arguments)
{
    assert_int_equal(outing_run("echo more >&0; cat >/dev/null; exit 0"), HF_OK);
    assert_int_equal(outing_run("exec 5<>/proc/self/fd/0; echo more >&5 && exit 1; exit 0"), HF_OK);
}

TEST(large_arguments_come_whole)
{
    static char args[(1 << 20) + 5];
    memset(args, 'x', sizeof args - 1);
    memcpy(args, "[\"", 2);
    memcpy(args + sizeof args - 3, "\"]", 2);
    outing.job.args = (struct text_span){args, sizeof args - 1};
    assert_int_equal(outing_run("printf '{\"result\":%d}' \"$(wc -c)\" >&3"), HF_OK);
    assert_string_equal(buffer_text(&outcome->result), "1048580");
}

TEST(facts_are_in_its_environment_and_nothing_of_the_worker)
{
    setenv("HOLDFAST_SECRET", "of the worker", 1);
    outing.job.attempt = 3;
    outing.rules.timeout_ns = 1500 * NS_PER_MS;
    outing.job.checkpoint = "{\"at\":7}";
    assert_int_equal(outing_run("echo \"$HF_JID,$HF_CLASS,$HF_QUEUE,$HF_ATTEMPT,$HF_TIMEOUT_MS,$HF_CHECKPOINT\" |"
                                "sed 's/\"/\\\\\"/g; s/.*/{\"log\":{\"text\":\"&\"}}/' >&3\n"
                                "echo \"{\\\"log\\\":{\\\"text\\\":\\\"$HOLDFAST_SECRET,$HF_RESOURCES,"
                                "${HF_RESOURCE-none},${HF_LOCK_UNTIL_MS-none},$(pwd),$(umask)\\\"}}\" >&3"),
                     HF_OK);
    assert_string_equal(buffer_text(&outing.said), "log 1 0123456789abcdef01234567,sums,low,3,1500,{\"at\":7}\n"
                                                   "log 1 ,[],none,none,/,0077\n");
}

TEST(the_lock_is_in_its_environment)
{
    struct redlock_validity *validity = &outing.job.run_entry->validity;
    const char *const resources[] = {"account:7", "b \"quoted\""};
    int64_t until = instant_now().ns + 60 * NS_PER_S;
    atomic_store(&validity->until, until);
    atomic_store(&validity->danger_from, until);
    outing.job.validity = validity;
    outing.job.resources = resources;
    outing.job.resource_count = 2;
    snprintf(outing.job.fence, sizeof outing.job.fence, "4711");
    assert_int_equal(outing_run("printf '{\"result\":[\"%s\",\"%s\",%s,%s]}' \"$HF_RESOURCE\" \"$HF_FENCE\" "
                                "\"$HF_RESOURCES\" \"$HF_LOCK_UNTIL_MS\" >&3"),
                     HF_OK);
    char wanted[160];
    snprintf(wanted, sizeof wanted, "[\"account:7\",\"4711\",[\"account:7\",\"b \\\"quoted\\\"\"],%lld]",
             (long long)(until / NS_PER_MS));
    assert_string_equal(buffer_text(&outcome->result), wanted);
}

TEST(nothing_is_started_without_its_lock)
{
    struct redlock_validity *validity = &outing.job.run_entry->validity;
    atomic_store(&validity->until, instant_now().ns - NS_PER_S);
    outing.job.validity = validity;
    assert_int_equal(outing_run("exit 0"), ISOLATION_NOT_STARTED);
    assert_false(outing.has_begun);
    outing_start(script_write("exit 0"));
    assert_true(programs_withdraw(programs, &outing.run));
    loop_for(loop, 20 * NS_PER_MS);
    assert_false(outing.has_ended);
}

TEST(nothing_is_started_of_a_task_that_was_cancelled)
{
    job_cancel(&outing.job, HF_USER);
    assert_int_equal(outing_run("exit 0"), HF_CANCELLED);
    assert_false(outing.has_begun);
}

/* --- how it ends -------------------------------------------------------------------------------------------------- */

TEST(its_exit_status_decides)
{
    static const struct {
        const char *script;
        int code;
        const char *message;
    } cases[] = {
        {"exit 0", HF_OK, ""},
        {"exit 1", HF_FAIL, "it exited with status 1"},
        {"echo first >&2; echo 'no such thing' >&2; exit 3", HF_FAIL, "it exited with status 3: no such thing"},
        {"exit 65", HF_BURY, "it exited with status 65 (EX_DATAERR)"},
        {"exit 75", HF_FAIL, "it exited with status 75 (EX_TEMPFAIL)"},
        {"exit 98", HF_SNOOZE, ""},
        {"exit 99", HF_DISCARD, "it exited with status 99"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(outing_run(cases[i].script), cases[i].code);
        assert_string_equal(outcome->failure.message, cases[i].message);
        assert_string_equal(outcome->failure.error_class, cases[i].message[0] == '\0' ? "" : "HF::Failed");
    }
}

TEST(a_signal_is_a_crash)
{
    assert_int_equal(outing_run("kill -SEGV $$"), HF_FAIL);
    assert_string_equal(outcome->failure.error_class, "HF::Crashed");
    assert_contains(outcome->failure.message, "killed by signal 11 (Segmentation fault)");
    assert_int_equal(outing_run("kill -TERM $$"), HF_FAIL);
    assert_string_equal(outcome->failure.error_class, "HF::Crashed");
}

TEST(what_cannot_be_executed_says_why)
{
    outing_start(script_path("missing"));
    assert_int_equal(outing_await_end(), HF_FAIL);
    assert_string_equal(outcome->failure.error_class, "HF::NotStarted");
    assert_contains(outcome->failure.message, "/missing: cannot be started: there is no such file");
    assert_false(outing.has_begun);

    const char *path = script_write("exit 0");
    assert_int_equal(chmod(path, 0644), 0);
    outing_start(path);
    assert_int_equal(outing_await_end(), HF_FAIL);
    assert_contains(outcome->failure.message, "it is not an executable file");

    outing_start("/");
    assert_int_equal(outing_await_end(), HF_FAIL);
    assert_contains(outcome->failure.message, "it is not an executable file");

    outing_start(script_write("#! /no/such/interpreter\n"));
    assert_int_equal(outing_await_end(), HF_FAIL);
    assert_contains(outcome->failure.message, "the interpreter that its first line names is missing");

    path = script_path("text");
    FILE *file = fopen(path, "we");
    fputs("no first line\n", file);
    fchmod(fileno(file), 0755);
    fclose(file);
    outing_start(path);
    assert_int_equal(outing_await_end(), HF_FAIL);
    assert_contains(outcome->failure.message, "a script without a first line that begins with #!");
}

static void assert_not_trusted(const char *path)
{
    outing_start(path);
    assert_int_equal(outing_await_end(), HF_FAIL);
    assert_string_equal(outcome->failure.error_class, "HF::NotStarted");
    assert_contains(outcome->failure.message, "cannot be started: users other than root and the worker's may");
    assert_false(outing.has_begun);
}

/* Whatever it was when the worker began. */
TEST(what_others_may_have_changed_is_not_started)
{
    char directory[PRIVATE_DIRECTORY_MAX + 64];
    const char *path = script_write("exit 0");
    memcpy(directory, path, strlen(path) + 1);
    strrchr(directory, '/')[0] = '\0';
    assert_int_equal(chmod(path, 0775), 0);
    assert_not_trusted(path);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(chmod(directory, 0770), 0);
    assert_not_trusted(path);
    assert_int_equal(chmod(directory, 01777), 0); /* as /tmp, where nobody can replace the files of others */
    outing_start(path);
    assert_int_equal(outing_await_end(), HF_OK);
    assert_int_equal(chmod(directory, 0700), 0);
}

TEST(a_script_has_its_path_as_its_name)
{
    const char *path = script_write("printf '{\"result\":\"%s\"}' \"$0\" >&3");
    char wanted[PRIVATE_DIRECTORY_MAX + 64];
    snprintf(wanted, sizeof wanted, "\"%s\"", path);
    outing_start(path);
    assert_int_equal(outing_await_end(), HF_OK);
    assert_string_equal(buffer_text(&outcome->result), wanted);
}

TEST(an_environment_that_is_too_long_is_a_failure_with_its_reason)
{
    static char checkpoint[256 * 1024];
    memset(checkpoint, 'x', sizeof checkpoint - 1);
    outing.job.checkpoint = checkpoint;
    assert_int_equal(outing_run("exit 0"), HF_FAIL);
    assert_string_equal(outcome->failure.error_class, "HF::NotStarted");
    assert_contains(outcome->failure.message, "too long together");
}

/* --- what it says ------------------------------------------------------------------------------------------------- */

TEST(it_reports_on_descriptor_3)
{
    assert_int_equal(outing_run("cat >&3 <<'X'\n"
                                "{\"progress\":{\"done\":1}}\n"
                                "{\"log\":{\"level\":\"warn\",\"text\":\"rows\",\"fields\":{\"n\":7,\"k\":\"v\"}}}\n"
                                "{\"result\":{\"sum\":3}}\n"
                                "{\"retry_in\":5.5}\n"
                                "{\"push\":{\"class\":\"mail\",\"args\":[]}}\n"
                                "X\n"),
                     HF_OK);
    assert_string_equal(buffer_text(&outing.said), "progress {\"done\":1}\nevent 2 log text=rows n=7 k=v\n");
    assert_true(outcome->has_result);
    assert_string_equal(buffer_text(&outcome->result), "{\"sum\":3}");
    assert_int_equal(outcome->retry_in_ms, 5500);
    assert_int_equal(outcome->follow_up_count, 1);
    assert_string_equal(outcome->follow_ups[0], "{\"class\":\"mail\",\"args\":[]}");
}

TEST(what_it_says_is_heard_while_it_runs)
{
    outing_start(script_write("echo '{\"progress\":1}' >&3; exec sleep 1000"));
    await_said("progress 1\n");
    assert_false(outing.has_ended);
    job_cancel(&outing.job, HF_USER);
    programs_interrupt(programs, &outing.run);
    assert_int_equal(outing_await_end(), HF_CANCELLED);
}

TEST(its_error_is_the_reason_of_its_failure)
{
    assert_int_equal(outing_run("echo '{\"error\":{\"class\":\"Net::Timeout\",\"message\":\"none\"}}' >&3; exit 1"),
                     HF_FAIL);
    assert_string_equal(outcome->failure.error_class, "Net::Timeout");
    assert_string_equal(outcome->failure.message, "none");
    assert_int_equal(outing_run("echo '{\"error\":{\"message\":\"none\"}}' >&3"), HF_OK);
    assert_string_equal(outcome->failure.message, "");
}

TEST(nonsense_on_descriptor_3_is_ignored)
{
    assert_int_equal(
        outing_run("echo hello >&3; echo '[1]' >&3; echo '{\"result\":7}' >&3; head -c 200000 /dev/zero >&3"), HF_OK);
    assert_string_equal(buffer_text(&outcome->result), "7");
    assert_string_equal(buffer_text(&outing.said), "");
}

TEST(a_task_that_cannot_be_pushed_is_a_failure)
{
    assert_int_equal(outing_run("echo '{\"push\":[1]}' >&3"), HF_FAIL);
    assert_string_equal(outcome->failure.error_class, "HF::BadFollowUp");
}

TEST(lines_of_its_output_are_in_the_log)
{
    log_capture_begin();
    assert_int_equal(outing_run("echo out; echo \"$(printf '\\033[31mred')\" >&2; printf unfinished"), HF_OK);
    const char *log = log_capture_end(NULL);
    assert_contains(log, "job_output jid=0123456789abcdef01234567 class=sums stream=stdout text=out\n");
    assert_contains(log, "stream=stdout text=unfinished\n");
    assert_contains(log, "stream=stderr text=\"\\x1B[31mred\"\n");
}

static long memory_now(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0, resident = 0;
    assert_int_equal(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/* Several times what memory may grow by. More takes longer than a test has on a busy machine; less where each byte
 * costs many times as much. */
#ifdef TEST_THREAD_SANITIZER
#define MUCH "50000000"
#else
#define MUCH "200000000"
#endif

TEST(a_flood_of_output_fills_neither_log_nor_memory)
{
    long before = memory_now();
    size_t log_size = 0;
    log_capture_begin();
    assert_int_equal(outing_run("yes 'this is one of many lines' | head -c " MUCH), HF_OK);
    const char *log = log_capture_end(&log_size);
    assert_true(memory_now() - before < 64 << 20);
    assert_true(log_size < (size_t)512 << 10);
    assert_contains(log, "job_output_dropped jid=0123456789abcdef01234567 class=sums lines=");
}

/* --- what it should not do ---------------------------------------------------------------------------------------- */

TEST(one_that_closes_its_descriptors_just_ends)
{
    assert_int_equal(outing_run("exec 0<&- 1>&- 2>&- 3>&-; exit 7"), HF_FAIL);
    assert_string_equal(outcome->failure.message, "it exited with status 7");
}

TEST(whom_it_leaves_behind_is_killed)
{
    assert_int_equal(outing_run("sleep 1000 & echo \"{\\\"result\\\":$!}\" >&3"), HF_OK);
    pid_t left = (pid_t)strtol(buffer_text(&outcome->result), NULL, 10);
    assert_true(process_is_dead(left));
}

/* It left its group, so that nobody knows it any more, and holds all that the program had. */
TEST(a_daemon_that_keeps_the_pipes_holds_nobody_up)
{
    assert_int_equal(outing_run("setsid sh -c 'echo \"{\\\"result\\\":$$}\" >&3; exec sleep 1000' &\n"
                                "while [ ! -e \"$0.done\" ]; do [ \"$(ps -o comm= -p $!)\" = sleep ] && break; "
                                "sleep 0.01; done; exit 5"),
                     HF_FAIL);
    assert_string_equal(outcome->failure.message, "it exited with status 5");
    assert_true(outcome->has_result);
}

TEST(one_that_is_asked_to_stop_and_ignores_it_is_killed)
{
    outing_start(script_write("trap '' TERM; echo '{\"progress\":1}' >&3; while :; do sleep 0.05; done"));
    await_said("progress 1\n");
    job_cancel(&outing.job, HF_SHUTDOWN);
    programs_interrupt(programs, &outing.run);
    if (run_entry_kill_by(run_table, outing.job.run_entry, instant_after(instant_now(), 100 * NS_PER_MS)))
        launcher_ring(launcher);
    assert_int_equal(outing_await_end(), HF_CANCELLED);
    assert_string_equal(outcome->failure.message, "");
}

TEST(one_that_runs_for_too_long_is_killed)
{
    outing_start(script_write("echo '{\"progress\":1}' >&3; while :; do :; done"));
    await_said("progress 1\n");
    if (run_entry_kill_by(run_table, outing.job.run_entry, instant_after(instant_now(), 50 * NS_PER_MS)))
        launcher_ring(launcher);
    assert_int_equal(outing_await_end(), HF_FAIL);
    assert_string_equal(outcome->failure.error_class, "HF::TimedOut");
}

TEST(one_that_stops_when_it_is_asked_is_no_failure)
{
    outing_start(script_write("trap 'exit 1' TERM; echo '{\"progress\":1}' >&3; while :; do sleep 0.02; done"));
    await_said("progress 1\n");
    programs_interrupt(programs, &outing.run); /* its lock is in danger */
    assert_int_equal(outing_await_end(), HF_SNOOZE);
    assert_string_equal(outcome->failure.message, "");
}

TEST(it_is_killed_at_the_end_of_its_lock)
{
    struct redlock_validity *validity = &outing.job.run_entry->validity;
    int64_t until = instant_now().ns + 300 * NS_PER_MS;
    atomic_store(&validity->until, until);
    atomic_store(&validity->danger_from, until);
    outing.job.validity = validity;
    atomic_store(&outing.job.run_entry->is_locked, true);
    assert_int_equal(outing_run("trap '' TERM; while :; do :; done"), HF_CANCELLED);
    assert_true(instant_now().ns >= until);
}

/* What it reserves and does not use (V8 does) does not count: the address space is not limited. */
TEST(a_limit_of_memory_holds)
{
    outing.rules.memory_limit = 64 << 20;
    outing.rules.open_files_limit = 20;
    assert_int_equal(outing_run("[ $(ulimit -v) != 65536 ] || exit 1\n"
                                "printf '{\"result\":[%s,%s]}' $(ulimit -d) $(ulimit -n) >&3"),
                     HF_OK);
    assert_string_equal(buffer_text(&outcome->result), "[65536,20]");
}

TEST(it_gets_what_the_configuration_gives_it)
{
    static const char *const variables[] = {"STAGE=two words", "PATH=/usr/bin:/bin:/of/its/own", NULL};
    outing.handler.environment = variables;
    outing.handler.directory = "/usr";
    assert_int_equal(outing_run("printf '{\"result\":[\"%s\",\"%s\",\"%s\"]}' \"$STAGE\" \"$PATH\" \"$(pwd)\" >&3"),
                     HF_OK);
    assert_string_equal(buffer_text(&outcome->result), "[\"two words\",\"/usr/bin:/bin:/of/its/own\",\"/usr\"]");
}

TEST(a_directory_that_is_gone_is_named)
{
    outing.handler.directory = "/nowhere/at/all";
    assert_int_equal(outing_run("exit 0"), HF_FAIL);
    assert_string_equal(outcome->failure.error_class, "HF::NotStarted");
    assert_contains(outcome->failure.message, "its directory is missing or may not be entered");
}

TEST(no_descriptor_stays_behind)
{
    assert_int_equal(outing_run("exit 0"), HF_OK);
    unsigned before = descriptors_open(getpid());
    for (int i = 0; i < 5; i++)
        assert_int_equal(outing_run("echo hello; echo hello >&2; echo '{\"result\":1}' >&3"), HF_OK);
    assert_int_equal(descriptors_open(getpid()), before);
}

TEST(runs_are_killed_with_the_worker)
{
    outing_start(script_write("echo \"{\\\"progress\\\":$$}\" >&3; while :; do sleep 0.05; done"));
    await_said("\n");
    pid_t pid = (pid_t)strtol(strchr(buffer_text(&outing.said), ' ') + 1, NULL, 10);
    assert_false(process_is_dead(pid));
    programs_destroy(programs);
    programs = NULL;
    test_await(process_is_dead(pid));
}

RUN_TESTS_WITH(program_set_up, program_tear_down)
