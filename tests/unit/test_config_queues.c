/* What the configuration says about queues: weights, the classes that they may run, and the option that overrides
 * which are served. And the flag, the type that came with allow_root. */
#include "tests/support/test.h"

#include "tests/support/config_place.h"

TEST(weights_and_classes_are_read)
{
    struct config *config = config_place_read_good(
        CONFIG_NODES "worker = { queues = [\"critical\", \"low\"]; queue_order = \"weighted\"; };\n"
                     "queue_settings = ({ queue = \"critical\"; weight = 6; },\n"
                     "                  { queue = \"low\"; classes = [\"a\", \"b\"]; });\n");
    assert_int_equal(config->worker.queue_order, CONFIG_ORDER_WEIGHTED);
    assert_int_equal(config_queue_weight(config, "critical"), 6);
    assert_int_equal(config_queue_weight(config, "low"), 1);
    assert_int_equal(config_queue_weight(config, "other"), 1);
    assert_true(config_queue_allows(config, "critical", "c"));
    assert_true(config_queue_allows(config, "other", "c"));
    assert_true(config_queue_allows(config, "low", "b"));
    assert_false(config_queue_allows(config, "low", "c"));
}

TEST(the_order_is_strict_unless_it_is_said)
{
    struct config *config = config_place_read_good(CONFIG_NODES);
    assert_int_equal(config->worker.queue_order, CONFIG_ORDER_STRICT);
    assert_int_equal(config->queue_count, 0);
}

TEST(what_cannot_be_is_an_error)
{
    config_place_expect_error(CONFIG_NODES "worker = { queue_order = \"random\"; };\n",
                              "t.conf:2: worker.queue_order: random is not allowed here; expected \"strict\" or "
                              "\"weighted\"");
    config_place_expect_error(CONFIG_NODES "queue_settings = ({ queue = \"default\"; weight = 0; });\n",
                              "t.conf:2: queue_settings[0].weight: 0 is not allowed here; expected a whole number from "
                              "1 to 1000");
    config_place_expect_error(CONFIG_NODES "queue_settings = ({ weight = 1; });\n",
                              "t.conf:2: queue_settings[0]: the key queue is missing");
    config_place_expect_error(CONFIG_NODES "queue_settings = ({ queue = \"default\"; },\n{ queue = \"default\"; });\n",
                              "t.conf:3: the queue default has a second entry (t.conf:2)");
    config_place_expect_error(CONFIG_NODES
                              "queue_settings = ({ queue = \"default\"; classes = [\"\xC3\xA4\", \"a\xFF\"]; });\n",
                              "t.conf:2: queue_settings[0].classes: the name of class 2 is not UTF-8, so no task can "
                              "have it");
    config_place_expect_error(CONFIG_NODES "worker = { queues = [\"hf:x\"]; };\nqueue_settings = ();\n",
                              "t.conf:2: worker.queues: the name of queue 1 is not 1 to 128 bytes of UTF-8 without "
                              "blanks and control characters, or begins with hf:");
}

TEST(what_has_no_effect_is_a_warning)
{
    struct findings findings;
    config_place_read(CONFIG_NODES "queue_settings = ({ queue = \"other\"; weight = 2; });\n", &findings);
    assert_int_equal(findings.errors, 0);
    assert_int_equal(findings.warnings, 2);
    assert_non_null(findings_find(&findings, "t.conf:2: the queue other is not served here"));
    assert_non_null(findings_find(&findings, "weights mean nothing while worker.queue_order is strict"));
    findings_fini(&findings);
}

TEST(the_option_overrides_what_is_served)
{
    struct findings findings = {0};
    struct config *config = config_place_read_good(CONFIG_NODES "worker = { queues = [\"a\", \"b\"]; };\n");
    config_serve_queues(config, "x,y", &findings);
    assert_int_equal(findings.errors, 0);
    assert_int_equal(config->worker.queues.count, 2);
    assert_string_equal(config->worker.queues.items[0], "x");
    assert_string_equal(config->worker.queues.items[1], "y");
    config_serve_queues(config, "x,,x", &findings);
    assert_int_equal(findings.errors, 2);
    assert_non_null(findings_find(&findings, "--queues: a name is not 1 to 128 bytes"));
    assert_non_null(findings_find(&findings, "--queues: names the queue x twice"));
    findings_fini(&findings);
}

TEST(a_flag_is_true_or_false)
{
    struct config *config = config_place_read_good(CONFIG_NODES "worker = { allow_root = true; };\n");
    assert_true(config->worker.allow_root);
    config = config_place_read_good(CONFIG_NODES "worker = { allow_root = false; };\n");
    assert_false(config->worker.allow_root);
    config_place_expect_error(
        CONFIG_NODES "worker = { allow_root = \"true\"; };\n",
        "t.conf:2: worker.allow_root: expected true or false, found a text in quotes; write allow_root = true");
    config_place_expect_error(CONFIG_NODES "worker = { allow_root = 1; };\n",
                              "t.conf:2: worker.allow_root: expected true or false, found a whole number");
}

RUN_TESTS_WITH(config_place_enter, config_place_leave)
