/* What has changed between two configurations, and what a running worker takes over. */
#include "tests/support/test.h"

#include "tests/support/config_place.h"
#include "worker/config/config_change.h"

static void change_note(void *context, const struct config_change *change)
{
    buffer_format(context, "%s: %s -> %s%s\n", change->setting, change->before, change->after,
                  change->is_reloadable ? "" : " (restart)");
}

static void assert_changes(const struct config *before, const struct config *after, const char *expected)
{
    struct buffer text = {0};
    config_changes(before, after, change_note, &text);
    assert_string_equal(buffer_text(&text), expected);
    buffer_fini(&text);
}

TEST(nothing_changed_is_nothing_told)
{
    const char *text = CONFIG_NODES "lock_nodes = ({ host = \"a\"; }, { host = \"b\"; }, { host = \"c\"; });\n"
                                    "classes = ({ class = \"x\"; });\n"
                                    "plugin_settings = ({ plugin = \"p\"; settings = { a = \"1\"; }; });\n";
    struct config *before = config_place_read_good(text), *after = config_place_read_good(text);
    assert_changes(before, after, "");
}

/* Plugins and periodic tasks keep pointers into them. */
TEST(lists_that_did_not_change_stay_where_they_are)
{
    const char *lists = CONFIG_NODES "lock_nodes = ({ host = \"a\"; }, { host = \"b\"; }, { host = \"c\"; });\n"
                                     "plugin_settings = ({ plugin = \"p\"; settings = { a = \"1\"; }; });\n"
                                     "periodic = ({ name = \"n\"; cron = \"* * * * *\"; class = \"x\"; });\n";
    struct buffer text = {0};
    buffer_format(&text, "%s%s", lists, "classes = ({ class = \"x\"; lock = \"none\"; });\n");
    struct config *running = config_place_read_good(lists), *fresh = config_place_read_good(buffer_text(&text));
    const void *nodes = running->lock_nodes, *settings = running->plugins, *periodic = running->periodic;
    config_exchange(running, fresh);
    assert_int_equal(running->class_count, 1);
    assert_ptr_equal(running->lock_nodes, nodes);
    assert_ptr_equal(running->plugins, settings);
    assert_ptr_equal(running->periodic, periodic);
    buffer_fini(&text);
}

TEST(every_change_is_told_in_the_order_of_the_table)
{
    struct config *before = config_place_read_good(
        "worker = { threads = 4; queues = [\"a\"]; };\nqueue_node = { host = \"q\"; };\nlock = { tries = 2; };\n");
    struct config *after =
        config_place_read_good("worker = { threads = 5; queues = [\"a\", \"b\"]; log_level = \"debug\"; };\n"
                               "queue_node = { host = \"r\"; };\nlock = { tries = 3; prefix = \"l:\"; };\n");
    assert_changes(before, after,
                   "worker.threads: 4 -> 5 (restart)\n"
                   "worker.queues: [\"a\"] -> [\"a\", \"b\"] (restart)\n"
                   "worker.log_level: \"info\" -> \"debug\"\n"
                   "queue_node.host: \"q\" -> \"r\" (restart)\n"
                   "lock.tries: 2 -> 3\n"
                   "lock.prefix: \"\" -> \"l:\" (restart)\n");
    config_exchange(before, after);
    assert_int_equal(before->worker.log_level, LOG_DEBUG);
    assert_int_equal(before->lock.tries, 3);
    assert_int_equal(before->worker.threads, 4);
    assert_string_equal(before->queue_node.host, "q");
    assert_string_equal(before->lock.prefix, "");
    assert_int_equal(after->lock.tries, 2);
    config_exchange(before, after);
    assert_int_equal(before->lock.tries, 2);
}

TEST(a_list_is_taken_as_a_whole_or_not_at_all)
{
    struct config *before = config_place_read_good(
        CONFIG_NODES
        "classes = ({ class = \"x\"; });\nqueue_settings = ({ queue = \"default\"; classes = [\"a\"]; });\n");
    struct config *after =
        config_place_read_good(CONFIG_NODES "classes = ({ class = \"x\"; lock = \"none\"; }, { class = \"y\"; });\n"
                                            "queue_settings = ({ queue = \"default\"; classes = [\"b\"]; });\n");
    assert_changes(before, after, "queue_settings[0].classes: [\"a\"] -> [\"b\"]\nclasses: 1 entries -> 2 entries\n");
    config_exchange(before, after);
    assert_int_equal(before->class_count, 2);
    assert_int_equal(config_class_find(before, "x")->lock, CONFIG_LOCK_NONE);
    assert_int_equal(config_class_find(after, "x")->lock, CONFIG_LOCK_BY_HANDLER);
    assert_true(config_queue_allows(before, "default", "b"));

    after = config_place_read_good(CONFIG_NODES
                                   "worker = { queue_order = \"weighted\"; };\n"
                                   "queue_settings = ({ queue = \"default\"; weight = 2; classes = [\"c\"]; });\n");
    config_exchange(before, after);
    assert_int_equal(before->class_count, 0);
    assert_true(config_queue_allows(before, "default", "b")); /* because of the weight, which waits */
}

TEST(secrets_are_compared_but_never_told)
{
#define SECRETS(token)                                                                                                 \
    "queue_node = { host = \"q\"; password_env = \"HF_TEST_SECRET\"; };\n"                                             \
    "plugin_settings = ({ plugin = \"p\"; settings = { token = \"" token "\"; }; });\n"
    setenv("HF_TEST_SECRET", "old-password", 1);
    struct config *before = config_place_read_good(SECRETS("aaa"));
    setenv("HF_TEST_SECRET", "new-password", 1);
    struct config *after = config_place_read_good(SECRETS("bbb"));
    unsetenv("HF_TEST_SECRET");
    assert_changes(before, after,
                   "plugin_settings[0].settings: { token = \"(redacted)\"; } -> { token = \"(redacted)\"; } (restart)\n"
                   "queue_node password: (secret) -> (secret) (restart)\n");
}

static struct config *with_token(const char *token, const char *file)
{
    char text[256], line[64];
    snprintf(line, sizeof line, "%s\n", token);
    snprintf(text, sizeof text, CONFIG_NODES "http = { token_file = \"%s\"; };\n", file);
    config_place_write(file, line, 0600);
    return config_place_read_good(text);
}

TEST(a_token_is_taken_from_the_same_file_only)
{
    struct config *before = with_token("the very first token", "secret"),
                  *after = with_token("the second token", "secret");
    assert_changes(before, after, "http token: (secret) -> (secret)\n");
    config_exchange(before, after);
    assert_string_equal(before->http.token, "the second token");
    assert_string_equal(after->http.token, "the very first token");
    after = with_token("and the third token", "other");
    config_exchange(before, after);
    assert_string_equal(before->http.token, "the second token");
}

RUN_TESTS_WITH(config_place_enter, config_place_leave)
