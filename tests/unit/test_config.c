/* The configuration: what is read, what is left out, and every mistake told with file and line, all in one run. */
#include "tests/support/test.h"

#include "base/clock.h"
#include "tests/support/config_place.h"

/* --- what is read ------------------------------------------------------------------------------------------- */

TEST(defaults_fill_what_is_left_out)
{
    struct config *config = config_place_read_good(CONFIG_NODES);
    assert_int_equal(config->worker.threads, 16);
    assert_int_equal(config->worker.queues.count, 1);
    assert_string_equal(config->worker.queues.items[0], "default");
    assert_int_equal(config->worker.jobs.count, 0);
    assert_int_equal(config->worker.log_level, LOG_INFO);
    assert_true(config->worker.stop_timeout_ns == 25 * NS_PER_S);
    assert_int_equal(config->worker.max_task_size, 1 << 20);
    assert_true(config->worker.host[0] != '\0');
    assert_string_equal(config->worker.jobs_directory, ""); /* nothing is installed here */
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
    assert_true(config->lock.fence);
    assert_int_equal(config->lock.max_hold_ns, 0);
}

TEST(every_value_is_read)
{
    struct config *config = config_place_read_good(
        "worker: { threads = 4; queues = [\"high\", \"low\"]; jobs_directory = \"/opt/jobs\"; jobs = [\"echo\"];\n"
        "  host = \"app-2\"; log_level = \"debug\"; log_file = \"x.log\"; stop_timeout = \"90s\"; max_task_size = "
        "\"64KiB\"; };\n"
        "queue_node = { unix_path = \"q.sock\"; database = 3; connect_timeout = \"2s\"; call_timeout = \"500ms\"; };\n"
        "lock_nodes = ( { host = \"a\"; port = 1; timeout = \"20ms\"; },\n"
        "               { name = \"other\"; host = \"b\"; }, { host = \"c\"; } );\n"
        "lock = { ttl = \"1.5s\"; drift_factor = 0.05; tries = 7; retry_delay = \"5ms\"; retry_jitter = \"1ms\";\n"
        "         prefix = \"lock:\"; park_delay = \"2m\"; fence = false; max_hold = \"3m\"; };\n"
        "classes = ( { class = \"transfer\"; lock = \"required\"; }, { class = \"echo\"; lock = \"none\"; retry = "
        "\"7\";\n"
        "  retry_queue = \"low\"; dead = \"no\"; backtrace = 5; expires_in = \"2h\"; at_most_once = \"yes\"; },\n"
        "  { class = \"never\"; retry = \"no\"; fence = \"yes\"; max_hold = \"2s\"; on_lost = \"dead\"; }, { class = "
        "\"long\"; retry_for = \"3d\"; } );\n"
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
    assert_true(config->lock.drift_factor > 0.0499 && config->lock.drift_factor < 0.0501);
    assert_false(config->lock.fence);
    assert_true(config->lock.max_hold_ns == 180 * NS_PER_S);
    const struct config_class *never = config_class_find(config, "never");
    assert_int_equal(never->fence, CONFIG_FENCE_YES);
    assert_true(never->max_hold_ns == 2 * NS_PER_S);
    assert_int_equal(never->on_lost, CONFIG_LOST_DEAD);
    const struct config_class *silent = config_class_find(config, "transfer");
    assert_int_equal(silent->fence, CONFIG_FENCE_BY_LOCK);
    assert_int_equal(silent->max_hold_ns, 0);
    assert_int_equal(silent->on_lost, CONFIG_LOST_RETRY);
    assert_int_equal(silent->lock, CONFIG_LOCK_REQUIRED);
    assert_int_equal(config_class_find(config, "echo")->lock, CONFIG_LOCK_NONE);
    assert_null(config_class_find(config, "sleep"));
    unsigned retries = 9;
    assert_false(config_class_retries(config_class_find(config, "transfer"), &retries));
    assert_true(config_class_retries(config_class_find(config, "never"), &retries));
    assert_int_equal(retries, 0);
    const struct config_class *echo = config_class_find(config, "echo");
    assert_true(config_class_retries(echo, &retries));
    assert_int_equal(retries, 7);
    assert_string_equal(echo->retry_queue, "low");
    assert_int_equal(echo->dead, CONFIG_NO);
    assert_int_equal(echo->at_most_once, CONFIG_YES);
    assert_int_equal(echo->backtrace, 5);
    assert_true(echo->expires_in_ns == 2 * 3600 * NS_PER_S);
    assert_true(config_class_find(config, "long")->retry_for_ns == 3 * 24 * 3600 * NS_PER_S);
    assert_null(config_class_find(config, "sleep"));
    struct envelope_limits limits = config_task_limits(config);
    assert_true(limits.size == 65536 && limits.depth == 64 && limits.keys == 4096);
    assert_string_equal(config_plugin_setting(config, "transfer", "ledger"), "/x/y.db");
    assert_null(config_plugin_setting(config, "transfer", "nothing"));
    assert_null(config_plugin_setting(config, "nobody", "ledger"));
}

/* --- what is refused ---------------------------------------------------------------------------------------- */

TEST(unknown_keys_are_errors_with_a_suggestion)
{
    config_place_expect_error(CONFIG_NODES "worker = {\n  thraeds = 4;\n};\n",
                              "t.conf:3: worker.thraeds: there is no such key (did you mean threads?)");
    config_place_expect_error(CONFIG_NODES "lock = { colour = \"red\"; };\n",
                              "t.conf:2: lock.colour: there is no such key");
    config_place_expect_error(CONFIG_NODES "plugin_setings = ();\n",
                              "t.conf:2: plugin_setings: there is no such section (did you mean plugin_settings?)");
    config_place_expect_error(
        CONFIG_NODES "threads = 4;\n",
        "t.conf:2: threads: this key belongs into the group worker: worker = { threads = ...; };");
    config_place_expect_error(
        CONFIG_NODES "lock_nodes = (\n { host = \"a\"; },\n { host = \"b\"; },\n { host = \"c\"; prot = 1; });\n",
        "t.conf:5: lock_nodes[2].prot: there is no such key (did you mean port?)");
}

TEST(wrong_types_are_errors)
{
    config_place_expect_error(
        CONFIG_NODES "worker = { threads = \"4\"; };\n",
        "t.conf:2: worker.threads: expected a whole number from 1 to 1024, found a text in quotes; write threads = 4");
    config_place_expect_error(CONFIG_NODES "worker = { threads = 4.5; };\n",
                              "t.conf:2: worker.threads: expected a whole number from 1 to 1024, found a number");
    config_place_expect_error(CONFIG_NODES "worker = { queues = \"default\"; };\n",
                              "t.conf:2: worker.queues: expected a list of 1 to 64 "
                              "texts: [\"a\", \"b\"], found a text in quotes; write queues = [\"default\"]");
    config_place_expect_error(CONFIG_NODES "lock = { ttl = 10; };\n",
                              "t.conf:2: lock.ttl: expected a duration from \"500ms\" to \"1m\", found a whole number; "
                              "write ttl = \"10s\", for example");
    config_place_expect_error(CONFIG_NODES "lock = { ttl = true; };\n",
                              "t.conf:2: lock.ttl: expected a duration from \"500ms\" to \"1m\", found true or false");
    config_place_expect_error(CONFIG_NODES "lock = ();\n", "t.conf:2: lock: expected a group { ... }, found a list");
    config_place_expect_error(
        CONFIG_NODES "lock_nodes = { host = \"a\"; };\n",
        "t.conf:2: lock_nodes: expected a list of up to 256 groups ( { ... }, { ... } ), found a group { }");
    config_place_expect_error(
        CONFIG_NODES "plugin_settings = ( { plugin = \"a\"; settings = { size = 3; }; } );\n",
        "t.conf:2: plugin_settings[0].settings.size: its values are texts: write the value in quotes");
}

TEST(a_wrong_type_says_what_to_write)
{
#define PERIODIC CONFIG_NODES "periodic = ( { class = \"a\"; cron = \"@daily\"; "
    static const char *const cases[][2] = {
        {PERIODIC "retry = 3; } );\n", "periodic[0].retry: expected a text of 1 to 16 printable bytes, found a whole "
                                       "number; write retry = \"3\""},
        {PERIODIC "args = [1]; } );\n", "found a list; write args = \"[1]\""},
        {PERIODIC "args = ( \"a\", 2, { on = true; b = [1.5]; } ); } );\n",
         "; write args = \"[\\\"a\\\", 2, {\\\"on\\\": true, \\\"b\\\": [1.5]}]\""},
        {PERIODIC "resources = \"r\"; } );\n", "; write resources = [\"r\"]"},
        {CONFIG_NODES "classes = ( { class = \"a\"; retry = 3; } );\n", "; write retry = \"3\""},
        {CONFIG_NODES "worker = { threads = \"4\"; };\n", "found a text in quotes; write threads = 4"},
        {CONFIG_NODES "worker = { allow_root = \"true\"; };\n", "found a text in quotes; write allow_root = true"},
        {CONFIG_NODES "worker = { max_task_size = 3; };\n", "; write max_task_size = \"3B\", for example"},
        {CONFIG_NODES "lock = { ttl = 10; };\n", "found a whole number; write ttl = \"10s\", for example"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct findings findings;
        config_place_read(cases[i][0], &findings);
        assert_int_equal(findings.errors, 1);
        assert_contains(findings.items[0].text, cases[i][1]);
        findings_fini(&findings);
    }
}

TEST(values_out_of_range_are_errors)
{
    static const char *const graces[] = {"forever", "31d", "-1s"};
    for (size_t i = 0; i < sizeof graces / sizeof graces[0]; i++) {
        char text[128], error[200];
        snprintf(text, sizeof text, CONFIG_NODES "worker = { unknown_class_grace = \"%s\"; };", graces[i]);
        snprintf(error, sizeof error,
                 "t.conf:2: worker.unknown_class_grace: %s is not allowed here; expected a duration from \"0\" to "
                 "\"30d\"",
                 graces[i]);
        config_place_expect_error(text, error);
    }
    config_place_expect_error(
        CONFIG_NODES "worker = { threads = 0; };\n",
        "t.conf:2: worker.threads: 0 is not allowed here; expected a whole number from 1 to 1024");
    config_place_expect_error(
        CONFIG_NODES "lock = { ttl = \"61s\"; };\n",
        "t.conf:2: lock.ttl: 61s is not allowed here; expected a duration from \"500ms\" to \"1m\"");
    config_place_expect_error(
        CONFIG_NODES "lock = { ttl = \"soon\"; };\n",
        "t.conf:2: lock.ttl: soon is not allowed here; expected a duration from \"500ms\" to \"1m\"");
    config_place_expect_error(
        CONFIG_NODES "lock = { ttl = \"5\"; };\n",
        "t.conf:2: lock.ttl: 5 has no unit (write 5s, for example); expected a duration from \"500ms\" to \"1m\"");
    config_place_expect_error(
        CONFIG_NODES "lock = { ttl = \"0\"; };\n",
        "t.conf:2: lock.ttl: 0 is not allowed here; expected a duration from \"500ms\" to \"1m\"");
    config_place_expect_error(CONFIG_NODES "worker = { max_task_size = \"2048\"; };\n",
                              "t.conf:2: worker.max_task_size: 2048 has no unit (write 2048B, for example); expected "
                              "a size from \"1KiB\" to \"64MiB\"");
    config_place_expect_error(
        CONFIG_NODES "lock = { drift_factor = 0.2; };\n",
        "t.conf:2: lock.drift_factor: 0.20000000000000001 is not allowed here; expected a number from 0.001 to "
        "0.1");
    config_place_expect_error(
        CONFIG_NODES "worker = { log_level = \"loud\"; };\n",
        "t.conf:2: worker.log_level: loud is not allowed here; expected \"debug\", \"info\", \"warn\" or "
        "\"error\"");
    config_place_expect_error(CONFIG_NODES "worker = { log_format = \"jsno\"; };\n",
                              "t.conf:2: worker.log_format: jsno is not allowed here; expected \"text\" or \"json\"");
    config_place_expect_error(
        CONFIG_NODES "worker = { max_task_size = \"1GiB\"; };\n",
        "t.conf:2: worker.max_task_size: 1GiB is not allowed here; expected a size from \"1KiB\" to "
        "\"64MiB\"");
    config_place_expect_error(
        CONFIG_NODES "worker = { queues = []; };\n",
        "t.conf:2: worker.queues: expected a list of 1 to 64 texts: [\"a\", \"b\"], found an empty list");
    config_place_expect_error(CONFIG_NODES "worker = { queues = [\"a\", \"a\"]; };\n",
                              "t.conf:2: worker.queues: names the same one twice");
    config_place_expect_error(CONFIG_NODES "worker = { queues = [\"a\", \"two\\nlines\"]; };\n",
                              "t.conf:2: worker.queues: the name of queue 2 is not 1 to 128 bytes of UTF-8 without "
                              "blanks and control characters, or begins with hf:");
    config_place_expect_error(CONFIG_NODES "worker = { queues = [\"a\xFF\"]; };\n",
                              "t.conf:2: worker.queues: the name of queue 1 is not 1 to 128 bytes of UTF-8 without "
                              "blanks and control characters, or begins with hf:");
    config_place_expect_error(
        CONFIG_NODES "worker = { host = \"a\\x1b[31m\"; };\n",
        "t.conf:2: worker.host: \"a\\x1B[31m\" is not allowed here; expected a text of 0 to 64 printable "
        "bytes");
}

TEST(missing_sections_and_keys_are_errors)
{
    config_place_expect_error("", "t.conf: is not filled in yet: the section queue_node is missing, which says where a "
                                  "Redis server is; `holdfast config --sample` shows how to write it");
    config_place_expect_error("worker = { threads = 1; };\n",
                              "t.conf: the section queue_node is missing, which says where a Redis server is; "
                              "`holdfast config --sample` shows how to write it");
    config_place_expect_error(CONFIG_NODES "classes = ( { lock = \"none\"; } );\n",
                              "t.conf:2: classes[0]: the key class is missing");
    config_place_expect_error("queue_node = { port = 1; };\n",
                              "t.conf:1: queue: needs either host (and port) or unix_path or sentinels (and master)");
    config_place_expect_error("queue_node = { host = \"a\"; unix_path = \"b\"; };\n",
                              "t.conf:1: queue: needs either host (and port) or unix_path or sentinels (and master)");
}

TEST(settings_that_do_not_fit_each_other_are_errors)
{
    config_place_expect_error(CONFIG_NODES
                              "lock_nodes = ( { host = \"a\"; },\n { host = \"b\"; },\n { host = \"A\"; } );\n",
                              "t.conf:4: lock3 is the same server as lock1 (t.conf:2): every lock node has one vote");
    config_place_expect_error(CONFIG_NODES "lock_nodes = ( { host = \"a\"; },\n { host = \"b\"; name = \"lock1\"; },\n"
                                           " { host = \"c\"; } );\n",
                              "t.conf:3: two lock nodes are called lock1 (t.conf:2)");
    config_place_expect_error(
        CONFIG_NODES "lock = { ttl = \"1s\"; };\nlock_nodes = ( { host = \"a\"; timeout = \"251ms\"; } );\n",
        "t.conf:3: lock1: the timeout is more than a quarter of lock.ttl: one slow node would use up the lock");
    static const char *const retries[] = {"never", "-1", "1000001", "3x", " 3", "9999999"};
    for (size_t i = 0; i < sizeof retries / sizeof retries[0]; i++) {
        char text[400], expected[200];
        snprintf(text, sizeof text, CONFIG_NODES "classes = ( { class = \"a\"; retry = \"%s\"; } );\n", retries[i]);
        snprintf(expected, sizeof expected,
                 "t.conf:2: retry: \"%s\" is not allowed here; expected handler, no, or a number up to 1000000",
                 retries[i]);
        config_place_expect_error(text, expected);
    }
    config_place_expect_error(CONFIG_NODES "classes = ( { class = \"a\"; retry = \"3\"; retry_for = \"1h\"; } );\n",
                              "t.conf:2: has both retry and retry_for; keep one");
    config_place_expect_error(CONFIG_NODES "classes = ( { class = \"a\"; max_hold = \"9s\"; } );\n",
                              "t.conf:2: max_hold: must be at least lock.ttl, or 0s");
    config_place_expect_error(CONFIG_NODES "lock = { ttl = \"2s\"; max_hold = \"1s\"; };\n",
                              "t.conf:2: lock.max_hold: must be at least lock.ttl, or 0s");
    config_place_expect_error(
        CONFIG_NODES "classes = ( { class = \"a\"; retry_queue = \"a b\"; } );\n",
        "t.conf:2: retry_queue: not 1 to 128 bytes of UTF-8 without blanks and control characters, or begins with hf:");
    config_place_expect_error(CONFIG_NODES "classes = ( { class = \"a\xFF\"; } );\n",
                              "t.conf:2: class: this name is not UTF-8, so no task can have it");
    config_place_expect_error(CONFIG_NODES "classes = ( { class = \"a\"; },\n { class = \"a\"; } );\n",
                              "t.conf:3: the class a has a second entry (t.conf:2)");
    static const char *const prefixes[] = {"hf:x", "hf:", "hf", "h"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, CONFIG_NODES "lock = { prefix = \"%s\"; };\n", prefixes[i]);
        config_place_expect_error(text,
                                  "t.conf:2: lock.prefix: makes keys that begin with hf:, which are Holdfast's own");
    }
}

TEST(an_even_number_of_nodes_is_an_error)
{
    struct findings findings;
    config_place_read(CONFIG_NODES "lock_nodes = (\n { host = \"a\"; },\n { host = \"b\"; } );", &findings);
    assert_int_equal(findings.errors, 1);
    assert_non_null(findings_find(&findings, ":4: 2 lock nodes tolerate no more failures than 1"));
    findings_fini(&findings);
    config_place_read(CONFIG_NODES "lock_nodes = ( { host = \"a\"; } );", &findings);
    assert_int_equal(findings.errors, 0);
    assert_int_equal(findings.warnings, 0); /* enough for locks that only save work */
    findings_fini(&findings);
}

TEST(all_errors_are_reported)
{
    struct findings findings;
    config_place_read("worker = { threads = 0; thread = 1; };\nlock = { ttl = 5; tries = 30000000000000000000; };\n"
                      "classes = 7;\nbogus = 1;\n",
                      &findings);
    assert_int_equal(findings.errors, 7);
    assert_non_null(findings_find(&findings, "t.conf:1: worker.threads: 0"));
    assert_non_null(findings_find(&findings, "t.conf:1: worker.thread: there is no such key"));
    assert_non_null(findings_find(&findings, "t.conf:2: lock.ttl"));
    assert_non_null(findings_find(&findings, "t.conf:2: the number 30000000000000000000"));
    assert_non_null(findings_find(&findings, "t.conf:3: classes"));
    assert_non_null(findings_find(&findings, "t.conf:4: bogus"));
    assert_non_null(findings_find(&findings, "queue_node is missing"));
    findings_fini(&findings);
}

TEST(syntax_errors_tell_file_and_line)
{
    static const char *const texts[] = {"a = 1;\nworker = { threads = ; };\n", "a = 1;\nworker = { = 3 };\n",
                                        "a = 1;\na = 2;\n", "a = 1;\nb = [1, \"x\"];\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct findings findings;
        assert_null(config_place_read(texts[i], &findings));
        assert_int_equal(findings.errors, 1);
        assert_non_null(findings_find(&findings, "t.conf:2: "));
        findings_fini(&findings);
    }
    config_place_expect_error("a = 1;\nb = \"open;\n",
                              "t.conf:2: this text has no closing quotation mark in its line; a long one goes on in a "
                              "text of the next line: \"...\" \"...\"");
    config_place_expect_error("a = \"open;\nb = \"shut\";\n",
                              "t.conf:1: this text has no closing quotation mark in its line; a long one goes on in a "
                              "text of the next line: \"...\" \"...\"");
    config_place_expect_error("a = 1;\nb = open\";\nc = \"shut\";\n",
                              "t.conf:2: this text has no closing quotation mark in its line; a long one goes on in a "
                              "text of the next line: \"...\" \"...\"");
    config_place_expect_error("a = 1;\n\n/* open\n", "t.conf:3: this comment is not closed with */");
}

/* --- integers ----------------------------------------------------------------------------------------------- */

#define CUT(where, literal)                                                                                            \
    where ": the number " literal " does not fit into 32 bits (or has the suffix L); write a quantity with its unit "  \
          "as a text, such as \"90s\" or \"4MiB\""

TEST(integers_that_would_be_cut_are_errors)
{
    config_place_expect_error(CONFIG_NODES "worker = { threads = 3000000000; };\n", CUT("t.conf:2", "3000000000"));
    config_place_expect_error(CONFIG_NODES "worker = { threads = 4294967304; };\n",
                              CUT("t.conf:2", "4294967304")); /* 8 if it were cut */
    config_place_expect_error(CONFIG_NODES "worker = { threads = -2147483649; };\n", CUT("t.conf:2", "-2147483649"));
    config_place_expect_error(CONFIG_NODES "worker = { threads = 8L; };\n", CUT("t.conf:2", "8L"));
    config_place_expect_error(CONFIG_NODES "worker = { threads = 0xFFFFFFFF; };\n", CUT("t.conf:2", "0xFFFFFFFF"));
    config_place_expect_error(CONFIG_NODES "worker = { threads = 99999999999999999999999; };\n",
                              CUT("t.conf:2", "99999999999999999999999"));
}

TEST(digits_elsewhere_are_no_integers)
{
    struct config *config =
        config_place_read_good("# 3000000000\n// 3000000000L\n/* 3000000000\n 3000000000 */\n" CONFIG_NODES
                               "worker = { log_file = \"/h3000000000 \\\" 3000000000\"; threads = 0x10; };\n"
                               "lock = { drift_factor = 0.03; };\n"
                               "plugin_settings = ( { plugin = \"p\"; settings = { a3000000000 = \"1\"; }; } );");
    assert_int_equal(config->worker.threads, 16);
    assert_string_equal(config->worker.log_file, "/h3000000000 \" 3000000000");
}

RUN_TESTS_WITH(config_place_enter, config_place_leave)
