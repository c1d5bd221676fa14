/* holdfast lock: the signals that it and its command get, from a terminal and from others. */
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <utmp.h>

#include "base/buffer.h"
#include "tests/support/lock_cluster.h"
#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"
#include "tests/support/terminal.h"

enum { NODES = 3, WORDS_MAX = 30 };

static struct lock_cluster cluster;
static char directory[PRIVATE_DIRECTORY_MAX];
static struct program_result result;

static int group_set_up(void **state)
{
    struct buffer list = {0};
    (void)state;
    lock_cluster_start(&cluster, NODES);
    for (unsigned i = 0; i < NODES; i++)
        buffer_format(&list, "%s127.0.0.1:%u", i > 0 ? "," : "", cluster.nodes[i].port);
    setenv("HOLDFAST_LOCK_NODES", buffer_text(&list), 1);
    buffer_fini(&list);
    return 0;
}

static int group_tear_down(void **state)
{
    (void)state;
    lock_cluster_stop(&cluster);
    return 0;
}

/* The commands note what they do in files of the directory, which they get as $D; $H is the program. */
static int set_up(void **state)
{
    char program[4200], *build = realpath(test_build(), NULL);
    (void)state;
    private_directory_create(directory);
    snprintf(program, sizeof program, "%s/holdfast", build);
    free(build);
    setenv("H", program, 1);
    setenv("D", directory, 1);
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[PRIVATE_DIRECTORY_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static int tear_down(void **state)
{
    (void)state;
    program_result_free(&result);
    result = (struct program_result){.out = NULL};
    lock_cluster_heal(&cluster);
    static const char *const names[] = {"up", "held", "started"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(path_of(names[i]));
    assert_int_equal(rmdir(directory), 0);
    return 0;
}

static struct program start_with(const char *const *words)
{
    const char *arguments[WORDS_MAX + 2] = {"lock"};
    for (int i = 0; i < WORDS_MAX && words[i] != NULL; i++)
        arguments[i + 1] = words[i];
    return program_start(arguments, -1);
}

#define lock_start(...) start_with((const char *const[WORDS_MAX]){__VA_ARGS__})

static int end_await(struct program *program)
{
    program_result_free(&result);
    result = program_wait(program);
    return result.exit_code;
}

static bool is_there(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

/* --- sent to it --------------------------------------------------------------------------------------------------- */

/* Reads signals from a descriptor, so that none ends it by itself. (Any process blocks them for a moment, such as while
 * it creates a thread.) */
static bool reads_signals(pid_t pid)
{
    char path[64], target[64];
    bool is_one = false;
    for (int fd = 0; fd < 64 && !is_one; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        is_one = strcmp(target, "anon_inode:[signalfd]") == 0;
    }
    return is_one;
}

TEST(signals_are_passed_on)
{
    struct program program =
        lock_start("a", "--", "sh", "-c", "trap 'echo got; exit 3' TERM; touch $D/up; while :; do sleep 0.01; done");
    test_await(is_there("up"));
    kill(program.pid, SIGTERM);
    assert_int_equal(end_await(&program), 3);
    assert_string_equal(result.out, "got\n");
    struct program holder = lock_start("a", "--", "sh", "-c", "touch $D/held; sleep 1000");
    test_await(is_there("held"));
    struct program waiting = lock_start("a", "--", "touch", path_of("started"));
    test_await(reads_signals(waiting.pid));
    kill(waiting.pid, SIGTERM);
    assert_int_equal(end_await(&waiting), 128 + SIGTERM);
    assert_false(is_there("started"));
    kill(holder.pid, SIGTERM);
    assert_int_equal(end_await(&holder), 128 + SIGTERM);
}

TEST(what_the_caller_ignores_ends_no_waiting)
{
    struct program holder = lock_start("a", "--", "sh", "-c", "touch $D/held; sleep 1000");
    test_await(is_there("held"));
    signal(SIGHUP, SIG_IGN);
    struct program waiting = lock_start("a", "--", "true");
    signal(SIGHUP, SIG_DFL);
    test_await(reads_signals(waiting.pid));
    kill(waiting.pid, SIGHUP);
    kill(holder.pid, SIGTERM);
    assert_int_equal(end_await(&holder), 128 + SIGTERM);
    assert_int_equal(end_await(&waiting), 0);
}

/* Its parent is not `lock` but a process that watches over it. */
TEST(a_command_that_stops_its_parent_ends_as_any_other)
{
    struct program program = lock_start("a", "--", "sh", "-c", "kill -STOP $PPID; exit 3");
    assert_int_equal(end_await(&program), 3);
    program = lock_start("a", "--", "sh", "-c",
                         "trap 'echo got; exit 4' TERM; kill -STOP $PPID; touch $D/up; while :; do sleep 0.01; done");
    test_await(is_there("up"));
    kill(program.pid, SIGTERM);
    assert_int_equal(end_await(&program), 4);
    assert_string_equal(result.out, "got\n");
}

/* --- between the lock and the command ----------------------------------------------------------------------------- */

/* The first child; 0: there is none. */
static pid_t child_of(pid_t pid)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    (void)!read(file, text, sizeof text - 1);
    close(file);
    return (pid_t)strtol(text, NULL, 10);
}

/* The letter of its state; '-': there is no such process. */
static char state_of(pid_t pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return '-';
    (void)!read(file, text, sizeof text - 1);
    close(file);
    const char *behind_name = strrchr(text, ')');
    return behind_name != NULL && behind_name[1] == ' ' ? behind_name[2] : '-';
}

static void halt(pid_t pid)
{
    kill(pid, SIGSTOP);
    test_await(state_of(pid) == 'T');
}

static void go_on(pid_t pid)
{
    kill(pid, SIGCONT);
    test_await(state_of(pid) != 'T');
}

static bool has_said(const struct program *program, const char *text)
{
    char *all = program_error_text(program);
    bool is_said = strstr(all, text) != NULL;
    free(all);
    return is_said;
}

/* Its process is there, and the one that starts it is stopped when the order to execute it comes. */
static pid_t given_a_command_that_waits(const struct program *program)
{
    pid_t zygote = 0, minder = 0;
    test_await((zygote = child_of(program->pid)) > 0 && (minder = child_of(zygote)) > 0);
    halt(minder);
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "DEL a");
    test_await(has_said(program, "\"held\"") && state_of(program->pid) == 'S'); /* it has sent the order */
    halt(program->pid);
    go_on(minder);
    test_await(child_of(minder) > 0);
    halt(minder);
    go_on(program->pid);
    return minder;
}

static void given_a_foreign_holder(void)
{
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "SET a x PX 50000");
}

TEST(a_command_does_not_begin_after_the_end_of_its_lock)
{
    given_a_foreign_holder();
    struct program program =
        lock_start("a", "--json", "--ttl", "2s", "--max-hold", "1s", "--", "touch", path_of("started"));
    pid_t minder = given_a_command_that_waits(&program), zygote = child_of(program.pid), command = child_of(minder);
    halt(zygote); /* it would kill both */
    test_await(has_said(&program, "was lost"));
    go_on(minder);
    test_await(state_of(minder) == 'S');
    assert_int_equal(state_of(command), 'S');
    go_on(zygote);
    assert_int_equal(end_await(&program), 76);
    assert_false(is_there("started"));
}

TEST(a_danger_before_the_command_begins_does_not_kill_it)
{
    given_a_foreign_holder();
    struct program program =
        lock_start("a", "--json", "--ttl", "12s", "--max-hold", "8s", "--signal-danger", "--", "sh", "-c", "exit 3");
    pid_t minder = given_a_command_that_waits(&program);
    test_await(has_said(&program, "\"danger\""));
    go_on(minder);
    assert_int_equal(end_await(&program), 3);
}

/* --- at the end --------------------------------------------------------------------------------------------------- */

TEST(a_signal_between_the_end_of_the_command_and_that_of_the_lock_is_not_lost)
{
    struct program program =
        lock_start("a", "--", "sh", "-c", "touch $D/up; while [ ! -e $D/held ]; do sleep 0.01; done");
    test_await(is_there("up"));
    pid_t zygote = child_of(program.pid);
    for (unsigned i = 0; i < NODES; i++)
        redis_server_pause(cluster.servers[i]);
    close(open(path_of("held"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    test_await(child_of(zygote) == 0);
    kill(program.pid, SIGINT);
    end_await(&program);
    assert_int_equal(result.signal, SIGINT);
}

/* --- a terminal --------------------------------------------------------------------------------------------------- */

static struct buffer screen;

static void type(int terminal, const char *keys)
{
    assert_int_equal(write(terminal, keys, strlen(keys)), strlen(keys));
}

static bool shows(int terminal, const char *text)
{
    struct pollfd readable = {.fd = terminal, .events = POLLIN};
    while (poll(&readable, 1, 0) > 0) {
        char bytes[4096];
        ssize_t length = read(terminal, bytes, sizeof bytes);
        if (length <= 0)
            break;
        buffer_append(&screen, bytes, (size_t)length);
    }
    bool is_shown = strstr(buffer_text(&screen), text) != NULL;
    if (is_shown)
        buffer_clear(&screen);
    return is_shown;
}

static pid_t given_a_shell(int *terminal)
{
    *terminal = terminal_open();
    pid_t shell = fork();
    if (shell == 0) {
        login_tty(open(ptsname(*terminal), O_RDWR | O_NOCTTY));
        setenv("TERM", "dumb", 1);
        execlp("bash", "bash", "--norc", "--noprofile", "--noediting", "-i", NULL);
        _exit(99);
    }
    type(*terminal, "stty -echo; PS1=ne''xt:\n");
    test_await(shows(*terminal, "next:"));
    return shell;
}

static void shell_end(pid_t shell, int terminal)
{
    kill(shell, SIGKILL);
    assert_int_equal(waitpid(shell, NULL, 0), shell);
    close(terminal);
    buffer_fini(&screen);
}

TEST(a_terminal_sees_one_job)
{
    int terminal;
    pid_t shell = given_a_shell(&terminal);
    type(terminal, "$H lock a -- sh -c 'echo up; read word; echo read $word; exec cat'\n");
    test_await(shows(terminal, "up"));
    type(terminal, "\032");
    test_await(shows(terminal, "Stopped"));
    type(terminal, "echo f''irst; fg >/dev/null\n");
    test_await(shows(terminal, "first"));
    type(terminal, "words\n");
    test_await(shows(terminal, "read words"));
    type(terminal, "\003");
    test_await(shows(terminal, "next:"));
    type(terminal, "echo rc=$?\n");
    test_await(shows(terminal, "rc=130"));
    shell_end(shell, terminal);
}

TEST(a_stopped_command_is_killed_at_the_deadline_and_gives_its_terminal_back)
{
    int terminal;
    pid_t shell = given_a_shell(&terminal);
    type(terminal, "$H lock a --ttl 4s -- sh -c 'stty raw -echo; echo up; kill -TSTP 0; cat'\n");
    test_await(shows(terminal, "next:"));
    struct program next = lock_start("a", "--", "true");
    assert_int_equal(end_await(&next), 0);
    type(terminal, "fg\n");
    test_await(shows(terminal, "next:"));
    type(terminal, "echo rc=$? $(stty -a | grep -o '.icanon')\n");
    test_await(shows(terminal, "rc=76 icanon"));
    shell_end(shell, terminal);
}

/* --- a terminal, before the command executes ---------------------------------------------------------------------- */

static bool has_no_signal_pending(pid_t pid)
{
    char path[64], line[128];
    unsigned long pending = 1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "ShdPnd: %lx", &pending) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return pending == 0;
}

/* The process that is to start the command is stopped, so the lock is held and the command is not there yet: then the
 * key is typed, and `lock` has taken the signal before that process goes on. */
static void assert_typed_before_the_start(pid_t shell, int terminal, const char *key, const char *echo,
                                          const char *shown)
{
    pid_t minder;
    lock_cluster_ask(&cluster, 0, "SET a x PX 50000");
    lock_cluster_ask(&cluster, 1, "SET a x PX 50000");
    type(terminal, "$H lock a --json -- sh -c 'read word; echo it was $word'\n");
    test_await((minder = child_of(child_of(child_of(shell)))) > 0);
    pid_t lock = child_of(shell);
    test_await(reads_signals(lock));
    kill(minder, SIGSTOP);
    lock_cluster_ask(&cluster, 0, "DEL a");
    lock_cluster_ask(&cluster, 1, "DEL a");
    test_await(shows(terminal, "\"event\":\"held\""));
    type(terminal, key);
    test_await(shows(terminal, echo));
    test_await(has_no_signal_pending(lock));
    kill(minder, SIGCONT);
    test_await(shows(terminal, shown));
}

TEST(a_key_that_is_typed_before_the_command_executes_is_not_lost)
{
    int terminal;
    pid_t shell = given_a_shell(&terminal);
    type(terminal, "stty echo; PS1='next rc=$?:'\n");
    test_await(shows(terminal, "next rc=0:"));
    assert_typed_before_the_start(shell, terminal, "\003", "^C", "next rc=130:");
    assert_typed_before_the_start(shell, terminal, "\034", "^\\", "next rc=131:");
    assert_typed_before_the_start(shell, terminal, "\032", "^Z", "Stopped");
    type(terminal, "fg\n");
    type(terminal, "one\n");
    test_await(shows(terminal, "it was one"));
    shell_end(shell, terminal);
}

RUN_GROUP(group_set_up, group_tear_down, set_up, tear_down)
