/* holdfast plugins, and what the configuration has to say about where classes run. No server is needed. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"

enum { FILES_MAX = 16, PATH_SIZE = PRIVATE_DIRECTORY_MAX + 32 };

static char directory[PRIVATE_DIRECTORY_MAX];
static char files[FILES_MAX][PATH_SIZE];
static unsigned file_count;
static struct program_result result;

static int enter(void **state)
{
    (void)state;
    private_directory_create(directory);
    file_count = 0;
    result = (struct program_result){.out = NULL};
    return 0;
}

static int leave(void **state)
{
    (void)state;
    program_result_free(&result);
    while (file_count > 0)
        remove(files[--file_count]);
    return rmdir(directory);
}

static const char *file_write(const char *name, const char *text, mode_t mode)
{
    char *path = files[file_count++];
    snprintf(path, PATH_SIZE, "%s/%s", directory, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static void directory_make(const char *name)
{
    char *path = files[file_count++];
    snprintf(path, PATH_SIZE, "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

/* Of the build tree. */
static const char *file_copy(const char *built, const char *name, mode_t mode)
{
    char from[600], *path = files[file_count++];
    snprintf(from, sizeof from, "%s/%s", test_build(), built);
    snprintf(path, PATH_SIZE, "%s/%s", directory, name);
    private_file_copy(from, path);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static const char *plugin_put(const char *plugin, const char *name)
{
    char built[80];
    snprintf(built, sizeof built, "tests/plugins/%s.so", plugin);
    return file_copy(built, name, 0644);
}

static void holdfast(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void holdfast(const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    program_result_free(&result);
    result = program_run(line);
}

/* A configuration with these classes, the plugins of the directory, and no lock node. */
static const char *config_write(const char *classes)
{
    char text[4096];
    snprintf(text, sizeof text,
             "worker = { threads = 1; queues = [\"q\"]; jobs_directory = \"%s\"; };\n"
             "queue_node = { host = \"127.0.0.1\"; port = 1; };\nclasses = (%s);\n",
             directory, classes);
    return file_write("t.conf", text, 0600);
}

#define UNLOCKED "{ class = \"shows.anywhere\"; lock = \"none\"; }"

/* --- list ------------------------------------------------------------------------------------------------------- */

TEST(everything_that_runs_tasks_is_listed)
{
    char classes[2048];
    plugin_put("shows", "shows.so");
    const char *program = file_write("run.sh", "#!/bin/sh\n", 0755);
    snprintf(classes, sizeof classes,
             UNLOCKED
             ", { class = \"shows.inside\"; lock = \"none\"; isolation = \"process\"; timeout = \"2m\"; },"
             " { class = \"shows.outside\"; lock = \"none\"; },"
             " { class = \"resize\"; program = [\"%s\", \"--fast\"]; lock = \"none\"; resource = \"image:{0}\"; }",
             program);
    const char *config = config_write(classes);
    holdfast("plugins list -c %s", config);
    assert_string_equal(result.error, "");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "shows   0.9      b17    ");
    assert_contains(result.out, "/shows.so  1.1\n");
    assert_contains(result.out, "shows.anywhere  shows      process");
    assert_contains(result.out, "shows.inside    shows      process  none  -               2m");
    assert_contains(result.out, "shows.outside   shows      process  none  thing:{0}    1.5 s  never inside");
    assert_contains(result.out, "resize          (program)  exec     none  image:{0}        -  runs ");
    holdfast("plugins -c %s --json", config);
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "\"name\":\"shows\",\"version\":\"0.9\",\"build\":\"b17\",\"file\":\"");
    assert_contains(result.out, "{\"class\":\"shows.inside\",\"isolation\":\"process\",\"mode\":\"none\",\"resources\":"
                                "\"\",\"timeout_ms\":120000,\"about\":null}");
    assert_contains(result.out, "/run.sh\",\"--fast\"],\"where\":\"");
    holdfast("check -c %s --no-nodes", config);
    assert_contains(result.out, " shows.anywhere (process) shows.inside (process)");
    assert_contains(result.out, "/run.sh: resize\n");
}

TEST(what_is_wrong_with_a_configuration_is_told_with_the_list)
{
    plugin_put("good", "good.so");
    holdfast("plugins list -c %s", config_write("{ class = \"good.first\"; lock = \"wrong\"; }"));
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "lock");
    assert_contains(result.out, "good.first");
}

/* --- where plugins are ------------------------------------------------------------------------------------------ */

#define NODES "queue_node = { host = \"127.0.0.1\"; port = 1; }; lock_nodes = ({ host = \"127.0.0.1\"; port = 1; });"

/* A directory for one's own plugins that is not there, or that `make install` has made, is in nobody's way. */
TEST(an_installation_needs_no_plugin_of_ones_own)
{
    static const char *const directories[] = {"bin", "lib", "lib/holdfast", "lib/holdfast/examples"};
    char bin[PATH_SIZE], *build = strdup(test_build());
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++)
        directory_make(directories[i]);
    file_copy("holdfast", "bin/holdfast", 0755);
    file_copy("jobs/echo.so", "lib/holdfast/examples/echo.so", 0644);
    const char *named = file_write("named.conf", NODES "worker = { jobs = [\"echo\"]; };", 0600);
    const char *program =
        file_write("program.conf", NODES "classes = ({ class = \"a\"; program = \"/bin/true\"; });", 0600);
    const char *nothing = file_write("nothing.conf", NODES, 0600);
    snprintf(bin, sizeof bin, "%s/bin", directory);
    setenv("HOLDFAST_BUILD", bin, 1);
    for (int has_directory = 0; has_directory < 2; has_directory++) {
        if (has_directory)
            directory_make("lib/holdfast/jobs");
        holdfast("check --no-nodes -c %s", named);
        assert_string_equal(result.error, "");
        holdfast("check --no-nodes -c %s", program);
        assert_string_equal(result.error, "");
        holdfast("check --no-nodes -c %s", nothing);
        assert_contains(result.error, "nothing.conf: this worker has nothing to run: name plugins in worker.jobs, or");
    }
    setenv("HOLDFAST_BUILD", build, 1);
    plugin_put("good", "lib/holdfast/jobs/good.so");
    setenv("HOLDFAST_BUILD", bin, 1);
    holdfast("plugins -c %s", nothing);
    setenv("HOLDFAST_BUILD", build, 1);
    free(build);
    assert_contains(result.out, "good.first");
}

/* --- where classes run ------------------------------------------------------------------------------------------ */

TEST(a_handler_that_must_not_run_inside_does_not)
{
    plugin_put("shows", "shows.so");
    const char *config =
        config_write(UNLOCKED ", { class = \"shows.inside\"; lock = \"none\"; },\n"
                              "{ class = \"shows.outside\"; lock = \"none\"; isolation = \"thread\"; }");
    holdfast("check -c %s --no-nodes", config);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "t.conf:4: isolation = \"thread\": the handler of shows.outside (");
    assert_contains(result.error, "/shows.so) says that it must never run inside the worker");
}

TEST(limits_of_processes_are_of_no_use_in_a_thread)
{
    plugin_put("shows", "shows.so");
    const char *config =
        config_write(UNLOCKED ", { class = \"shows.inside\"; lock = \"none\"; memory_limit = \"1GiB\"; },\n"
                              "{ class = \"shows.outside\"; lock = \"none\"; memory_limit = \"1GiB\"; }");
    holdfast("check -c %s --no-nodes", config);
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error, "t.conf:3: memory_limit has no effect: the class shows.inside runs in a thread");
    assert_lacks(result.error, "shows.outside");
}

/* --- programs --------------------------------------------------------------------------------------------------- */

static void assert_program_refused(const char *program, const char *reason)
{
    char classes[1024];
    snprintf(classes, sizeof classes,
             "{ class = \"good.first\"; lock = \"none\"; }, { class = \"another\"; lock = \"none\"; },\n"
             "{ class = \"p\"; lock = \"none\"; program = \"%s\"; }",
             program);
    const char *config = config_write(classes);
    holdfast("check -c %s --no-nodes", config);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "t.conf:4: program: ");
    assert_contains(result.error, reason);
    unlink(files[--file_count]);
}

TEST(a_program_that_others_could_change_is_refused)
{
    plugin_put("good", "good.so");
    assert_program_refused(
        file_write("open.sh", "#!/bin/sh\n", 0757),
        "/open.sh: others may write it (mode 757), and it runs with the worker's rights; chmod go-w /");
    assert_program_refused(file_write("plain.sh", "#!/bin/sh\n", 0644), "/plain.sh cannot be executed (mode 644)");
    assert_program_refused(directory, "is no regular file");
    assert_program_refused("/nowhere/at/all", "/nowhere/at/all: No such file or directory");
    char place[PATH_SIZE];
    snprintf(place, sizeof place, "%s/open", directory);
    assert_int_equal(mkdir(place, 0700) | chmod(place, 0707), 0);
    const char *good = file_write("open/good.sh", "#!/bin/sh\n", 0755);
    assert_program_refused(good, "/open: others may write it (mode 707), and it holds what must not be replaced");
    assert_int_equal(unlink(good) | rmdir(place), 0);
    if (geteuid() != 0)
        return;
    const char *other = file_write("other.sh", "#!/bin/sh\n", 0755);
    assert_int_equal(chown(other, 12345, 0), 0);
    assert_program_refused(other, "/other.sh: belongs to user 12345; it runs with the worker's rights");
}

/* As a umask of 002 makes it. */
TEST(a_program_that_its_group_may_change_is_the_affair_of_a_private_group)
{
    char classes[1024];
    const char *program = file_write("group.sh", "#!/bin/sh\n", 0775);
    plugin_put("good", "good.so");
    if (geteuid() == 0 || geteuid() != getegid()) {
        assert_program_refused(program, "/group.sh: its group may write it (mode 775), and it runs with the worker's "
                                        "rights; chmod go-w /");
        return;
    }
    snprintf(classes, sizeof classes,
             "{ class = \"good.first\"; lock = \"none\"; }, { class = \"another\"; lock = \"none\"; },\n"
             "{ class = \"p\"; lock = \"none\"; program = \"%s\"; }",
             program);
    holdfast("check -c %s --no-nodes", config_write(classes));
    assert_int_equal(result.exit_code, 0);
}

TEST(a_command_of_on_event_that_others_could_change_is_refused)
{
    char classes[1024];
    plugin_put("good", "good.so");
    snprintf(classes, sizeof classes,
             "{ class = \"good.first\"; lock = \"none\"; }, { class = \"another\"; lock = \"none\"; });\n"
             "on_event = { command = [\"%s\", \"loud\"]; }; periodic = (",
             file_write("bell.sh", "#!/bin/sh\n", 0777));
    holdfast("check -c %s --no-nodes", config_write(classes));
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "t.conf:4: on_event.command: ");
    assert_contains(result.error, "/bell.sh: others may write it (mode 777), and it runs with the worker's rights");
}

TEST(a_class_has_a_program_or_a_plugin)
{
    plugin_put("good", "good.so");
    const char *config = config_write("{ class = \"good.first\"; lock = \"none\"; program = \"/bin/true\"; },\n"
                                      "{ class = \"another\"; lock = \"none\"; }");
    holdfast("check -c %s --no-nodes", config);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "t.conf:3: the class good.first has a program, and the plugin ");
    assert_contains(result.error, "/good.so serves it too; remove one of them");
}

/* --- check ------------------------------------------------------------------------------------------------------ */

TEST(files_are_checked_as_a_worker_would)
{
    const char *shows = plugin_put("shows", "shows.so"), *crash = plugin_put("wild", "crash.so");
    holdfast("plugins check %s", shows);
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "/shows.so: would be loaded\n");
    assert_contains(result.error, "shows 2 names besides holdfast_plugin (shows_");
    assert_contains(result.error, "the handler of shows.anywhere does not say where it runs");
    assert_lacks(result.error, "shows.inside");
    holdfast("plugins check %s %s --json", shows, crash);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, "/shows.so\",\"ok\":true,\"plugins\":[{\"name\":\"shows\"");
    assert_contains(result.out, "/crash.so\",\"ok\":false,\"plugins\":[],\"programs\":[],\"errors\":[\"");
    assert_contains(result.out, "its constructor crashed: killed by signal 11 (Segmentation fault)\"]");
    assert_int_equal(chmod(shows, 0666), 0);
    holdfast("plugins check %s", shows);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "others may write it (mode 666)");
    holdfast("plugins check %s/nothing.so", directory);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "No such file or directory");
    holdfast("plugins check %s", directory);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "a plugin has a name that ends with .so");
}

TEST(a_plugin_without_a_word_of_warning)
{
    holdfast("plugins check %s", plugin_put("witness", "witness.so"));
    assert_int_equal(result.exit_code, 0);
    assert_string_equal(result.error, "");
}

TEST(a_wrong_call_is_told)
{
    static const char *const lines[] = {"plugins check", "plugins check -c f x.so", "plugins list x -c f",
                                        "plugins load"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        holdfast("%s", lines[i]);
        assert_int_equal(result.exit_code, 2);
    }
}

RUN_TESTS_WITH(enter, leave)
