/* holdfast work --local and what goes with it: nodes that outlive their worker, are found again, keep their data, and
 * make way for others. */
#include "tests/support/test.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buffer.h"
#include "tests/support/node_talk.h"
#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"
#include "tests/support/redis_server.h"
#include "worker/servers/local_nodes.h"

static char state_home[PRIVATE_DIRECTORY_MAX], directory[PRIVATE_DIRECTORY_MAX + 32], conf[PRIVATE_DIRECTORY_MAX + 64];
static struct program_result result;
static int guard_pipe;

/* --- the fixture -------------------------------------------------------------------------------------------------- */

/* The servers outlive their starter on purpose, so when this program is killed somebody else has to end them. */
static void guard_start(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    if (fork() == 0) {
        char lock[sizeof conf], byte;
        pid_t pid;
        close(ends[1]);
        setsid(); /* whoever ends this program may end its group */
        while (read(ends[0], &byte, 1) < 0)
            ;
        snprintf(lock, sizeof lock, "%s/lock", directory);
        int lives = open(lock, O_RDWR | O_CLOEXEC);
        for (off_t life = 2; lives >= 0 && life < 2 + LOCAL_NODES; life++) {
            struct flock found = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = life, .l_len = 1};
            pid = fcntl(lives, F_GETLK, &found) == 0 && found.l_type != F_UNLCK ? found.l_pid : 0;
            if (pid > 0)
                kill(pid, SIGKILL);
        }
        _exit(0);
    }
    close(ends[0]);
    guard_pipe = ends[1];
}

static int group_set_up(void **state)
{
    (void)state;
    private_directory_create(state_home);
    snprintf(directory, sizeof directory, "%s/holdfast/local", state_home);
    snprintf(conf, sizeof conf, "%s/local.conf", directory);
    setenv("XDG_STATE_HOME", state_home, 1);
    guard_start();
    return 0;
}

static int group_tear_down(void **state)
{
    char parent[sizeof directory];
    (void)state;
    close(guard_pipe);
    wait(NULL);
    snprintf(parent, sizeof parent, "%s/holdfast", state_home);
    rmdir(parent);
    rmdir(state_home);
    return 0;
}

static int tear_down(void **state)
{
    struct error error = ERROR_NONE;
    (void)state;
    program_result_free(&result);
    result = (struct program_result){0};
    chmod(directory, 0700);
    if (geteuid() == 0 && chown(directory, 0, 0) != 0 && errno != ENOENT)
        return -1;
    return local_nodes_end(true, &error) == EXIT_CODE_OK ? 0 : -1;
}

/* The exit code. */
static int run_line(const char *line)
{
    program_result_free(&result);
    result = program_run(line);
    return result.exit_code;
}

static struct program work(const char *more)
{
    const char *arguments[] = {"work", "--local", "--allow-root", more, NULL};
    return program_start(arguments, -1);
}

static bool has_said(const struct program *program, const char *text)
{
    char *said = program_error_text(program);
    bool has = strstr(said, text) != NULL;
    free(said);
    return has;
}

static bool is_over(const struct program *program)
{
    siginfo_t end = {0};
    return waitid(P_PID, (id_t)program->pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid != 0;
}

static void up_await(const struct program *worker)
{
    struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
    bool is_up;
    while (!(is_up = has_said(worker, "node_up node=queue ")) && !is_over(worker) &&
           !instant_reached(instant_now(), patience))
        poll(NULL, 0, 1);
    if (!is_up)
        fail_msg("the worker has %s and said: %s", is_over(worker) ? "ended" : "not come up",
                 program_error_text(worker));
}

static struct program work_until_up(void)
{
    struct program worker = work(NULL);
    up_await(&worker);
    return worker;
}

static void end(struct program *worker, int signal_number)
{
    kill(worker->pid, signal_number);
    program_result_free(&result);
    result = program_wait(worker);
    assert_int_equal(result.signal, signal_number == SIGKILL ? SIGKILL : 0);
}

/* From nothing, and what `work` says in `result`. */
static void nodes_begin(void)
{
    struct program worker = work_until_up();
    end(&worker, SIGTERM);
    assert_int_equal(result.exit_code, 0);
}

static struct local_nodes_view look(void)
{
    struct local_nodes_view view;
    struct error error = ERROR_NONE;
    assert_int_equal(local_nodes_look(&view, &error), EXIT_CODE_OK);
    local_nodes_view_fini(&view);
    return view;
}

static void server_kill(unsigned number)
{
    kill(look().nodes[number].pid, SIGKILL);
    test_await(!look().nodes[number].is_up);
}

/* The reply, which the caller frees. */
static char *server_ask(unsigned number, const char *command)
{
    char path[sizeof conf], password[40] = "";
    snprintf(path, sizeof path, "%s/password", directory);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(file, password, 32), 32);
    close(file);
    return node_talk(look().nodes[number].port, password, command);
}

/* While a sync to a slow disk goes on, a server keeps back what it would write, and a kill takes that with it. */
static bool has_written(unsigned number)
{
    char *facts = server_ask(number, "INFO persistence");
    bool has = facts != NULL && strstr(facts, "aof_buffer_length:0 ") != NULL;
    free(facts);
    return has;
}

/* The id of the task, which the caller frees. */
static char *push(const char *class_and_more)
{
    struct buffer line = {0};
    buffer_format(&line, "push --local %s", class_and_more);
    assert_int_equal(run_line(buffer_text(&line)), 0);
    buffer_fini(&line);
    result.out[strcspn(result.out, "\n")] = '\0';
    return strdup(result.out);
}

static void result_expect(const char *jid, const char *text)
{
    struct buffer line = {0};
    buffer_format(&line, "result --local %s --wait=90s", jid);
    assert_int_equal(run_line(buffer_text(&line)), 0);
    assert_contains(result.out, text);
    buffer_fini(&line);
}

/* Nobody waits for a quarantine; a node that did not answer in time, because this machine is busy, is asked again. */
static void all_vote_expect(void)
{
    int code = 0;
    test_await((code = run_line("nodes --local"), strstr(result.out, "the handshake took longer than ") == NULL));
    if (code != 0)
        print_message("%s%s", result.out, result.error);
    assert_int_equal(code, 0);
    assert_contains(result.out, "3 of 3 nodes vote");
}

static void file_write(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
}

/* Whoever starts the nodes or ends them holds the first byte while that goes on. */
static void changes_hold(int lives, short kind)
{
    struct flock change = {.l_type = kind, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    assert_int_equal(fcntl(lives, F_SETLK, &change), 0);
}

/* --- working from nothing ----------------------------------------------------------------------------------------- */

TEST(a_task_runs_and_its_result_is_there)
{
    struct program worker = work_until_up();
    assert_int_equal(run_line("push --local --wait echo [\"result\",\"hello\"] -r thing"), 0);
    assert_contains(result.out, "hello");
    all_vote_expect();
    assert_int_equal(look().worker, worker.pid);
    end(&worker, SIGTERM);
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error, "holdfast config --from-local > holdfast.conf");
    assert_contains(result.error, " config=");
    assert_contains(result.error, conf);
    assert_int_equal(look().worker, 0);
    assert_int_equal(look().up, LOCAL_NODES);
    assert_int_equal(run_line("status --local"), 0);
    assert_contains(result.out, "processed 1");
    assert_int_not_equal(run_line("tasks show 0123456789abcdef01234567 --local"), 0);
    assert_lacks(result.error, "the configuration is"); /* the user knows */
}

TEST(root_is_warned_once)
{
    struct program worker = program_start((const char *const[]){"work", "--local", "--processes", "2", NULL}, -1);
    up_await(&worker);
    end(&worker, SIGTERM);
    const char *warning = strstr(result.error, "runs as root");
    assert_int_equal(warning != NULL, geteuid() == 0);
    assert_true(warning == NULL || strstr(warning + 1, "runs as root") == NULL);
}

TEST(without_nodes_commands_say_how_to_have_them)
{
    static const char *const lines[] = {"status --local",      "push --local echo", "push --local --wait echo",
                                        "config --from-local", "nodes --local",     "check --local"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(run_line(lines[i]), EXIT_CODE_TEMPORARY);
        assert_contains(result.error, "no local nodes run: `holdfast work --local` starts them");
    }
    assert_int_equal(run_line("local"), EXIT_CODE_TEMPORARY);
    assert_contains(result.out, "There are no local nodes");
    assert_int_equal(run_line("local stop"), 0);
    assert_int_equal(run_line("status --local --port 7000"), EXIT_CODE_USAGE);
    nodes_begin();
    assert_int_equal(run_line("local stop"), 0);
    assert_int_equal(run_line("status --local"), EXIT_CODE_TEMPORARY);
    assert_contains(result.error, "no local nodes run");
}

TEST(without_a_server_program_the_package_is_named)
{
    char *path = strdup(getenv("PATH"));
    setenv("PATH", "/nowhere", 1);
    int code = run_line("work --local");
    setenv("PATH", path, 1);
    free(path);
    assert_int_equal(code, EXIT_CODE_FAILURE);
    assert_contains(result.error, "install the package redis-server");
    assert_lacks(result.error, "dry run");
}

/* Writes it, and starts a worker of its own with it. */
static struct program work_by_sample(void)
{
    char path[sizeof conf];
    struct buffer line = {0};
    assert_int_equal(run_line("config --from-local"), 0);
    snprintf(path, sizeof path, "%s/holdfast.conf", directory);
    file_write(path, result.out);
    buffer_format(&line, "check -c %s", path);
    assert_int_equal(run_line(buffer_text(&line)), 0);
    buffer_fini(&line);
    struct program worker = program_start((const char *const[]){"work", "-c", path, "--allow-root", NULL}, -1);
    up_await(&worker);
    return worker;
}

TEST(the_sample_is_a_configuration_that_works)
{
    nodes_begin();
    struct program worker = work_by_sample();
    assert_int_equal(look().worker, 0); /* that is for workers with --local */
    char *jid = push("echo [\"result\",\"mine\"] -r thing");
    result_expect(jid, "mine");
    end(&worker, SIGTERM);
    free(jid);
}

/* --- again -------------------------------------------------------------------------------------------------------- */

TEST(what_was_pushed_survives_a_stop_and_runs_at_once)
{
    nodes_begin();
    unsigned port = look().nodes[0].port;
    char *jid = push("echo [\"result\",\"later\"] -r thing");
    assert_int_equal(run_line("local stop"), 0);
    assert_int_equal(look().up, 0);
    struct program worker = work_until_up();
    assert_int_equal(look().nodes[0].port, port);
    all_vote_expect();
    result_expect(jid, "later");
    end(&worker, SIGTERM);
    free(jid);
}

TEST(who_gives_up_waiting_is_told_how_to_go_on)
{
    nodes_begin();
    assert_int_equal(run_line("push --local --wait=0s echo"), 75);
    assert_contains(result.error, "the task was pushed; `holdfast result ");
    assert_contains(result.error, " --local --wait` goes on waiting");
}

TEST(two_starts_at_once_share_the_nodes)
{
    struct program first = work(NULL), second = work(NULL);
    up_await(&first);
    up_await(&second);
    assert_int_equal(look().up, LOCAL_NODES);
    all_vote_expect();
    assert_int_equal(run_line("local stop"), EXIT_CODE_FAILURE);
    assert_contains(result.error, "needs these nodes");
    end(&first, SIGTERM);
    assert_int_equal(look().worker, second.pid);
    end(&second, SIGTERM);
}

TEST(nodes_are_started_without_a_worker)
{
    assert_int_equal(run_line("local start --json"), 0);
    assert_contains(result.out, "\"worker\":null,\"nodes\":[{\"name\":\"queue\",\"host\":\"127.0.0.1\",\"port\":");
    all_vote_expect();
    pid_t pid = look().nodes[1].pid;
    server_kill(0);
    assert_int_equal(run_line("local start"), 0);
    assert_contains(result.out, "lock3");
    assert_int_equal(look().up, LOCAL_NODES);
    assert_int_equal(look().nodes[1].pid, pid);
    char *jid = push("echo [\"result\",\"early\"] -r thing");
    struct program worker = work_until_up();
    result_expect(jid, "early");
    end(&worker, SIGTERM);
    free(jid);
}

TEST(a_start_that_fails_says_so)
{
    setenv("REDIS_SERVER", "/nowhere/redis-server", 1);
    int code = run_line("local start");
    unsetenv("REDIS_SERVER");
    assert_int_equal(code, EXIT_CODE_FAILURE);
    assert_contains(result.error, "there is no such program: name another, or unset it");
    assert_string_equal(result.out, "");
}

TEST(a_killed_worker_leaves_nothing_behind_that_is_in_the_way)
{
    struct program worker = work_until_up();
    end(&worker, SIGKILL);
    assert_int_equal(look().worker, 0);
    assert_int_equal(look().up, LOCAL_NODES);
    nodes_begin();
    all_vote_expect();
}

TEST(a_killed_queue_node_is_started_again_with_its_tasks)
{
    nodes_begin();
    char *jid = push("echo [\"result\",\"kept\"]");
    test_await(has_written(0));
    server_kill(0);
    struct program worker = work_until_up();
    result_expect(jid, "kept");
    end(&worker, SIGTERM);
    free(jid);
}

TEST(lock_nodes_of_which_most_are_new_become_a_new_group)
{
    for (unsigned killed = 2; killed <= 3; killed++) {
        nodes_begin();
        for (unsigned i = 1; i <= killed; i++)
            server_kill(i);
        nodes_begin();
        all_vote_expect();
    }
}

/* It waits out its quarantine as any lock node does; the others vote. */
TEST(a_single_lock_node_that_is_new_costs_nothing)
{
    nodes_begin();
    pid_t other = look().nodes[1].pid;
    server_kill(2);
    struct program worker = work_until_up();
    assert_int_equal(look().up, LOCAL_NODES);
    assert_int_equal(look().nodes[1].pid, other);
    char *jid = push("echo [\"result\",\"locked\"] -r thing");
    result_expect(jid, "locked");
    end(&worker, SIGTERM);
    free(jid);
}

TEST(locks_of_a_living_worker_are_not_forgotten_on_its_behalf)
{
    struct program worker = work_until_up();
    for (unsigned i = 1; i <= 3; i++)
        server_kill(i);
    struct program second = work_until_up();
    assert_true(has_said(&second, "most lock nodes have lost their memory"));
    assert_int_not_equal(run_line("nodes --local"), 0);
    end(&second, SIGTERM);
    end(&worker, SIGTERM);
    nodes_begin();
    all_vote_expect();
}

/* Only the queue node knows of it, so its lease is waited out: it may be dead. */
TEST(locks_of_a_worker_with_a_configuration_of_its_own_neither)
{
    nodes_begin();
    struct program worker = work_by_sample();
    for (unsigned i = 1; i <= 3; i++)
        server_kill(i);
    nodes_begin();
    assert_contains(result.error, "waiting for up to 16 s to know\n");
    assert_contains(result.error, "most lock nodes have lost their memory");
    end(&worker, SIGTERM);
    nodes_begin();
    all_vote_expect();
}

/* That it is listed as gone is made up here: a lease would have to pass for it. */
TEST(a_worker_that_was_recovered_is_not_waited_for)
{
    nodes_begin();
    free(server_ask(0, "ZADD hf:2:processes 9999999999 ghost:1:x"));
    free(server_ask(0, "HSET hf:2:process:ghost:1:x gone 1default"));
    server_kill(1);
    server_kill(2);
    nodes_begin();
    assert_lacks(result.error, "most lock nodes have lost their memory");
    all_vote_expect();
}

/* --- what is in the way ------------------------------------------------------------------------------------------- */

TEST(a_port_that_others_have_taken_is_left_to_them)
{
    nodes_begin();
    unsigned port = look().nodes[0].port;
    char *jid = push("echo [\"result\",\"moved\"]");
    assert_int_equal(run_line("local stop"), 0);
    struct redis_server *foreign = redis_server_start(&(struct redis_server_options){.port = port});
    struct program worker = work_until_up();
    char expected[80];
    snprintf(expected, sizeof expected, "port %u was taken by somebody else: queue is at ", port);
    assert_true(has_said(&worker, expected));
    assert_int_not_equal(look().nodes[0].port, port);
    result_expect(jid, "moved");
    end(&worker, SIGTERM);
    char *keys = redis_server_command(foreign, "DBSIZE");
    assert_string_equal(keys, "0");
    free(keys);
    free(jid);
    redis_server_destroy(foreign);
}

/* As when all of them draw the same one. */
TEST(no_two_servers_share_a_port)
{
    char record[128];
    unsigned port = free_port();
    nodes_begin();
    assert_int_equal(run_line("local stop"), 0);
    snprintf(record, sizeof record, "# Local nodes of Holdfast, format 1: ports %u %u %u %u\n", port, port, port, port);
    file_write(conf, record);
    nodes_begin();
    all_vote_expect();
    struct local_nodes_view view = look();
    assert_int_equal(view.nodes[0].port, port);
    for (unsigned i = 1; i < LOCAL_NODES; i++)
        for (unsigned j = 0; j < i; j++)
            assert_int_not_equal(view.nodes[i].port, view.nodes[j].port);
}

static void refused_expect(const char *text)
{
    static const char *const lines[] = {"work --local", "status --local", "local", "local stop", "local wipe --yes"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(run_line(lines[i]), EXIT_CODE_FAILURE);
        assert_contains(result.error, text);
    }
}

TEST(a_directory_that_others_may_write_is_refused)
{
    nodes_begin();
    assert_int_equal(run_line("local stop"), 0);
    assert_int_equal(chmod(directory, 0702), 0);
    refused_expect("others may write it (mode 702)");
    assert_int_equal(chmod(directory, 0700), 0);
    assert_int_equal(look().up, 0);
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(directory, 12345, 12345), 0);
    refused_expect("belongs to user 12345, and so do the local nodes in it; set XDG_STATE_HOME to ");
}

/* `place` is what XDG_STATE_HOME says. */
static void place_refused_expect(const char *place, const char *why)
{
    setenv("XDG_STATE_HOME", place, 1);
    int code = run_line("work --local");
    setenv("XDG_STATE_HOME", state_home, 1);
    assert_int_equal(code, EXIT_CODE_FAILURE);
    assert_contains(result.error, why);
    assert_contains(result.error, "set XDG_STATE_HOME to a directory of your own");
}

TEST(a_place_that_cannot_be_is_refused)
{
    char longer[5000], file[sizeof conf];
    snprintf(longer, sizeof longer, "%s/%04096d", state_home, 0);
    snprintf(file, sizeof file, "%s/file", state_home);
    file_write(file, "");
    place_refused_expect(longer, "this directory cannot be made: File name too long");
    place_refused_expect(file, "this directory cannot be made: Not a directory");
    unlink(file);
}

/* As its specification says. */
TEST(a_relative_place_is_ignored)
{
    char *home = getenv("HOME") != NULL ? strdup(getenv("HOME")) : NULL;
    setenv("HOME", state_home, 1);
    setenv("XDG_STATE_HOME", "relative", 1);
    int code = run_line("local");
    setenv("XDG_STATE_HOME", state_home, 1);
    if (home == NULL || setenv("HOME", home, 1) != 0)
        unsetenv("HOME");
    free(home);
    assert_int_equal(code, EXIT_CODE_TEMPORARY);
    assert_contains(result.out, state_home);
    assert_contains(result.out, "/.local/state/holdfast/local.");
}

enum { NO_SMALL_DISK = 77 };

/* In a mount namespace of its own. Those of a chroot cannot be told apart where its "/" is no mount point. */
static int work_on_a_small_disk(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", state_home, "tmpfs", 0, "size=1m") != 0)
        return NO_SMALL_DISK;
    int code = run_line("work --local");
    return code == EXIT_CODE_FAILURE && access(conf, F_OK) != 0 &&
                   strstr(result.error, "/local: its disk has less than 16 MiB left") != NULL
               ? 0
               : 1;
}

TEST(on_a_disk_without_room_nothing_is_begun)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(work_on_a_small_disk());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SMALL_DISK)
        test_skip("no file system can be mounted here");
    assert_int_equal(status, 0);
}

TEST(a_record_of_a_newer_program_is_left_alone)
{
    nodes_begin();
    assert_int_equal(run_line("local stop"), 0);
    file_write(conf, "# Local nodes of Holdfast, format 2: sockets\n");
    assert_int_equal(run_line("work --local"), EXIT_CODE_FAILURE);
    assert_contains(result.error, "were made by a newer holdfast");
    assert_contains(result.error, "holdfast local wipe");
    assert_int_equal(look().up, 0);
    assert_int_equal(run_line("local wipe --yes"), 0);
    assert_int_equal(access(directory, F_OK), -1);
}

TEST(a_damaged_record_is_written_anew_when_nothing_runs_by_it)
{
    nodes_begin();
    char *jid = push("echo [\"result\",\"whole\"]");
    file_write(conf, "");
    assert_int_equal(run_line("work --local"), EXIT_CODE_FAILURE);
    assert_contains(result.error, "`holdfast local stop`, then start again");
    assert_int_equal(run_line("local stop"), 0);
    struct program worker = work_until_up();
    result_expect(jid, "whole");
    end(&worker, SIGTERM);
    free(jid);
}

/* --- ending ------------------------------------------------------------------------------------------------------- */

TEST(nodes_that_a_worker_needs_are_not_ended_unasked)
{
    struct program worker = work_until_up();
    char expected[64];
    snprintf(expected, sizeof expected, "a worker (process %d) needs these nodes", (int)worker.pid);
    assert_int_equal(run_line("local stop"), EXIT_CODE_FAILURE);
    assert_contains(result.error, expected);
    assert_int_equal(run_line("local wipe"), EXIT_CODE_FAILURE);
    assert_contains(result.error, expected);
    assert_int_equal(look().up, LOCAL_NODES);
    assert_int_equal(run_line("local stop --yes"), 0);
    assert_contains(result.out, "4 servers were ended");
    assert_string_equal(result.error, "");
    assert_int_equal(look().up, 0);
    assert_int_equal(run_line("local wipe --yes"), 0);
    snprintf(expected, sizeof expected, "process %d, a worker, lives on", (int)worker.pid);
    assert_contains(result.error, expected);
    end(&worker, SIGKILL);
}

TEST(a_wipe_removes_all_of_it)
{
    nodes_begin();
    assert_int_equal(run_line("local wipe"), EXIT_CODE_FAILURE);
    assert_contains(result.error, "--yes");
    struct local_node_view node = look().nodes[0];
    kill(node.pid, SIGSTOP);
    assert_int_equal(run_line("local wipe --yes"), 0);
    assert_int_equal(access(directory, F_OK), -1);
    assert_null(node_talk(node.port, NULL, "PING"));
    assert_int_equal(run_line("local wipe --yes"), 0);
}

/* Who waits for the nodes would otherwise end a start whose servers are up, and whose locks are no group yet. */
TEST(nodes_that_are_being_started_are_not_there_yet)
{
    char lock[sizeof conf];
    snprintf(lock, sizeof lock, "%s/lock", directory);
    nodes_begin();
    assert_int_equal(run_line("local"), 0);
    int lives = open(lock, O_RDWR | O_CLOEXEC);
    assert_true(lives >= 0);
    changes_hold(lives, F_WRLCK);
    assert_int_equal(run_line("local"), EXIT_CODE_TEMPORARY);
    assert_contains(result.out, "Somebody is starting or ending them.");
    changes_hold(lives, F_UNLCK);
    assert_int_equal(run_line("local"), 0);
    close(lives);
}

RUN_GROUP(group_set_up, group_tear_down, NULL, tear_down)
