/* The files of a configuration: includes, relative paths, secrets that nobody else may read or see printed. */
#include "tests/support/test.h"

#include <sys/stat.h>

#include "tests/support/config_place.h"
#include "worker/config/config_print.h"

/* --- files -------------------------------------------------------------------------------------------------- */

TEST(includes_are_read_beside_the_file_and_keep_their_lines)
{
    mkdir("sub", 0755);
    config_place_write("sub/t.conf", "@include \"part.conf\"\nlock = { tlt = 1; };\n", 0644);
    config_place_write("sub/part.conf", "queue_node = { host = \"q\"; };\n  @include \"deep.conf\" # more\n", 0644);
    config_place_write("sub/deep.conf", "\nworker = { threads = 0; };", 0644);
    struct findings findings = {0};
    struct config *config = config_read("sub/t.conf", &findings);
    assert_int_equal(findings.errors, 2);
    assert_non_null(findings_find(&findings, "sub/deep.conf:2: worker.threads: 0"));
    assert_non_null(findings_find(&findings, "sub/t.conf:2: lock.tlt: there is no such key (did you mean ttl?)"));
    config_free(config);
    findings_fini(&findings);
    unlink("sub/t.conf");
}

TEST(a_byte_order_mark_is_no_part_of_the_text)
{
    config_place_write("t.conf", "\xEF\xBB\xBF@include \"part.conf\"\n" CONFIG_NODES, 0644);
    config_place_write("part.conf", "\xEF\xBB\xBFworker = { threads = 3; };\n", 0644);
    struct findings findings = {0};
    struct config *config = config_read("t.conf", &findings);
    assert_int_equal(findings.errors, 0);
    assert_int_equal(config->worker.threads, 3);
    config_free(config);
}

TEST(relative_paths_begin_at_the_file)
{
    mkdir("sub", 0755);
    config_place_write("sub/part.conf", CONFIG_NODES "worker = { log_file = \"x.log\"; jobs_directory = \"/a\"; };",
                       0644);
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

TEST(bad_includes_are_refused)
{
    config_place_write("t.conf", "\n@include \"/etc/hostname\"\n", 0644);
    assert_refused("t.conf", "t.conf:2: @include takes a file below the directory of the main file");
    config_place_write("t.conf", "@include \"sub/../../x\"\n", 0644);
    assert_refused("t.conf", "t.conf:1: @include takes a file below");
    config_place_write("t.conf", "@include \"part.conf\"\n", 0644);
    unlink("part.conf");
    assert_refused("t.conf", "part.conf: cannot be opened: No such file or directory");
    config_place_write("t.conf", "@include \"t.conf\"\n", 0644);
    assert_refused("t.conf", "t.conf:1: @include is nested too deep");
    config_place_write("t.conf", "@include part\n", 0644);
    assert_refused("t.conf", "t.conf:1: @include is followed by the name of a file in double quotes");
}

TEST(a_setting_that_is_there_twice_is_named)
{
    config_place_write("t.conf", CONFIG_NODES "worker = { threads = 1;\n  threads = 2;\n};\n", 0644);
    assert_refused("t.conf", "t.conf:3: the setting threads is here for the second time in its section; keep one");
    config_place_write("t.conf", CONFIG_NODES "lock = { };\nlock : { ttl = 1; };\n", 0644);
    assert_refused("t.conf", "t.conf:3: a setting is here for the second time in its section; keep one");
}

TEST(files_that_cannot_be_configurations_are_refused)
{
    assert_refused("missing.conf", "missing.conf: cannot be opened: No such file or directory");
    assert_refused("", "\"\": cannot be opened: No such file or directory");
    assert_refused(".", ".: is not a regular file");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_refused("fifo", "fifo: is not a regular file");
    config_place_write("t.conf", CONFIG_NODES, 0646);
    char *large = malloc((1 << 20) + 3);
    memset(large, ' ', (1 << 20) + 2);
    large[(1 << 20) + 2] = '\0';
    config_place_write("t.conf", large, 0644);
    free(large);
    assert_refused("t.conf", "t.conf: is larger than 1 MiB");
    FILE *file = fopen("t.conf", "w");
    fwrite("a = 1;\nb\0c", 1, 10, file);
    fclose(file);
    assert_refused("t.conf", "t.conf:2: holds a NUL byte");
}

TEST(files_that_others_could_change_are_refused)
{
    config_place_write("t.conf", CONFIG_NODES, 0646);
    assert_refused("t.conf",
                   "t.conf: others may write it (mode 646), and it decides which code runs; chmod go-w t.conf");
    config_place_write("t.conf", CONFIG_NODES, 0644);
    assert_int_equal(chmod(".", 0777), 0);
    assert_refused("t.conf", ".: others may write it (mode 777), and it holds what must not be replaced; chmod go-w .");
    assert_int_equal(chmod(".", 01777), 0);
    config_place_read_good(CONFIG_NODES);
    assert_int_equal(chmod(".", 0700), 0);
}

/* The private group of a user has its number; any other may have more members, and root's files are no group's. */
TEST(files_that_another_group_could_change_are_refused)
{
    struct findings findings = {0};
    config_place_write("t.conf", CONFIG_NODES, 0664);
    if (geteuid() != 0 && geteuid() == getegid()) {
        struct config *config = config_read("t.conf", &findings);
        assert_int_equal(findings.errors, 0);
        config_free(config);
        findings_fini(&findings);
        return;
    }
    assert_refused("t.conf",
                   "t.conf: its group may write it (mode 664), and it decides which code runs; chmod go-w t.conf");
    if (geteuid() != 0)
        return;
    assert_int_equal(chown("t.conf", 12345, 12345), 0);
    assert_refused("t.conf",
                   "t.conf: belongs to user 12345; it decides which code runs, so for root it has to belong to root");
    assert_int_equal(chown("t.conf", 0, 0) | chmod("t.conf", 0644), 0);
    assert_int_equal(chown(".", 12345, 12345), 0);
    assert_refused("t.conf", ".: belongs to user 12345; it holds what must not be replaced");
    assert_int_equal(chown(".", 0, 0), 0);
}

TEST(a_link_lies_where_it_leads_to_as_well)
{
    assert_int_equal(mkdir("sub", 0777) | chmod("sub", 0777), 0);
    config_place_write("sub/part.conf", CONFIG_NODES, 0644);
    assert_int_equal(symlink("sub/part.conf", "t.conf"), 0);
    assert_refused("t.conf", "/sub: others may write it (mode 777), and it holds what must not be replaced");
}

TEST(deep_nesting_is_refused_without_a_crash)
{
    char *text = calloc(1, 100000);
    strncpy(text, CONFIG_NODES "x = ", 99999);
    size_t start = strlen(text);
    memset(text + start, '(', 20000);
    memset(text + start + 20000, ')', 20000);
    struct findings findings;
    config_place_read(text, &findings);
    assert_true(findings.errors > 0);
    findings_fini(&findings);
    free(text);
    config_place_read(CONFIG_NODES "plugin_settings = ( { plugin = \"a\"; settings = { b = ((((((((1)))))))); }; } );",
                      &findings);
    assert_non_null(findings_find(&findings, "t.conf:2: is nested too deep"));
    findings_fini(&findings);
}

/* --- secrets ------------------------------------------------------------------------------------------------ */

#define CANARY "canary-7f3a"

TEST(passwords_come_from_a_private_file_or_the_environment)
{
    config_place_write("secret", CANARY "\nsecond line\n", 0600);
    setenv("TEST_CONFIG_PASSWORD", "from-environment", 1);
    struct config *config =
        config_place_read_good("queue_node = { host = \"q\"; password_file = \"secret\"; user = \"u\"; };\n"
                               "lock_nodes = ( { host = \"a\"; password_env = \"TEST_CONFIG_PASSWORD\"; } );");
    assert_string_equal(config->queue_node.password_file, "secret"); /* read for each connection */
    assert_null(config->queue_node.password);
    assert_string_equal(config->lock_nodes[0].password, "from-environment");
    unsetenv("TEST_CONFIG_PASSWORD");
}

TEST(passwords_that_others_can_read_are_refused)
{
    config_place_write("secret", CANARY "\n", 0620);
    config_place_expect_error(
        "queue_node = { host = \"q\"; password_file = \"secret\"; };",
        "t.conf:1: queue: secret: others than its owner have access to this secret (mode 620); chmod 600 it, "
        "or 440 if it is root's with a group of this process");
    config_place_write("secret", "\n", 0600);
    config_place_expect_error(
        "queue_node = { host = \"q\"; password_file = \"secret\"; };",
        "t.conf:1: queue: secret: its first line is to be a password, but is empty, too long or holds a NUL "
        "byte");
    config_place_expect_error("queue_node = { host = \"q\"; password_env = \"TEST_CONFIG_NOT_SET\"; };",
                              "t.conf:1: queue: the environment variable TEST_CONFIG_NOT_SET is not set");
    config_place_expect_error("queue_node = { host = \"q\"; user = \"u\"; };",
                              "t.conf:1: queue: has a user but neither password_file nor password_env");
    config_place_expect_error(
        "queue_node = { host = \"q\"; password = \"" CANARY "\"; };",
        "t.conf:1: queue_node.password: there is no such key; passwords are not written here, use "
        "password_file or password_env");
}

TEST(secrets_are_not_printed)
{
    struct buffer printed = {0};
    config_place_write("secret", CANARY "\n", 0600);
    struct config *config =
        config_place_read_good("queue_node = { host = \"q\"; password_file = \"secret\"; };\n"
                               "plugin_settings = ( { plugin = \"p\"; settings = { api_token = \"" CANARY "\"; "
                               "DB_Password = \"" CANARY "\"; path = \"visible\"; }; } );");
    config_print(config, &printed);
    assert_lacks(buffer_text(&printed), CANARY);
    assert_contains(buffer_text(&printed), "api_token = \"(redacted)\"");
    assert_contains(buffer_text(&printed), "path = \"visible\"");
    assert_contains(buffer_text(&printed), "password_file = \"secret\"");
    buffer_fini(&printed);
}

RUN_TESTS_WITH(config_place_enter, config_place_leave)
