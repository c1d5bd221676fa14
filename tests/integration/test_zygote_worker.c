/* What becomes of the zygote and of all children when the worker stands still, dies or ends. */
#include "tests/support/test.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/launcher_fixture.h"
#include "tests/support/one_loop.h"

/* A process that is a worker as far as the zygote can see; the test has its run table and the numbers of who is
 * there. */
struct stand_in {
    pid_t pid;
    int log, output;
    struct told {
        pid_t zygote, program, runner, copy;
    } told;
};

enum ending { ENDS_STOPPED, ENDS_BY_KILL, ENDS_WITH_COPY, ENDS_IN_ORDER, ENDS_UNHEARD };

/* What the zygote tells is in the socket when that is closed, and the zygote hears of both at once. */
static void news_leave_unread(pid_t runner)
{
    char path[64], open_file[64] = "", now[64] = "";
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), zygote.socket);
    (void)!readlink(path, open_file, sizeof open_file - 1);
    kill(runner, SIGKILL);
    struct pollfd told = {.fd = zygote.socket, .events = POLLIN};
    while (poll(&told, 1, -1) != 1)
        ;
    kill(zygote.pid, SIGSTOP);
    if (fork() != 0)
        return;
    close(zygote.socket);
    do { /* the number may be another descriptor's at once */
        sched_yield();
        memset(now, 0, sizeof now);
    } while (readlink(path, now, sizeof now - 1) > 0 && strcmp(now, open_file) == 0);
    kill(zygote.pid, SIGCONT);
    _exit(0);
}

static void stand_in_live(int log, int output, int report, enum ending ending)
{
    static struct kid program, runner;
    struct error error = ERROR_NONE;
    struct zygote_options options = {
        .run_table = run_table, .runner = fixture_runner, .log = {.level = LOG_WARN, .fd = log}};
    if (!zygote_start(&zygote, &options, &error) || (loop = loop_create(&error)) == NULL)
        _exit(1);
    launcher = launcher_create(loop, &zygote, run_table, NULL, NULL);
    script_start(&program, output, FAMILY "while :; do sleep 1000; done", run_table_entry(run_table, 0));
    int socket = kid_start_runner(&runner, NULL);
    if (write(socket, "hang", 4) != 4)
        _exit(1);
    kid_await_birth(&runner);
    kid_await_birth(&program);
    pid_t copy = ending == ENDS_WITH_COPY ? fork() : -1;
    while (copy == 0)
        pause();
    struct told told = {zygote.pid, program.pid, runner.pid, copy};
    if (write(report, &told, sizeof told) != sizeof told)
        _exit(1);
    if (ending == ENDS_UNHEARD)
        news_leave_unread(runner.pid);
    if (ending == ENDS_IN_ORDER || ending == ENDS_UNHEARD) {
        launcher_destroy(launcher);
        _exit(0);
    }
    if (ending == ENDS_STOPPED)
        raise(SIGSTOP);
    for (;;)
        pause();
}

static int run_table_set_up(void **state)
{
    (void)state;
    run_table = run_table_create(FIXTURE_RUN_ENTRIES);
    return run_table != NULL ? 0 : -1;
}

static int run_table_tear_down(void **state)
{
    (void)state;
    run_table_destroy(run_table);
    return 0;
}

static struct stand_in stand_in_start(enum ending ending)
{
    int ends[2];
    struct stand_in worker = {.log = output_make(), .output = output_make()};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    worker.pid = fork();
    assert_true(worker.pid >= 0);
    if (worker.pid == 0) {
        stand_in_live(worker.log, worker.output, ends[1], ending);
        _exit(0);
    }
    assert_int_equal(read(ends[0], &worker.told, sizeof worker.told), sizeof worker.told);
    close(ends[0]);
    close(ends[1]);
    return worker;
}

static void stand_in_kill(const struct stand_in *worker)
{
    assert_int_equal(kill(worker->pid, SIGKILL), 0);
    assert_int_equal(waitpid(worker->pid, NULL, 0), worker->pid);
}

static void all_await_gone(const struct stand_in *worker, const struct family *family)
{
    test_await(process_is_dead(worker->told.program));
    test_await(process_is_dead(worker->told.runner));
    test_await(process_is_dead(family->member));
    test_await(process_is_dead(family->stray));
    test_await(process_is_dead(worker->told.zygote));
}

/* What the zygote has logged, once it is gone. */
static const char *stand_in_forget(struct stand_in *worker)
{
    static char text[2048];
    ssize_t length = pread(worker->log, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    close(worker->log);
    close(worker->output);
    return text;
}

TEST(a_worker_that_is_stopped_does_not_keep_children_beyond_their_time)
{
    struct run_entry *run_entry = run_entry_begin(0), *other = run_entry_begin(1);
    run_entry_kill_by(run_table, run_entry, soon(600000));
    struct stand_in worker = stand_in_start(ENDS_STOPPED);
    struct family family = family_await(worker.output);
    int status;
    assert_int_equal(waitpid(worker.pid, &status, WUNTRACED), worker.pid);
    assert_true(WIFSTOPPED(status));
    /* What is moved forward without a ring is seen at the next look, which is at the end of this lock. */
    atomic_store(&other->occupant, 2);
    test_await(atomic_load(&run_table->wakes_at) <= atomic_load(&run_entry->kill_at));
    assert_false(process_is_dead(worker.told.program));
    kill(worker.told.zygote, SIGCHLD); /* wakes it up */
    run_entry_kill_by(run_table, run_entry, soon(20));
    run_entry_kill_by(run_table, other, soon(30));
    kill(worker.told.zygote, SIGCHLD);
    test_await(process_is_dead(worker.told.program) && process_is_dead(family.member));
    test_await(process_is_dead(worker.told.runner));
    assert_false(process_is_dead(worker.told.zygote));
    stand_in_kill(&worker);
    all_await_gone(&worker, &family);
    (void)stand_in_forget(&worker);
}

TEST(nobody_outlives_a_worker_that_dies_and_its_tasks_are_named)
{
    run_entry_open(run_table_entry(run_table, 0), "a jid", "Class::Of\nIt");
    run_entry_open(run_table_entry(run_table, 2), "done", "Other");
    run_entry_close(run_table_entry(run_table, 2));
    struct stand_in worker = stand_in_start(ENDS_BY_KILL);
    struct family family = family_await(worker.output);
    stand_in_kill(&worker);
    all_await_gone(&worker, &family);
    char wanted[128];
    snprintf(wanted, sizeof wanted, " warn worker_died pid=%d\n", (int)worker.pid);
    const char *text = stand_in_forget(&worker);
    assert_contains(text, wanted);
    assert_contains(text, " warn task_was_running slot=0 jid=\"a jid\" class=\"Class::Of\\x0AIt\"\n");
    assert_lacks(text, "slot=1");
    assert_lacks(text, "slot=2");
}

TEST(the_culprit_of_a_crash_is_named)
{
    run_entry_open(run_table_entry(run_table, 4), "jid4", "Crasher");
    struct stand_in worker = stand_in_start(ENDS_BY_KILL);
    struct family family = family_await(worker.output);
    atomic_store(&run_table->crash_signal, SIGSEGV);
    atomic_store(&run_table->crashed, 4 + 1);
    stand_in_kill(&worker);
    all_await_gone(&worker, &family);
    const char *text = stand_in_forget(&worker);
    assert_contains(text, " signal=SIGSEGV slot=4 jid=jid4 class=Crasher\n");
    assert_lacks(text, "worker_died");
}

TEST(a_crash_outside_of_handlers_names_nobody)
{
    struct stand_in worker = stand_in_start(ENDS_BY_KILL);
    struct family family = family_await(worker.output);
    atomic_store(&run_table->crash_signal, SIGABRT);
    stand_in_kill(&worker);
    all_await_gone(&worker, &family);
    const char *text = stand_in_forget(&worker);
    assert_contains(text, " signal=SIGABRT\n");
    assert_lacks(text, "slot=");
}

TEST(a_copy_of_the_worker_does_not_hide_its_death)
{
    struct stand_in worker = stand_in_start(ENDS_WITH_COPY);
    struct family family = family_await(worker.output);
    stand_in_kill(&worker);
    all_await_gone(&worker, &family);
    assert_int_equal(kill(worker.told.copy, SIGKILL), 0);
    assert_contains(stand_in_forget(&worker), "worker_died");
}

static void ends_in_order(enum ending ending)
{
    run_entry_open(run_table_entry(run_table, 0), "jid", "Class");
    struct stand_in worker = stand_in_start(ending);
    assert_int_equal(waitpid(worker.pid, NULL, 0), worker.pid);
    assert_true(process_is_dead(worker.told.program));
    assert_true(process_is_dead(worker.told.runner));
    assert_true(process_is_dead(worker.told.zygote));
    assert_string_equal(stand_in_forget(&worker), "");
}

TEST(a_worker_that_ends_in_order_leaves_nobody_and_no_word)
{
    ends_in_order(ENDS_IN_ORDER);
}

TEST(its_good_bye_is_heard_also_behind_news_that_it_did_not_read)
{
    ends_in_order(ENDS_UNHEARD);
}

RUN_TESTS_WITH(run_table_set_up, run_table_tear_down)
