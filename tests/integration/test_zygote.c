/* Children of the zygote: how they start, what they have, and how they end. */
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/support/launcher_fixture.h"

/* --- programs --------------------------------------------------------------------------------------------------- */

TEST(a_program_has_its_arguments_and_its_environment_and_no_other)
{
    setenv("SECRET", "of the worker", 1);
    const char *const environment[] = {"FIRST=1", "SECOND=two words", NULL};
    assert_string_equal(script_output("echo \"$FIRST,$SECOND,$SECRET,$#\"", environment), "1,two words,,0\n");
    int file = memfd_create("output", MFD_CLOEXEC);
    struct kid kid;
    kid_start(&kid, file, (const char *const[]){"/bin/echo", "a", "", "b c", NULL});
    assert_int_equal(kid_await_end(&kid), 0);
    char text[64] = "";
    assert_int_equal(pread(file, text, sizeof text, 0), 7);
    assert_string_equal(text, "a  b c\n");
    close(file);
}

TEST(the_end_of_a_program_is_told_as_it_was)
{
    struct kid kid;
    kid_start(&kid, -1, (const char *const[]){"/bin/sh", "-c", "exit 75", NULL});
    kid_await_birth(&kid);
    assert_int_equal(kid.failure, 0);
    assert_true(kid.pid > 0);
    int status = kid_await_end(&kid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 75);
    assert_int_equal(kid.end.killed_run, 0);
    kid_start(&kid, -1, (const char *const[]){"/bin/sh", "-c", "kill -SEGV $$", NULL});
    status = kid_await_end(&kid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

TEST(what_cannot_be_executed_is_told_with_its_reason)
{
    struct kid kid;
    kid_start(&kid, -1, (const char *const[]){"/no/such/program", NULL});
    kid_await_birth(&kid);
    assert_int_equal(kid.failure, ENOENT);
    kid_start(&kid, -1, (const char *const[]){"/etc/passwd", NULL});
    kid_await_birth(&kid);
    assert_int_equal(kid.failure, EACCES);
    assert_string_equal(script_output("echo fine", NULL), "fine\n");
}

/* The dynamic linker prints what the kernel has called the file. */
TEST(the_file_that_was_looked_at_is_run_whatever_its_path_is_by_then)
{
    int file = memfd_create("output", MFD_CLOEXEC);
    const char *const environment[] = {"LD_SHOW_AUXV=1", NULL};
    struct child_plan plan = {.kind = CHILD_PROGRAM,
                              .descriptors = {-1, file},
                              .descriptor_count = 2,
                              .arguments = (const char *const[]){"/bin/true", NULL},
                              .environment = environment};
    struct kid kid;
    kid_start_plan(&kid, &plan);
    assert_int_equal(kid_await_end(&kid), 0);
    char text[4096] = "";
    assert_true(pread(file, text, sizeof text - 1, 0) > 0);
    char *name = strstr(text, "AT_EXECFN:");
    assert_non_null(name);
    strchrnul(name, '\n')[0] = '\0';
    assert_contains(name, " /dev/fd/");
    close(file);
}

TEST(long_arguments_and_environments_arrive_whole)
{
    static char first[60001], second[60001];
    memset(first, 'a', 60000);
    memset(second, 'b', 60000);
    memcpy(second, "B=", 2);
    const char *const environment[] = {second, NULL};
    const char *const arguments[] = {"/bin/sh", "-c", "test ${#1} = 60000 && test ${#B} = 59998", "sh", first, NULL};
    struct child_plan plan = {.kind = CHILD_PROGRAM, .arguments = arguments, .environment = environment};
    struct kid kid;
    unsigned ours = descriptors_open(getpid());
    kid_start_plan(&kid, &plan);
    assert_int_equal(kid_await_end(&kid), 0);
    assert_int_equal(descriptors_open(getpid()), ours);
    const char *const too_long[] = {second, second, NULL};
    plan.environment = too_long;
    kid_start_plan(&kid, &plan);
    assert_false(kid.was_spawned); /* never from inside */
    kid_await_birth(&kid);
    assert_int_equal(kid.failure, E2BIG);
}

static void ignored_exit(struct child *child, const struct child_exit *end)
{
    struct kid *kid = list_owner(child, struct kid, child);
    kid->has_exited = true;
    kid->end = *end;
}

TEST(who_is_not_told_of_births_hears_of_an_exit)
{
    struct kid kid = {.pid = 0};
    struct child_plan plan = {.kind = CHILD_PROGRAM, .arguments = (const char *const[]){"/no/such/program", NULL}};
    child_init(&kid.child, NULL, ignored_exit);
    launcher_spawn(launcher, &kid.child, &plan);
    assert_int_equal(WEXITSTATUS(kid_await_end(&kid)), 127);
}

TEST(of_a_quiet_child_only_a_failure_and_the_end_are_told)
{
    struct kid kid;
    struct child_plan plan = {
        .kind = CHILD_PROGRAM, .arguments = (const char *const[]){"/bin/true", NULL}, .is_quiet = true};
    kid_init(&kid);
    kid.child.exited = ignored_exit;
    launcher_spawn(launcher, &kid.child, &plan);
    assert_int_equal(kid_await_end(&kid), 0);
    assert_false(kid.was_spawned);
    plan.arguments = (const char *const[]){"/no/such/program", NULL};
    kid_start_plan(&kid, &plan);
    kid_await_birth(&kid);
    assert_int_equal(kid.failure, ENOENT);
}

/* --- what children have ----------------------------------------------------------------------------------------- */

/* This process ignores and blocks some signals; see main. */
TEST(a_program_begins_with_nothing_but_what_its_plan_says)
{
    int leak = memfd_create("leak", 0);
    assert_true(leak >= 0);
    assert_string_equal(script_output("grep -E '^(Sig(Blk|Ign)|NoNewPrivs)' /proc/self/status | tr -d '\\t\\n'; pwd;"
                                      "umask; ls /proc/self/fd | wc -w; ps -o pgid= -p $$ | grep -cw $$",
                                      (const char *const[]){"PATH=/usr/bin:/bin", NULL}),
                        "SigBlk:0000000000000000SigIgn:0000000000000000NoNewPrivs:1/\n"
                        "0077\n4\n1\n");
    close(leak);
}

TEST(descriptors_stand_where_the_plan_puts_them)
{
    int files[4];
    char name[] = "0";
    struct child_plan plan = {.kind = CHILD_PROGRAM, .descriptor_count = 6};
    for (int i = 0; i < 4; i++) {
        files[i] = memfd_create("file", MFD_CLOEXEC);
        name[0] = (char)('0' + i);
        assert_int_equal(write(files[i], name, 1), 1);
        lseek(files[i], 0, SEEK_SET);
    }
    int order[] = {files[2], -1, -1, files[0], files[3], files[1]};
    memcpy(plan.descriptors, order, sizeof order);
    const char *const arguments[] = {
        "/bin/sh", "-c",
        "read a; read b <&3; read c <&4; read d <&5; echo lost; test \"$a$b$c$d\" = 2031 && test ! -e /proc/self/fd/6",
        NULL};
    plan.arguments = arguments;
    struct kid kid;
    kid_start_plan(&kid, &plan);
    assert_int_equal(kid_await_end(&kid), 0);
    for (int i = 0; i < 4; i++)
        close(files[i]);
}

TEST(limits_are_those_of_the_plan)
{
    int file = memfd_create("output", MFD_CLOEXEC);
    const char *const arguments[] = {"/bin/sh", "-c", "ulimit -n; ulimit -Hn; ulimit -d", NULL};
    struct child_plan plan = {.kind = CHILD_PROGRAM,
                              .descriptors = {-1, file, -1},
                              .descriptor_count = 3,
                              .arguments = arguments,
                              .open_files = 37,
                              .memory_bytes = INT64_C(900) << 20};
    struct kid kid;
    kid_start_plan(&kid, &plan);
    assert_int_equal(kid_await_end(&kid), 0);
    char text[64] = "";
    assert_true(pread(file, text, sizeof text - 1, 0) > 0);
    assert_string_equal(text, "37\n37\n921600\n");
    plan.open_files = INT64_MAX; /* more than anybody may have: as much as there is */
    kid_start_plan(&kid, &plan);
    assert_int_equal(kid_await_end(&kid), 0);
    close(file);
}

/* --- runner processes ------------------------------------------------------------------------------------------- */

static void runner_ask(int socket, const char *word)
{
    char answer[64] = "";
    assert_int_equal(write(socket, word, strlen(word)), strlen(word));
    assert_true(read(socket, answer, sizeof answer - 1) > 0);
    assert_string_equal(answer, word);
}

TEST(a_runner_process_talks_over_its_socket_until_it_ends)
{
    struct kid kid;
    int socket = kid_start_runner(&kid, NULL);
    runner_ask(socket, "hello");
    assert_int_equal(write(socket, "7", 1), 1);
    int status = kid_await_end(&kid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    close(socket);
}

TEST(a_runner_process_begins_with_nothing_but_its_socket)
{
    int leak = memfd_create("leak", 0);
    struct kid kid;
    int socket = kid_start_runner(&kid, &(struct child_plan){.open_files = 41});
    runner_ask(socket, "hello");
    kid_await_birth(&kid);
    assert_string_equal(process_status(kid.pid, "Name"), "hf-runner");
    assert_string_equal(process_status(kid.pid, "NoNewPrivs"), "1");
    assert_string_equal(process_status(kid.pid, "SigBlk"), "0000000000000000");
    assert_string_equal(process_status(kid.pid, "SigIgn"), "0000000000000000");
    assert_int_equal(descriptors_open(kid.pid), 2 + 4);
    assert_int_equal(getpgid(kid.pid), kid.pid);
    struct rlimit limit;
    assert_int_equal(prlimit(kid.pid, RLIMIT_NOFILE, NULL, &limit), 0);
    assert_int_equal(limit.rlim_max, 41);
    close(socket);
    assert_int_equal(kid_await_end(&kid), 0);
    close(leak);
}

TEST(a_crash_of_a_runner_process_is_told)
{
    struct kid kid;
    int socket = kid_start_runner(&kid, NULL);
    assert_int_equal(write(socket, "crash", 5), 5);
    int status = kid_await_end(&kid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    close(socket);
}

/* --- many ------------------------------------------------------------------------------------------------------- */

enum { CROWD = 200, FLOOD = 600 };

static struct kid crowd[FLOOD];

static bool all_have_ended(void *context)
{
    for (int i = 0; i < *(int *)context; i++)
        if (!crowd[i].has_exited)
            return false;
    return true;
}

TEST(two_hundred_start_at_once_and_nothing_is_left_open)
{
    script_output("true", NULL);
    unsigned ours = descriptors_open(getpid()), its = descriptors_open(zygote.pid);
    int count = CROWD;
    for (int i = 0; i < count; i++) {
        if (i % 10 == 9)
            close(kid_start_runner(&crowd[i], NULL));
        else
            kid_start(&crowd[i], -1, (const char *const[]){"/bin/true", NULL});
    }
    launcher_until(all_have_ended, &count);
    for (int i = 0; i < count; i++)
        assert_int_equal(crowd[i].end.wait_status, 0);
    assert_int_equal(descriptors_open(getpid()), ours);
    assert_int_equal(descriptors_open(zygote.pid), its);
}

/* More than the socket takes. What the caller closes meanwhile is there all the same, and who is killed meanwhile is
 * killed. */
TEST(a_zygote_that_stands_still_does_not_hold_up_the_worker)
{
    unsigned ours = descriptors_open(getpid());
    int file = memfd_create("output", MFD_CLOEXEC), count = FLOOD;
    assert_int_equal(fcntl(file, F_SETFL, O_APPEND), 0);
    assert_int_equal(kill(zygote.pid, SIGSTOP), 0);
    for (int i = 0; i < count - 1; i++) {
        int copy = dup(file);
        kid_start(&crowd[i], copy, (const char *const[]){"/bin/echo", NULL});
        close(copy);
    }
    struct kid *last = &crowd[count - 1];
    kid_start(last, -1, (const char *const[]){"/bin/sleep", "1000", NULL});
    launcher_kill(launcher, &last->child, SIGTERM);
    launcher_ring(launcher);
    assert_int_equal(kill(zygote.pid, SIGCONT), 0);
    launcher_until(all_have_ended, &count);
    assert_int_equal(lseek(file, 0, SEEK_END), count - 1);
    assert_true(WIFSIGNALED(last->end.wait_status) && WTERMSIG(last->end.wait_status) == SIGTERM);
    close(file);
    assert_int_equal(descriptors_open(getpid()), ours);
}

/* What a parent may have left. */
static int process_set_up(void **state)
{
    (void)state;
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGHUP, SIG_IGN);
    /* With it, libuv's own descriptors have the numbers of those that runner processes get. */
    assert_true(dup(STDERR_FILENO) > STDERR_FILENO);
    return 0;
}

RUN_GROUP(process_set_up, NULL, launcher_set_up, launcher_tear_down)
