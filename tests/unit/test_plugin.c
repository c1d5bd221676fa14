/* Loading plugins: what is good is served, everything that is wrong is refused and said, nothing else happens. */
#include "tests/support/test.h"

#include <sys/stat.h>

#include "tests/support/private_directory.h"
#include "worker/plugin/plugin.h"
#include "worker/startup_check.h"
#include "worker/task/task_rules.h"

/* A directory of plugins that every test fills for itself. */
struct place {
    char directory[PRIVATE_DIRECTORY_MAX];
    char built[256]; /* where the build put the test plugins */
};
static struct place *place;
static struct plugins *plugins;  /* what was loaded last, */
static struct findings findings; /* and what was found */

static const char *path_in(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", place->directory, name);
    return path;
}

/* Copies a test plugin into the directory, under a name of its own. */
static void put(const char *plugin, const char *name)
{
    char from[600];
    snprintf(from, sizeof from, "%s/%s.so", place->built, plugin);
    private_file_copy(from, path_in(name));
}

static void enter(void)
{
    place = calloc(1, sizeof *place);
    private_directory_create(place->directory);
    snprintf(place->built, sizeof place->built, "%s/tests/plugins", test_build());
}

static void unload(void)
{
    plugins_close(plugins);
    findings_fini(&findings);
    plugins = NULL;
}

static void leave(void)
{
    unload();
    static const char *const files[] = {"good.so", "copy.so",  "link.so", "fifo.so",    "text.so",
                                        "cut.so",  "other.so", ".so",     ".hidden.so", "note.txt"};
    chmod(place->directory, 0700);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(path_in(files[i]));
    int failed = rmdir(place->directory);
    free(place);
    assert_int_equal(failed, 0);
}

/* All plugins of the directory, or the ones that are named. */
static void load_named(const char *directory, char **names, size_t count)
{
    unload();
    findings = (struct findings){0};
    plugins = plugins_load(directory, names, count, &findings);
}

static void load_all(void)
{
    load_named(place->directory, NULL, 0);
}

static void load(const char *directory, const char *name)
{
    char copy[128];
    snprintf(copy, sizeof copy, "%s", name);
    load_named(directory, (char *[]){copy}, 1);
}

/* The test plugin `name` is refused with exactly this error, behind its path. */
static void assert_refused(const char *directory, const char *name, const char *error)
{
    load(directory, name);
    char expected[1024];
    snprintf(expected, sizeof expected, "%s/%s.so: %s", directory, name, error);
    if (findings.errors != 1 || strcmp(findings.items[0].text, expected) != 0) {
        findings_print(&findings, stderr);
        fail_msg("expected: %s", expected);
    }
    assert_int_equal(plugins_handler_count(plugins), 0);
}

static void assert_finding(const char *part)
{
    if (findings_find(&findings, part) == NULL) {
        findings_print(&findings, stderr);
        fail_msg("expected: %s", part);
    }
}

/* --- good ones ---------------------------------------------------------------------------------------------- */

static const void *no_api(const char *name, unsigned version)
{
    (void)name;
    (void)version;
    return NULL;
}

static const char *answer;

static const char *the_setting(const hf_host *host, const char *key)
{
    (void)host;
    return strcmp(key, "answer") == 0 ? answer : NULL;
}

static const struct hf_host *host_for(void *context, const char *plugin_name)
{
    assert_string_equal(plugin_name, "good");
    (*(int *)context)++;
    static const hf_host host = {.size = sizeof host,
                                 .abi_major = HF_ABI_MAJOR,
                                 .abi_minor = HF_ABI_MINOR,
                                 .api = no_api,
                                 .setting = the_setting};
    return &host;
}

TEST(a_good_plugin_is_loaded_and_opened)
{
    load(place->built, "good");
    int asked = 0;
    struct error error = ERROR_NONE;
    assert_int_equal(findings.errors, 0);
    assert_int_equal(plugins_count(plugins), 1);
    assert_string_equal(plugins_at(plugins, 0)->descriptor.name, "good");
    assert_string_equal(plugins_at(plugins, 0)->descriptor.version, "1.2");
    assert_int_equal(plugins_handler_count(plugins), 2);
    assert_string_equal(plugins_handler_at(plugins, 0)->class_name, "another");
    const struct plugin_handler *handler = plugins_find(plugins, "good.first");
    assert_non_null(handler);
    assert_int_equal(handler->flags, HF_LOCK_REQUIRED | HF_SERIAL);
    assert_string_equal(handler->about, "the first");
    assert_int_equal(handler->check("[]", 2, NULL, 0), 1);
    assert_null(plugins_find(plugins, "good"));
    assert_null(plugins_find(plugins, ""));
    answer = "forty-two";
    assert_true(plugins_open(plugins, host_for, &asked, &error));
    assert_int_equal(asked, 1);
    assert_string_equal(plugin_handler_state(handler), "forty-two");
}

TEST(a_plugin_that_refuses_to_open_says_why)
{
    load(place->built, "good");
    int asked = 0;
    struct error error = ERROR_NONE;
    answer = "refuse";
    assert_false(plugins_open(plugins, host_for, &asked, &error));
    assert_contains(error.text, "good.so: the plugin refused to open: \"the answer is refuse\"");
}

TEST(a_whole_directory_is_loaded_and_nothing_else_in_it)
{
    put("good", "good.so");
    put("bad_handlers", ".hidden.so");
    put("bad_handlers", "note.txt");
    put("bad_handlers", ".so");
    load_all();
    assert_int_equal(findings.errors, 0);
    assert_int_equal(plugins_count(plugins), 1);
}

/* Each library gets a name of its own from its descriptor: one that is reused would give the first library again. */
TEST(plugins_of_later_loads_are_not_mixed_up)
{
    for (int i = 0; i < 3; i++) {
        load(place->built, "good");
        struct plugins *one = plugins;
        plugins = NULL; /* both at a time */
        load(place->built, "modes");
        assert_string_equal(plugins_at(one, 0)->descriptor.name, "good");
        assert_string_equal(plugins_at(plugins, 0)->descriptor.name, "modes");
        plugins_close(one);
    }
}

/* --- bad descriptors ---------------------------------------------------------------------------------------- */

TEST(wrong_descriptors_are_refused)
{
    assert_refused(place->built, "no_symbol",
                   "is no plugin of Holdfast: it does not export the symbol holdfast_plugin (see jobs/job.h; HF_EXPORT "
                   "makes it visible)");
    assert_refused(place->built, "wrong_magic",
                   "holdfast_plugin has the magic number 12345678 instead of 48464a42: it is no hf_plugin of "
                   "jobs/job.h");
    assert_refused(place->built, "other_major",
                   "was built for version 2.1 of the interface, this worker has 1.1; build it with the job.h of this "
                   "worker");
    assert_refused(place->built, "newer_minor",
                   "was built for version 1.2 of the interface, this worker has 1.1; build it with the job.h of this "
                   "worker");
    assert_refused(place->built, "no_handlers", "has no handler");
    char text[128];
    snprintf(text, sizeof text,
             "states a size of %zu bytes for its hf_plugin, which has %zu; set .size = sizeof(hf_plugin)",
             sizeof(hf_plugin) / 2, sizeof(hf_plugin));
    assert_refused(place->built, "short_descriptor", text);
    snprintf(text, sizeof text,
             "states a size of 1048576 bytes for its hf_plugin, which has %zu; set .size = sizeof(hf_plugin)",
             sizeof(hf_plugin));
    assert_refused(place->built, "huge_descriptor", text);
}

TEST(wrong_handlers_are_refused_one_by_one)
{
    load(place->built, "bad_handlers");
    assert_int_equal(findings.errors, 8);
    static const char *const beyond[] = {"tireless", "backwards", "endless"};
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "the handler of %s states retries beyond 1000000, or a time that is", beyond[i]);
        assert_finding(text);
    }
    assert_finding("the retry_queue of the handler of lost is not 1 to 128 bytes");
    assert_finding("handler 0 states a size of 8 bytes");
    assert_finding("handler 1 has no name");
    assert_finding("handler 2 has no name");
    assert_finding("the handler of idle has no run function");
    assert_non_null(plugins_find(plugins, "fine"));
}

TEST(two_plugins_for_one_class_are_an_error_that_names_both)
{
    put("good", "good.so");
    put("same_class", "other.so");
    load_all();
    assert_int_equal(findings.errors, 1);
    const char *text = findings_find(&findings, "its handler for the class good.first is the second one");
    assert_non_null(text);
    assert_contains(text, "/other.so: ");
    assert_contains(text, "/good.so has one already");
}

TEST(two_plugins_of_one_name_are_an_error)
{
    put("good", "good.so");
    put("same_name", "other.so");
    load_all();
    assert_int_equal(findings.errors, 1);
    assert_finding("/other.so: calls itself good, as ");
}

/* --- bad files ---------------------------------------------------------------------------------------------- */

static void assert_writable_refused(mode_t mode, const char *who)
{
    char text[512];
    chmod(path_in("good.so"), mode);
    snprintf(text, sizeof text, "%s may write it (mode %03o), and it runs inside the worker; chmod go-w %s/good.so",
             who, (unsigned)mode, place->directory);
    assert_refused(place->directory, "good", text);
}

TEST(files_that_others_may_write_are_refused)
{
    put("good", "good.so");
    assert_writable_refused(0666, "others");
    if (geteuid() == 0 || geteuid() != getegid()) {
        assert_writable_refused(0664, "its group");
        return;
    }
    chmod(path_in("good.so"), 0664); /* in the private group of a user is nobody else */
    load_all();
    assert_int_equal(plugins_count(plugins), 1);
}

TEST(a_directory_that_others_may_write_is_refused)
{
    put("good", "good.so");
    chmod(place->directory, 0777);
    load_all();
    assert_int_equal(plugins_count(plugins), 0);
    assert_finding("others may write it (mode 777)");
}

TEST(files_of_other_users_are_refused)
{
    put("good", "good.so");
    if (geteuid() != 0 || chown(path_in("good.so"), 12345, 0) != 0)
        test_skip("only root can give a file away");
    assert_refused(place->directory, "good",
                   "belongs to user 12345; it runs inside the worker, so for root it has to belong to root: chown it, "
                   "or do this as that user (runuser -u)");
}

TEST(what_is_no_library_is_refused)
{
    put("good", "good.so");
    put("good", "cut.so");
    assert_int_equal(truncate(path_in("cut.so"), 1000), 0);
    assert_int_equal(mkfifo(path_in("fifo.so"), 0600), 0);
    assert_int_equal(symlink("good.so", path_in("link.so")), 0);
    FILE *text = fopen(path_in("text.so"), "w");
    fputs("no library at all\n", text);
    fclose(text);
    chmod(path_in("text.so"), 0644);
    load_all();
    assert_int_equal(findings.errors, 4);
    assert_finding("/cut.so: is no library, or was cut off");
    assert_non_null(findings_find(&findings, "/fifo.so: is no regular file; a plugin is a regular file"));
    assert_non_null(findings_find(&findings, "/link.so: is a symbolic link; a plugin is a regular file"));
    assert_finding("/text.so: is no library, or was cut off");
    assert_null(findings_find(&findings, "/proc/self"));
    assert_int_equal(plugins_count(plugins), 1);
}

/* Whatever the length: mapping what is not there would be the end of the process. */
TEST(a_library_cut_anywhere_is_refused)
{
    struct stat facts;
    put("good", "cut.so");
    assert_int_equal(stat(path_in("cut.so"), &facts), 0);
    for (off_t length = 0; length < facts.st_size / 2; length += length < 1100 ? 7 : 997) {
        put("good", "cut.so");
        assert_int_equal(truncate(path_in("cut.so"), length), 0);
        load(place->directory, "cut");
        assert_int_equal(findings.errors, 1);
    }
}

TEST(a_missing_plugin_is_suggested)
{
    put("good", "good.so");
    assert_refused(place->directory, "godo",
                   "there is no such plugin, nor does one of this name come with Holdfast (did you mean good?)");
}

TEST(names_with_directories_are_refused)
{
    static const char *const names[] = {"../good", "/etc/good", "", ".good", "a/b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        load(place->built, names[i]);
        assert_finding("is no name of a plugin: a file name without directory and without .so");
    }
}

TEST(a_missing_or_empty_directory_is_an_error)
{
    load_all();
    assert_finding("there is no plugin (*.so) in this directory; see worker.jobs_directory");
    load_named(path_in("nowhere"), NULL, 0);
    assert_finding("nowhere: this directory of plugins cannot be opened: No such file or directory");
}

/* --- with a configuration ----------------------------------------------------------------------------------- */

TEST(classes_that_may_need_a_lock_need_lock_nodes)
{
    load(place->built, "good");
    struct config_class classes[] = {{.source.where = (char[]){"t:1"}, .name = (char[]){"good.first"}},
                                     {.source.where = (char[]){"t:2"}, .name = (char[]){"anothre"}}};
    struct config config = {.path = (char[]){"t"}, .classes = classes, .class_count = 2};
    classes[0].lock = CONFIG_LOCK_NONE;
    startup_check(&config, plugins, &findings);
    assert_int_equal(findings.errors, 1);
    assert_finding("t: there are no lock_nodes, but tasks of the class another may need");
    assert_finding("t:2: no plugin that is loaded serves the class anothre (did you mean another?)");
    classes[1] =
        (struct config_class){.source.where = (char[]){"t:2"}, .name = (char[]){"another"}, .lock = CONFIG_LOCK_NONE};
    findings_fini(&findings);
    findings = (struct findings){0};
    startup_check(&config, plugins, &findings);
    assert_int_equal(findings.errors + findings.warnings, 0);
}

TEST(the_configuration_decides_over_the_flags_of_a_handler)
{
    load(place->built, "good");
    struct config_class class = {.name = (char[]){"good.first"}};
    struct config config = {.classes = &class, .class_count = 1};
    const struct plugin_handler *first = plugins_find(plugins, "good.first"), *other = plugins_find(plugins, "another");
    assert_true(class_mode_must_lock(CONFIG_MODE_EFFICIENCY, &class, first));
    assert_true(class_mode_must_lock(CONFIG_MODE_EFFICIENCY, NULL, first));
    assert_false(class_mode_must_lock(CONFIG_MODE_EFFICIENCY, &class, other));
    class.lock = CONFIG_LOCK_OPTIONAL;
    assert_false(class_mode_must_lock(CONFIG_MODE_EFFICIENCY, &class, first));
    class.lock = CONFIG_LOCK_REQUIRED;
    assert_true(class_mode_must_lock(CONFIG_MODE_EFFICIENCY, &class, other));
    assert_false(class_mode_must_lock(CONFIG_MODE_NONE, &class, other));
    assert_int_equal(class_mode_of(&config, &class, first), CONFIG_MODE_EFFICIENCY);
    class.lock = CONFIG_LOCK_NONE;
    assert_int_equal(class_mode_of(&config, &class, first), CONFIG_MODE_NONE);
}

RUN_TESTS_BETWEEN(enter, leave)
