/* What the tasks of a class need their locks for, as the configuration and its handler say: what follows from it, what
 * contradicts it, and that a resource belongs to one mode. */
#include "tests/support/test.h"

#include "tests/support/config_place.h"
#include "worker/locks/task_resources.h"
#include "worker/startup_check.h"
#include "worker/task/task_rules.h"

#define THREE "lock_nodes = ( { host = \"a\"; }, { host = \"b\"; }, { host = \"c\"; } );\n"
#define ONE   "lock_nodes = ( { host = \"a\"; } );\n"

static struct plugins *plugins, *few; /* `few` are those of a worker with few lock nodes */

static int enter(void **state)
{
    struct findings findings = {0};
    char directory[512], name[] = "modes";
    char *names[] = {name};
    snprintf(directory, sizeof directory, "%s/tests/plugins", test_build());
    plugins = plugins_load(directory, names, 1, &findings);
    few = plugins_load(directory, names, 1, &findings);
    return findings.errors == 0 ? config_place_enter(state) : -1;
}

static int leave(void **state)
{
    plugins_close(plugins);
    plugins_close(few);
    return config_place_leave(state);
}

/* --- modes -------------------------------------------------------------------------------------------------------- */

static void assert_mode(const char *text, const char *class_name, enum config_mode mode)
{
    struct config *config = config_place_read_good(text);
    const struct config_class *entry = config_class_find(config, class_name);
    enum config_mode found = class_mode_of(config, entry, plugins_find(plugins, class_name));
    if (found != mode)
        fail_msg("%s with %s: %s", class_name, text, class_mode_name(found));
}

TEST(the_configuration_says_the_mode_before_the_handler)
{
    assert_mode(CONFIG_NODES THREE, "modes.careful", CONFIG_MODE_CORRECTNESS);
    assert_mode(CONFIG_NODES THREE, "modes.quick", CONFIG_MODE_EFFICIENCY);
    assert_mode(CONFIG_NODES THREE, "modes.free", CONFIG_MODE_NONE);
    assert_mode(CONFIG_NODES THREE "classes = ( { class = \"modes.careful\"; mode = \"efficiency\"; } );",
                "modes.careful", CONFIG_MODE_EFFICIENCY);
    assert_mode(CONFIG_NODES THREE "classes = ( { class = \"modes.quick\"; mode = \"correctness\"; } );", "modes.quick",
                CONFIG_MODE_CORRECTNESS);
    assert_mode(CONFIG_NODES THREE "classes = ( { class = \"modes.quick\"; mode = \"none\"; } );", "modes.quick",
                CONFIG_MODE_NONE);
    assert_mode(CONFIG_NODES THREE "classes = ( { class = \"modes.careful\"; lock = \"none\"; } );", "modes.careful",
                CONFIG_MODE_NONE);
}

TEST(a_handler_that_says_nothing_gets_what_the_locks_are_good_for)
{
    assert_mode(CONFIG_NODES THREE, "modes.silent", CONFIG_MODE_CORRECTNESS);
    assert_mode(CONFIG_NODES ONE, "modes.silent", CONFIG_MODE_EFFICIENCY);
    assert_mode(CONFIG_NODES THREE "lock = { fence = false; };", "modes.silent", CONFIG_MODE_EFFICIENCY);
    assert_mode(CONFIG_NODES THREE "classes = ( { class = \"modes.silent\"; fence = \"no\"; } );", "modes.silent",
                CONFIG_MODE_EFFICIENCY);
    assert_mode(CONFIG_NODES THREE
                "lock = { fence = false; }; classes = ( { class = \"modes.silent\"; fence = \"yes\"; } );",
                "modes.silent", CONFIG_MODE_CORRECTNESS);
}

/* --- contradictions ----------------------------------------------------------------------------------------------- */

static void find(const char *text, struct findings *findings)
{
    *findings = (struct findings){.count = 0};
    struct config *config = config_place_read(text, findings);
    assert_non_null(config);
    startup_check(config, plugins, findings);
}

/* The one error that there is, at `where`. */
static void assert_error(const char *text, const char *where, const char *error)
{
    struct findings findings;
    find(text, &findings);
    const char *found = findings_find(&findings, error);
    if (findings.errors != 1 || found == NULL || strncmp(found, where, strlen(where)) != 0) {
        findings_print(&findings, stderr);
        fail_msg("expected %s ... %s", where, error);
    }
    findings_fini(&findings);
}

#define CAREFUL(more) CONFIG_NODES THREE "classes = (\n { class = \"modes.careful\"; " more " } );\n"
#define QUICK(more)   CONFIG_NODES THREE "classes = (\n { class = \"modes.quick\"; " more " } );\n"

TEST(correctness_needs_nodes_and_tokens_and_never_gives_in)
{
    struct findings findings;
    find(CONFIG_NODES THREE, &findings);
    assert_int_equal(findings.errors + findings.warnings, 0);
    assert_error(CONFIG_NODES THREE "lock = { fence = false; };\n", test_build(),
                 "the class modes.careful has the mode correctness and no fencing tokens; set fence = \"yes\" for it");
    assert_error(CAREFUL("fence = \"no\";"), "t.conf:4: ", "no fencing tokens");
    assert_error(CAREFUL("on_no_quorum = \"open\";"), "t.conf:4: on_no_quorum = \"open\": the class modes.careful",
                 "never runs without its lock");
    assert_error(CAREFUL("on_conflict = \"skip\";"),
                 "t.conf:4: on_conflict = \"skip\": ", "work that is skipped is lost");
    assert_error(CAREFUL("hold_at_least = \"1s\";"), "t.conf:4: hold_at_least: ", "whose locks end with their tasks");
    assert_error(QUICK("mode = \"correctness\"; hold_at_least = \"1s\";"), "t.conf:4: hold_at_least: ", "modes.quick");
    assert_error(CAREFUL("lock = \"none\"; mode = \"correctness\";"),
                 "t.conf:4: ", "lock and mode contradict each other; keep one");
    assert_error(CAREFUL("lock = \"required\"; mode = \"none\";"),
                 "t.conf:4: ", "lock and mode contradict each other; keep one");
    assert_error(CONFIG_NODES THREE "classes = (\n { class = \"modes.free\"; lock = \"required\"; } );\n",
                 "t.conf:4: ", "lock = \"required\": the handler of modes.free says that its tasks are never locked");
}

/* Only that class: with one lock node the worker serves the others. */
TEST(correctness_without_enough_nodes_is_refused_for_its_class)
{
    struct findings findings = {0};
    struct config *config = config_place_read(CONFIG_NODES ONE, &findings);
    size_t count = plugins_handler_count(few);
    startup_leave_out(config, few, &findings);
    startup_check(config, few, &findings);
    assert_int_equal(findings.errors, 0);
    assert_int_equal(findings.warnings, 1);
    assert_non_null(findings_find(&findings,
                                  "modes.so: this worker does not serve the class modes.careful: its mode is "
                                  "correctness, which needs at least 3 lock_nodes, and there are 1"));
    assert_null(plugins_find(few, "modes.careful"));
    assert_non_null(plugins_find(few, "modes.silent"));
    assert_int_equal(plugins_handler_count(few), count - 1);
    findings_fini(&findings);
}

TEST(everything_else_is_allowed)
{
    static const char *const good[] = {
        CAREFUL("on_conflict = \"delay\";"),
        CAREFUL("on_conflict = \"fail\";"),
        CAREFUL("mode = \"efficiency\"; fence = \"no\"; on_no_quorum = \"open\"; on_conflict = \"skip\"; hold_at_least "
                "= \"60s\";"),
        CAREFUL("mode = \"none\"; on_no_quorum = \"open\"; hold_at_least = \"1s\";"),
        CAREFUL("lock = \"none\"; mode = \"none\";"),
        QUICK("mode = \"correctness\";"),
        CONFIG_NODES THREE "classes = ( { class = \"modes.free\"; lock = \"required\"; mode = \"correctness\"; } );",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct findings findings;
        find(good[i], &findings);
        if (findings.errors + findings.warnings > 0) {
            findings_print(&findings, stderr);
            fail_msg("%s", good[i]);
        }
        findings_fini(&findings);
    }
}

TEST(nothing_is_held_for_longer_than_keys_live)
{
    struct findings findings = {0};
    struct config *config = config_place_read_good(CONFIG_NODES THREE);
    startup_check_holds(config, plugins, 0, &findings);
    startup_check_holds(config, plugins, 1500 * NS_PER_MS, &findings);
    assert_int_equal(findings.errors, 0);
    startup_check_holds(config, plugins, 1499 * NS_PER_MS, &findings);
    assert_int_equal(findings.errors, 1);
    assert_non_null(findings_find(
        &findings,
        "modes.so: hold_at_least of the class modes.quick: is above the max_ttl of the lock group, which is 1499 ms"));
    findings_fini(&findings);
    config = config_place_read_good(QUICK("hold_at_least = \"9s\";"));
    startup_check_holds(config, plugins, 8 * NS_PER_S, &findings);
    assert_non_null(findings_find(&findings, "t.conf:4: hold_at_least of the class modes.quick"));
    findings_fini(&findings);
    config = config_place_read_good(QUICK("mode = \"correctness\";"));
    startup_check_holds(config, plugins, NS_PER_S, &findings);
    assert_int_equal(findings.errors, 0);
}

/* --- resources ---------------------------------------------------------------------------------------------------- */

TEST(templates_are_checked_with_their_place)
{
    assert_error(CAREFUL("resource = \"account:{0\";"),
                 "t.conf:4: resource: byte 9 of \"account:{0\": ", "this brace is not closed");
    assert_error(CAREFUL("resource = [\"account:{0}\", \"{x}\"];"),
                 "t.conf:4: resource: byte 2 of \"{x}\": ", "number of an argument");
    assert_error(CAREFUL("mode = \"none\"; resource = \"{\";"), "t.conf:4: resource: ", "not closed");
    assert_error(CONFIG_NODES THREE "classes = (\n { class = \"stranger\"; resource = \"{\"; } );\n",
                 "t.conf:4: resource: ", "not closed");
    assert_error(CAREFUL("resource = 7;"),
                 "t.conf:4: classes[0].resource: ", "expected a text, or a list of 0 to 16 texts");
}

TEST(a_resource_belongs_to_one_mode)
{
    assert_error(
        CONFIG_NODES THREE
        "classes = (\n { class = \"modes.careful\"; },\n { class = \"modes.quick\"; resource = \"account:{0}\"; } );\n",
        "t.conf:5: the class modes.quick has the resource \"account:{0}\" in mode efficiency",
        "the class modes.careful has \"account:{0}\" in mode correctness (t.conf:4): a resource belongs to one mode");
    assert_error(CONFIG_NODES THREE "classes = (\n { class = \"modes.quick\"; resource = [\"x:{0}\", \"{1}\"]; } );\n",
                 "t.conf:4: ", "a resource belongs to one mode");
    struct findings findings;
    find(CONFIG_NODES THREE "classes = ( { class = \"modes.free\"; resource = \"account:{0}\"; },\n"
                            " { class = \"modes.silent\"; resource = \"account:{0}\"; } );\n",
         &findings);
    assert_int_equal(findings.errors, 0);
}

TEST(a_resource_has_one_limit)
{
    assert_error(CONFIG_NODES THREE "classes = (\n { class = \"modes.careful\"; resource = \"account:{0}\"; },\n"
                                    " { class = \"modes.silent\"; resource = \"account:{1}\"; limit = 3; } );\n",
                 "t.conf:5: the class modes.silent has the resource \"account:{1}\" and a limit of 3",
                 "the class modes.careful has \"account:{0}\" and a limit of 1 (t.conf:4): a resource has one limit");
    assert_error(CONFIG_NODES THREE
                 "classes = (\n { class = \"modes.careful\"; resource = [\"a:{0}\", \"b:{0}\"]; limit = 2; } );\n",
                 "t.conf:4: limit: the class modes.careful has 2 resources", "a limit is for one");
    struct findings findings;
    find(CONFIG_NODES THREE "classes = ( { class = \"modes.careful\"; resource = \"account:{0}\"; limit = 3; },\n"
                            " { class = \"modes.silent\"; resource = \"account:{0}\"; limit = 3; },\n"
                            " { class = \"modes.free\"; resource = \"account:{0}\"; } );\n",
         &findings);
    assert_int_equal(findings.errors, 0);
}

static enum task_resources_answer resolve(const char *config_text, const char *task, struct task_resources *resources,
                                          struct error *error)
{
    static struct envelope envelope;
    struct findings findings = {0};
    struct config *config = config_place_read_good(config_text);
    struct class_resources *known = class_resources_create(config, plugins, &findings);
    assert_int_equal(findings.errors, 0);
    *error = ERROR_NONE;
    assert_true(envelope_parse(&envelope, task, strlen(task), &ENVELOPE_LIMITS_DEFAULT, error));
    struct task_rules rules = task_rules_of(&envelope, config, plugins_find(plugins, envelope.class_name));
    enum task_resources_answer answer = task_resources_resolve(resources, &envelope, &rules, known, error);
    class_resources_free(known);
    return answer;
}

#define ACCOUNTS(args, more) "{\"class\":\"modes.careful\",\"args\":[" args "]" more "}"

TEST(a_task_names_its_resources_or_its_class_does)
{
    struct task_resources resources = {0};
    struct error error;
    assert_int_equal(resolve(CONFIG_NODES THREE, ACCOUNTS("\"b\",\"a\"", ""), &resources, &error), TASK_RESOURCES_OK);
    assert_int_equal(resources.count, 2);
    assert_string_equal(resources.names[0], "account:a");
    assert_string_equal(resources.names[1], "account:b");
    assert_int_equal(
        resolve(CAREFUL("resource = [\"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\", \"k\", "
                        "\"l\", \"m\", \"n\", \"o\", \"p\", \"a\"];"),
                ACCOUNTS("", ""), &resources, &error),
        TASK_RESOURCES_OK);
    assert_int_equal(resources.count, ENVELOPE_RESOURCES_MAX);
    assert_string_equal(resources.names[0], "a");
    assert_string_equal(resources.names[15], "p");
    assert_int_equal(resolve(CONFIG_NODES THREE, ACCOUNTS("7,7", ""), &resources, &error), TASK_RESOURCES_OK);
    assert_int_equal(resources.count, 1);
    assert_string_equal(resources.names[0], "account:7");
    assert_int_equal(resolve(CONFIG_NODES THREE, ACCOUNTS("1,2", ",\"resource\":\"account:own\""), &resources, &error),
                     TASK_RESOURCES_OK);
    assert_int_equal(resources.count, 1);
    assert_string_equal(resources.names[0], "account:own");
    assert_int_equal(resolve(CAREFUL("resource = \"all\";"), ACCOUNTS("", ""), &resources, &error), TASK_RESOURCES_OK);
    assert_string_equal(resources.names[0], "all");
    assert_int_equal(resolve(CONFIG_NODES THREE, "{\"class\":\"modes.silent\",\"args\":[]}", &resources, &error),
                     TASK_RESOURCES_NONE);
    assert_int_equal(
        resolve(CONFIG_NODES THREE, "{\"class\":\"modes.free\",\"args\":[1],\"resource\":\"x\"}", &resources, &error),
        TASK_RESOURCES_NONE);
    assert_int_equal(resources.count, 0);
    task_resources_fini(&resources);
}

TEST(a_task_of_a_class_with_a_limit_locks_one_resource_of_that_limit)
{
    static const char config[] =
        CONFIG_NODES THREE "classes = ( { class = \"modes.careful\"; resource = \"account:{0}\"; limit = 3; },\n"
                           " { class = \"modes.silent\"; limit = 2; } );\n";
    struct task_resources resources = {0};
    struct error error;
    assert_int_equal(resolve(config, ACCOUNTS("7", ""), &resources, &error), TASK_RESOURCES_OK);
    assert_string_equal(resources.names[0], "account:7");
    assert_int_equal(resolve(config, ACCOUNTS("7", ",\"resource\":[\"account:7\"]"), &resources, &error),
                     TASK_RESOURCES_OK);
    assert_int_equal(resolve(config, ACCOUNTS("7", ",\"resource\":[\"account:7\",\"b\"]"), &resources, &error),
                     TASK_RESOURCES_BAD);
    assert_string_equal(resources.fault, "HF::BadResource");
    assert_contains(error.text, "a limit of 3, which is for one resource, and it names 2");
    assert_int_equal(
        resolve(config, "{\"class\":\"modes.silent\",\"args\":[],\"resource\":\"account:7\"}", &resources, &error),
        TASK_RESOURCES_BAD);
    assert_string_equal(resources.fault, "HF::ResourceMode");
    assert_contains(error.text, "a limit of 2, and a resource that begins with \"account:\" has a limit of 3");
    assert_int_equal(resolve(config, "{\"class\":\"modes.silent\",\"args\":[],\"resource\":\"x\"}", &resources, &error),
                     TASK_RESOURCES_OK);
    task_resources_fini(&resources);
}

TEST(what_cannot_be_locked_is_bad)
{
    struct task_resources resources = {0};
    struct error error;
    assert_int_equal(resolve(CONFIG_NODES THREE, ACCOUNTS("1", ""), &resources, &error), TASK_RESOURCES_BAD);
    assert_string_equal(resources.fault, "HF::BadResource");
    assert_contains(error.text, "the resource \"account:{1}\": {1} is missing");
    assert_int_equal(resources.count, 0);
    assert_int_equal(
        resolve(CONFIG_NODES THREE, ACCOUNTS("1,2", ",\"resource\":[\"account:1\",\"page:2\"]"), &resources, &error),
        TASK_RESOURCES_BAD);
    assert_string_equal(resources.fault, "HF::ResourceMode");
    assert_contains(error.text, "its class has the mode correctness, and a resource that begins with \"page:\" belongs "
                                "to the mode efficiency: the class modes.quick has the resource \"page:{0.id}\"");
    assert_int_equal(resolve(CONFIG_NODES THREE, "{\"class\":\"modes.quick\",\"args\":[],\"resource\":\"account:1\"}",
                             &resources, &error),
                     TASK_RESOURCES_BAD);
    assert_int_equal(resolve(CONFIG_NODES THREE, "{\"class\":\"modes.silent\",\"args\":[],\"resource\":\"account:1\"}",
                             &resources, &error),
                     TASK_RESOURCES_OK);
    task_resources_fini(&resources);
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

static struct task_rules rules_of(const char *config_text, const char *class_name)
{
    static struct envelope envelope;
    char task[128];
    struct error error = ERROR_NONE;
    snprintf(task, sizeof task, "{\"class\":\"%s\",\"args\":[]}", class_name);
    assert_true(envelope_parse(&envelope, task, strlen(task), &ENVELOPE_LIMITS_DEFAULT, &error));
    struct config *config = config_place_read_good(config_text);
    struct task_rules rules = task_rules_of(&envelope, config, plugins_find(plugins, class_name));
    return rules;
}

TEST(what_a_class_says_about_waiting_is_merged)
{
    struct task_rules rules = rules_of(CONFIG_NODES THREE, "modes.silent");
    assert_true(rules.on_conflict == CONFIG_CONFLICT_PARK && rules.conflict_delay_ns == NS_PER_S && !rules.fails_open);
    assert_true(rules.waiters_max == 0 && rules.on_crowd == CONFIG_CROWD_DEAD && rules.share == 16 && !rules.must_lock);
    rules = rules_of(CONFIG_NODES THREE, "modes.careful");
    assert_true(rules.must_lock && rules.on_conflict == CONFIG_CONFLICT_FAIL);
    rules = rules_of(CONFIG_NODES THREE, "modes.quick");
    assert_true(rules.on_conflict == CONFIG_CONFLICT_SKIP && rules.hold_at_least_ns == 1500 * NS_PER_MS);
    /* What it says about efficiency does not count in another mode. */
    rules = rules_of(QUICK("mode = \"correctness\";"), "modes.quick");
    assert_true(rules.on_conflict == CONFIG_CONFLICT_PARK && rules.hold_at_least_ns == 0);
    rules = rules_of(QUICK("on_conflict = \"delay\"; conflict_delay = \"3s\"; hold_at_least = \"4s\"; on_no_quorum = "
                           "\"open\"; max_waiters = 9; on_crowd = \"drop\"; share = 50;"),
                     "modes.quick");
    assert_true(rules.on_conflict == CONFIG_CONFLICT_DELAY && rules.conflict_delay_ns == 3 * NS_PER_S);
    assert_true(rules.hold_at_least_ns == 4 * NS_PER_S && rules.fails_open && rules.waiters_max == 9);
    assert_true(rules.on_crowd == CONFIG_CROWD_DROP && rules.share == 8);
    rules = rules_of("worker = { threads = 3; }; lock = { max_waiters = 5; park_delay = \"7s\"; };\n" QUICK(
                         "share = 1; on_crowd = \"delay\";"),
                     "modes.quick");
    assert_true(rules.share == 1 && rules.waiters_max == 5 && rules.conflict_delay_ns == 7 * NS_PER_S &&
                rules.on_crowd == CONFIG_CROWD_DELAY);
}

RUN_TESTS_WITH(enter, leave)
