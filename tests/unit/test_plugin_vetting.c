/* What a constructor can do to whoever loads its library, it does to a child of ours, and never to us. This program is
 * that child as well: see tests/main.c. */
#include "tests/support/test.h"

#include <sys/stat.h>

#include "tests/support/private_directory.h"
#include "worker/plugin/plugin.h"
#include "worker/plugin/plugin_vetting.h"

enum { FILES_MAX = 12 };

static char directory[PRIVATE_DIRECTORY_MAX];
static char paths[FILES_MAX][PRIVATE_DIRECTORY_MAX + 64];
static unsigned path_count;
static struct findings findings;

static void enter(void)
{
    private_directory_create(directory);
    path_count = 0;
    findings = (struct findings){.count = 0};
}

static void leave(void)
{
    findings_fini(&findings);
    for (unsigned i = 0; i < path_count; i++)
        unlink(paths[i]);
    assert_int_equal(rmdir(directory), 0);
}

/* Copies the test plugin into the directory, under a name of its own. */
static void put(const char *plugin, const char *name)
{
    char from[600], *path = paths[path_count++];
    snprintf(from, sizeof from, "%s/tests/plugins/%s.so", test_build(), plugin);
    snprintf(path, sizeof paths[0], "%s/%s.so", directory, name);
    private_file_copy(from, path);
}

static struct plugins *load(void)
{
    return plugins_load_vetted(directory, NULL, 0, &findings);
}

/* The one plugin in the directory is refused, and this is all that is said. */
static void assert_refused(const char *reason)
{
    struct plugins *plugins = load();
    char expected[1024];
    snprintf(expected, sizeof expected, "%s: %s", paths[0], reason);
    assert_int_equal(plugins_count(plugins), 0);
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.items[0].text, expected);
    plugins_close(plugins);
}

TEST(a_good_plugin_is_loaded)
{
    put("good", "good");
    put("wild", "tame");
    struct plugins *plugins = load();
    assert_int_equal(findings.count, 0);
    assert_int_equal(plugins_count(plugins), 2);
    assert_non_null(plugins_find(plugins, "wild"));
    plugins_close(plugins);
}

TEST(a_constructor_that_crashes_is_refused)
{
    put("wild", "crash");
    assert_refused("its constructor crashed: killed by signal 11 (Segmentation fault)");
}

TEST(the_last_words_of_a_constructor_are_told)
{
    put("wild", "abort");
    assert_refused("its constructor crashed: killed by signal 6 (Aborted); it said: \"its last words\"");
}

TEST(a_constructor_that_ends_the_process_is_refused)
{
    put("wild", "exit");
    assert_refused("its constructor did not return: the process ended with status 3");
}

TEST(a_constructor_that_hangs_is_refused)
{
    put("wild", "hang");
    assert_refused("did not load within 20 s: a constructor of it hangs");
}

TEST(a_list_without_end_is_refused)
{
    put("wild", "endless");
    struct plugins *plugins = load();
    assert_int_equal(plugins_count(plugins), 0);
    assert_int_equal(findings.count, 1);
    assert_contains(findings.items[0].text, "/endless.so: its descriptor crashes who reads it: ");
    assert_contains(findings.items[0].text, "does the list of handlers end with NULL?");
    plugins_close(plugins);
}

/* More than a pipe holds. */
TEST(what_a_constructor_prints_is_swallowed)
{
    put("wild", "noise");
    struct vetted_file file = {.fd = open(paths[0], O_PATH | O_CLOEXEC), .path = paths[0]};
    plugin_vetting_run(&file, 1, &findings);
    assert_int_equal(findings.count, 0);
    assert_false(file.is_refused);
    close(file.fd);
}

static bool is_running(const char *path)
{
    char command[600];
    snprintf(command, sizeof command, "grep -qs '%s' /proc/[0-9]*/maps", path);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status) == 0;
}

TEST(what_a_constructor_starts_ends_with_the_vetting)
{
    put("wild", "fork");
    struct vetted_file file = {.fd = open(paths[0], O_PATH | O_CLOEXEC), .path = paths[0]};
    assert_true(file.fd >= 0);
    struct instant before = instant_now();
    plugin_vetting_run(&file, 1, &findings);
    assert_int_equal(findings.count, 0);
    assert_false(file.is_refused);
    assert_true(instant_since(before, instant_now()) < TEST_PATIENCE_NS);
    test_await(!is_running(paths[0]));
    close(file.fd);
}

TEST(behind_a_crash_the_vetting_goes_on)
{
    static const char *const names[] = {"a", "crash", "exit", "fine", "abort", "good"};
    put("no_handlers", names[0]);
    put("wild", names[1]);
    put("wild", names[2]);
    put("modes", names[3]);
    put("wild", names[4]);
    put("good", names[5]);
    struct plugins *plugins = load();
    assert_int_equal(findings.errors, 4);
    assert_non_null(findings_find(&findings, "/a.so: has no handler"));
    assert_non_null(findings_find(&findings, "/crash.so: its constructor crashed: killed by signal 11"));
    assert_non_null(findings_find(&findings, "/exit.so: its constructor did not return"));
    assert_non_null(findings_find(&findings, "/abort.so: its constructor crashed: killed by signal 6"));
    assert_int_equal(plugins_count(plugins), 2);
    assert_string_equal(plugins_at(plugins, 0)->descriptor.name, "modes");
    assert_string_equal(plugins_at(plugins, 1)->descriptor.name, "good");
    plugins_close(plugins);
}

/* A file that is replaced after it was opened: what was vetted is what is loaded. */
TEST(the_descriptor_is_vetted_and_not_the_name)
{
    put("wild", "tame");
    int fd = open(paths[0], O_PATH | O_CLOEXEC);
    unlink(paths[0]);
    path_count = 0;
    put("no_symbol", "tame");
    struct vetted_file files[] = {{.fd = fd, .path = paths[0]},
                                  {.fd = open(paths[0], O_PATH | O_CLOEXEC), .path = paths[0]}};
    plugin_vetting_run(files, 2, &findings);
    assert_false(files[0].is_refused);
    assert_true(files[1].is_refused);
    assert_int_equal(findings.errors, 1);
    assert_contains(findings.items[0].text, "does not export the symbol holdfast_plugin");
    close(files[0].fd);
    close(files[1].fd);
}

/* All signals are blocked in the thread that reloads. */
TEST(the_child_has_its_signals)
{
    sigset_t all, before;
    sigfillset(&all);
    assert_int_equal(sigprocmask(SIG_SETMASK, &all, &before), 0);
    put("wild", "abort");
    struct plugins *plugins = load();
    sigprocmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(findings.errors, 1);
    assert_contains(findings.items[0].text, "killed by signal 6 (Aborted)");
    plugins_close(plugins);
}

RUN_TESTS_BETWEEN(enter, leave)
