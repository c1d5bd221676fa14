/* Plugins that are replaced, added and removed below a worker that runs: tasks that run end with the code that they
 * began with, those that come have the new one, nothing is lost, and what is refused changes nothing. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/one_fleet.h"
#include "tests/support/private_directory.h"

#define IN_THREADS "{ class = \"release\"; isolation = \"thread\"; }, { class = \"single\"; isolation = \"thread\"; }"
#define IN_PROCESSES                                                                                                   \
    "{ class = \"release\"; isolation = \"process\"; }, { class = \"single\"; isolation = \"process\"; }"

enum { GENERATIONS = 10, TASKS = 40 };

static char jobs[128];

static const char *in_jobs(const char *name, const char *ending)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s%s", jobs, name, ending);
    return path;
}

/* As install(1) does: a file of its own, which then takes the name. */
static void install(const char *plugin, const char *name)
{
    char from[600], fresh[256];
    snprintf(from, sizeof from, "%s/tests/plugins/%s.so", test_build(), plugin);
    snprintf(fresh, sizeof fresh, "%s", in_jobs(name, ".new"));
    private_file_copy(from, fresh);
    assert_int_equal(chmod(fresh, 0644), 0);
    assert_int_equal(rename(fresh, in_jobs(name, ".so")), 0);
}

static void file_make(const char *path)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
}

static void let_them_go(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/go", fleet.directory);
    file_make(path);
}

static struct fleet_setup setup_of(const char *classes)
{
    return (struct fleet_setup){.plugin = "release", .jobs = jobs, .classes = classes};
}

static void jobs_make(void)
{
    snprintf(jobs, sizeof jobs, "%s/jobs", fleet.directory);
    assert_int_equal(mkdir(jobs, 0755), 0);
    assert_int_equal(chmod(jobs, 0755), 0);
    install("release_1", "release");
}

static unsigned start(const char *classes)
{
    jobs_make();
    struct fleet_setup setup = setup_of(classes);
    unsigned worker = fleet_work(&fleet, &setup);
    test_await(fleet_logged(&fleet, worker, "worker_started"));
    return worker;
}

static void push(const char *class_name, const char *jid, const char *order)
{
    fleet_push(&fleet, "{\"class\":\"%s\",\"args\":[\"%s\"],\"jid\":\"%s\"}", class_name, order, jid);
}

/* --- another release -------------------------------------------------------------------------------------------- */

static void replace_while_it_runs(const char *classes)
{
    unsigned worker = start(classes);
    push("release", "old", "wait");
    test_await(fleet_noted(&fleet, "begin 1 old"));
    install("release_2", "release");
    fleet_reload(&fleet, worker);
    assert_true(
        fleet_logged(&fleet, worker, "plugin_loaded name=release version=\"2\" build=\"of a test\" generation=2"));
    push("release", "new", "");
    test_await(fleet_noted(&fleet, "end 2 new"));
    assert_int_equal(fleet_noted(&fleet, "end 1 old"), 0);
    let_them_go();
    test_await(fleet_noted(&fleet, "end 1 old"));
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 2);
}

TEST(a_run_in_a_thread_ends_with_the_code_that_it_began_with)
{
    replace_while_it_runs(IN_THREADS);
    assert_true(fleet_noted(&fleet, "open 1") == 1 && fleet_noted(&fleet, "open 2") == 1);
    assert_true(fleet_noted(&fleet, "close 1") == 1 && fleet_noted(&fleet, "close 2") == 1);
}

TEST(a_run_in_a_process_ends_with_the_code_that_it_began_with)
{
    replace_while_it_runs(IN_PROCESSES);
}

/* While it reloads again and again, with tasks all the time. */
static void nothing_is_lost(const char *classes)
{
    unsigned worker = start(classes);
    char jid[16];
    for (unsigned generation = 2; generation <= GENERATIONS; generation++) {
        for (unsigned i = 0; i < TASKS; i++) {
            snprintf(jid, sizeof jid, "t%u_%u", generation, i);
            push("release", jid, "");
        }
        install(generation % 2 == 0 ? "release_2" : "release_1", "release");
        fleet_reload(&fleet, worker);
    }
    test_await(fleet_left(&fleet) == 0);
    assert_int_equal(fleet_noted_all(&fleet, "end "), (GENERATIONS - 1) * TASKS);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), (GENERATIONS - 1) * TASKS);
    assert_int_equal(fleet_logged_times(&fleet, worker, "plugin_generations generation="), GENERATIONS - 8);
    assert_true(fleet_logged(&fleet, worker, "plugin_generations generation=9 "));
    one_fleet_stop(worker);
}

TEST(nothing_is_lost_in_threads)
{
    nothing_is_lost(IN_THREADS);
}

TEST(nothing_is_lost_in_processes)
{
    nothing_is_lost(IN_PROCESSES);
}

/* "At most one run at a time" is about the class, whichever release runs it. */
TEST(a_serial_run_waits_for_one_of_the_former_release)
{
    unsigned worker = start(IN_THREADS);
    push("single", "old", "wait");
    test_await(fleet_noted(&fleet, "begin 1 old"));
    install("release_2", "release");
    fleet_reload(&fleet, worker);
    push("single", "new", "");
    push("release", "other", "");
    test_await(fleet_noted(&fleet, "end 2 other"));
    assert_int_equal(fleet_noted(&fleet, "begin 2 new"), 0);
    let_them_go();
    test_await(fleet_noted(&fleet, "end 2 new"));
    char *journal = fleet_journal(&fleet);
    assert_true(strstr(journal, "end 1 old") < strstr(journal, "begin 2 new"));
    free(journal);
    one_fleet_stop(worker);
}

/* What is loaded later is a copy, so that it does not matter when the file is written in place; and it is not taken for
 * the library that came from the same file. */
TEST(a_file_that_is_written_in_place_is_loaded)
{
    unsigned worker = start(IN_THREADS);
    install("release_2", "release");
    fleet_reload(&fleet, worker);
    char from[600];
    snprintf(from, sizeof from, "%s/tests/plugins/release_1.so", test_build());
    private_file_copy(from, in_jobs("release", ".so"));
    push("release", "between", "");
    test_await(fleet_noted(&fleet, "end 2 between"));
    fleet_reload(&fleet, worker);
    assert_int_equal(fleet_logged_times(&fleet, worker, "plugin_loaded name=release "), 3);
    push("release", "after", "");
    test_await(fleet_noted(&fleet, "end 1 after"));
    one_fleet_stop(worker);
}

/* --- more and fewer --------------------------------------------------------------------------------------------- */

TEST(plugins_come_and_go)
{
    unsigned worker = start(IN_THREADS ", { class = \"wild\"; isolation = \"thread\"; lock = \"none\"; }");
    push("wild", "early", "");
    test_await(fleet_number(&fleet, "ZCARD retry") == 1);
    install("wild", "tame");
    fleet_reload(&fleet, worker);
    assert_true(fleet_logged(&fleet, worker, "plugin_loaded name=wild "));
    push("wild", "served", "");
    push("release", "as ever", "");
    test_await(fleet_noted(&fleet, "end 1 as ever"));
    test_await(fleet_left(&fleet) == 1);
    assert_int_equal(unlink(in_jobs("tame", ".so")), 0);
    fleet_reload(&fleet, worker);
    assert_true(fleet_logged(&fleet, worker, "plugin_gone name=wild "));
    push("wild", "late", "");
    test_await(fleet_number(&fleet, "ZCARD retry") == 2);
    assert_int_equal(fleet_noted(&fleet, "open 1"), 1); /* it stayed as it was */
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted(&fleet, "close 1"), 1);
}

/* Whoever ends a task that holds a lock claims the one that waits for it, if it serves that class. */
TEST(a_lock_is_handed_on_to_a_task_of_a_new_class)
{
    unsigned worker = start(IN_THREADS ", { class = \"wild\"; isolation = \"thread\"; }");
    struct fleet_setup setup = setup_of(IN_THREADS ", { class = \"wild\"; isolation = \"thread\"; }");
    setup.worker = "log_level = \"debug\";";
    fleet_configure(&fleet, worker, &setup);
    fleet_push(&fleet, "{\"class\":\"release\",\"args\":[\"wait\"],\"jid\":\"holder\",\"resource\":\"r\"}");
    test_await(fleet_noted(&fleet, "begin 1 holder"));
    install("wild", "tame");
    fleet_reload(&fleet, worker);
    fleet_push(&fleet, "{\"class\":\"wild\",\"args\":[],\"jid\":\"successor\",\"resource\":\"r\"}");
    test_await(fleet_logged(&fleet, worker, "ending=parked jid=successor")); /* it waits a moment earlier */
    let_them_go();
    test_await(fleet_logged(&fleet, worker, "task_started jid=successor"));
    assert_true(fleet_logged(&fleet, worker, " handed_from=holder resource=r"));
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
}

TEST(a_reload_without_a_change_loads_nothing)
{
    unsigned worker = start(IN_THREADS);
    fleet_reload(&fleet, worker);
    fleet_reload(&fleet, worker);
    assert_int_equal(fleet_logged_times(&fleet, worker, "plugin_loaded name="), 1);
    assert_int_equal(fleet_noted(&fleet, "open 1"), 1);
    one_fleet_stop(worker);
}

/* A class that moves into the worker needs its plugin open there. */
TEST(a_plugin_is_opened_when_a_class_of_it_moves_into_a_thread)
{
    unsigned worker = start(IN_PROCESSES);
    assert_int_equal(fleet_noted(&fleet, "open 1"), 0);
    struct fleet_setup setup = setup_of(IN_THREADS);
    fleet_configure(&fleet, worker, &setup);
    fleet_reload(&fleet, worker);
    assert_int_equal(fleet_noted(&fleet, "open 1"), 1);
    push("release", "moved", "");
    test_await(fleet_noted(&fleet, "end 1 moved"));
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted(&fleet, "close 1"), 1);
}

/* --- what is refused -------------------------------------------------------------------------------------------- */

static void is_refused(unsigned worker, const char *reason)
{
    unsigned before = fleet_logged_times(&fleet, worker, " reload_refused ");
    fleet_reload(&fleet, worker);
    assert_int_equal(fleet_logged_times(&fleet, worker, " reload_refused "), before + 1);
    if (!fleet_logged(&fleet, worker, reason))
        fail_msg("not said: %s", reason);
    push("release", "on", "");
    test_await(fleet_left(&fleet) == 0);
}

TEST(what_is_wrong_with_a_new_file_refuses_the_reload)
{
    unsigned worker = start(IN_THREADS);
    struct fleet_setup setup = setup_of(IN_THREADS);
    setup.worker = "log_level = \"debug\";";
    fleet_configure(&fleet, worker, &setup);
    install("release_2", "release");
    install("wild", "crash");
    is_refused(worker, "its constructor crashed: killed by signal 11 (Segmentation fault)");
    assert_int_equal(unlink(in_jobs("crash", ".so")), 0);
    install("wild", "group");
    assert_int_equal(chmod(in_jobs("group", ".so"), 0646), 0);
    is_refused(worker, "others may write it (mode 646)");
    assert_int_equal(unlink(in_jobs("group", ".so")), 0);
    install("release_1", "second");
    is_refused(worker, "calls itself release, as ");
    assert_int_equal(unlink(in_jobs("second", ".so")), 0);
    assert_int_equal(fleet_noted(&fleet, "end 1 on"), 3);
    assert_false(fleet_logged(&fleet, worker, "setting_changed"));
    fleet_reload(&fleet, worker);
    assert_true(fleet_logged(&fleet, worker, "setting_changed setting=\"worker.log_level\""));
    push("release", "last", "");
    test_await(fleet_noted(&fleet, "end 2 last"));
    one_fleet_stop(worker);
}

/* --- signals at a bad moment ------------------------------------------------------------------------------------- */

/* While it still looks at its plugins. */
TEST(a_signal_that_comes_too_early_is_heard)
{
    jobs_make();
    install("wild", "gate");
    struct fleet_setup setup = setup_of(IN_THREADS);
    unsigned worker = fleet_work(&fleet, &setup);
    test_await(access(in_jobs("at_gate", ""), F_OK) == 0);
    fleet_signal(&fleet, worker, SIGHUP);
    fleet_signal(&fleet, worker, SIGTTIN);
    file_make(in_jobs("gate_is_open", ""));
    test_await(fleet_logged_times(&fleet, worker, " reloading reason=SIGHUP") == 1);
    test_await(fleet_logged_times(&fleet, worker, " tasks_running ") == 1);
    test_await(fleet_logged_times(&fleet, worker, " reloaded ") == 1);
    one_fleet_stop(worker);
}

TEST(a_plugin_that_is_slow_to_open_is_named)
{
    jobs_make();
    install("wild", "gate_at_open");
    struct fleet_setup setup = setup_of(IN_THREADS ", { class = \"wild\"; isolation = \"thread\"; lock = \"none\"; }");
    unsigned worker = fleet_work(&fleet, &setup);
    test_await(fleet_logged_times(&fleet, worker, " plugin_opening name=wild seconds=") > 0);
    assert_int_equal(fleet_logged_times(&fleet, worker, " worker_started "), 0);
    file_make(in_jobs("gate_is_open", ""));
    test_await(fleet_logged_times(&fleet, worker, " worker_started ") == 1);
    one_fleet_stop(worker);
}

/* The worker has nothing more to do by the time a plugin that is slow to load is there. */
TEST(a_stop_while_it_reads_waits_for_what_is_read)
{
    unsigned worker = start(IN_THREADS);
    install("wild", "slow");
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(fleet_logged(&fleet, worker, " reloading "));
    one_fleet_stop(worker);
    assert_false(fleet_logged(&fleet, worker, " reloaded "));
}

/* Here it goes without it. */
TEST(a_stop_does_not_wait_for_a_plugin_that_hangs)
{
    unsigned worker = start(IN_THREADS);
    install("wild", "hang");
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(fleet_logged(&fleet, worker, " reloading "));
    one_fleet_stop(worker);
    assert_false(fleet_logged(&fleet, worker, " reload_refused "));
}

/* --- programs --------------------------------------------------------------------------------------------------- */

/* A program that notes its number with each run, and waits to be let go where its arguments say so. */
static void program_write(int number)
{
    char path[128];
    snprintf(path, sizeof path, "%s/program_%d", fleet.directory, number);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file,
            "#!/bin/sh\nread -r arguments\necho \"begin %d $HF_JID\" >>%s/journal\n"
            "case $arguments in *wait*) until [ -e %s/go ]; do sleep 0.01; done ;; esac\n"
            "echo \"end %d $HF_JID\" >>%s/journal\n",
            number, fleet.directory, fleet.directory, number, fleet.directory);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static void program_configure(unsigned worker, int number)
{
    char classes[512];
    snprintf(classes, sizeof classes, IN_THREADS ", { class = \"program\"; program = \"%s/program_%d\"; }",
             fleet.directory, number);
    struct fleet_setup setup = setup_of(classes);
    fleet_configure(&fleet, worker, &setup);
}

TEST(a_program_is_replaced_by_another)
{
    unsigned worker = start(IN_THREADS);
    program_write(1);
    program_write(2);
    program_configure(worker, 1);
    fleet_reload(&fleet, worker);
    push("program", "old", "wait");
    test_await(fleet_noted(&fleet, "begin 1 old"));
    program_configure(worker, 3);
    fleet_reload(&fleet, worker);
    assert_int_equal(fleet_logged_times(&fleet, worker, " reload_refused "), 1);
    assert_true(fleet_logged(&fleet, worker, "/program_3: No such file or directory"));
    push("program", "next", "");
    test_await(fleet_noted(&fleet, "end 1 next"));
    program_configure(worker, 2);
    fleet_reload(&fleet, worker);
    push("program", "new", "");
    test_await(fleet_noted(&fleet, "end 2 new"));
    assert_int_equal(fleet_noted(&fleet, "end 1 old"), 0);
    let_them_go();
    test_await(fleet_noted(&fleet, "end 1 old"));
    test_await(fleet_left(&fleet) == 0);
    assert_int_equal(fleet_logged_times(&fleet, worker, "plugin_loaded "), 1);
    one_fleet_stop(worker);
}

static void variables_write(const char *text, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/variables", fleet.directory);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* The file alone has changed; one that is refused changes nothing. */
TEST(a_reload_reads_the_variables_of_programs_again)
{
    char classes[512], path[128];
    unsigned worker = start(IN_THREADS);
    snprintf(path, sizeof path, "%s/told", fleet.directory);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\necho \"$STAGE $HF_JID\" >>journal\n");
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
    variables_write("STAGE=first\n", 0600);
    snprintf(classes, sizeof classes,
             IN_THREADS
             ", { class = \"told\"; program = \"%s\"; directory = \"%s\"; environment_file = \"%s/variables\"; }",
             path, fleet.directory, fleet.directory);
    struct fleet_setup setup = setup_of(classes);
    fleet_configure(&fleet, worker, &setup);
    fleet_reload(&fleet, worker);
    push("told", "one", "");
    test_await(fleet_noted(&fleet, "first one"));
    variables_write("STAGE=second\n", 0600);
    fleet_reload(&fleet, worker);
    push("told", "two", "");
    test_await(fleet_noted(&fleet, "second two"));
    variables_write("STAGE=third\nHF_JID=7\n", 0600);
    fleet_reload(&fleet, worker);
    assert_true(fleet_logged(&fleet, worker, "variables:2: names that begin with HF_"));
    push("told", "three", "");
    test_await(fleet_noted(&fleet, "second three"));
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
}

RUN_FLEET_TESTS
