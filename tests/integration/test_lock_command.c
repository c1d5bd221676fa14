/* holdfast lock, over real lock nodes, with real commands. */
#include "tests/support/test.h"

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "tests/support/hostile_server.h"
#include "tests/support/lock_cluster.h"
#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"
#include "tests/support/relay.h"

enum { NODES = 3, WORDS_MAX = 30 };

static struct lock_cluster cluster;
static char directory[PRIVATE_DIRECTORY_MAX];
static struct program_result result;

static void nodes_name(unsigned count)
{
    struct buffer list = {0};
    for (unsigned i = 0; i < count; i++)
        buffer_format(&list, "%s127.0.0.1:%u", i > 0 ? "," : "", cluster.nodes[i].port);
    setenv("HOLDFAST_LOCK_NODES", buffer_text(&list), 1);
    buffer_fini(&list);
}

static int group_set_up(void **state)
{
    (void)state;
    lock_cluster_start(&cluster, NODES);
    return 0;
}

static int group_tear_down(void **state)
{
    (void)state;
    lock_cluster_stop(&cluster);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    private_directory_create(directory);
    nodes_name(NODES);
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[PRIVATE_DIRECTORY_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void directory_remove(void)
{
    static const char *const names[] = {"alive", "up", "held", "started", "kept", "count", "done", "count-go"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(path_of(names[i]));
    assert_int_equal(rmdir(directory), 0);
}

static int tear_down(void **state)
{
    (void)state;
    program_result_free(&result);
    result = (struct program_result){.out = NULL};
    lock_cluster_heal(&cluster);
    directory_remove();
    return 0;
}

/* --- running it --------------------------------------------------------------------------------------------------- */

static struct program start_with(int input, const char *const *words)
{
    const char *arguments[WORDS_MAX + 2] = {"lock"};
    for (int i = 0; i < WORDS_MAX && words[i] != NULL; i++)
        arguments[i + 1] = words[i];
    return program_start(arguments, input);
}

#define WORDS(...)      ((const char *const[WORDS_MAX]){__VA_ARGS__})
#define lock_start(...) start_with(-1, WORDS(__VA_ARGS__))
#define lock_run(...)   run_with(WORDS(__VA_ARGS__))

static int end_await(struct program *program)
{
    program_result_free(&result);
    result = program_wait(program);
    return result.exit_code;
}

static int run_with(const char *const *words)
{
    struct program program = start_with(-1, words);
    return end_await(&program);
}

static bool is_there(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

/* The commands note what they do in files of the directory, which they get as $D. */
static void commands_see_the_directory(void)
{
    setenv("D", directory, 1);
}

static void commands_see_the_program(void)
{
    char program[4200], *build = realpath(test_build(), NULL);
    snprintf(program, sizeof program, "%s/holdfast", build);
    free(build);
    setenv("H", program, 1);
    commands_see_the_directory();
}

/* --- the command -------------------------------------------------------------------------------------------------- */

TEST(the_command_has_the_lock_its_token_and_its_exit_status)
{
    assert_int_equal(
        lock_run("a", "b", "--", "sh", "-c", "echo \"$HOLDFAST_RESOURCE\"; echo fence $HOLDFAST_FENCE; exit 7"), 7);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "a\nb\nfence %s\n", lock_cluster_fence(&cluster, 0, "a"));
    assert_string_equal(result.out, wanted);
    assert_string_equal(result.error, "");
    assert_int_equal(lock_cluster_holders(&cluster, "a"), 0);
    assert_int_equal(lock_run("a", "--", "sh", "-c", "kill -TERM $$"), 128 + SIGTERM);
    assert_int_equal(lock_run("a", "--shell", "--", "echo \"$1-$HOLDFAST_RESOURCE\"", "x y"), 0);
    assert_string_equal(result.out, "x y-a\n");
}

TEST(json_says_what_happened)
{
    assert_int_equal(lock_run("a", "--json", "-n", "somebody", "--", "true"), 0);
    assert_string_equal(result.out, "");
    assert_contains(result.error, "{\"event\":\"held\",\"resources\":[\"a\"],\"fence\":\"");
    assert_contains(result.error, "\"ending\":\"released\"");
    assert_contains(result.error, "\"exit_status\":0}\n");
}

struct bad_line {
    const char *says;
    int exit_code;
    const char *words[WORDS_MAX];
};

static char long_name[4098];

TEST(what_is_wrong_is_said_and_nothing_is_started)
{
    memset(long_name, 'x', sizeof long_name - 1);
    unsigned grants = lock_cluster_calls(&cluster, "zadd");
    static const struct bad_line lines[] = {
        {"1 to 512 bytes", 2, {"", "--", "touch"}},
        {"1 to 512 bytes", 2, {long_name, "--", "touch"}},
        {"is one line", 2, {"a\nb", "--", "touch"}},
        {"begins with hf:", 2, {"hf:lock:group", "--", "touch"}},
        {"17 resources",
         2,
         {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "--", "touch"}},
        {"name what to lock", 2, {"--", "touch"}},
        {"behind --", 2, {"a"}},
        {"behind --", 2, {"a", "--"}},
        {"--hold runs no command", 2, {"a", "--hold", "--", "touch"}},
        {"--ttl wants a time from 500ms to 1m, not", 2, {"a", "--ttl", "0", "--", "touch"}},
        {"--ttl wants a time from 500ms to 1m, not", 2, {"a", "--ttl", "1ms", "--", "touch"}},
        {"--ttl wants a time from 500ms to 1m, not", 2, {"a", "--ttl", "61s", "--", "touch"}},
        {"max_ttl", 2, {"a", "--at-least", "90s", "--", "touch"}},
        {"--limit is for one resource", 2, {"a", "b", "--limit", "2", "--", "touch"}},
        {"--limit or --shared", 2, {"a", "--limit", "2", "--shared", "--", "touch"}},
        {"has its own terms", 2, {"a", "--same-as-holder", "7", "--ttl", "5s", "--", "touch"}},
        {"--limit", 2, {"a", "--limit", "65", "--", "touch"}},
        {"not both", 2, {"a", "--wait", "1s", "--no-wait", "--", "touch"}},
        {"whole number", 2, {"a", "--same-as-holder", "x", "--", "touch"}},
        {"nowhere: it has no port: HOST:PORT", 2, {"a", "--node", "nowhere", "--", "touch"}},
        {"named twice", 2, {"a", "--node", "h:1", "--node", "h:1", "--node", "h:2", "--", "touch"}},
        {"not also from other", 2, {"a", "-c", "x", "--node", "h:1", "--", "touch"}},
        {"go with --node", 2, {"a", "-c", "x", "--tls", "--", "touch"}},
        {"no such command", 127, {"a", "--", "no-such-command"}},
        {"no such command", 127, {"a", "--", ""}},
        {"Permission denied", 126, {"a", "--", "/etc/passwd"}},
        {"directory", 126, {"a", "--", "/etc"}},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(run_with(lines[i].words), lines[i].exit_code);
        assert_contains(result.error, lines[i].says);
        assert_int_equal(lock_cluster_calls(&cluster, "zadd"), grants);
    }
    nodes_name(2);
    assert_int_equal(lock_run("a", "--", "true"), 1);
    assert_contains(result.error, "odd");
}

/* Unless somebody names a ttl, which is then refused. */
TEST(the_ttl_is_at_most_the_longest_of_the_group)
{
    struct lock_cluster other = cluster;
    lock_cluster_start_group(&cluster, NODES, 2000);
    nodes_name(NODES);
    assert_int_equal(lock_run("a", "--", "true"), 0);
    assert_int_equal(lock_run("--ttl", "3s", "a", "--", "true"), 2);
    assert_contains(result.error, "max_ttl");
    lock_cluster_stop(&cluster);
    cluster = other;
}

TEST(one_node_will_do_where_it_has_to)
{
    char node[64];
    struct redis_server *server = redis_server_start(&(struct redis_server_options){.password = NULL});
    snprintf(node, sizeof node, "127.0.0.1:%u", redis_server_port(server));
    assert_int_equal(lock_run("a", "--node", node, "--", "echo", "here"), 0);
    assert_string_equal(result.out, "here\n");
    redis_server_destroy(server);
}

TEST(another_waits_in_line_or_not)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct program first = start_with(ends[0], WORDS("a", "--", "sh", "-c", "touch $D/held; cat"));
    commands_see_the_directory();
    test_await(lock_cluster_holders(&cluster, "a") == NODES);
    assert_int_equal(lock_run("a", "--no-wait", "--", "true"), 75);
    assert_contains(result.error, "held by");
    assert_int_equal(lock_run("a", "--wait", "50ms", "--", "true"), 75);
    struct program second = lock_start("a", "--", "echo", "then");
    close(ends[1]);
    assert_int_equal(end_await(&first), 0);
    assert_int_equal(end_await(&second), 0);
    assert_string_equal(result.out, "then\n");
}

/* --- its end with the lock ---------------------------------------------------------------------------------------- */

/* Each process of the tree has the file locked for as long as it lives: no two trees may ever have it at once. */
static const char a_tree_that_will_not_die[] =
    "exec 9>$D/alive; flock -s 9; trap '' TERM INT HUP USR1; "
    "(setsid sh -c 'trap \"\" TERM HUP; setsid sleep 1000 & exec 0<&- 1>&- 2>&-; sleep 1000' & ) ; "
    "sleep 1000 0<&- 1>&- 2>&- & touch $D/up; while :; do sleep 1000; done";
static const char nothing_of_it_lives[] = "exec 9>$D/alive; flock -n -x 9";

enum { TREE_TTL_MS = 4000 };

static struct program given_a_tree(const char *const *options)
{
    const char *words[WORDS_MAX] = {"a", "--ttl", "4s"};
    int count = 3;
    for (; *options != NULL; options++)
        words[count++] = *options;
    words[count++] = "--";
    words[count++] = "sh";
    words[count++] = "-c";
    words[count] = a_tree_that_will_not_die;
    commands_see_the_directory();
    struct program program = start_with(-1, words);
    test_await(is_there("up"));
    return program;
}

static pid_t zygote_of(const struct program *program)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)program->pid, (int)program->pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(read(file, text, sizeof text - 1) > 0);
    close(file);
    return (pid_t)strtol(text, NULL, 10);
}

/* Until its alarm, as the kernel tells of its timerfd; 0: there is none. */
static int64_t alarm_left_ns(pid_t pid)
{
    char path[64], line[128];
    long long s = 0, ns = 0;
    for (int fd = 0; fd < 64 && s == 0 && ns == 0; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)pid, fd);
        FILE *file = fopen(path, "re");
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            (void)sscanf(line, "it_value: (%lld, %lld)", &s, &ns);
        if (file != NULL)
            fclose(file);
    }
    return s * NS_PER_S + ns;
}

/* By the wall clock, which the servers of this machine share: what passes between two looks makes no difference. */
static int64_t lock_end_ms(unsigned node)
{
    return strtoll(lock_cluster_ask(&cluster, node,
                                    "EVAL \"local t = redis.call('TIME') "
                                    "return t[1] * 1000 + math.floor(t[2] / 1000) + redis.call('PTTL', 'a')\" 0"),
                   NULL, 10);
}

/* Also if the clocks of the nodes are faster by one percent. What passes before the alarm's time is taken only makes it
 * seem later. */
static bool dies_before_the_lock_ends(pid_t zygote)
{
    unsigned later = 0;
    int64_t left_ns = alarm_left_ns(zygote);
    int64_t dies_ms = wall_now().us / 1000 + left_ns / NS_PER_MS;
    for (unsigned i = 0; i < NODES; i++)
        later += lock_end_ms(i) - TREE_TTL_MS / 100 > dies_ms;
    return left_ns > 0 && later > NODES / 2;
}

/* While it is stopped, both ends are settled. They are compared, and then the lock is kept for longer: who is first
 * would depend on how busy this machine is. A slow node may not have granted yet. */
TEST(all_die_before_the_next_has_the_lock_when_it_is_stopped)
{
    unsigned kept = 0;
    struct program first = given_a_tree(WORDS(NULL));
    kill(first.pid, SIGSTOP);
    test_await(dies_before_the_lock_ends(zygote_of(&first)));
    for (unsigned i = 0; i < NODES; i++)
        kept += lock_cluster_ask(&cluster, i, "PEXPIRE a %d", 2 * TREE_TTL_MS)[0] == '1';
    assert_true(kept > NODES / 2);
    assert_int_equal(lock_run("a", "--", "sh", "-c", nothing_of_it_lives), 0);
    kill(first.pid, SIGCONT);
    assert_int_equal(end_await(&first), 76);
    assert_contains(result.error, "the lock was lost");
}

TEST(all_die_at_once_when_it_is_killed_and_the_lock_stays_for_its_ttl)
{
    struct program first = given_a_tree(WORDS(NULL));
    kill(first.pid, SIGKILL);
    assert_int_equal(end_await(&first), -1);
    test_await(lock_run("b", "--", "sh", "-c", nothing_of_it_lives) == 0);
    assert_int_equal(lock_run("a", "--", "sh", "-c", nothing_of_it_lives), 0);
}

TEST(all_die_when_the_lock_is_taken_away_or_held_for_too_long)
{
    struct program first = given_a_tree(WORDS(NULL));
    lock_cluster_take_away(&cluster, "a");
    assert_int_equal(end_await(&first), 76);
    assert_int_equal(lock_run("b", "--", "sh", "-c", nothing_of_it_lives), 0);
    unlink(path_of("up"));
    first = given_a_tree(WORDS("--max-hold", "1s"));
    assert_int_equal(end_await(&first), 76);
    assert_int_equal(lock_run("a", "--", "sh", "-c", nothing_of_it_lives), 0);
}

/* What the command has started would live on: here it has started nothing. */
TEST(without_its_zygote_the_command_dies_and_the_lock_stays_for_its_ttl)
{
    commands_see_the_directory();
    struct program program =
        lock_start("a", "--ttl", "6s", "--", "sh", "-c", "exec 9>$D/alive; flock -s 9; touch $D/up; exec sleep 1000");
    test_await(is_there("up"));
    kill(zygote_of(&program), SIGKILL);
    assert_int_equal(end_await(&program), 76);
    assert_contains(result.error, "cannot be guarded");
    assert_int_equal(lock_run("a", "--no-wait", "--", "true"), 75);
    assert_int_equal(lock_run("a", "--", "sh", "-c", nothing_of_it_lives), 0);
}

TEST(what_the_command_leaves_behind_is_killed)
{
    commands_see_the_directory();
    assert_int_equal(
        lock_run("a", "--", "sh", "-c", "exec 9>$D/alive; flock -s 9; setsid sleep 1000 >&- 2>&- & exit 4"), 4);
    assert_int_equal(lock_run("a", "--", "sh", "-c", nothing_of_it_lives), 0);
}

/* The danger begins a third of the ttl before the end: the shell has four seconds to begin, and as many to answer. It
 * runs its trap only when no command in the foreground is in the way. */
TEST(danger_and_the_end_can_be_read_and_are_signalled_when_asked_for)
{
    commands_see_the_directory();
    assert_int_equal(lock_run("a", "--ttl", "12s", "--max-hold", "8s", "--signal-danger", "--", "bash", "-c",
                              "trap 'echo signal' USR1; sleep 1000 & read -u $HOLDFAST_DEADLINE_FD word; echo $word; "
                              "while :; do wait; done"),
                     76);
    assert_contains(result.out, "signal\n");
    assert_contains(result.out, "danger\n");
}

/* On a majority: a node that answers too late may have let go of it. */
TEST(a_lock_kept_at_least_so_long_stays_behind)
{
    unsigned kept = 0;
    assert_int_equal(lock_run("a", "--at-least", "40s", "--", "true"), 0);
    assert_int_equal(lock_run("a", "--no-wait", "--", "true"), 75);
    for (unsigned i = 0; i < NODES; i++) {
        long left_ms = strtol(lock_cluster_ask(&cluster, i, "PTTL a"), NULL, 10);
        kept += left_ms > 0;
        assert_true(left_ms <= 40000);
    }
    assert_in_range(kept, NODES / 2 + 1, NODES);
}

/* --- as without it ------------------------------------------------------------------------------------------------ */

TEST(input_open_files_and_ignored_signals_are_the_commands)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "typed\n", 6), 6);
    close(ends[1]);
    commands_see_the_directory();
    const char *words[] = {
        "lock", "a", "--", "bash", "-c", "cat; echo kept >&17; sed -n 's/^SigIgn:\\t//p' /proc/self/status", NULL};
    signal(SIGHUP, SIG_IGN);
    int file = open(path_of("kept"), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(dup2(file, 17), 17);
    struct program program = program_start(words, ends[0]);
    close(file);
    close(17);
    signal(SIGHUP, SIG_DFL);
    assert_int_equal(end_await(&program), 0);
    assert_contains(result.out, "typed\n");
    assert_int_equal(strtoul(result.out + strlen("typed\n"), NULL, 16) & 1, 1);
    struct stat facts;
    assert_int_equal(stat(path_of("kept"), &facts), 0);
    assert_int_equal(facts.st_size, strlen("kept\n"));
}

/* Whatever numbers the files of the command have, its deadline has another one. */
TEST(no_open_file_is_in_the_way_of_the_deadline)
{
    char program[4096];
    snprintf(program, sizeof program, "%s/holdfast", test_build());
    assert_int_equal(
        lock_run("a", "--", "bash", "-c",
                 "for n in {4..20}; do eval \"$0 lock b -- bash -c '[ -p /dev/fd/\\$HOLDFAST_DEADLINE_FD ] "
                 "&& [ -c /dev/fd/$n ] && echo both' $n</dev/null\"; done | uniq -c",
                 program),
        0);
    assert_contains(result.out, " 17 both\n");
}

/* With any limit it works, or says why not, and starts nothing without the lock. */
TEST(few_descriptors_are_no_harm)
{
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    for (rlim_t limit = 6; limit < 40; limit += 2) {
        struct rlimit few = {limit, before.rlim_max};
        setrlimit(RLIMIT_NOFILE, &few);
        const char *words[] = {"lock", "a", "--", "true", NULL};
        pid_t pid = fork();
        if (pid == 0) {
            char program[4096];
            for (int i = 3; i < 64; i++)
                close(i);
            snprintf(program, sizeof program, "%s/holdfast", test_build());
            execl(program, program, words[0], words[1], words[2], words[3], NULL);
            _exit(99);
        }
        setrlimit(RLIMIT_NOFILE, &before);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 126);
        assert_true(limit < 32 || WEXITSTATUS(status) == 0);
    }
}

/* --- under the lock of another ------------------------------------------------------------------------------------ */

TEST(a_command_may_enter_the_lock_that_it_runs_under)
{
    char inner[4400];
    snprintf(
        inner, sizeof inner,
        "H=%s/holdfast; $H lock a --same-as-holder $HOLDFAST_FENCE -- sh -c 'echo in $HOLDFAST_FENCE'; "
        "$H lock a --same-as-holder 17 -- true; echo $?; $H lock c --same-as-holder $HOLDFAST_FENCE -- true; echo $?",
        test_build());
    assert_int_equal(lock_run("a", "b", "--", "sh", "-c", inner), 0);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "in %s\n76\n76\n", lock_cluster_fence(&cluster, 0, "b"));
    assert_string_equal(result.out, wanted);
    assert_contains(result.error, "a is not held with the token 17");
}

/* --- several holders ---------------------------------------------------------------------------------------------- */

/* The third of two does not wait; what runs in the second goes on under its seat. */
TEST(as_many_commands_run_as_the_limit_says)
{
    char inner[1024];
    snprintf(inner, sizeof inner,
             "H=%s/holdfast; echo $HOLDFAST_SEAT; $H lock a --limit 2 -- sh -c \"echo \\$HOLDFAST_SEAT; "
             "$H lock a --limit 2 --no-wait -- true; echo \\$?; "
             "$H lock a --same-as-holder \\$HOLDFAST_FENCE -- echo in; $H lock a --no-wait -- true; echo \\$?\"",
             test_build());
    assert_int_equal(lock_run("a", "--limit", "2", "--", "sh", "-c", inner), 0);
    bool is_first = result.out[0] == '1';
    assert_string_equal(result.out, is_first ? "1\n2\n75\nin\n75\n" : "2\n1\n75\nin\n75\n");
    assert_int_equal(lock_cluster_holders(&cluster, "a") + lock_cluster_holders(&cluster, "hf:seat:2:a"), 0);
    assert_int_equal(lock_run("a", "--limit", "2", "--json", "--", "true"), 0);
    assert_contains(result.error, "\"seat\":");
    assert_int_equal(lock_run("a", "--", "sh", "-c", "echo \"<$HOLDFAST_SEAT>\""), 0);
    assert_string_equal(result.out, "<>\n");
}

/* --- readers ------------------------------------------------------------------------------------------------------ */

TEST(commands_that_read_share_a_lock)
{
    char inner[512];
    snprintf(inner, sizeof inner,
             "H=%s/holdfast; $H lock a --shared --no-wait -- echo in; $H lock a --no-wait -- true; echo $?",
             test_build());
    assert_int_equal(lock_run("a", "--shared", "--", "sh", "-c", inner), 0);
    assert_string_equal(result.out, "in\n75\n");
    assert_int_equal(lock_run("a", "--", "sh", "-c", inner), 0);
    assert_string_equal(result.out, "75\n");
    assert_int_equal(lock_run("a", "--shared", "--json", "--", "true"), 0);
    assert_contains(result.error, "\"shared\":true");
    test_await(lock_cluster_keys(&cluster) == 0);
}

/* Its token is that of the last writer. */
TEST(a_command_that_reads_lets_none_in_that_writes)
{
    char inner[512];
    snprintf(inner, sizeof inner,
             "H=\"%s/holdfast lock a --same-as-holder $HOLDFAST_FENCE\"; $H -- echo writes; echo $?; "
             "$H --shared -- echo reads",
             test_build());
    assert_int_equal(lock_run("a", "--", "sh", "-c", inner), 0);
    assert_string_equal(result.out, "writes\n0\nreads\n");
    assert_int_equal(lock_run("a", "--shared", "--", "sh", "-c", inner), 0);
    assert_string_equal(result.out, "76\nreads\n");
    assert_contains(result.error, "except for reading: say --shared");
}

/* --- nodes that cannot be used ------------------------------------------------------------------------------------ */

/* A server that does not answer in time, because this machine is busy, is asked again. */
static void assert_unusable(const char *scheme, unsigned port, const char *why)
{
    static const char late[] = "the handshake took longer than ";
    char node[96];
    snprintf(node, sizeof node, "%s127.0.0.1:%u", scheme, port);
    test_await((lock_run("--node", node, "--no-wait", "a", "--", "true"), strstr(result.error, late) == NULL));
    assert_int_equal(result.exit_code, 75);
    assert_contains(result.error, why);
    assert_lacks(result.error, "secret");
}

static bool has_told(const struct program *program, const char *what)
{
    char *text = program_error_text(program);
    bool is_there = strstr(text, what) != NULL;
    free(text);
    return is_there;
}

TEST(why_a_node_cannot_be_used_is_told)
{
    struct redis_server *server = redis_server_start(&(struct redis_server_options){.password = "secret"});
    struct hostile_server *other = hostile_server_start(HOSTILE_SAYS);
    unsigned port = redis_server_port(server);
    hostile_server_say(other, "HTTP/1.1 400 Bad Request\r\n\r\n");
    free(redis_server_command(server, "ACL SETUSER me on >secret ~* &* +client"));
    assert_unusable("", port, "refused CLIENT SETNAME: NOAUTH Authentication required.");
    assert_unusable("redis://:secrets@", port, "refused AUTH (WRONGPASS); check user and password");
    assert_unusable("redis://me:secret@", port, "NOPERM");
    assert_unusable("rediss://:secret@", port,
                    "the handshake of TLS took longer than 1000 ms; does the server speak TLS?");
    assert_unusable("", hostile_server_port(other), "sent an unacceptable reply");
    assert_unusable("", free_port(), "Connection refused");
    assert_int_equal(lock_run("--node", "redis://me@h", "a", "--", "true"), 1);
    assert_contains(result.error, "lock node 1: a user needs a password");

    /* While it waits, too. */
    char node[64];
    snprintf(node, sizeof node, "127.0.0.1:%u", port);
    struct program waiting = lock_start("--node", node, "a", "--", "true");
    test_await(has_told(&waiting, "too few, so it waits for more (127.0.0.1:"));
    free(redis_server_command(server, "CONFIG SET requirepass ''"));
    free(redis_server_command(server, "ACL SETUSER default nopass"));
    assert_int_equal(end_await(&waiting), 0);
    assert_contains(result.error, "NOAUTH");
    hostile_server_destroy(other);
    redis_server_destroy(server);
}

/* --- as a coprocess ----------------------------------------------------------------------------------------------- */

TEST(a_coprocess_holds_until_its_input_ends)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct program program = start_with(ends[0], WORDS("a", "--hold", "--ttl", "19s"));
    test_await(lock_cluster_holders(&cluster, "a") == NODES);
    assert_int_equal(write(ends[1], "\n", 1), 1);
    close(ends[1]);
    assert_int_equal(end_await(&program), 0);
    const char *first = strstr(result.out, "{\"event\":\"held\",\"resources\":[\"a\"],\"fence\":\"");
    assert_ptr_equal(first, result.out);
    assert_non_null(strstr(first + 1, "{\"event\":\"held\""));
    assert_contains(result.out, "\"remaining_ms\":1");
    assert_contains(result.out, "{\"event\":\"released\"");
    assert_int_equal(lock_cluster_holders(&cluster, "a"), 0);
}

TEST(a_coprocess_says_when_the_lock_is_lost)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct program program = start_with(ends[0], WORDS("a", "--hold", "--ttl", "9s", "--max-hold", "5s"));
    assert_int_equal(end_await(&program), 76);
    assert_contains(result.out, "{\"event\":\"danger\"");
    assert_contains(result.out, "{\"event\":\"lost\"");
    close(ends[1]);
    assert_int_equal(lock_run("a", "--hold"), 0); /* its input is at its end */
    assert_contains(result.out, "{\"event\":\"released\"");
}

TEST(a_coprocess_that_nobody_can_hear_fails_and_holds_nothing)
{
    int ends[2], full = open("/dev/full", O_RDWR | O_CLOEXEC);
    assert_true(full >= 0 && pipe2(ends, O_CLOEXEC) == 0);
    struct program program = program_start_to(WORDS("lock", "a", "--hold"), ends[0], full);
    assert_int_equal(end_await(&program), 1);
    assert_contains(result.error, "nobody knows that the lock is held");
    assert_int_equal(lock_cluster_holders(&cluster, "a"), 0);
    close(ends[1]);
}

/* They are far more than its output has room for. */
TEST(a_coprocess_drops_answers_that_nobody_reads_and_goes_on)
{
    enum { LINES = 1000 };
    int input[2], output[2], unread = 1;
    struct buffer all = {0};
    assert_true(pipe2(input, O_CLOEXEC) == 0 && pipe2(output, O_CLOEXEC) == 0);
    assert_true(fcntl(output[1], F_SETPIPE_SZ, 4096) > 0);
    struct program program = program_start_to(WORDS("lock", "a", "--hold"), input[0], output[1]);
    assert_true(dup2(program.error, program.out) >= 0); /* so that the pipe ends with the program */
    test_await(lock_cluster_holders(&cluster, "a") == NODES);
    for (int i = 0; i < LINES; i++)
        assert_int_equal(write(input[1], "\n", 1), 1);
    test_await(ioctl(input[1], FIONREAD, &unread) == 0 && unread == 0);
    close(input[1]);
    while (strstr(buffer_text(&all), "\"released\"") == NULL) {
        char *into = buffer_reserve(&all, 4096);
        ssize_t length = read(output[0], into, 4096);
        assert_true(length > 0);
        all.length += (size_t)length;
    }
    assert_in_range(all.length, 200, 20000);
    buffer_fini(&all);
    assert_int_equal(end_await(&program), 0);
    close(output[0]);
}

TEST(a_coprocess_without_its_caller_waits_no_longer)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    lock_cluster_ask(&cluster, 0, "SET a x PX 50000");
    lock_cluster_ask(&cluster, 1, "SET a x PX 50000");
    struct program program = start_with(ends[0], WORDS("a", "--hold"));
    assert_int_equal(write(ends[1], "\n", 1), 1);
    close(ends[1]);
    assert_int_equal(end_await(&program), 75);
    assert_contains(result.error, "standard input ended");
}

/* --- many at once ------------------------------------------------------------------------------------------------- */

enum { HOSTS = 2, SHELLS = 10, TIMES = 1000, LANGUAGES = 5, TIMES_EACH = 40 };

static pid_t shell_start(const char *script)
{
    pid_t shell = fork();
    if (shell == 0) {
        execlp("sh", "sh", "-c", script, NULL);
        _exit(99);
    }
    assert_true(shell > 0);
    return shell;
}

static int shell_await(pid_t shell)
{
    int status;
    assert_int_equal(waitpid(shell, &status, 0), shell);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int shell_run(const char *script)
{
    return shell_await(shell_start(script));
}

/* A line for each increment: its number is one more than that of the last line when it began. So two at once, or a late
 * one, leave a number twice. */
static const char increments[] =
    "until [ -e $D/done ]; do $H lock counter --ttl 2s -- sh -c 'n=$(wc -l <$D/count); "
    "if [ $n -ge $T ]; then touch $D/done; else echo $((n + 1)) $HOLDFAST_FENCE >>$D/count; fi'; done";
static const char increments_late[] =
    "n=$(wc -l <$D/count); echo up >$D/up; while :; do sleep 0.2; done; echo $((n + 1)) $HOLDFAST_FENCE >>$D/count";

static long counted(void)
{
    long lines = 0;
    FILE *file = fopen(path_of("count"), "re");
    assert_non_null(file);
    for (int byte; (byte = fgetc(file)) != EOF;)
        lines += byte == '\n';
    fclose(file);
    return lines;
}

/* A network namespace with nothing but a loopback device. All that can be seen there of the lock nodes are relays,
 * which listen inside and connect outside. Where a namespace is refused, all have one network. */
struct host {
    int network;
    struct relay *relays[NODES];
};

static struct host hosts[HOSTS];
static int home = -1;
static pid_t shells[SHELLS];
static struct program stopped;

static int network_here(void)
{
    int network = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    assert_true(network >= 0);
    return network;
}

/* For what this thread opens and starts from now on. Whoever may not has never left. */
static void network_enter(int network)
{
    assert_true(setns(network, CLONE_NEWNET) == 0 || errno == EPERM);
}

static void assert_no_lock_node_here(void)
{
    char node[64];
    snprintf(node, sizeof node, "127.0.0.1:%u", cluster.nodes[0].port);
    assert_int_equal(lock_run("--node", node, "--no-wait", "counter", "--", "true"), 75);
    assert_contains(result.error, "Connection refused");
}

static void network_create(void)
{
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (unshare(CLONE_NEWNET) != 0) {
        print_message("the hosts have one network: another is refused here (%s)\n", strerror(errno));
        return;
    }
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(ioctl(any, SIOCSIFFLAGS, &up), 0);
    close(any);
    assert_no_lock_node_here();
}

static void host_start(struct host *host)
{
    int listeners[NODES];
    network_create();
    host->network = network_here();
    for (unsigned i = 0; i < NODES; i++)
        listeners[i] = relay_listen();
    network_enter(home);
    for (unsigned i = 0; i < NODES; i++)
        host->relays[i] = relay_start_on(listeners[i], cluster.nodes[i].port);
}

static void host_enter(const struct host *host)
{
    char nodes[256];
    snprintf(nodes, sizeof nodes, "127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", relay_port(host->relays[0]),
             relay_port(host->relays[1]), relay_port(host->relays[2]));
    setenv("HOLDFAST_LOCK_NODES", nodes, 1);
    network_enter(host->network);
}

static unsigned shells_await(void)
{
    unsigned failed = 0;
    for (unsigned i = 0; i < SHELLS; i++) {
        pid_t shell = shells[i];
        shells[i] = 0;
        if (shell > 0 && shell_await(shell) != 0)
            failed++;
    }
    return failed;
}

/* After a failed test, too, nothing goes on: the shells see that all is done. */
static int hosts_end(void **state)
{
    network_enter(home);
    if (stopped.pid > 0)
        kill(stopped.pid, SIGKILL);
    close(open(path_of("done"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    (void)shells_await();
    for (struct host *host = hosts; host < hosts + HOSTS; host++) {
        for (unsigned i = 0; i < NODES; i++)
            relay_destroy(host->relays[i]);
        if (host->relays[0] != NULL)
            close(host->network);
    }
    close(home);
    return tear_down(state);
}

static struct program given_one_in_the_middle(const struct host *host)
{
    unlink(path_of("up"));
    host_enter(host);
    struct program victim = lock_start("counter", "--ttl", "2s", "--", "sh", "-c", increments_late);
    network_enter(home);
    test_await(is_there("up"));
    return victim;
}

static void assert_counted_exactly(void)
{
    long number, wanted = 0;
    long long fence, last = 0;
    FILE *file = fopen(path_of("count"), "re");
    assert_non_null(file);
    while (fscanf(file, "%ld %lld\n", &number, &fence) == 2) {
        assert_int_equal(number, ++wanted);
        assert_true(fence > last);
        last = fence;
    }
    assert_true(feof(file));
    assert_int_equal(wanted, TIMES);
    fclose(file);
}

TEST_WITH(ten_shells_on_two_hosts_count_exactly_whatever_happens_to_holders_and_a_node, set_up, hosts_end)
{
    char times[16];
    commands_see_the_program();
    snprintf(times, sizeof times, "%d", TIMES);
    setenv("T", times, 1);
    close(open(path_of("count"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    home = network_here();
    for (unsigned i = 0; i < HOSTS; i++)
        host_start(&hosts[i]);
    for (unsigned i = 0; i < SHELLS; i++) {
        host_enter(&hosts[i % HOSTS]);
        shells[i] = shell_start(increments);
        network_enter(home);
    }
    stopped = given_one_in_the_middle(&hosts[0]);
    kill(stopped.pid, SIGSTOP);
    long before = counted();
    test_await(counted() > before + TIMES / 10);
    redis_server_kill(cluster.servers[NODES - 1]);
    struct program killed = given_one_in_the_middle(&hosts[1]);
    kill(killed.pid, SIGKILL);
    assert_int_equal(end_await(&killed), -1);
    assert_int_equal(shells_await(), 0);
    kill(stopped.pid, SIGCONT);
    assert_int_equal(end_await(&stopped), 76);
    stopped.pid = 0;
    assert_counted_exactly();
}

struct language {
    const char *name, *needs, *runs;
};

static const struct language languages[LANGUAGES] = {
    {"bash", "bash -c :", "bash tests/coprocess/count.sh"},
    {"Python", "python3 -c 'import json, subprocess'", "python3 tests/coprocess/count.py"},
    {"Ruby", "ruby -e 'require \"json\"'", "ruby tests/coprocess/count.rb"},
    {"Node.js", "node -e 0", "node tests/coprocess/count.js"},
    {"Go", "GOCACHE=$D/cache GOFLAGS=-mod=mod go build -o $D/count-go tests/coprocess/count.go && rm -rf $D/cache",
     "$D/count-go"},
};

TEST(coprocesses_of_five_languages_count_exactly)
{
    pid_t counters[LANGUAGES];
    unsigned count = 0;
    char line[256], text[32] = "";
    commands_see_the_program();
    assert_int_equal(shell_run("echo 0 >$D/count"), 0);
    for (unsigned i = 0; i < LANGUAGES; i++) {
        snprintf(line, sizeof line, "{ %s; } >$D/held 2>&1", languages[i].needs);
        if (shell_run(line) != 0) {
            printf("skipped: %s is not installed\n", languages[i].name);
            continue;
        }
        snprintf(line, sizeof line, "exec %s $H $D/count %d", languages[i].runs, TIMES_EACH);
        counters[count++] = shell_start(line);
    }
    test_await(lock_cluster_calls(&cluster, "evalsha") > 0);
    redis_server_kill(cluster.servers[NODES - 1]);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(shell_await(counters[i]), 0);
    FILE *file = fopen(path_of("count"), "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_int_equal(strtol(text, NULL, 10), count * TIMES_EACH);
}

RUN_GROUP(group_set_up, group_tear_down, set_up, tear_down)
