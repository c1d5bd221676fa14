/* What a failure does to a task: its outcome, how long it waits, and the record, where only the members of the failure
 * change. */
#include "tests/unit/failure_fixture.h"

static enum failure_outcome outcome_of(const char *members, const char **reason)
{
    char text[512];
    snprintf(text, sizeof text, "{\"class\":\"c\",\"args\":[]%s}", members);
    parse(&envelope, text);
    struct task_rules rules = rules_now();
    return failure_outcome(&envelope, &rules, now, reason);
}

/* --- outcome ---------------------------------------------------------------------------------------------------- */

TEST(the_fate_follows_the_job_format)
{
    static const struct {
        const char *members;
        enum failure_outcome outcome;
    } cases[] = {
        {"", FAILURE_RETRY},
        {",\"retry\":true", FAILURE_RETRY},
        {",\"retry\":\"true\"", FAILURE_RETRY},
        {",\"retry\":false", FAILURE_VANISHES},
        {",\"retry\":\"false\"", FAILURE_VANISHES},
        {",\"retry\":null", FAILURE_VANISHES},
        {",\"retry\":false,\"retry_count\":3", FAILURE_VANISHES},
        {",\"retry\":0", FAILURE_DEAD},
        {",\"retry\":\"0\"", FAILURE_DEAD},
        {",\"retry\":1", FAILURE_RETRY},
        {",\"retry\":1,\"retry_count\":0", FAILURE_DEAD},
        {",\"retry\":3", FAILURE_RETRY},
        {",\"retry\":3,\"retry_count\":0", FAILURE_RETRY},
        {",\"retry\":3,\"retry_count\":1", FAILURE_RETRY},
        {",\"retry\":3,\"retry_count\":2", FAILURE_DEAD},
        {",\"retry\":3,\"retry_count\":7", FAILURE_DEAD},
        {",\"retry\":\"3\",\"retry_count\":1", FAILURE_RETRY},
        {",\"retry\":\"3\",\"retry_count\":2", FAILURE_DEAD},
        {",\"retry\":true,\"retry_count\":23", FAILURE_RETRY},
        {",\"retry\":true,\"retry_count\":24", FAILURE_DEAD},
        {",\"retry\":true,\"retry_count\":25", FAILURE_DEAD},
        {",\"retry_count\":23", FAILURE_RETRY},
        {",\"retry_count\":24", FAILURE_DEAD},
        {",\"retry\":0,\"dead\":false", FAILURE_VANISHES},
        {",\"retry\":true,\"retry_count\":24,\"dead\":false", FAILURE_VANISHES},
        {",\"retry\":true,\"retry_count\":23,\"dead\":false", FAILURE_RETRY},
        {",\"retry\":0,\"dead\":true", FAILURE_DEAD},
        {",\"retry\":0,\"dead\":null", FAILURE_DEAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum failure_outcome outcome = outcome_of(cases[i].members, NULL);
        if (outcome != cases[i].outcome)
            fail_msg("%s: outcome %d instead of %d", cases[i].members, (int)outcome, (int)cases[i].outcome);
    }
}

/* now is 1795194374.5 */
TEST(retry_for_counts_time_and_no_tries)
{
    static const struct {
        const char *members;
        enum failure_outcome outcome;
    } cases[] = {
        {",\"retry_for\":60", FAILURE_RETRY},
        {",\"retry_for\":0", FAILURE_RETRY},
        {",\"retry_for\":60,\"retry\":0", FAILURE_RETRY},
        {",\"retry_for\":60,\"retry\":false", FAILURE_VANISHES},
        {",\"retry_for\":60,\"retry_count\":90,\"failed_at\":1795194314.5", FAILURE_RETRY},
        {",\"retry_for\":60,\"retry_count\":0,\"failed_at\":1795194314.4", FAILURE_DEAD},
        {",\"retry_for\":\"60\",\"retry_count\":0,\"failed_at\":1795194314.4", FAILURE_DEAD},
        {",\"retry_for\":60.2,\"retry_count\":0,\"failed_at\":1795194314.4", FAILURE_RETRY},
        {",\"retry_for\":60,\"retry_count\":0,\"failed_at\":1795194314400", FAILURE_DEAD},
        {",\"retry_for\":60,\"retry_count\":0,\"failed_at\":1795194314500", FAILURE_RETRY},
        {",\"retry_for\":60,\"retry_count\":0,\"failed_at\":\"1795194314.4\"", FAILURE_DEAD},
        /* an unreadable time of failure: since its creation, else by number */
        {",\"retry_for\":60,\"retry_count\":0,\"failed_at\":\"2026-11-20 07:06:14 UTC\",\"created_at\":1795194000.0",
         FAILURE_DEAD},
        /* retried by hand: since the first failure */
        {",\"retry_for\":60,\"retry_count\":-1,\"failed_at\":1795194314.4", FAILURE_DEAD},
        {",\"retry_for\":60,\"retry_count\":-1,\"failed_at\":1795194314.5", FAILURE_RETRY},
        {",\"retry_for\":60,\"retry_count\":3", FAILURE_RETRY},
        {",\"retry_for\":60,\"retry_count\":24", FAILURE_DEAD},
        {",\"retry_for\":60,\"retry_count\":0,\"failed_at\":1.5,\"dead\":false", FAILURE_VANISHES},
        /* no such time: as if it were absent */
        {",\"retry_for\":null,\"retry_count\":24,\"failed_at\":1795194374.0", FAILURE_DEAD},
        {",\"retry_for\":\"1h\",\"retry_count\":24,\"failed_at\":1795194374.0", FAILURE_DEAD},
        {",\"retry_for\":-5,\"retry_count\":23,\"failed_at\":1.5", FAILURE_RETRY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum failure_outcome outcome = outcome_of(cases[i].members, NULL);
        if (outcome != cases[i].outcome)
            fail_msg("%s: outcome %d instead of %d", cases[i].members, (int)outcome, (int)cases[i].outcome);
    }
}

static void assert_outcome(const char *members, enum failure_outcome outcome, const char *reason)
{
    const char *why = NULL;
    assert_int_equal(outcome_of(members, &why), outcome);
    assert_string_equal(why, reason);
}

TEST(the_fate_has_a_reason)
{
    assert_outcome("", FAILURE_RETRY, "it is tried again");
    assert_outcome(",\"retry\":false", FAILURE_VANISHES, "it asks for no retry");
    assert_outcome(",\"retry\":0", FAILURE_DEAD, "its first failure is final");
    assert_outcome(",\"retry_count\":24", FAILURE_DEAD, "its retries are used up");
    assert_outcome(",\"retry_for\":1,\"failed_at\":1.5,\"retry_count\":0", FAILURE_DEAD,
                   "its time for retries is over");
}

TEST(what_runs_at_most_once_is_not_tried_again)
{
    handler.flags = HF_AT_MOST_ONCE;
    assert_outcome("", FAILURE_DEAD, "it runs at most once");
    assert_outcome(",\"retry\":5,\"retry_for\":60", FAILURE_DEAD, "it runs at most once");
    assert_outcome(",\"dead\":false", FAILURE_VANISHES, "it runs at most once");
    handler.flags = HF_AT_MOST_ONCE | HF_NO_GRAVE;
    assert_outcome("", FAILURE_VANISHES, "it runs at most once");
}

/* --- delay ------------------------------------------------------------------------------------------------------ */

/* Draws often enough that the jitter comes near both of its ends. */
static void assert_delay(const char *text, int64_t least_s, int64_t jitter_s)
{
    enum { DRAWS = 2000 };
    int64_t least = INT64_MAX, most = 0;
    parse(&envelope, text);
    for (unsigned i = 0; i < DRAWS; i++) {
        int64_t delay = failure_delay_ns(&envelope);
        least = delay < least ? delay : least;
        most = delay > most ? delay : most;
    }
    assert_true(least >= least_s * NS_PER_S && least < (least_s * NS_PER_S) + jitter_s * NS_PER_S / 50);
    assert_true(most < (least_s + jitter_s) * NS_PER_S &&
                most >= (least_s + jitter_s) * NS_PER_S - jitter_s * NS_PER_S / 50);
}

TEST(the_delay_grows_with_the_fourth_power_of_the_count)
{
    assert_delay("{\"class\":\"c\",\"args\":[]}", 15, 10);
    assert_delay("{\"class\":\"c\",\"args\":[],\"retry_count\":-1}", 15, 10);
    assert_delay("{\"class\":\"c\",\"args\":[],\"retry_count\":-9}", 15, 10);
    for (int64_t count = 1; count <= 25; count++) {
        char text[128];
        snprintf(text, sizeof text, "{\"class\":\"c\",\"args\":[],\"retry_count\":%d}", (int)count - 1);
        assert_delay(text, count * count * count * count + 15, 10 * (count + 1));
    }
}

TEST(the_delay_of_absurd_counts_is_bounded)
{
    int64_t most_s = INT64_C(75) * 75 * 75 * 75 + 15;
    assert_delay("{\"class\":\"c\",\"args\":[],\"retry_count\":74}", most_s, 760);
    assert_delay("{\"class\":\"c\",\"args\":[],\"retry_count\":75}", most_s, 760);
    assert_delay("{\"class\":\"c\",\"args\":[],\"retry_count\":1000000}", most_s, 760);
}

/* --- the record ------------------------------------------------------------------------------------------------- */

TEST(the_first_failure_is_written_after_what_was_there)
{
    failure_set(&failure, "Net::Timeout", "no answer for %d s", 5);
    write_record("{\"class\":\"c\",\"args\":[1],\"jid\":\"abc\",\"queue\":\"jobs\",\"retry\":true}", true);
    assert_string_equal(buffer_text(&written),
                        "{\"class\":\"c\",\"args\":[1],\"jid\":\"abc\",\"queue\":\"jobs\",\"retry\":true,"
                        "\"error_message\":\"no answer for 5 s\",\"error_class\":\"Net::Timeout\","
                        "\"failed_at\":1795194374.5,\"retry_count\":0}");
}

TEST(a_later_failure_counts_on_and_keeps_the_time_of_the_first)
{
    failure_set(&failure, "Second", "again");
    write_record("{\"class\":\"c\",\"args\":[1],\"jid\":\"abc\",\"queue\":\"jobs\",\"error_message\":\"once\","
                 "\"error_class\":\"First\",\"failed_at\":1795194001.25,\"retry_count\":0}",
                 true);
    assert_string_equal(buffer_text(&written),
                        "{\"class\":\"c\",\"args\":[1],\"jid\":\"abc\",\"queue\":\"jobs\",\"error_message\":\"again\","
                        "\"error_class\":\"Second\",\"failed_at\":1795194001.25,\"retry_count\":1,"
                        "\"retried_at\":1795194374.5}");
    write_record("{\"class\":\"c\",\"args\":[],\"retry_count\":23,\"failed_at\":1795194001250}", true);
    assert_member("retry_count", "24");
    assert_member("failed_at", "1795194001250");
    assert_member("retried_at", "1795194374.5");
}

/* Whoever retries a task by hand takes one from its count, also from 0, as dashboards do. */
TEST(a_failure_after_a_retry_by_hand_is_not_the_first)
{
    failure_set(&failure, "Second", "again");
    write_record("{\"class\":\"c\",\"args\":[],\"failed_at\":1795194001.25,\"retry_count\":-1}", true);
    assert_member("failed_at", "1795194001.25");
    assert_member("retried_at", "1795194374.5");
    assert_member("retry_count", "0");
    write_record("{\"class\":\"c\",\"args\":[],\"failed_at\":1795194001.25,\"retry_count\":-3}", true);
    assert_member("failed_at", "1795194001.25");
    assert_member("retry_count", "-2");
}

/* What producers in other languages send must come back as it was. */
TEST(everything_else_keeps_its_bytes)
{
    static const char args[] =
        "[ 1234567890123456789012345678901234567890,-0,1E+400,0.10,\"\\u00e9\\/\xC3\xA9\",{\"b\":1,"
        "\"a\":[ ]}]";
    char task[512];
    snprintf(task, sizeof task, "{\"x\":1e5,\"class\":\"c\",\"args\":%s,\"tags\":[\"a\" ],\"resource\":\"r\"}", args);
    failure_set(&failure, "E", "m");
    for (unsigned i = 0; i < 3; i++) {
        write_record(task, true);
        assert_int_equal(record.args.length, sizeof args - 1);
        assert_memory_equal(record.args.bytes, args, sizeof args - 1);
        assert_member("x", "1e5");
        assert_member("tags", "[\"a\" ]");
        assert_member("resource", "\"r\"");
        snprintf(task, sizeof task, "%s", buffer_text(&written));
    }
    assert_member("retry_count", "2");
}

TEST(a_task_without_jid_gets_the_one_it_ran_under)
{
    failure_set(&failure, "E", "m");
    write_record("{\"class\":\"c\",\"args\":[]}", true);
    assert_string_equal(record.jid, "given");
    write_record("{\"class\":\"c\",\"args\":[],\"jid\":null}", true);
    assert_string_equal(record.jid, "given");
    write_record("{\"class\":\"c\",\"args\":[],\"jid\":\"own\"}", true);
    assert_string_equal(record.jid, "own");
}

TEST(the_queue_is_the_one_it_came_from)
{
    failure_set(&failure, "E", "m");
    write_record("{\"class\":\"c\",\"args\":[]}", true);
    assert_string_equal(record.queue, "jobs");
    write_record("{\"class\":\"c\",\"queue\":\"elsewhere\",\"args\":[]}", true);
    assert_string_equal(record.queue, "jobs");
}

TEST(a_failure_that_does_not_count_leaves_count_and_times)
{
    failure_set(&failure, "HF::UnknownClass", "nobody serves it");
    write_record("{\"class\":\"c\",\"args\":[]}", false);
    assert_member("error_class", "\"HF::UnknownClass\"");
    assert_member("error_message", "\"nobody serves it\"");
    assert_member("retry_count", NULL);
    assert_member("failed_at", "1795194374.5");
    assert_member("retried_at", NULL);
    write_record("{\"class\":\"c\",\"args\":[],\"retry_count\":4,\"failed_at\":17.5,\"retried_at\":18.5}", false);
    assert_member("retry_count", "4");
    assert_member("failed_at", "17.5");
    assert_member("retried_at", "18.5");
}

/* --- the reason ------------------------------------------------------------------------------------------------- */

TEST(the_first_cause_wins_until_it_is_cleared)
{
    failure_set(&failure, "First", "one");
    failure_set(&failure, "Second", "two");
    write_record("{\"class\":\"c\",\"args\":[]}", true);
    assert_member("error_class", "\"First\"");
    assert_member("error_message", "\"one\"");
    failure_clear(&failure);
    failure_set(&failure, "Second", "two");
    write_record("{\"class\":\"c\",\"args\":[]}", true);
    assert_member("error_class", "\"Second\"");
    assert_member("error_message", "\"two\"");
}

/* A handler may say anything: the record is JSON all the same. */
TEST(reasons_of_any_bytes_and_length_make_a_record)
{
    static char bytes[FAILURE_MESSAGE_MAX + 100];
    for (size_t i = 0; i < sizeof bytes - 1; i++)
        bytes[i] = (char)(1 + i % 255);
    failure_set(&failure, bytes, "%s", bytes);
    write_record("{\"class\":\"c\",\"args\":[]}", true);
    assert_int_equal(strlen(failure.error_class), FAILURE_CLASS_MAX - 1);
    assert_int_equal(strlen(failure.message), FAILURE_MESSAGE_MAX - 1);
    assert_member("retry_count", "0");
}

/* `count` times this character, as the message; what is left of it in the record, without quotes. */
static struct text_span message_of(const char *character, size_t count)
{
    struct buffer text = {0};
    for (size_t i = 0; i < count; i++)
        buffer_append_text(&text, character);
    failure_clear(&failure);
    failure_set(&failure, "E", "%s", buffer_text(&text));
    buffer_fini(&text);
    write_record("{\"class\":\"c\",\"args\":[]}", true);
    struct text_span value = envelope_member_value(&record, "error_message");
    return (struct text_span){value.bytes + 1, value.length - 2};
}

TEST(a_message_is_cut_behind_ten_thousand_characters)
{
    static const char *const characters[] = {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    static const size_t counts[] = {9999, 10000, 10001, 30000};
    for (size_t i = 0; i < sizeof characters / sizeof characters[0]; i++)
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
            size_t left = counts[j] < 10000 ? counts[j] : 10000;
            assert_int_equal(message_of(characters[i], counts[j]).length, left * strlen(characters[i]));
        }
    /* a byte that belongs to no character counts as one, and is replaced; so is half a character at the end */
    assert_int_equal(message_of("\xFF", 10001).length, 30000);
    struct text_span half = message_of("a\xE2\x82", 1);
    assert_int_equal(half.length, 7);
    assert_memory_equal(half.bytes, "a\xEF\xBF\xBD\xEF\xBF\xBD", 7);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
