/* Which configuration a command finds by itself, and what it says of it.
 *
 * The tests run twice, in two children: as a user without privileges, and as root. Each child has namespaces of its own
 * in which it is that user, /etc is empty, no server listens on 127.0.0.1:6379, and the program's parent is process 1,
 * as a shell in a container is. Where the kernel does not grant them, the tests of a child are skipped. */
#include "tests/support/test.h"

#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"
#include "tests/support/redis_server.h"

#define ETC  "/etc/holdfast/holdfast.conf"
#define HERE "./holdfast.conf"

#define WHY_FOUND ", found because no -c FILE names another\n"
#define NOT_READ  HERE " was not read: root and services name it with -c\n"

enum { PATH_SIZE = PRIVATE_DIRECTORY_MAX + 64, USER = 1000 };

static char directory[PRIVATE_DIRECTORY_MAX], build[PATH_MAX];
static char named[PATH_SIZE], xdg[PATH_SIZE], home[PATH_SIZE];
static struct program_result result;
static char why_skipped[128]; /* the tests of this child; or "" */

/* --- the namespaces ----------------------------------------------------------------------------------------------- */

static bool file_put(const char *path, const char *bytes, size_t length)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool done = file >= 0 && write(file, bytes, length) == (ssize_t)length;
    if (file >= 0)
        close(file);
    return done;
}

static bool id_map(const char *path, unsigned inside, unsigned outside)
{
    char map[64];
    int length = snprintf(map, sizeof map, "%u %u 1\n", inside, outside);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool done = file >= 0 && write(file, map, (size_t)length) == length;
    if (file >= 0)
        close(file);
    return done;
}

/* The dynamic linker needs the list of the libraries. */
static bool etc_empty(void)
{
    struct buffer cache = {0};
    int file = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 1; file >= 0 && got > 0;) {
        got = read(file, buffer_reserve(&cache, 65536), 65536);
        cache.length += got > 0 ? (size_t)got : 0;
    }
    if (file >= 0)
        close(file);
    bool done = mount("tmpfs", "/etc", "tmpfs", 0, NULL) == 0 && mkdir("/etc/holdfast", 0755) == 0 &&
                chmod("/etc", 0755) == 0 && file_put("/etc/ld.so.cache", buffer_text(&cache), cache.length);
    buffer_fini(&cache);
    return done;
}

static bool loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool done = any >= 0 && ioctl(any, SIOCSIFFLAGS, &request) == 0;
    if (any >= 0)
        close(any);
    return done;
}

/* Rights of the namespace are lost by exec when the user is not 0. */
static bool namespaces_enter(unsigned user)
{
    unsigned user_outside = geteuid(), group_outside = getegid();
    return unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID) == 0 &&
           file_put("/proc/self/setgroups", "deny", 4) && id_map("/proc/self/uid_map", user, user_outside) &&
           id_map("/proc/self/gid_map", user, group_outside) && etc_empty() && loopback_up();
}

/* --- the fixture -------------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    private_directory_create(directory);
    assert_int_equal(chdir(directory), 0);
    snprintf(named, sizeof named, "%s/named.conf", directory);
    snprintf(xdg, sizeof xdg, "%s/xdg/holdfast/holdfast.conf", directory);
    snprintf(home, sizeof home, "%s/.config/holdfast/holdfast.conf", directory);
    const char *const directories[] = {"xdg", "xdg/holdfast", ".config", ".config/holdfast"};
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++)
        assert_int_equal(mkdir(directories[i], 0755), 0);
    setenv("HOLDFAST_BUILD", build, 1);
    setenv("HOME", directory, 1);
    unsetenv("HOLDFAST_CONFIG");
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("SYSTEMD_EXEC_PID");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    program_result_free(&result);
    result = (struct program_result){0};
    chmod(directory, 0700);
    chmod("xdg/holdfast", 0700);
    const char *const all[] = {
        ETC, named, HERE, xdg, home, "holdfast", "xdg/holdfast", "xdg", ".config/holdfast", ".config", directory};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (remove(all[i]) != 0 && errno != ENOENT)
            fail_msg("%s: %s", all[i], strerror(errno));
    return chdir("/");
}

static void given_file(const char *path, const char *text)
{
    assert_true(file_put(path, text, strlen(text)));
    assert_int_equal(chmod(path, 0644), 0); /* whatever the umask says */
}

/* The host tells the files apart. */
static void given(const char *path, const char *host)
{
    char text[64];
    snprintf(text, sizeof text, "queue_node = { host = \"%s\"; port = 1; };\n", host);
    given_file(path, text);
}

static void given_all(void)
{
    given(named, "host-named");
    given(HERE, "host-here");
    given(xdg, "host-xdg");
    given(home, "host-home");
    given(ETC, "host-etc");
    setenv("HOLDFAST_CONFIG", named, 1);
    char above[PATH_SIZE];
    snprintf(above, sizeof above, "%s/xdg", directory);
    setenv("XDG_CONFIG_HOME", above, 1);
}

/* The program then runs as systemd starts it: under the number in the environment. */
static void given_service(const char *number)
{
    struct buffer text = {0};
    buffer_format(&text, "#!/bin/sh\nSYSTEMD_EXEC_PID=%s exec %s/holdfast \"$@\"\n", number, build);
    given_file("holdfast", buffer_text(&text));
    buffer_fini(&text);
    assert_int_equal(chmod("holdfast", 0755), 0);
    setenv("HOLDFAST_BUILD", directory, 1);
}

static int run(const char *line)
{
    program_result_free(&result);
    result = program_run(line);
    return result.exit_code;
}

static const char *why_of(const char *path)
{
    return strcmp(path, named) == 0 ? ", named by $HOLDFAST_CONFIG\n" : WHY_FOUND;
}

static void assert_told(const char *line, const char *path, const char *why, const char *host)
{
    struct buffer told = {0};
    assert_int_equal(run(line), 0);
    buffer_format(&told, "holdfast config: the configuration is %s%s", path, why);
    assert_string_equal(result.error, buffer_text(&told));
    assert_contains(result.out, host);
    buffer_fini(&told);
}

static void assert_found(const char *path, const char *host)
{
    assert_told("config -v", path, why_of(path), host);
}

/* Also without -v. */
static void assert_passed_over(const char *path, const char *host)
{
    assert_told("config", path, ", found because no -c FILE names another; " NOT_READ, host);
}

/* By every kind of command, and no other file is taken instead. */
static void assert_ends(const char *path, const char *why)
{
    static const char *const lines[] = {"config", "status", "check", "nodes", "work --allow-root"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct buffer begin = {0};
        assert_int_not_equal(run(lines[i]), 0);
        buffer_format(&begin, "error: %s", path);
        assert_int_equal(strncmp(result.error, buffer_text(&begin), begin.length), 0);
        assert_contains(result.error, why);
        assert_contains(result.error, why_of(path));
        assert_lacks(result.error, "host-");
        assert_lacks(result.out, "host-");
        buffer_fini(&begin);
    }
}

/* --- as anybody --------------------------------------------------------------------------------------------------- */

static void places_are_tried_in_their_order(void **state)
{
    (void)state;
    given_all();
    assert_found(named, "\"host-named\"");
    unsetenv("HOLDFAST_CONFIG");
    if (geteuid() != 0)
        assert_found(HERE, "\"host-here\"");
    unlink(HERE);
    assert_found(xdg, "\"host-xdg\"");
    unsetenv("XDG_CONFIG_HOME");
    assert_found(home, "\"host-home\"");
    unlink(home);
    assert_found(ETC, "\"host-etc\"");
    unlink(ETC);
    assert_int_equal(run("config"), 2);
    assert_contains(result.error, "holdfast config: there is no configuration: neither -c FILE nor $HOLDFAST_CONFIG");
}

static void a_file_that_is_named_is_not_looked_for(void **state)
{
    (void)state;
    given_all();
    char line[PATH_SIZE + 32], said[PATH_SIZE + 64];
    snprintf(line, sizeof line, "config -v -c %s", xdg);
    snprintf(said, sizeof said, "holdfast config: the configuration is %s\n", xdg);
    assert_int_equal(run(line), 0);
    assert_string_equal(result.error, said);
    assert_contains(result.out, "\"host-xdg\"");
    assert_int_equal(run("config"), 0);
    assert_string_equal(result.error, "");
}

static void the_named_file_has_to_be_there(void **state)
{
    (void)state;
    given_all();
    unlink(named);
    assert_ends(named, "cannot be opened: No such file or directory");
}

static void what_others_may_write_is_refused(void **state)
{
    (void)state;
    given_all();
    assert_int_equal(chmod(named, 0666), 0);
    assert_ends(named, "others may write it (mode 666)");
    unsetenv("HOLDFAST_CONFIG");
    unlink(HERE);
    assert_int_equal(chmod("xdg/holdfast", 0777), 0);
    assert_ends("", "/xdg/holdfast: others may write it (mode 777), and it holds what must not be replaced");
}

static void a_mistake_ends_the_search(void **state)
{
    (void)state;
    given_all();
    unsetenv("HOLDFAST_CONFIG");
    unlink(HERE);
    given_file(xdg, "queue_node = { hots = \"x\"; };\n");
    assert_ends(xdg, "queue_node.hots: there is no such key");
    unlink(xdg);
    assert_int_equal(mkdir(xdg, 0755), 0);
    assert_ends(xdg, "is not a regular file");
    assert_int_equal(rmdir(xdg), 0);
    assert_int_equal(symlink("nowhere", xdg), 0);
    assert_ends(xdg, "cannot be opened: No such file or directory");
}

/* The file which was found, after what failed; the user knows the one that was named. */
static void errors_tell_the_file(void **state)
{
    static const char tail[] = "holdfast status: the configuration is " ETC WHY_FOUND;
    (void)state;
    given(ETC, "127.0.0.1");
    assert_int_not_equal(run("status"), 0);
    assert_contains(result.error, "holdfast status: the node 127.0.0.1:1 cannot be reached");
    const char *told = strstr(result.error, tail);
    assert_non_null(told);
    assert_string_equal(told, tail);
    assert_int_not_equal(run("status -v"), 0);
    assert_int_equal(strncmp(result.error, tail, strlen(tail)), 0);
    assert_null(strstr(result.error + 1, tail));
    assert_int_not_equal(run("status -c " ETC), 0);
    assert_lacks(result.error, "the configuration is");
}

/* Nodes that are changed by mistake are lost, so the file is told before the first of them is asked. */
static void what_changes_nodes_tells_the_file_first(void **state)
{
    static const char told[] =
        "holdfast nodes: the configuration is " ETC WHY_FOUND "holdfast nodes: a: cannot be asked: ";
    (void)state;
    given_file(ETC, "queue_node = { host = \"127.0.0.1\"; port = 1; };\n"
                    "lock_nodes = ( { name = \"a\"; host = \"127.0.0.1\"; port = 2; },"
                    "{ name = \"b\"; host = \"127.0.0.1\"; port = 3; },"
                    "{ name = \"c\"; host = \"127.0.0.1\"; port = 4; } );\n");
    assert_int_not_equal(run("nodes init"), 0);
    assert_int_equal(strncmp(result.error, told, strlen(told)), 0);
    assert_int_not_equal(run("nodes init -v"), 0);
    assert_int_equal(strncmp(result.error, told, strlen(told)), 0);
    assert_int_not_equal(run("nodes init -c " ETC), 0);
    assert_lacks(result.error, "the configuration is");
}

/* Also when it then asks, or finds nothing to do. */
static void what_cannot_be_undone_tells_the_file_first(void **state)
{
    static const char *const lines[] = {"cancel 0123456789abcdef01234567",
                                        "tasks delete 0123456789abcdef01234567",
                                        "tasks bury --all --state retry --yes",
                                        "queues delete mail",
                                        "queues delete mail --yes",
                                        "stop nowhere",
                                        "unlock --force thing"};
    (void)state;
    struct redis_server *server = redis_server_start(&(struct redis_server_options){.port = 7000});
    given_file(ETC, "queue_node = { host = \"127.0.0.1\"; port = 7000; };\n"
                    "lock_nodes = ( { host = \"127.0.0.1\"; port = 7000; } );\n");
    assert_int_equal(run("push -p 7000 --queue mail echo"), 0);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct buffer told = {0};
        buffer_format(&told, "holdfast %.*s: the configuration is " ETC WHY_FOUND, (int)strcspn(lines[i], " "),
                      lines[i]);
        (void)run(lines[i]);
        assert_int_equal(strncmp(result.error, buffer_text(&told), told.length), 0);
        assert_lacks(result.error + told.length, "the configuration is");
        buffer_fini(&told);
    }
    redis_server_destroy(server);
}

static void with_nothing_found_queues_are_at_the_default_node(void **state)
{
    (void)state;
    assert_int_not_equal(run("status"), 0);
    assert_contains(result.error, "the node 127.0.0.1:6379 cannot be reached");
    assert_contains(result.error, "holdfast status: no configuration was found; the queue node is 127.0.0.1:6379\n");
    struct redis_server *server = redis_server_start(&(struct redis_server_options){.port = 6379});
    int code = run("status --json");
    redis_server_destroy(server);
    assert_int_equal(code, 0);
    assert_string_equal(result.error,
                        "holdfast status: no configuration was found; the queue node is 127.0.0.1:6379\n");
    assert_int_equal(run("status -v -p 1"), 75);
    assert_contains(result.error, "the options name the queue node; no configuration was looked for");
    char line[160];
    snprintf(line, sizeof line, "status --socket /%0108d", 0);
    assert_int_equal(run(line), 2);
    assert_contains(result.error, "--socket: the path has 109 bytes, at most 107 are possible");
}

/* What changes something where nobody looks is not noticed, so it needs to be told where. */
static const char *const changes_of_queues[] = {"push echo",
                                                "push echo -",
                                                "push echo --wait",
                                                "cancel 0123456789abcdef01234567",
                                                "tasks delete 0123456789abcdef01234567",
                                                "tasks retry --all --state dead",
                                                "queues delete mail --yes",
                                                "pause mail",
                                                "resume mail",
                                                "quiet --all",
                                                "stop --all"};
static const char *const changes_of_locks[] = {"lock thing -- true", "unlock thing",      "unlock --force thing",
                                               "nodes init",         "nodes heal --wait", "nodes replace a b:1"};
enum {
    CHANGES_OF_QUEUES = sizeof changes_of_queues / sizeof changes_of_queues[0],
    CHANGES_OF_LOCKS = sizeof changes_of_locks / sizeof changes_of_locks[0]
};

static void a_change_takes_no_default_node(void **state)
{
    (void)state;
    struct redis_server *server = redis_server_start(&(struct redis_server_options){.port = 6379});
    for (size_t i = 0; i < CHANGES_OF_QUEUES; i++) {
        if (run(changes_of_queues[i]) != 2)
            fail_msg("%s ends with %d: %s", changes_of_queues[i], result.exit_code, result.error);
        assert_contains(result.error, ": there is no configuration: neither -c FILE nor $HOLDFAST_CONFIG names one");
        assert_contains(result.error, "; --host NAME names the queue node too\n");
    }
    assert_int_equal(run("push echo --dry-run"), 0);
    assert_string_equal(result.error, "");
    assert_int_equal(run("queues --json"), 0);
    assert_contains(result.out, "\"queues\":[]");
    assert_int_equal(run("push --host 127.0.0.1 echo"), 0);
    redis_server_destroy(server);
}

static void with_nothing_found_the_rest_says_what_is_missing(void **state)
{
    static const char *const lines[] = {"work --allow-root", "check",       "nodes", "config", "who r",
                                        "plugins",           "plugins list"};
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(run(lines[i]), 2);
        assert_contains(result.error, ": there is no configuration: neither -c FILE nor $HOLDFAST_CONFIG names one");
        assert_contains(result.error, "`holdfast work --local` starts nodes of its own");
        assert_true((strstr(result.error, "(root and services do not look for it)") != NULL) == (geteuid() == 0));
    }
    assert_int_equal(run("lock r -- true"), 2);
    assert_contains(result.error, "; neither --node nor $HOLDFAST_LOCK_NODES names lock nodes");
}

/* --- as a user ---------------------------------------------------------------------------------------------------- */

static void what_cannot_be_read_ends_the_search(void **state)
{
    (void)state;
    given_all();
    assert_int_equal(chmod(named, 0), 0);
    assert_ends(named, "cannot be opened: Permission denied");
    unsetenv("HOLDFAST_CONFIG");
    assert_int_equal(chmod(HERE, 0), 0);
    assert_ends(HERE, "cannot be opened: Permission denied");
    unlink(HERE);
    assert_int_equal(chmod("xdg/holdfast", 0), 0);
    assert_ends(xdg, "cannot be opened: Permission denied");
}

static void the_working_directory_has_to_be_safe(void **state)
{
    (void)state;
    given_all();
    unsetenv("HOLDFAST_CONFIG");
    assert_int_equal(chmod(HERE, 0646), 0);
    assert_ends(HERE, "others may write it (mode 646)");
    assert_int_equal(chmod(HERE, 0644), 0);
    assert_int_equal(chmod(directory, 0707), 0);
    assert_ends("", ".: others may write it (mode 707), and it holds what must not be replaced; chmod go-w .");
    assert_int_equal(chmod(HERE, 0664) | chmod(directory, 0775), 0); /* as a umask of 002 makes them */
    assert_found(HERE, "\"host-here\"");
}

static void services_skip_the_working_directory(void **state)
{
    (void)state;
    given_all();
    unsetenv("HOLDFAST_CONFIG");
    given_service("$$");
    assert_passed_over(xdg, "\"host-xdg\"");
    assert_int_equal(run("push echo"), 2);
    assert_contains(result.error, "holdfast push: " HERE " was not read, because root and services do not");
    unlink(xdg);
    unlink(home);
    unlink(ETC);
    unsetenv("XDG_CONFIG_HOME");
    assert_int_equal(run("work"), 2);
    assert_contains(result.error, "holdfast work: " HERE " was not read, because root and services do not");
    assert_contains(result.error, "nothing is done without it: give -c " HERE "\n");
    assert_int_equal(run("run-handler echo"), 2);
    assert_contains(result.error, "nothing is done without it: give -c " HERE "\n");
    unlink(HERE);
    assert_int_equal(run("work"), 2);
    assert_contains(result.error, "./holdfast.conf (root and services do not look for it)");
    given(HERE, "host-here");
    given_service("1"); /* somebody above is the service */
    assert_found(HERE, "\"host-here\"");
}

/* --- as root ------------------------------------------------------------------------------------------------------ */

/* Not even to refuse it. */
static void root_skips_the_working_directory(void **state)
{
    (void)state;
    given_all();
    unsetenv("HOLDFAST_CONFIG");
    assert_int_equal(chmod(HERE, 0666), 0);
    assert_passed_over(xdg, "\"host-xdg\"");
}

/* Whoever stands beside a file means it: nothing is changed elsewhere. What is only read says where. */
static void root_changes_nothing_where_a_file_is_passed_over(void **state)
{
    (void)state;
    struct redis_server *server = redis_server_start(&(struct redis_server_options){.port = 6379});
    given(HERE, "host-here");
    for (size_t i = 0; i < CHANGES_OF_QUEUES + CHANGES_OF_LOCKS; i++) {
        const char *line = i < CHANGES_OF_QUEUES ? changes_of_queues[i] : changes_of_locks[i - CHANGES_OF_QUEUES];
        if (run(line) != 2)
            fail_msg("%s ends with %d: %s", line, result.exit_code, result.error);
        assert_contains(result.error, HERE " was not read, because root and services do not read what others may have "
                                           "put there, and nothing is done without it: give -c " HERE ", or --");
    }
    assert_int_equal(run("queues --json"), 0);
    assert_contains(result.out, "\"queues\":[]");
    assert_string_equal(result.error,
                        "holdfast queues: no configuration was found; the queue node is 127.0.0.1:6379; " NOT_READ);
    given_file(ETC, "queue_node = { host = \"127.0.0.1\"; port = 6379; };\n"
                    "lock_nodes = ( { host = \"127.0.0.1\"; port = 6379; } );\n");
    for (size_t i = 0; i < CHANGES_OF_QUEUES + CHANGES_OF_LOCKS; i++) {
        const char *line = i < CHANGES_OF_QUEUES ? changes_of_queues[i] : changes_of_locks[i - CHANGES_OF_QUEUES];
        assert_int_equal(run(line), 2);
        assert_contains(result.error, ": give -c " HERE ", or -c " ETC ", or --");
    }
    assert_int_equal(run("status"), 0);
    assert_string_equal(result.error, "holdfast status: the configuration is " ETC
                                      ", found because no -c FILE names another; " NOT_READ);
    assert_int_equal(run("push -c " ETC " echo"), 0);
    assert_int_equal(unlink(HERE) | symlink(ETC, HERE), 0); /* the same file */
    assert_int_equal(run("push echo"), 0);
    redis_server_destroy(server);
}

#undef TEST
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
#define TESTS_OF_BOTH                                                                                                  \
    TEST(places_are_tried_in_their_order), TEST(a_file_that_is_named_is_not_looked_for),                               \
        TEST(the_named_file_has_to_be_there), TEST(what_others_may_write_is_refused), TEST(a_mistake_ends_the_search), \
        TEST(errors_tell_the_file), TEST(what_changes_nodes_tells_the_file_first),                                     \
        TEST(what_cannot_be_undone_tells_the_file_first), TEST(with_nothing_found_queues_are_at_the_default_node),     \
        TEST(a_change_takes_no_default_node), TEST(with_nothing_found_the_rest_says_what_is_missing)

static void left_out(void **state)
{
    (void)state;
    test_skip("%s", why_skipped);
}

static int tests_run(const char *name, struct CMUnitTest *tests, size_t count)
{
    for (size_t i = 0; i < count && why_skipped[0] != '\0'; i++)
        tests[i] = (struct CMUnitTest){.name = tests[i].name, .test_func = left_out};
    return group_run(name, tests, count, NULL, NULL);
}

static int as_user(void)
{
    struct CMUnitTest tests[] = {
        TESTS_OF_BOTH,
        TEST(what_cannot_be_read_ends_the_search),
        TEST(the_working_directory_has_to_be_safe),
        TEST(services_skip_the_working_directory),
    };
    return tests_run("as a user", tests, sizeof tests / sizeof tests[0]);
}

static int as_root(void)
{
    struct CMUnitTest tests[] = {
        TESTS_OF_BOTH,
        TEST(root_skips_the_working_directory),
        TEST(root_changes_nothing_where_a_file_is_passed_over),
    };
    return tests_run("as root", tests, sizeof tests / sizeof tests[0]);
}

static int exit_code_of(pid_t child)
{
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int run_as(unsigned user, int (*tests)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return exit_code_of(child);
    if (!namespaces_enter(user))
        snprintf(why_skipped, sizeof why_skipped, "no namespaces as user %u: %s", user, strerror(errno));
    child = fork();
    if (child != 0)
        _exit(exit_code_of(child)); /* LeakSanitizer would look for it in the /proc of its child */
    if (why_skipped[0] == '\0' && mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        snprintf(why_skipped, sizeof why_skipped, "no /proc as user %u: %s", user, strerror(errno));
    exit(tests()); /* process 1 of its namespace */
}

int main(void)
{
    if (realpath(test_build(), build) == NULL)
        return 1;
    int failed = run_as(USER, as_user);
    return run_as(0, as_root) + failed;
}
