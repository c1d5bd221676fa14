/* The rules of missed ticks, and the task that is pushed for a tick. */
#include "tests/support/test.h"

#include "base/random.h"
#include "worker/periodic/periodic_entry.h"

#define NOW INT64_C(1795284300) /* 2026-11-21 18:05:00 UTC */

static struct config_periodic config_make(const char *cron)
{
    return (struct config_periodic){.name = "a \"name\"",
                                    .cron = (char *)cron,
                                    .zone = "UTC",
                                    .class_name = "report",
                                    .args = "[1e400, 12345678901234567890123]",
                                    .queue = "low",
                                    .retry = "3",
                                    .catch_up_ns = 3600 * NS_PER_S};
}

static void entry_make(struct periodic_entry *entry, const struct config_periodic *config)
{
    struct error error = ERROR_NONE;
    if (!periodic_entry_init(entry, config, &ENVELOPE_LIMITS_DEFAULT, &error))
        fail_msg("%s", error.text);
}

static void assert_plan(const struct periodic_entry *entry, int64_t noted, int64_t now, int64_t tick, bool missed)
{
    bool found_missed;
    int64_t found = periodic_entry_plan(entry, noted, now, &found_missed);
    if (found != tick || found_missed != missed)
        fail_msg("noted %lld, now %lld: tick %lld (%d) instead of %lld (%d)", (long long)(noted - NOW),
                 (long long)(now - NOW), (long long)(found - NOW), found_missed, (long long)(tick - NOW), missed);
}

TEST(the_latest_missed_tick_is_pushed_once)
{
    struct config_periodic config = config_make("*/5 * * * *");
    struct periodic_entry entry;
    entry_make(&entry, &config);
    assert_plan(&entry, NOW, NOW + 1, NOW + 300, false);        /* nothing was missed */
    assert_plan(&entry, NOW - 1, NOW - 1, NOW, false);          /* the next one */
    assert_plan(&entry, NOW - 1, NOW, NOW, false);              /* is due */
    assert_plan(&entry, NOW - 300, NOW + 299, NOW, false);      /* is late */
    assert_plan(&entry, NOW - 300, NOW + 300, NOW + 300, true); /* two are: the later one */
    assert_plan(&entry, NOW - 300000, NOW + 7, NOW, true);
    assert_plan(&entry, 0, NOW + 7, NOW, true);
    periodic_entry_fini(&entry);
}

TEST(too_old_ones_are_nobodys)
{
    struct config_periodic config = config_make("5 18 * * *");
    struct periodic_entry entry;
    entry_make(&entry, &config);
    int64_t day = 86400;
    assert_plan(&entry, NOW - day, NOW + 3600, NOW, false);
    assert_plan(&entry, NOW - day, NOW + 3601, NOW + day, true);
    assert_plan(&entry, NOW, NOW + 3601, NOW + day, false);
    config.catch_up_ns = 7200 * NS_PER_S;
    assert_plan(&entry, NOW - day, NOW + 7200, NOW, false);
    assert_plan(&entry, NOW - day, NOW + 7201, NOW + day, true);
    periodic_entry_fini(&entry);
}

TEST(who_skips_still_has_a_minute)
{
    struct config_periodic config = config_make("5 18 * * *");
    config.missed = CONFIG_MISSED_SKIP;
    struct periodic_entry entry;
    entry_make(&entry, &config);
    assert_plan(&entry, NOW - 86400, NOW + 60, NOW, false);
    assert_plan(&entry, NOW - 86400, NOW + 61, NOW + 86400, true);
    assert_int_equal(periodic_entry_patience_s(&entry), 60);
    periodic_entry_fini(&entry);
}

/* The node's clock was set back: what was pushed is not pushed again. */
TEST(a_note_in_the_future_is_waited_for)
{
    struct config_periodic config = config_make("*/5 * * * *");
    struct periodic_entry entry;
    entry_make(&entry, &config);
    assert_plan(&entry, NOW + 7200, NOW, NOW + 7500, false);
    assert_plan(&entry, PERIODIC_LATEST_S, NOW, PERIODIC_LATEST_S + 1, false);
    periodic_entry_fini(&entry);
}

/* Whatever was noted and however the time goes on: ticks come in order, each once, and none too old. */
TEST(a_life_of_ticks)
{
    static const char *const crons[] = {"* * * * *", "*/7 * * * *", "13 */3 * * *", "0 0 * * *"};
    for (unsigned n = 0; n < 400; n++) {
        struct config_periodic config = config_make(crons[n % 4]);
        config.missed = random_between(0, 1) == 0 ? CONFIG_MISSED_LAST : CONFIG_MISSED_SKIP;
        struct periodic_entry entry;
        entry_make(&entry, &config);
        int64_t noted = NOW, now = NOW;
        for (unsigned turn = 0; turn < 50; turn++) {
            now += random_between(0, random_between(0, 3) == 0 ? 20000 : 90);
            bool missed;
            int64_t tick = periodic_entry_plan(&entry, noted, now, &missed);
            assert_true(tick > noted);
            if (tick > now) { /* then none in between may be pushed */
                int64_t oldest = now - periodic_entry_patience_s(&entry) - 1;
                int64_t first = cron_next(&entry.cron, noted > oldest ? noted : oldest, entry.zone);
                assert_true(first == tick);
                continue;
            }
            assert_true(now - tick <= periodic_entry_patience_s(&entry));
            assert_true(cron_next(&entry.cron, tick, entry.zone) > now);
            assert_true(missed == (cron_next(&entry.cron, noted, entry.zone) < tick));
            noted = tick;
        }
        periodic_entry_fini(&entry);
    }
}

/* --- the task --------------------------------------------------------------------------------------------------- */

TEST(the_task_has_what_the_entry_says)
{
    char *resources[] = {"r:1", "r:2"};
    struct config_periodic config = config_make("@daily");
    config.resources = (struct config_words){.items = resources, .count = 2};
    config.expires_in_ns = 90 * NS_PER_S;
    struct periodic_entry entry;
    struct built_task task;
    struct error error = ERROR_NONE;
    entry_make(&entry, &config);
    assert_true(periodic_entry_task(&entry, NOW, (struct wall_time){NOW * US_PER_S + 250000}, &task, &error));
    char jid[ENVELOPE_NEW_JID_SIZE], expected[1024], found[1024];
    snprintf(jid, sizeof jid, "%s", task.jid);
    snprintf(expected, sizeof expected,
             "{\"class\":\"report\",\"args\":[1e400, 12345678901234567890123],\"periodic\":\"a \\\"name\\\"\","
             "\"tick\":1795284300.0,\"expires_in\":90.0,\"jid\":\"%s\",\"queue\":\"low\",\"resource\":[\"r:1\","
             "\"r:2\"],\"retry\":3,\"created_at\":1795284300.25,\"enqueued_at\":1795284300.25}",
             jid);
    snprintf(found, sizeof found, "%.*s", (int)task.payload.length, task.payload.bytes);
    assert_string_equal(found, expected);
    assert_string_equal(task.queue, "low");
    assert_true(periodic_entry_task(&entry, NOW, (struct wall_time){NOW * US_PER_S}, &task, &error));
    assert_string_not_equal(task.jid, jid);
    periodic_entry_fini(&entry);
}

/* `true` says nothing: the class decides. */
TEST(the_class_decides_about_retries)
{
    struct config_periodic config = config_make("@daily");
    config.retry = "class";
    struct periodic_entry entry;
    struct built_task task;
    struct error error = ERROR_NONE;
    entry_make(&entry, &config);
    assert_true(periodic_entry_task(&entry, NOW, (struct wall_time){NOW * US_PER_S}, &task, &error));
    char found[1024];
    snprintf(found, sizeof found, "%.*s", (int)task.payload.length, task.payload.bytes);
    assert_contains(found, ",\"retry\":true,");
    periodic_entry_fini(&entry);
}

static void assert_refused(struct config_periodic *config, const struct envelope_limits *limits, const char *part)
{
    struct periodic_entry entry;
    struct error error = ERROR_NONE;
    assert_false(periodic_entry_init(&entry, config, limits, &error));
    assert_contains(error.text, part);
    periodic_entry_fini(&entry);
}

TEST(what_is_no_task_is_refused_when_it_is_made)
{
    struct config_periodic config = config_make("@daily");
    config.args = "[1],\"queue\":[2]";
    assert_refused(&config, &ENVELOPE_LIMITS_DEFAULT, "args: not valid JSON");
    config.args = "{}";
    assert_refused(&config, &ENVELOPE_LIMITS_DEFAULT, "args: expected a JSON array");
    config = config_make("@dayly");
    assert_refused(&config, &ENVELOPE_LIMITS_DEFAULT, "cron @dayly: there is only");
    config = config_make("@daily");
    config.zone = "Mars/Olympus";
    assert_refused(&config, &ENVELOPE_LIMITS_DEFAULT, "zone: ");
    static char *const retries[] = {"", "-1", "3.5", "1000001", "99999999", "03", "no"};
    for (size_t i = 0; i < sizeof retries / sizeof retries[0]; i++) {
        config = config_make("@daily");
        config.retry = retries[i];
        assert_refused(&config, &ENVELOPE_LIMITS_DEFAULT, "retry: expected \"class\" or a number");
    }
    config = config_make("@daily");
    config.queue = "hf:x";
    assert_refused(&config, &ENVELOPE_LIMITS_DEFAULT, "the queue is not");
}

/* What fits when it is checked fits at every later time. */
TEST(the_size_is_that_of_the_longest_task)
{
    struct config_periodic config = config_make("@daily");
    struct envelope_limits limits = ENVELOPE_LIMITS_DEFAULT;
    bool fitted = false;
    for (limits.size = 1; !fitted; limits.size++) {
        struct periodic_entry entry;
        struct error error = ERROR_NONE;
        struct built_task task;
        fitted = periodic_entry_init(&entry, &config, &limits, &error);
        if (fitted)
            assert_true(periodic_entry_task(&entry, NOW, (struct wall_time){NOW * US_PER_S + 123456}, &task, &error));
        periodic_entry_fini(&entry);
    }
}

RUN_TESTS
