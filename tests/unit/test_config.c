#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "worker/config.h"
#include "worker/config_print.h"
#include "worker/config_table.h"

/* Tests run in a directory of their own, so that files have short names; `home` is the root of the sources. */
struct place {
    char directory[256];
    int home;
};

#define NODES "queue_node = { host = \"q\"; };\n"

static void file_write(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int enter(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    const char *above = getenv("TMPDIR");
    snprintf(place->directory, sizeof place->directory, "%s/test-config-XXXXXX", above != NULL ? above : "/tmp");
    place->home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = place;
    return mkdtemp(place->directory) == NULL || chdir(place->directory) != 0;
}

static int leave(void **state)
{
    struct place *place = *state;
    int failed = fchdir(place->home);
    char path[300];
    static const char *const files[] = {"t.conf", "part.conf", "secret", "sub/part.conf", "sub/deep.conf", "fifo"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", place->directory, files[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/sub", place->directory);
    rmdir(path);
    failed |= rmdir(place->directory);
    close(place->home);
    free(place);
    return failed;
}

static struct config *config_of(const char *text, struct findings *findings)
{
    *findings = (struct findings){.count = 0};
    file_write("t.conf", text, 0644);
    return config_read("t.conf", findings);
}

/* The configuration has exactly this one error. */
static void assert_error(const char *text, const char *error)
{
    struct findings findings;
    struct config *config = config_of(text, &findings);
    if (findings.errors != 1 || strcmp(findings.items[0].text, error) != 0) {
        findings_print(&findings, stderr);
        print_error("expected: %s\n", error);
        print_error("in:\n%s\n", text);
        fail();
    }
    config_free(config);
    findings_fini(&findings);
}

static struct config *config_good(const char *text)
{
    struct findings findings;
    struct config *config = config_of(text, &findings);
    if (config == NULL || findings.errors > 0) {
        findings_print(&findings, stderr);
        fail_msg("the configuration should be good:\n%s", text);
    }
    findings_fini(&findings);
    return config;
}

/* --- what is read ------------------------------------------------------------------------------------------- */

static void defaults_fill_what_is_left_out(void **state)
{
    (void)state;
    struct config *config = config_good(NODES);
    assert_int_equal(config->worker.threads, 16);
    assert_int_equal(config->worker.queues.count, 1);
    assert_string_equal(config->worker.queues.items[0], "default");
    assert_int_equal(config->worker.jobs.count, 0);
    assert_int_equal(config->worker.log_level, LOG_INFO);
    assert_true(config->worker.stop_timeout_ns == 25 * NS_PER_S);
    assert_int_equal(config->worker.max_task_size, 1 << 20);
    assert_true(config->worker.host[0] != '\0');
    assert_non_null(strstr(config->worker.jobs_directory, "jobs"));
    assert_string_equal(config->queue_node.host, "q");
    assert_int_equal(config->queue_node.port, 6379);
    assert_true(config->queue_node.call_timeout_ns == NS_PER_S);
    assert_null(config->queue_node.password);
    assert_int_equal(config->lock_node_count, 0);
    assert_true(config->lock.ttl_ns == 10 * NS_PER_S);
    assert_true(config->lock.drift_factor > 0.0099 && config->lock.drift_factor < 0.0101);
    assert_int_equal(config->lock.tries, 3);
    assert_true(config->lock.park_delay_ns == NS_PER_S);
    assert_string_equal(config->lock.prefix, "");
    config_free(config);
}

static void every_value_is_read(void **state)
{
    (void)state;
    struct config *config = config_good(
        "worker: { threads = 4; queues = [\"high\", \"low\"]; jobs_directory = \"/opt/jobs\"; jobs = [\"echo\"];\n"
        "  host = \"app-2\"; log_level = \"debug\"; log_file = \"x.log\"; stop_timeout = \"90s\"; max_task_size = "
        "\"64KiB\"; };\n"
        "queue_node = { unix_path = \"q.sock\"; database = 3; connect_timeout = \"2s\"; call_timeout = \"500ms\"; };\n"
        "lock_nodes = ( { host = \"a\"; port = 1; timeout = \"20ms\"; },\n"
        "               { name = \"other\"; host = \"b\"; }, { host = \"c\"; } );\n"
        "lock = { ttl = \"1.5s\"; drift_factor = 0; tries = 7; retry_delay = \"5ms\"; retry_jitter = \"1ms\";\n"
        "         prefix = \"lock:\"; park_delay = \"2m\"; };\n"
        "classes = ( { class = \"transfer\"; lock = \"required\"; }, { class = \"echo\"; lock = \"none\"; } );\n"
        "plugin_settings = ( { plugin = \"transfer\"; settings = { ledger = \"/x/y.db\"; journal = \"wal\"; }; } );\n");
    assert_int_equal(config->worker.threads, 4);
    assert_string_equal(config->worker.queues.items[1], "low");
    assert_string_equal(config->worker.jobs_directory, "/opt/jobs");
    assert_string_equal(config->worker.jobs.items[0], "echo");
    assert_string_equal(config->worker.host, "app-2");
    assert_int_equal(config->worker.log_level, LOG_DEBUG);
    assert_int_equal(config->worker.max_task_size, 65536);
    assert_string_equal(config->queue_node.unix_path, "q.sock");
    assert_int_equal(config->queue_node.database, 3);
    assert_true(config->queue_node.call_timeout_ns == 500 * NS_PER_MS);
    assert_int_equal(config->lock_node_count, 3);
    assert_string_equal(config->lock_nodes[0].name, "lock1");
    assert_true(config->lock_nodes[0].call_timeout_ns == 20 * NS_PER_MS);
    assert_true(config->lock_nodes[2].call_timeout_ns == 50 * NS_PER_MS);
    assert_string_equal(config->lock_nodes[1].name, "other");
    assert_true(config->lock.ttl_ns == 1500 * NS_PER_MS);
    assert_true(config->lock.drift_factor == 0);
    assert_int_equal(config_class_lock(config, "transfer"), CONFIG_LOCK_REQUIRED);
    assert_int_equal(config_class_lock(config, "echo"), CONFIG_LOCK_NONE);
    assert_int_equal(config_class_lock(config, "sleep"), CONFIG_LOCK_BY_HANDLER);
    assert_string_equal(config_plugin_setting(config, "transfer", "ledger"), "/x/y.db");
    assert_null(config_plugin_setting(config, "transfer", "nothing"));
    assert_null(config_plugin_setting(config, "nobody", "ledger"));
    config_free(config);
}

/* --- what is refused ---------------------------------------------------------------------------------------- */

static void unknown_keys_are_errors_with_a_suggestion(void **state)
{
    (void)state;
    assert_error(NODES "worker = {\n  thraeds = 4;\n};\n",
                 "t.conf:3: worker.thraeds: there is no such key (did you mean threads?)");
    assert_error(NODES "lock = { colour = \"red\"; };\n", "t.conf:2: lock.colour: there is no such key");
    assert_error(NODES "plugin_setings = ();\n",
                 "t.conf:2: plugin_setings: there is no such section (did you mean plugin_settings?)");
    assert_error(NODES "threads = 4;\n",
                 "t.conf:2: threads: this key belongs into the group worker: worker = { threads = ...; };");
    assert_error(NODES "lock_nodes = (\n { host = \"a\"; },\n { host = \"b\"; },\n { host = \"c\"; prot = 1; });\n",
                 "t.conf:5: lock_nodes[2].prot: there is no such key (did you mean port?)");
}

static void wrong_types_are_errors(void **state)
{
    (void)state;
    assert_error(NODES "worker = { threads = \"4\"; };\n",
                 "t.conf:2: worker.threads: expected a whole number from 1 to 1024, found a text in quotes");
    assert_error(NODES "worker = { threads = 4.5; };\n",
                 "t.conf:2: worker.threads: expected a whole number from 1 to 1024, found a number");
    assert_error(NODES "worker = { queues = \"default\"; };\n", "t.conf:2: worker.queues: expected a list of 1 to 64 "
                                                                "texts: [\"a\", \"b\"], found a text in quotes");
    assert_error(NODES "lock = { ttl = 10; };\n",
                 "t.conf:2: lock.ttl: expected a duration from \"500ms\" to \"1m\", found a whole number");
    assert_error(NODES "lock = { ttl = true; };\n",
                 "t.conf:2: lock.ttl: expected a duration from \"500ms\" to \"1m\", found true or false");
    assert_error(NODES "lock = ();\n", "t.conf:2: lock: expected a group { ... }, found a list");
    assert_error(NODES "lock_nodes = { host = \"a\"; };\n",
                 "t.conf:2: lock_nodes: expected a list of up to 256 groups ( { ... }, { ... } ), found a group { }");
    assert_error(
        NODES "plugin_settings = ( { plugin = \"a\"; settings = { size = 3; }; } );\n",
        "t.conf:2: plugin_settings[0].settings.size: settings of plugins are texts: write the value in quotes");
}

static void values_out_of_range_are_errors(void **state)
{
    (void)state;
    assert_error(NODES "worker = { threads = 0; };\n",
                 "t.conf:2: worker.threads: 0 is not allowed here; expected a whole number from 1 to 1024");
    assert_error(NODES "lock = { ttl = \"61s\"; };\n",
                 "t.conf:2: lock.ttl: 61s is not allowed here; expected a duration from \"500ms\" to \"1m\"");
    assert_error(NODES "lock = { ttl = \"soon\"; };\n",
                 "t.conf:2: lock.ttl: soon is not allowed here; expected a duration from \"500ms\" to \"1m\"");
    assert_error(NODES "lock = { drift_factor = 0.2; };\n",
                 "t.conf:2: lock.drift_factor: 0.20000000000000001 is not allowed here; expected a number from 0.0 to "
                 "0.1");
    assert_error(NODES "worker = { log_level = \"loud\"; };\n",
                 "t.conf:2: worker.log_level: loud is not allowed here; expected \"debug\", \"info\", \"warn\" or "
                 "\"error\"");
    assert_error(NODES "worker = { max_task_size = \"1GiB\"; };\n",
                 "t.conf:2: worker.max_task_size: 1GiB is not allowed here; expected a size from \"1KiB\" to "
                 "\"64MiB\"");
    assert_error(NODES "worker = { queues = []; };\n",
                 "t.conf:2: worker.queues: expected a list of 1 to 64 texts: [\"a\", \"b\"], found a list");
    assert_error(NODES "worker = { queues = [\"a\", \"a\"]; };\n", "t.conf:2: worker.queues: names the same one twice");
    assert_error(NODES "worker = { host = \"a\\x1b[31m\"; };\n",
                 "t.conf:2: worker.host: \"a\\x1B[31m\" is not allowed here; expected a text of 0 to 64 printable "
                 "bytes");
}

static void missing_sections_and_keys_are_errors(void **state)
{
    (void)state;
    assert_error("", "t.conf: the section queue_node is missing");
    assert_error(NODES "classes = ( { lock = \"none\"; } );\n", "t.conf:2: classes[0]: the key class is missing");
    assert_error("queue_node = { port = 1; };\n", "t.conf:1: queue: needs either host (and port) or unix_path");
    assert_error("queue_node = { host = \"a\"; unix_path = \"b\"; };\n",
                 "t.conf:1: queue: needs either host (and port) or unix_path");
}

static void settings_that_do_not_fit_each_other_are_errors(void **state)
{
    (void)state;
    assert_error(NODES "lock_nodes = ( { host = \"a\"; },\n { host = \"b\"; },\n { host = \"A\"; } );\n",
                 "t.conf:4: lock3 is the same server as lock1 (t.conf:2): every lock node has one vote");
    assert_error(NODES "lock_nodes = ( { host = \"a\"; },\n { host = \"b\"; name = \"lock1\"; },\n"
                       " { host = \"c\"; } );\n",
                 "t.conf:3: two lock nodes are called lock1 (t.conf:2)");
    assert_error(
        NODES "lock = { ttl = \"1s\"; };\nlock_nodes = ( { host = \"a\"; timeout = \"251ms\"; } );\n",
        "t.conf:3: lock1: the timeout is more than a quarter of lock.ttl: one slow node would use up the lock");
    assert_error(NODES "classes = ( { class = \"a\"; },\n { class = \"a\"; } );\n",
                 "t.conf:3: the class a has a second entry (t.conf:2)");
    assert_error(NODES "lock = { prefix = \"hf:x\"; };\n",
                 "t.conf:2: lock.prefix: names that begin with hf: are Holdfast's own");
}

static void an_even_number_of_nodes_is_a_warning(void **state)
{
    (void)state;
    struct findings findings;
    struct config *config = config_of(NODES "lock_nodes = ( { host = \"a\"; }, { host = \"b\"; } );", &findings);
    assert_int_equal(findings.errors, 0);
    assert_non_null(findings_find(&findings, "2 lock nodes tolerate no more failures than 1"));
    config_free(config);
    findings_fini(&findings);
    config = config_of(NODES "lock_nodes = ( { host = \"a\"; } );", &findings);
    assert_int_equal(findings.errors, 0);
    assert_non_null(findings_find(&findings, "one lock node is not a Redlock"));
    config_free(config);
    findings_fini(&findings);
}

static void all_errors_are_reported(void **state)
{
    (void)state;
    struct findings findings;
    struct config *config =
        config_of("worker = { threads = 0; thread = 1; };\nlock = { ttl = 5; tries = 3000000000; };\n"
                  "classes = 7;\nbogus = 1;\n",
                  &findings);
    assert_int_equal(findings.errors, 7);
    assert_non_null(findings_find(&findings, "t.conf:1: worker.threads: 0"));
    assert_non_null(findings_find(&findings, "t.conf:1: worker.thread: there is no such key"));
    assert_non_null(findings_find(&findings, "t.conf:2: lock.ttl"));
    assert_non_null(findings_find(&findings, "t.conf:2: the number 3000000000"));
    assert_non_null(findings_find(&findings, "t.conf:3: classes"));
    assert_non_null(findings_find(&findings, "t.conf:4: bogus"));
    assert_non_null(findings_find(&findings, "queue_node is missing"));
    config_free(config);
    findings_fini(&findings);
}

static void syntax_errors_tell_file_and_line(void **state)
{
    (void)state;
    static const char *const texts[] = {"a = 1;\nworker = { threads = ; };\n", "a = 1;\nworker = { = 3 };\n",
                                        "a = 1;\na = 2;\n", "a = 1;\nb = [1, \"x\"];\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct findings findings;
        assert_null(config_of(texts[i], &findings));
        assert_int_equal(findings.errors, 1);
        assert_non_null(findings_find(&findings, "t.conf:2: "));
        findings_fini(&findings);
    }
    assert_error("a = 1;\nb = \"open;\n", "t.conf:2: this text has no closing quotation mark");
    assert_error("a = 1;\n\n/* open\n", "t.conf:3: this comment is not closed with */");
}

/* --- integers ----------------------------------------------------------------------------------------------- */

#define CUT(where, literal)                                                                                            \
    where ": the number " literal " does not fit into 32 bits (or has the suffix L); write a quantity with its unit "  \
          "as a text, such as \"90s\" or \"4MiB\""

static void integers_that_would_be_cut_are_errors(void **state)
{
    (void)state;
    assert_error(NODES "worker = { threads = 3000000000; };\n", CUT("t.conf:2", "3000000000"));
    assert_error(NODES "worker = { threads = 4294967304; };\n", CUT("t.conf:2", "4294967304")); /* 8 if it were cut */
    assert_error(NODES "worker = { threads = -2147483649; };\n", CUT("t.conf:2", "-2147483649"));
    assert_error(NODES "worker = { threads = 8L; };\n", CUT("t.conf:2", "8L"));
    assert_error(NODES "worker = { threads = 0xFFFFFFFF; };\n", CUT("t.conf:2", "0xFFFFFFFF"));
    assert_error(NODES "worker = { threads = 99999999999999999999999; };\n",
                 CUT("t.conf:2", "99999999999999999999999"));
}

static void digits_elsewhere_are_no_integers(void **state)
{
    (void)state;
    struct config *config =
        config_good("# 3000000000\n// 3000000000L\n/* 3000000000\n 3000000000 */\n" NODES
                    "worker = { log_file = \"/h3000000000 \\\" 3000000000\"; threads = 0x10; };\n"
                    "lock = { drift_factor = 0.03; };\n"
                    "plugin_settings = ( { plugin = \"p\"; settings = { a3000000000 = \"1\"; }; } );");
    assert_int_equal(config->worker.threads, 16);
    assert_string_equal(config->worker.log_file, "/h3000000000 \" 3000000000");
    config_free(config);
}

/* --- files -------------------------------------------------------------------------------------------------- */

static void includes_are_read_beside_the_file_and_keep_their_lines(void **state)
{
    (void)state;
    mkdir("sub", 0755);
    file_write("sub/t.conf", "@include \"part.conf\"\nlock = { tlt = 1; };\n", 0644);
    file_write("sub/part.conf", "queue_node = { host = \"q\"; };\n  @include \"deep.conf\" # more\n", 0644);
    file_write("sub/deep.conf", "\nworker = { threads = 0; };", 0644);
    struct findings findings = {0};
    struct config *config = config_read("sub/t.conf", &findings);
    assert_int_equal(findings.errors, 2);
    assert_non_null(findings_find(&findings, "sub/deep.conf:2: worker.threads: 0"));
    assert_non_null(findings_find(&findings, "sub/t.conf:2: lock.tlt: there is no such key (did you mean ttl?)"));
    config_free(config);
    findings_fini(&findings);
    unlink("sub/t.conf");
}

static void relative_paths_begin_at_the_file(void **state)
{
    (void)state;
    mkdir("sub", 0755);
    file_write("sub/part.conf", NODES "worker = { log_file = \"x.log\"; jobs_directory = \"/a\"; };", 0644);
    struct findings findings = {0};
    struct config *config = config_read("sub/part.conf", &findings);
    assert_int_equal(findings.errors, 0);
    assert_string_equal(config->worker.log_file, "sub/x.log");
    assert_string_equal(config->worker.jobs_directory, "/a");
    config_free(config);
}

static void assert_refused(const char *path, const char *part)
{
    struct findings findings = {0};
    assert_null(config_read(path, &findings));
    if (findings_find(&findings, part) == NULL) {
        findings_print(&findings, stderr);
        fail_msg("expected %s", part);
    }
    findings_fini(&findings);
}

static void bad_includes_are_refused(void **state)
{
    (void)state;
    file_write("t.conf", "\n@include \"/etc/hostname\"\n", 0644);
    assert_refused("t.conf", "t.conf:2: @include takes a file below the directory of the main file");
    file_write("t.conf", "@include \"sub/../../x\"\n", 0644);
    assert_refused("t.conf", "t.conf:1: @include takes a file below");
    file_write("t.conf", "@include \"part.conf\"\n", 0644);
    unlink("part.conf");
    assert_refused("t.conf", "part.conf: cannot be opened: No such file or directory");
    file_write("t.conf", "@include \"t.conf\"\n", 0644);
    assert_refused("t.conf", "t.conf:1: @include is nested too deep");
    file_write("t.conf", "@include part\n", 0644);
    assert_refused("t.conf", "t.conf:1: @include is followed by the name of a file in double quotes");
}

static void files_that_cannot_be_configurations_are_refused(void **state)
{
    (void)state;
    assert_refused("missing.conf", "missing.conf: cannot be opened: No such file or directory");
    assert_refused(".", ".: is not a regular file");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_refused("fifo", "fifo: is not a regular file");
    file_write("t.conf", NODES, 0646);
    assert_refused("t.conf", "t.conf: everybody may write it (mode 646)");
    char *large = malloc((1 << 20) + 3);
    memset(large, ' ', (1 << 20) + 2);
    large[(1 << 20) + 2] = '\0';
    file_write("t.conf", large, 0644);
    free(large);
    assert_refused("t.conf", "t.conf: is larger than 1 MiB");
    FILE *file = fopen("t.conf", "w");
    fwrite("a = 1;\nb\0c", 1, 10, file);
    fclose(file);
    assert_refused("t.conf", "t.conf:2: holds a NUL byte");
}

static void deep_nesting_is_refused_without_a_crash(void **state)
{
    (void)state;
    char *text = calloc(1, 100000);
    strncpy(text, NODES "x = ", 99999);
    size_t start = strlen(text);
    memset(text + start, '(', 20000);
    memset(text + start + 20000, ')', 20000);
    struct findings findings;
    config_free(config_of(text, &findings));
    assert_true(findings.errors > 0);
    findings_fini(&findings);
    free(text);
    config_free(config_of(NODES "plugin_settings = ( { plugin = \"a\"; settings = { b = ((((((((1)))))))); }; } );",
                          &findings));
    assert_non_null(findings_find(&findings, "t.conf:2: is nested too deep"));
    findings_fini(&findings);
}

/* --- secrets ------------------------------------------------------------------------------------------------ */

#define CANARY "canary-7f3a"

static void passwords_come_from_a_private_file_or_the_environment(void **state)
{
    (void)state;
    file_write("secret", CANARY "\nsecond line\n", 0600);
    setenv("TEST_CONFIG_PASSWORD", "from-environment", 1);
    struct config *config = config_good("queue_node = { host = \"q\"; password_file = \"secret\"; user = \"u\"; };\n"
                                        "lock_nodes = ( { host = \"a\"; password_env = \"TEST_CONFIG_PASSWORD\"; } );");
    assert_string_equal(config->queue_node.password, CANARY);
    assert_string_equal(config->lock_nodes[0].password, "from-environment");
    config_free(config);
    unsetenv("TEST_CONFIG_PASSWORD");
}

static void passwords_that_others_can_read_are_refused(void **state)
{
    (void)state;
    file_write("secret", CANARY "\n", 0640);
    assert_error(
        "queue_node = { host = \"q\"; password_file = \"secret\"; };",
        "t.conf:1: queue: secret: others than its owner have access to this password (mode 640); chmod 600 it");
    file_write("secret", "\n", 0600);
    assert_error("queue_node = { host = \"q\"; password_file = \"secret\"; };",
                 "t.conf:1: queue: secret: its first line is to be a password, but is empty, too long or holds a NUL "
                 "byte");
    assert_error("queue_node = { host = \"q\"; password_env = \"TEST_CONFIG_NOT_SET\"; };",
                 "t.conf:1: queue: the environment variable TEST_CONFIG_NOT_SET is not set");
    assert_error("queue_node = { host = \"q\"; user = \"u\"; };",
                 "t.conf:1: queue: has a user but neither password_file nor password_env");
    assert_error("queue_node = { host = \"q\"; password = \"" CANARY "\"; };",
                 "t.conf:1: queue_node.password: there is no such key; passwords are not written here, use "
                 "password_file or password_env");
}

static void secrets_are_not_printed(void **state)
{
    (void)state;
    struct buffer printed = {0};
    file_write("secret", CANARY "\n", 0600);
    struct config *config =
        config_good("queue_node = { host = \"q\"; password_file = \"secret\"; };\n"
                    "plugin_settings = ( { plugin = \"p\"; settings = { api_token = \"" CANARY "\"; "
                    "DB_Password = \"" CANARY "\"; path = \"visible\"; }; } );");
    config_print(config, &printed);
    assert_null(strstr(buffer_text(&printed), CANARY));
    assert_non_null(strstr(buffer_text(&printed), "api_token = \"(redacted)\""));
    assert_non_null(strstr(buffer_text(&printed), "path = \"visible\""));
    assert_non_null(strstr(buffer_text(&printed), "password_file = \"secret\""));
    buffer_fini(&printed);
    config_free(config);
}

/* --- the table ---------------------------------------------------------------------------------------------- */

static void what_is_printed_reads_as_the_same_configuration(void **state)
{
    (void)state;
    struct buffer first = {0}, second = {0};
    struct config *config = config_good(
        "worker = { host = \"quo\\\"te\\\\\"; threads = 3; jobs = [\"a\", \"b\"]; stop_timeout = \"1.5s\"; };\n"
        "queue_node = { host = \"q\"; };\nlock = { drift_factor = 0.00001; };\n"
        "lock_nodes = ( { host = \"a\"; }, { unix_path = \"/b\"; }, { host = \"c\"; port = 9; } );\n"
        "classes = ( { class = \"x\"; lock = \"optional\"; } );\n"
        "plugin_settings = ( { plugin = \"p\"; settings = { a = \"1\"; b = \"2\"; }; }, { plugin = \"q\"; } );\n");
    config_print(config, &first);
    config_free(config);
    config = config_good(buffer_text(&first));
    config_print(config, &second);
    config_free(config);
    assert_string_equal(buffer_text(&first), buffer_text(&second));
    assert_non_null(strstr(buffer_text(&first), "drift_factor = 0.00001;"));
    buffer_fini(&first);
    buffer_fini(&second);
}

static char *repository_file(const struct place *place, const char *path)
{
    char *text = calloc(1, 1 << 18);
    int fd = openat(place->home, path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, (1 << 18) - 1) > 0);
    close(fd);
    return text;
}

static void assert_up_to_date(const struct place *place, const char *path, void (*print)(struct buffer *out))
{
    struct buffer printed = {0};
    char *text = repository_file(place, path);
    print(&printed);
    if (strcmp(text, buffer_text(&printed)) != 0)
        fail_msg("%s is not what the table says: run make docs", path);
    free(text);
    buffer_fini(&printed);
}

static void the_sample_and_the_manual_are_up_to_date(void **state)
{
    assert_up_to_date(*state, "conf/holdfast.conf", config_print_sample);
    assert_up_to_date(*state, "docs/configuration.md", config_print_manual);
}

static void the_sample_is_a_good_configuration(void **state)
{
    char *text = repository_file(*state, "conf/holdfast.conf");
    struct config *config = config_good(text);
    assert_int_equal(config->lock_node_count, 5);
    assert_int_equal(config->lock_nodes[4].port, 7005);
    config_free(config);
    free(text);
}

/* Also with every line that is commented out, where the table allows them together. */
static void the_sample_shows_every_key_as_it_is_written(void **state)
{
    char *text = repository_file(*state, "conf/holdfast.conf");
    size_t keys = 0;
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        char *place = strstr(text, section->name);
        for (const struct config_key *key = section->keys; key->name != NULL; key++, keys++) {
            char line[128];
            snprintf(line, sizeof line, " %s = ", key->name);
            if (place == NULL || strstr(place, line) == NULL)
                fail_msg("%s.%s is not in the sample", section->name, key->name);
        }
    }
    assert_true(keys > 35);
    static const char *const alternatives[] = {"unix_path", "password_file", "password_env", "user"};
    for (char *line = strstr(text, "# "); line != NULL; line = strstr(line + 1, "# ")) {
        size_t length = strspn(line + 2, "abcdefghijklmnopqrstuvwxyz_");
        bool is_setting = length > 0 && strncmp(line + 2 + length, " = ", 3) == 0;
        for (size_t i = 0; i < sizeof alternatives / sizeof alternatives[0]; i++)
            is_setting &= strncmp(line + 2, alternatives[i], length) != 0;
        if (is_setting)
            line[0] = ' ';
    }
    config_free(config_good(text));
    free(text);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_fill_what_is_left_out),
        TEST(every_value_is_read),
        TEST(unknown_keys_are_errors_with_a_suggestion),
        TEST(wrong_types_are_errors),
        TEST(values_out_of_range_are_errors),
        TEST(missing_sections_and_keys_are_errors),
        TEST(settings_that_do_not_fit_each_other_are_errors),
        TEST(an_even_number_of_nodes_is_a_warning),
        TEST(all_errors_are_reported),
        TEST(syntax_errors_tell_file_and_line),
        TEST(integers_that_would_be_cut_are_errors),
        TEST(digits_elsewhere_are_no_integers),
        TEST(includes_are_read_beside_the_file_and_keep_their_lines),
        TEST(relative_paths_begin_at_the_file),
        TEST(bad_includes_are_refused),
        TEST(files_that_cannot_be_configurations_are_refused),
        TEST(deep_nesting_is_refused_without_a_crash),
        TEST(passwords_come_from_a_private_file_or_the_environment),
        TEST(passwords_that_others_can_read_are_refused),
        TEST(secrets_are_not_printed),
        TEST(what_is_printed_reads_as_the_same_configuration),
        TEST(the_sample_and_the_manual_are_up_to_date),
        TEST(the_sample_is_a_good_configuration),
        TEST(the_sample_shows_every_key_as_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
