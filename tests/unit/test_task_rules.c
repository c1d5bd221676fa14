/* How a task is treated: itself before the configuration of its class, that before the handler, that before the
 * usual. */
#include "tests/support/test.h"

#include "worker/task/task_rules.h"

static struct envelope envelope;
static struct config_class entry;
static struct config config;
static struct plugin_handler handler;

static int set_up(void **state)
{
    static char name[] = "c";
    (void)state;
    entry = (struct config_class){.name = name};
    config = (struct config){.classes = &entry, .class_count = 1};
    handler = (struct plugin_handler){.class_name = "c"};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    envelope_fini(&envelope);
    envelope = (struct envelope){.jid = NULL};
    return 0;
}

static struct task_rules rules_of(const char *members)
{
    static char text[1024];
    struct error error = ERROR_NONE;
    snprintf(text, sizeof text, "{\"class\":\"c\",\"args\":[]%s}", members);
    if (!envelope_parse(&envelope, text, strlen(text), &ENVELOPE_LIMITS_DEFAULT, &error))
        fail_msg("%s: %s", text, error.text);
    return task_rules_of(&envelope, &config, &handler);
}

static void assert_retries(const char *members, bool off, unsigned max, int64_t for_s)
{
    struct task_rules rules = rules_of(members);
    if (rules.retry_off != off || (for_s < 0 && rules.retry_max != max) ||
        rules.retry_for_us != (for_s < 0 ? -1 : for_s * US_PER_S))
        fail_msg("%s: off %d, max %u, for %lld us", members, rules.retry_off, rules.retry_max,
                 (long long)rules.retry_for_us);
}

/* --- retries ---------------------------------------------------------------------------------------------------- */

TEST(a_task_alone_has_what_is_usual)
{
    assert_retries("", false, 25, -1);
    struct task_rules rules = rules_of("");
    assert_string_equal(rules.retry_queue, "");
    assert_false(rules.dead_off || rules.at_most_once);
    assert_int_equal(rules.backtrace, 0);
    assert_int_equal(rules.expiry.us, 0);
    assert_null(rules.refused_class);
    rules = task_rules_of(&envelope, &(struct config){.path = NULL}, NULL);
    assert_int_equal(rules.retry_max, 25);
}

TEST(the_class_says_more_about_its_lock_than_the_lock_section)
{
    config.lock = (struct config_lock){.fence = true};
    struct task_rules rules = rules_of("");
    assert_false(rules.unfenced);
    assert_int_equal(rules.max_hold_ns, 0);
    assert_int_equal(rules.on_lost, CONFIG_LOST_RETRY);
    config.lock = (struct config_lock){.fence = false, .max_hold_ns = 7};
    rules = rules_of("");
    assert_true(rules.unfenced);
    assert_int_equal(rules.max_hold_ns, 7);
    entry.fence = CONFIG_FENCE_YES;
    entry.max_hold_ns = 5;
    entry.on_lost = CONFIG_LOST_DEAD;
    rules = rules_of("");
    assert_false(rules.unfenced);
    assert_int_equal(rules.max_hold_ns, 5);
    assert_int_equal(rules.on_lost, CONFIG_LOST_DEAD);
    config.lock.fence = true;
    entry.fence = CONFIG_FENCE_NO;
    assert_true(rules_of("").unfenced);
}

/* What names no number leaves it to the class; what names one, or says no, does not. */
TEST(only_a_number_or_a_no_is_the_tasks_own_word)
{
    static char seven[] = "7";
    static const char *const silent[] = {"", ",\"retry\":true", ",\"retry\":\"true\"", ",\"retry\":\"yes\"",
                                         ",\"retry\":3.5"};
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++) {
        set_up(NULL);
        assert_retries(silent[i], false, 25, -1);
        handler.retries = 5;
        assert_retries(silent[i], false, 5, -1);
        handler.retry_for_ms = 90 * MS_PER_S;
        assert_retries(silent[i], false, 0, 90);
        handler.flags = HF_NO_RETRY;
        assert_retries(silent[i], false, 0, -1);
        entry.retry = seven;
        assert_retries(silent[i], false, 7, -1);
    }
    assert_retries(",\"retry\":3", false, 3, -1);
    assert_retries(",\"retry\":\"0\"", false, 0, -1);
    assert_retries(",\"retry\":false", true, 25, -1);
    assert_retries(",\"retry\":null", true, 25, -1);
    assert_retries(",\"retry_for\":60", false, 0, 60);
    assert_retries(",\"retry_for\":60,\"retry\":true", false, 0, 60);
}

TEST(the_configuration_decides_over_the_handler)
{
    static char no[] = "no", as_handler[] = "handler";
    handler.retries = 5;
    entry.retry = no;
    assert_retries("", false, 0, -1);
    entry.retry = as_handler;
    assert_retries("", false, 5, -1);
    entry.retry_for_ns = 60 * NS_PER_S;
    assert_retries("", false, 0, 60);
    handler.flags = HF_NO_RETRY;
    assert_retries("", false, 0, 60);
    assert_retries(",\"retry\":4", false, 4, -1);
}

/* --- the rest --------------------------------------------------------------------------------------------------- */

TEST(queue_and_backtrace_are_taken_from_the_first_who_says_one)
{
    static char low[] = "low";
    handler.retry_queue = "handlers";
    assert_string_equal(rules_of("").retry_queue, "handlers");
    entry.retry_queue = low;
    assert_string_equal(rules_of("").retry_queue, "low");
    assert_string_equal(rules_of(",\"retry_queue\":\"own\"").retry_queue, "own");
    assert_string_equal(rules_of(",\"retry_queue\":\"hf:x\"").retry_queue, "low");
    assert_int_equal(rules_of("").backtrace, 0);
    entry.backtrace = 12;
    assert_int_equal(rules_of("").backtrace, 12);
    assert_int_equal(rules_of(",\"backtrace\":null").backtrace, 12);
    assert_int_equal(rules_of(",\"backtrace\":3").backtrace, 3);
    assert_int_equal(rules_of(",\"backtrace\":false").backtrace, 0);
    assert_int_equal(rules_of(",\"backtrace\":true").backtrace, ENVELOPE_BACKTRACE_ALL);
}

TEST(a_grave_can_be_refused_by_each)
{
    assert_true(rules_of(",\"dead\":false").dead_off);
    handler.flags = HF_NO_GRAVE;
    assert_true(rules_of("").dead_off);
    entry.dead = CONFIG_YES;
    assert_false(rules_of("").dead_off);
    assert_true(rules_of(",\"dead\":false").dead_off);
    handler.flags = 0;
    entry.dead = CONFIG_NO;
    assert_true(rules_of(",\"dead\":true").dead_off);
}

TEST(at_most_once_is_the_configurations_word_or_the_handlers)
{
    handler.flags = HF_AT_MOST_ONCE;
    assert_true(rules_of("").at_most_once);
    entry.at_most_once = CONFIG_NO;
    assert_false(rules_of("").at_most_once);
    handler.flags = 0;
    entry.at_most_once = CONFIG_YES;
    assert_true(rules_of("").at_most_once);
}

#define CREATED ",\"created_at\":1795194000.5,\"enqueued_at\":1795194100.5"

TEST(a_class_may_let_its_tasks_expire)
{
    handler.expires_in_ms = 60 * MS_PER_S;
    assert_int_equal(rules_of(CREATED).expiry.us, INT64_C(1795194160500000));
    assert_int_equal(rules_of(",\"created_at\":1795194000.5").expiry.us, INT64_C(1795194060500000));
    assert_int_equal(rules_of("").expiry.us, 0);
    assert_int_equal(rules_of(CREATED ",\"retry_count\":0").expiry.us, 0);
    entry.expires_in_ns = 10 * NS_PER_S;
    assert_int_equal(rules_of(CREATED).expiry.us, INT64_C(1795194110500000));
    assert_int_equal(rules_of(CREATED ",\"expires_in\":5").expiry.us, INT64_C(1795194005500000));
    struct task_rules rules = rules_of(CREATED ",\"expires_at\":1795194001");
    assert_false(task_rules_expired(&rules, (struct wall_time){INT64_C(1795194000999999)}));
    assert_true(task_rules_expired(&rules, (struct wall_time){INT64_C(1795194001000000)}));
    rules = rules_of(CREATED ",\"retry_count\":0");
    assert_false(task_rules_expired(&rules, (struct wall_time){INT64_MAX}));
}

TEST(batches_and_secrets_are_refused)
{
    assert_string_equal(rules_of(",\"bid\":\"abc\"").refused_class, "HF::Batch");
    assert_contains(rules_of(",\"bid\":\"abc\"").refused_reason, "batch");
    assert_null(rules_of(",\"bid\":null,\"encrypt\":false").refused_class);
    config.worker.batches = CONFIG_BATCHES_RUN;
    assert_null(rules_of(",\"bid\":\"abc\"").refused_class);
    assert_string_equal(rules_of(",\"encrypt\":true,\"bid\":\"abc\"").refused_class, "HF::Encrypted");
}

/* The grace counts from the first meeting that the task tells of, unless that lies ahead. */
TEST(a_class_that_is_not_served_has_a_grace)
{
    const int64_t minute_us = 60 * US_PER_S, grace_ns = 600 * NS_PER_S;
    const struct wall_time now = {INT64_C(1795194000000000)};
    const struct {
        int64_t since_us, grace_ns, expected_us;
        bool is_over;
    } cases[] = {
        {0, grace_ns, now.us, false},
        {now.us - 9 * minute_us, grace_ns, now.us - 9 * minute_us, false},
        {now.us - 10 * minute_us, grace_ns, now.us - 10 * minute_us, true},
        {now.us + 1, grace_ns, now.us, false},
        {INT64_MAX, grace_ns, now.us, false},
        {0, 0, now.us, true},
        {now.us + minute_us, 0, now.us, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct task_unserved found = task_rules_unserved((struct wall_time){cases[i].since_us}, cases[i].grace_ns, now);
        assert_int_equal(found.since.us, cases[i].expected_us);
        assert_int_equal(found.is_over, cases[i].is_over);
    }
}

TEST(where_a_task_runs_is_said_by_program_configuration_and_handler)
{
    handler.isolation = HF_ISOLATION_THREAD;
    assert_int_equal(rules_of("").isolation, CONFIG_ISOLATION_THREAD);
    handler.isolation = HF_ISOLATION_PROCESS;
    assert_int_equal(rules_of("").isolation, CONFIG_ISOLATION_PROCESS);
    assert_int_equal(class_isolation_of(NULL, &handler), CONFIG_ISOLATION_PROCESS);
    entry.isolation = CONFIG_ISOLATION_THREAD;
    assert_int_equal(rules_of("").isolation, CONFIG_ISOLATION_THREAD);
    handler.isolation = HF_ISOLATION_THREAD;
    entry.isolation = CONFIG_ISOLATION_PROCESS;
    assert_int_equal(rules_of("").isolation, CONFIG_ISOLATION_PROCESS);
    static const char *const program[] = {"/bin/true", NULL};
    handler.program = program;
    assert_int_equal(rules_of("").isolation, CONFIG_ISOLATION_EXEC);
}

RUN_TESTS_WITH(set_up, tear_down)
