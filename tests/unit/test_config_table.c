/* The table of settings is the only truth: sample and manual are printed from it, and what is printed reads back. */
#include "tests/support/test.h"

#include "tests/support/config_place.h"
#include "worker/config/config_print.h"
#include "worker/config/config_table.h"

/* --- the table ---------------------------------------------------------------------------------------------- */

TEST(what_is_printed_reads_as_the_same_configuration)
{
    struct buffer first = {0}, second = {0};
    struct config *config = config_place_read_good(
        "worker = { host = \"quo\\\"te\\\\\"; threads = 3; jobs = [\"a\", \"b\"]; stop_timeout = \"1.5s\"; };\n"
        "queue_node = { host = \"q\"; };\nlock = { drift_factor = 0.00101; };\n"
        "lock_nodes = ( { host = \"a\"; }, { unix_path = \"/b\"; }, { host = \"c\"; port = 9; } );\n"
        "classes = ( { class = \"x\"; lock = \"optional\"; } );\n"
        "plugin_settings = ( { plugin = \"p\"; settings = { a = \"1\"; b = \"2\"; }; }, { plugin = \"q\"; } );\n");
    config_print(config, &first);
    config = config_place_read_good(buffer_text(&first));
    config_print(config, &second);
    assert_string_equal(buffer_text(&first), buffer_text(&second));
    assert_contains(buffer_text(&first), "drift_factor = 0.00101;");
    buffer_fini(&first);
    buffer_fini(&second);
}

/* A list may be written as the only text in it, where the table says so. */
TEST(a_text_is_a_list_of_one_where_that_may_be)
{
    struct config *config = config_place_read_good(
        CONFIG_NODES "classes = ( { class = \"a\"; resource = \"x:{0}\"; },\n"
                     " { class = \"b\"; resource = [\"x:{0}\", \"y\"]; }, { class = \"c\"; } );");
    assert_int_equal(config->classes[0].resource.count, 1);
    assert_string_equal(config->classes[0].resource.items[0], "x:{0}");
    assert_int_equal(config->classes[1].resource.count, 2);
    assert_int_equal(config->classes[2].resource.count, 0);
    config_place_expect_error(CONFIG_NODES "classes = ( { class = \"a\"; resource = \"\"; } );",
                              "t.conf:2: classes[0].resource: every item is to be a text of 1 to 512 bytes in quotes");
    config_place_expect_error(CONFIG_NODES "classes = ( { class = \"a\"; },\n { class = \"b\"; program = []; } );",
                              "t.conf:3: classes[1].program: expected a text, or a list of 1 to 64 texts: [\"a\", "
                              "\"b\"], found an empty list");
    config_place_expect_error(
        CONFIG_NODES "worker = { queues = \"a\"; };",
        "t.conf:2: worker.queues: expected a list of 1 to 64 texts: [\"a\", \"b\"], found a text in "
        "quotes; write queues = [\"a\"]");
}

TEST(a_default_may_be_several_words)
{
    struct config *config = config_place_read_good(CONFIG_NODES "on_event = { command = \"/bin/tell\"; };");
    assert_int_equal(config->on_event.command.count, 1);
    assert_int_equal(config->on_event.events.count, 2);
    assert_string_equal(config->on_event.events.items[0], "dead");
    assert_string_equal(config->on_event.events.items[1], "lock_lost");
    config_place_expect_error(CONFIG_NODES "on_event = { command = \"tell\"; };",
                              "t.conf:2: on_event.command: \"tell\" is no absolute path; what a worker runs must not "
                              "depend on its directory or PATH");
    config_place_expect_error(
        CONFIG_NODES "on_event = { events = [\"dead\", \"born\"]; };",
        "t.conf:2: on_event.events: \"born\" is not allowed here; expected dead, skipped, dropped, "
        "lock_lost, failed, or expired");
}

static char *repository_file(const struct config_place *place, const char *path)
{
    char *text = calloc(1, 1 << 18);
    int fd = openat(place->home, path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, (1 << 18) - 1) > 0);
    close(fd);
    return text;
}

static void assert_up_to_date(const struct config_place *place, const char *path, void (*print)(struct buffer *out))
{
    struct buffer printed = {0};
    char *text = repository_file(place, path);
    print(&printed);
    if (strcmp(text, buffer_text(&printed)) != 0)
        fail_msg("%s is not what the table says: run make docs", path);
    free(text);
    buffer_fini(&printed);
}

TEST(the_sample_and_the_manual_are_up_to_date)
{
    assert_up_to_date(*state, "conf/holdfast.conf", config_print_sample);
    assert_up_to_date(*state, "docs/configuration.md", config_print_manual);
}

TEST(the_sample_is_a_good_configuration)
{
    char *text = repository_file(*state, "conf/holdfast.conf");
    struct config *config = config_place_read_good(text);
    assert_int_equal(config->lock_node_count, 5);
    assert_int_equal(config->lock_nodes[4].port, 7005);
    free(text);
}

/* Whoever installs the packages is told what is left to do, and needs no more than the lines that are there. */
TEST(the_file_of_the_packages_says_what_to_fill_in)
{
    char *text = repository_file(*state, "scripts/debian/holdfast.conf");
    config_place_expect_error(text, "t.conf: is not filled in yet: the section queue_node is missing, which says where "
                                    "a Redis server is; `holdfast config --sample` shows how to write it");
    for (char *line = text; line != NULL; line = strchr(line + 1, '\n')) {
        char *mark = line + (*line == '\n');
        size_t word = strspn(mark + 2, "abcdefghijklmnopqrstuvwxyz_");
        bool is_setting = word > 0 && strncmp(mark + 2 + word, " = ", 3) == 0;
        if (strncmp(mark, "# ", 2) == 0 &&
            (is_setting || strncmp(mark, "# )", 3) == 0 || strncmp(mark, "#     {", 7) == 0))
            mark[0] = ' ';
    }
    struct config *config = config_place_read_good(text);
    assert_string_equal(config->queue_node.host, "queue.example");
    assert_int_equal(config->lock_node_count, 3);
    assert_int_equal(config->worker.jobs.count, 1);
    free(text);
}

/* Who reads the sample must not take an example for what is in effect. */
TEST(examples_are_told_from_defaults)
{
    struct buffer sample = {0};
    config_print_sample(&sample);
    assert_contains(buffer_text(&sample), "\n    # prefix = \"lock:\"; # an example\n");
    assert_contains(buffer_text(&sample), "\n    # park_delay = \"1s\";\n");
    assert_contains(buffer_text(&sample), "\n    host = \"127.0.0.1\";\n");
    buffer_fini(&sample);
}

/* The lines of a section that is commented out as a whole. */
static void section_bring_in(char *text, const struct config_section *section)
{
    char first[64];
    snprintf(first, sizeof first, "\n# %s = %c\n", section->name, section->is_list ? '(' : '{');
    const char *last = section->is_list ? "\n# );\n" : "\n# };\n";
    char *line = strstr(text, first);
    assert_non_null(line);
    for (bool is_last = false; !is_last; line = strchr(line + 1, '\n')) {
        is_last = strncmp(line, last, strlen(last)) == 0;
        assert_int_equal(line[1], '#');
        line[1] = ' ';
    }
}

/* Also with every line that is commented out, where the table allows them together. */
TEST(the_sample_shows_every_key_as_it_is_written)
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
    for (const struct config_section *section = config_sections; section->name != NULL; section++)
        if (section->is_optional)
            section_bring_in(text, section);
    static const char *const alternatives[] = {"unix_path", "password_file", "password_env",  "user",
                                               "sentinels", "master",        "sentinel_user", "sentinel_password_file",
                                               "program",   "token_file",    "environment",   "environment_file",
                                               "directory"};
    for (char *line = strstr(text, "# "); line != NULL; line = strstr(line + 1, "# ")) {
        size_t length = strspn(line + 2, "abcdefghijklmnopqrstuvwxyz_");
        bool is_setting = length > 0 && strncmp(line + 2 + length, " = ", 3) == 0;
        for (size_t i = 0; i < sizeof alternatives / sizeof alternatives[0]; i++)
            is_setting &= strncmp(line + 2, alternatives[i], length) != 0 && strncmp(line + 2, "tls_", 4) != 0;
        if (is_setting)
            line[0] = ' ';
    }
    config_place_read_good(text);
    free(text);
}

RUN_TESTS_WITH(config_place_enter, config_place_leave)
