/* How children of the zygote end: with their groups, when their time is over, and with the zygote. (With the worker:
 * test_zygote_worker.c.) */
#include "tests/support/test.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/launcher_fixture.h"
#include "tests/support/loop_until.h"
#include "tests/support/one_loop.h"

/* --- groups and strays -------------------------------------------------------------------------------------------- */

TEST(at_the_end_of_a_program_nobody_of_its_group_is_left)
{
    int file = output_make();
    struct kid other, kid;
    kid_start(&other, -1, (const char *const[]){"/bin/sleep", "1000", NULL});
    script_start(&kid, file, FAMILY "exit 3", NULL);
    int status = kid_await_end(&kid);
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_true(process_is_dead(number_at(file, 0)));
    kid_await_birth(&other);
    assert_false(process_is_dead(other.pid));
    launcher_stop();
    close(file);
}

/* Who gives back much memory dies after its leader, though they are killed together. */
TEST(an_end_is_told_when_the_last_of_the_group_is_gone)
{
    int file = output_make();
    struct kid other, kid;
    kid_start(&other, -1, (const char *const[]){"/bin/sleep", "1000", NULL});
    script_start(&kid, file, "dd if=/dev/zero of=/dev/null bs=200M & echo $!; wait", NULL);
    pid_t member = number_await(file, 0);
    test_await(strtol(process_status(member, "VmRSS"), NULL, 10) > 190 * 1024);
    launcher_kill(launcher, &kid.child, SIGKILL);
    (void)kid_await_end(&kid);
    assert_true(process_is_dead(member));
    launcher_stop();
    close(file);
}

/* Reaped, too: it is known then that nobody writes any more. */
static void assert_gone(pid_t pid)
{
    assert_true(kill(pid, 0) != 0 && errno == ESRCH);
}

TEST(what_left_its_group_ends_with_its_run)
{
    int file = output_make();
    struct kid other, kid;
    kid_start(&other, -1, (const char *const[]){"/bin/sleep", "1000", NULL});
    script_start(&kid, file, FAMILY "sleep 1000", NULL);
    struct family family = family_await(file);
    launcher_kill(launcher, &kid.child, SIGKILL);
    (void)kid_await_end(&kid);
    assert_gone(family.member);
    assert_gone(family.stray);
    kid_await_birth(&other);
    assert_false(process_is_dead(other.pid));
    launcher_stop();
    close(file);
}

/* Daemons, one the child of the other, without a variable by which they could be known, and orphans before their run
 * ends. */
TEST(daemons_of_a_run_end_with_it_and_those_of_others_do_not)
{
    int first_file = output_make(), second_file = output_make();
    struct kid first, second;
    script_start(&first, first_file, "(setsid sleep 1000 & echo $!); sleep 1000", NULL);
    script_start(
        &second, second_file,
        "(setsid env -i /bin/sh -c 'setsid env -i /bin/sleep 1000 & echo $!; exec /bin/sleep 1000' & echo $!); "
        "sleep 1000",
        NULL);
    pid_t others = number_await(first_file, 0);
    pid_t daemons[] = {number_await(second_file, 0), number_await(second_file, 1)};
    for (unsigned i = 0; i < 2; i++)
        test_await(getpgid(daemons[i]) == daemons[i]);
    launcher_kill(launcher, &second.child, SIGKILL);
    (void)kid_await_end(&second);
    assert_gone(daemons[0]);
    assert_gone(daemons[1]);
    assert_false(process_is_dead(others));
    kid_await_birth(&first);
    launcher_kill(launcher, &first.child, SIGKILL);
    (void)kid_await_end(&first);
    assert_gone(others);
    close(first_file);
    close(second_file);
}

/* It takes a while to give back its memory. */
TEST(an_end_is_told_when_the_last_stray_is_gone)
{
    int file = output_make();
    struct kid other, kid;
    kid_start(&other, -1, (const char *const[]){"/bin/sleep", "1000", NULL});
    script_start(&kid, file, "setsid dd if=/dev/zero of=/dev/null bs=200M & echo $!; wait", NULL);
    pid_t stray = number_await(file, 0);
    test_await(strtol(process_status(stray, "VmRSS"), NULL, 10) > 190 * 1024);
    launcher_kill(launcher, &kid.child, SIGKILL);
    (void)kid_await_end(&kid);
    assert_gone(stray);
    launcher_stop();
    close(file);
}

/* Forked without an exec, as a handler in a runner process does it. */
TEST(a_daemon_of_a_runner_process_ends_with_it)
{
    struct kid other, kid;
    char answer[32] = "";
    kid_start(&other, -1, (const char *const[]){"/bin/sleep", "1000", NULL});
    int socket = kid_start_runner(&kid, NULL);
    kid_await_birth(&kid);
    assert_int_equal(write(socket, "daemon", 6), 6);
    assert_true(read(socket, answer, sizeof answer - 1) > 0);
    pid_t stray = (pid_t)strtol(answer, NULL, 10);
    assert_int_equal(getpgid(stray), stray);
    close(socket);
    (void)kid_await_end(&kid);
    assert_gone(stray);
    launcher_stop();
}

/* Who has taken the mark off is not known any more: nobody of others must be killed for it. */
TEST(a_stray_without_a_mark_ends_with_the_last_child)
{
    int file = output_make();
    struct kid other, kid;
    kid_start(&other, -1, (const char *const[]){"/bin/sleep", "1000", NULL});
    script_start(&kid, file, "(setsid prlimit --locks=7:7 sleep 1000 & echo $!); sleep 1000", NULL);
    pid_t stray = number_await(file, 0);
    struct rlimit limit = {0};
    test_await(prlimit(stray, RLIMIT_LOCKS, NULL, &limit) == 0 && limit.rlim_cur == 7);
    launcher_kill(launcher, &kid.child, SIGKILL);
    (void)kid_await_end(&kid);
    assert_false(process_is_dead(stray));
    kid_await_birth(&other);
    launcher_kill(launcher, &other.child, SIGKILL);
    (void)kid_await_end(&other);
    test_await(kill(stray, 0) != 0 && errno == ESRCH); /* the zygote waits for it for a moment only */
    close(file);
}

TEST(strays_of_strays_end_with_the_zygote)
{
    int file = output_make();
    struct kid kid;
    script_start(&kid, file, "setsid sh -c 'setsid sleep 1000 & echo $!; sleep 1000' & echo $!; sleep 1000", NULL);
    pid_t strays[] = {number_await(file, 0), number_await(file, 1)};
    launcher_stop();
    assert_true(process_is_dead(strays[0]) && process_is_dead(strays[1]));
    assert_false(kid.has_exited);
    close(file);
}

TEST(a_signal_goes_to_the_whole_group)
{
    int file = output_make();
    struct kid kid;
    script_start(&kid, file, "sleep 1000 & echo $!; wait; sleep 1000", NULL);
    pid_t member = number_await(file, 0);
    launcher_kill(launcher, &kid.child, SIGTERM);
    int status = kid_await_end(&kid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_true(process_is_dead(member));
    launcher_kill(launcher, &kid.child, SIGTERM); /* nobody any more */
    close(file);
}

/* --- deadlines ---------------------------------------------------------------------------------------------------- */

TEST(who_ignores_TERM_is_killed_when_its_time_is_over)
{
    int file = output_make();
    struct kid kid;
    struct run_entry *run_entry = run_entry_begin(3);
    script_start(&kid, file, FAMILY "while :; do sleep 1000; done", run_entry);
    struct family family = family_await(file);
    kid_await_birth(&kid);
    launcher_kill(launcher, &kid.child, SIGTERM);
    assert_false(process_is_dead(kid.pid));
    if (run_entry_kill_by(run_table, run_entry, soon(30)))
        launcher_ring(launcher);
    test_await(process_is_dead(kid.pid) && process_is_dead(family.member)); /* the loop stands still */
    int status = kid_await_end(&kid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(kid.end.killed_run, atomic_load(&run_entry->run));
    assert_int_equal(kid.end.killed_run_entry, 3);
    close(file);
}

TEST(a_runner_process_is_killed_at_the_end_of_its_lock)
{
    struct kid kid;
    struct run_entry *run_entry = run_entry_begin(1);
    int socket = kid_start_runner(&kid, NULL);
    assert_int_equal(write(socket, "hang", 4), 4);
    kid_await_birth(&kid);
    atomic_store(&run_entry->validity.until, soon(40).ns);
    atomic_store(&run_entry->is_locked, true);
    atomic_store(&run_entry->occupant, kid.child.number);
    assert_true(run_table_must_ring(run_table, run_entry));
    launcher_ring(launcher);
    test_await(process_is_dead(kid.pid));
    (void)kid_await_end(&kid);
    assert_int_equal(kid.end.killed_run, atomic_load(&run_entry->run));
    assert_int_equal(kid.end.killed_run_entry, 1);
    close(socket);
}

TEST(a_lock_that_is_extended_in_time_kills_nobody)
{
    struct kid kid;
    struct run_entry *run_entry = run_entry_begin(0);
    kid_start(&kid, -1, (const char *const[]){"/bin/sleep", "1000", NULL});
    kid_await_birth(&kid);
    int64_t first = soon(200).ns, second = soon(600000).ns;
    atomic_store(&run_entry->validity.until, first);
    atomic_store(&run_entry->is_locked, true);
    atomic_store(&run_entry->occupant, kid.child.number);
    launcher_ring(launcher);
    test_await(atomic_load(&run_table->wakes_at) == first || process_is_dead(kid.pid));
    atomic_store(&run_entry->validity.until, second); /* without a ring */
    test_await(atomic_load(&run_table->wakes_at) == second || process_is_dead(kid.pid));
    assert_false(process_is_dead(kid.pid));
    launcher_stop();
}

TEST(whose_time_was_over_before_it_began_is_killed_at_once)
{
    struct kid kid;
    struct run_entry *run_entry = run_entry_begin(0);
    run_entry_kill_by(run_table, run_entry, soon(-1));
    script_start(&kid, -1, "sleep 1000", run_entry);
    assert_true(WIFSIGNALED(kid_await_end(&kid)));
    assert_int_equal(kid.end.killed_run, atomic_load(&run_entry->run));
}

TEST(several_are_killed_each_in_its_time)
{
    struct kid kids[FIXTURE_RUN_ENTRIES];
    for (unsigned i = 0; i < FIXTURE_RUN_ENTRIES; i++) {
        struct run_entry *run_entry = run_entry_begin(i);
        if (i % 2 == 0)
            run_entry_kill_by(run_table, run_entry, soon(20 + 10 * i));
        script_start(&kids[i], -1, "sleep 1000", run_entry);
    }
    for (unsigned i = 0; i < FIXTURE_RUN_ENTRIES; i += 2) {
        (void)kid_await_end(&kids[i]);
        assert_int_equal(kids[i].end.killed_run_entry, i);
        assert_int_equal(kids[i].end.killed_run, 1);
    }
    for (unsigned i = 1; i < FIXTURE_RUN_ENTRIES; i += 2)
        assert_false(kids[i].has_exited || process_is_dead(kids[i].pid));
    launcher_stop();
}

/* --- the zygote --------------------------------------------------------------------------------------------------- */

static bool is_lost(void *context)
{
    (void)context;
    return times_lost > 0;
}

TEST(nobody_outlives_the_zygote_and_the_worker_hears_of_it)
{
    struct kid program, runner;
    kid_start(&program, -1, (const char *const[]){"/bin/sleep", "1000", NULL});
    int socket = kid_start_runner(&runner, NULL);
    assert_int_equal(write(socket, "hang", 4), 4);
    kid_await_birth(&program);
    kid_await_birth(&runner);
    assert_int_equal(kill(zygote.pid, SIGKILL), 0);
    launcher_until(is_lost, NULL);
    test_await(process_is_dead(program.pid) && process_is_dead(runner.pid));
    struct kid late;
    launcher_kill(launcher, &program.child, SIGTERM);
    launcher_ring(launcher);
    kid_start(&late, -1, (const char *const[]){"/bin/true", NULL});
    kid_await_birth(&late);
    assert_int_equal(late.failure, EPIPE);
    loop_for(loop, 5 * NS_PER_MS);
    assert_int_equal(times_lost, 1);
    assert_false(program.has_exited || runner.has_exited);
    close(socket);
}

TEST(a_zygote_that_dies_with_orders_unread_is_lost_once)
{
    struct kid kids[3];
    assert_int_equal(kill(zygote.pid, SIGSTOP), 0);
    for (int i = 0; i < 3; i++)
        kid_start(&kids[i], -1, (const char *const[]){"/bin/true", NULL});
    assert_int_equal(kill(zygote.pid, SIGKILL), 0);
    launcher_until(is_lost, NULL);
    for (int i = 0; i < 3; i++)
        assert_false(kids[i].was_spawned);
    assert_int_equal(times_lost, 1);
}

TEST(signals_from_a_terminal_do_not_concern_the_zygote)
{
    static const int signals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGTSTP,
                                  SIGUSR1, SIGUSR2, SIGPIPE, SIGTTIN, SIGALRM};
    assert_string_equal(script_output("echo ready", NULL), "ready\n");
    assert_int_equal(getpgid(zygote.pid), zygote.pid);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        assert_int_equal(kill(zygote.pid, signals[i]), 0);
    assert_string_equal(script_output("echo fine", NULL), "fine\n");
    assert_string_equal(process_status(zygote.pid, "Name"), "hf-zygote");
}

RUN_TESTS_WITH(launcher_set_up, launcher_tear_down)
