/* The text of a task that failed: what the conformance points of the job format ask for (by their letters), the limits,
 * and the form that Ruby would generate. */
#include "tests/unit/failure_fixture.h"

#include "worker/task/backtrace.h"

/* --- conformance ------------------------------------------------------------------------------------------------ */

/* 1.18 (e): args come back byte for byte, however often the task fails. */
TEST(conformance_e_args_keep_their_bytes)
{
    static const char *const all[] = {"[]",
                                      "[{}]",
                                      "[9007199254740993]",
                                      "[1234567890123456789012345678901234567890]",
                                      "[0.1,0.10,1e400,-0]",
                                      "[\"\\u0000\\u00e9\\/\"]",
                                      ("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1"
                                       "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]")};
    failure_set(&failure, "E", "m");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char task[512];
        snprintf(task, sizeof task, "{\"class\":\"c\",\"args\":%s,\"queue\":\"jobs\"}", all[i]);
        for (unsigned times = 0; times < 3; times++) {
            write_record(task, true);
            assert_int_equal(record.args.length, strlen(all[i]));
            assert_memory_equal(record.args.bytes, all[i], record.args.length);
            snprintf(task, sizeof task, "%s", buffer_text(&written));
        }
    }
}

/* 1.18 (g): members that nobody knows survive, with their place and their bytes. */
TEST(conformance_g_unknown_members_survive)
{
    failure_set(&failure, "E", "m");
    write_record("{\"cattr\":{\"a\":[1,2.50]},\"class\":\"c\",\"lock_digest\":\"x\\u00e9\",\"args\":[],\"locale\":null,"
                 "\"queue\":\"jobs\",\"jid\":\"j\",\"\":1}",
                 true);
    assert_string_equal(buffer_text(&written),
                        "{\"cattr\":{\"a\":[1,2.50]},\"class\":\"c\",\"lock_digest\":\"x\\u00e9\",\"args\":[],"
                        "\"locale\":null,\"queue\":\"jobs\",\"jid\":\"j\",\"\":1,\"error_message\":\"m\","
                        "\"error_class\":\"E\",\"failed_at\":1795194374.5,\"retry_count\":0}");
}

/* Of the run that failed, not of one before it. */
TEST(the_token_of_the_run_is_kept)
{
    failure_set(&failure, "E", "m");
    write_record("{\"class\":\"c\",\"args\":[]}", true);
    assert_member("hf_fence", NULL);
    fence = "1764000000000123";
    write_record("{\"class\":\"c\",\"args\":[]}", true);
    assert_member("hf_fence", "\"1764000000000123\"");
    write_record("{\"class\":\"c\",\"args\":[],\"hf_fence\":\"5\"}", false);
    assert_member("hf_fence", "\"1764000000000123\"");
    fence = "";
    write_record("{\"class\":\"c\",\"args\":[],\"hf_fence\":\"5\"}", true);
    assert_member("hf_fence", NULL);
}

/* Since when nobody serves its class: until somebody does, or it is dead. */
TEST(the_first_unserved_meeting_is_kept)
{
    failure_set(&failure, "HF::UnknownClass", "m");
    unserved_at.us = INT64_C(1795194000500000);
    for (int counts = 0; counts < 2; counts++) {
        write_record("{\"class\":\"c\",\"args\":[]}", counts);
        assert_member("hf_unserved_at", "1795194000.5");
        assert_member("failed_at", "1795194374.5");
        assert_member("retry_count", counts ? "0" : NULL);
        assert_int_equal(record.unserved_at.us, unserved_at.us);
    }
    is_final = true;
    write_record("{\"class\":\"c\",\"args\":[],\"hf_unserved_at\":1.5}", true);
    assert_member("hf_unserved_at", NULL);
    is_final = false;
    unserved_at.us = 0;
    write_record("{\"class\":\"c\",\"args\":[],\"hf_unserved_at\":1.5}", true);
    assert_member("hf_unserved_at", NULL);
}

/* 1.18 (h): every form of `retry`, on the way to its end. */
TEST(conformance_h_retry_in_every_form)
{
    static const struct {
        const char *retry;
        unsigned runs; /* until it is not tried again */
        enum failure_outcome end;
    } cases[] = {{"", 26, FAILURE_DEAD},
                 {",\"retry\":null", 1, FAILURE_VANISHES},
                 {",\"retry\":true", 26, FAILURE_DEAD},
                 {",\"retry\":false", 1, FAILURE_VANISHES},
                 {",\"retry\":0", 1, FAILURE_DEAD},
                 {",\"retry\":3", 4, FAILURE_DEAD},
                 {",\"retry\":\"true\"", 26, FAILURE_DEAD},
                 {",\"retry\":\"3\"", 4, FAILURE_DEAD}};
    failure_set(&failure, "E", "m");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char task[512];
        unsigned runs = 1;
        snprintf(task, sizeof task, "{\"class\":\"c\",\"args\":[]%s}", cases[i].retry);
        for (;; runs++) {
            write_record(task, true);
            struct task_rules rules = rules_now();
            enum failure_outcome outcome = failure_outcome(&envelope, &rules, now, NULL);
            snprintf(task, sizeof task, "%s", buffer_text(&written));
            if (outcome == FAILURE_RETRY)
                continue;
            assert_int_equal(outcome, cases[i].end);
            break;
        }
        if (runs != cases[i].runs)
            fail_msg("%s: %u runs instead of %u", cases[i].retry, runs, cases[i].runs);
        assert_int_equal(record.retry_count, runs - 1);
    }
}

/* 1.18 (i): times keep their form, and ours are real numbers of seconds, unless they are to be as they came. */
TEST(conformance_i_times_in_every_form)
{
    static const char *const forms[] = {"1795194001250", "1795194001.25", "\"1795194001.25\"", "\"yesterday\"", "null"};
    failure_set(&failure, "E", "m");
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char task[256];
        snprintf(task, sizeof task,
                 "{\"class\":\"c\",\"args\":[],\"created_at\":%s,\"failed_at\":%s,\"retried_at\":%s,\"retry_count\":1}",
                 forms[i], forms[i], forms[i]);
        for (int as_came = 0; as_came < 2; as_came++) {
            config.worker.timestamps = as_came ? CONFIG_TIMES_AS_CAME : CONFIG_TIMES_IN_SECONDS;
            write_record(task, true);
            assert_member("created_at", forms[i]);
            assert_member("failed_at", forms[i]);
            assert_member("retried_at", as_came && i == 0 ? "1795194374500" : "1795194374.5");
        }
    }
    write_record("{\"class\":\"c\",\"args\":[],\"created_at\":1795194001250}", true);
    assert_member("failed_at", "1795194374.5");
}

/* A record that is written is always a task again: also of a task that has used up its limits, and with the largest
 * failure that there can be. */
TEST(records_of_tasks_at_their_limits_can_be_read)
{
    static const char *const messages[] = {"\x01", "\xFF", "\xF0\x9F\x98\x80"};
    static char bytes[FAILURE_MESSAGE_MAX];
    struct buffer task = {0}, line = {0};
    buffer_append_text(&task, "{\"class\":\"c\",\"backtrace\":true,\"expires_in\":1e9,\"args\":[\"");
    size_t members = 4;
    struct buffer rest = {0};
    buffer_append_text(&rest, "\"]");
    for (; members < ENVELOPE_MEMBERS_MAX; members++)
        buffer_format(&rest, ",\"m%zu\":[]", members);
    buffer_append_text(&rest, "}");
    while (task.length + rest.length < limits.size)
        buffer_append(&task, "x", 1);
    buffer_append(&task, rest.bytes, rest.length);
    buffer_fini(&rest);
    assert_int_equal(task.length, limits.size);

    for (size_t i = 0; i < BACKTRACE_LINE_MAX; i++)
        buffer_format(&line, "%c", (char)(33 + (i * i * 7 + i) % 90));
    const char *lines[ENVELOPE_BACKTRACE_ALL];
    for (size_t i = 0; i < ENVELOPE_BACKTRACE_ALL; i++)
        lines[i] = buffer_text(&line) + i;
    trace = lines;
    trace_count = ENVELOPE_BACKTRACE_ALL;
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        for (size_t at = 0; at + strlen(messages[i]) < sizeof bytes; at += strlen(messages[i]))
            memcpy(bytes + at, messages[i], strlen(messages[i]));
        failure_clear(&failure);
        failure_set(&failure, bytes, "%s", bytes);
        buffer_clear(&written);
        parse(&envelope, buffer_text(&task));
        for (unsigned times = 0; times < 3; times++) {
            write_record(buffer_text(&task), times != 1);
            buffer_clear(&task);
            buffer_append(&task, written.bytes, written.length);
        }
        assert_int_equal(record.retry_count, 2 * (i + 1) - 1);
    }
    buffer_fini(&task);
    buffer_fini(&line);
}

/* --- the form that Ruby would generate -------------------------------------------------------------------------- */

TEST(a_record_has_the_text_that_ruby_would_generate)
{
    static const struct {
        const char *task, *message, *text;
    } cases[] = {
        {" { \"class\" : \"c\" , \"args\" : [] , \"queue\":\"jobs\",\"jid\":\"j\" } ", "m",
         "{\"class\":\"c\",\"args\":[],\"queue\":\"jobs\",\"jid\":\"j\",\"error_message\":\"m\",\"error_class\":\"E\","
         "\"failed_at\":1795194374.5,\"retry_count\":0}"},
        {"{\"jid\":\"j\",\"queue\":\"low\",\"retry\":3,\"class\":\"c\",\"args\":[1]}",
         "a/b \xC3\xA9 \xE2\x82\xAC \"q\" \\ \t\n\x01\x7f",
         "{\"jid\":\"j\",\"queue\":\"jobs\",\"retry\":3,\"class\":\"c\",\"args\":[1],"
         "\"error_message\":\"a/b \xC3\xA9 \xE2\x82\xAC \\\"q\\\" \\\\ \\t\\n\\u0001\x7f\",\"error_class\":\"E\","
         "\"failed_at\":1795194374.5,\"retry_count\":0}"},
        {"{\"class\":\"c\",\"args\":[],\"jid\":\"j\",\"queue\":\"jobs\",\"retry_queue\":\"low\",\"error_message\":"
         "\"o\","
         "\"error_class\":\"O\",\"failed_at\":1795194001.25,\"retry_count\":0,\"error_backtrace\":\"eJyLVir\"}",
         "m",
         "{\"class\":\"c\",\"args\":[],\"jid\":\"j\",\"queue\":\"low\",\"retry_queue\":\"low\",\"error_message\":\"m\","
         "\"error_class\":\"E\",\"failed_at\":1795194001.25,\"retry_count\":1,\"retried_at\":1795194374.5}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        failure_clear(&failure);
        failure_set(&failure, "E", "%s", cases[i].message);
        write_record(cases[i].task, true);
        assert_string_equal(buffer_text(&written), cases[i].text);
    }
}

TEST(the_queue_for_retries_is_written_when_a_try_was_made)
{
    failure_set(&failure, "E", "m");
    write_record("{\"class\":\"c\",\"args\":[],\"retry_queue\":\"low\"}", true);
    assert_string_equal(record.queue, "low");
    write_record("{\"class\":\"c\",\"args\":[],\"retry_queue\":\"low\"}", false);
    assert_string_equal(record.queue, "jobs");
    write_record("{\"class\":\"c\",\"args\":[],\"retry_queue\":\"no queue\"}", true);
    assert_string_equal(record.queue, "jobs");
    handler.retry_queue = "handlers";
    write_record("{\"class\":\"c\",\"args\":[]}", true);
    assert_string_equal(record.queue, "handlers");
}

/* A task that waits without having been tried must not live longer than it wanted to. */
TEST(what_was_not_tried_keeps_the_time_of_its_expiry)
{
    failure_set(&failure, "E", "m");
    write_record("{\"class\":\"c\",\"args\":[],\"created_at\":1795194000.5,\"expires_in\":600}", false);
    assert_member("expires_at", "1795194600.5");
    write_record("{\"class\":\"c\",\"args\":[],\"created_at\":1795194000.5,\"expires_in\":600}", true);
    assert_member("expires_at", NULL);
}

/* --- what dashboards read --------------------------------------------------------------------------------------- */

static bool has_number(const char *name)
{
    struct text_span value = envelope_member_value(&record, name);
    return value.bytes != NULL && value.bytes[0] >= '0' && value.bytes[0] <= '9';
}

/* The detail pages of Sidekiq 6.4 to 8.1 answer 500 when they have to show a time that is missing or no number, or to
 * compare a retry_count that is no number. */
static void assert_pages_can_show_it(const char *task)
{
    struct text_span count = envelope_member_value(&record, "retry_count");
    bool is_later = record.retry_count > 0;
    if (record.queue[0] == '\0' || record.jid[0] == '\0' || !has_number(is_later ? "retried_at" : "failed_at") ||
        (count.bytes != NULL && count.bytes[0] == '"') || (count.bytes == NULL && is_final))
        fail_msg("%s became %s", task, buffer_text(&written));
    assert_member("error_class", "\"E\"");
    assert_member("error_message", "\"m\"");
}

TEST(dashboards_can_show_every_record)
{
    static const char *const times[] = {"", ",\"failed_at\":1795194001.5", ",\"failed_at\":\"1795194001.5\"",
                                        ",\"failed_at\":null,\"retried_at\":{}"};
    static const char *const counts[] = {"",
                                         ",\"retry_count\":0",
                                         ",\"retry_count\":-1",
                                         ",\"retry_count\":2",
                                         ",\"retry_count\":\"2\"",
                                         ",\"retry_count\":\"x\""};
    failure_set(&failure, "E", "m");
    for (unsigned i = 0; i < 4 * 6 * 4; i++) {
        char task[256];
        snprintf(task, sizeof task, "{\"class\":\"c\",\"args\":[]%s%s}", times[i % 4], counts[i / 4 % 6]);
        is_final = i / 24 % 2;
        write_record(task, i / 48);
        assert_pages_can_show_it(task);
        if (i % 4 == 1)
            assert_member("failed_at", record.was_retried && envelope.was_retried ? "1795194001.5"
                                       : i / 48                                   ? "1795194374.5"
                                                                                  : "1795194001.5");
    }
}

/* It does not use up a retry, and an operator who sends it back from `dead` wants it to run. */
TEST(what_is_buried_without_a_try_counts_as_failed)
{
    failure_set(&failure, "E", "m");
    is_final = true;
    write_record("{\"class\":\"c\",\"args\":[],\"created_at\":1795194000.5,\"expires_in\":600}", false);
    assert_member("retry_count", "0");
    assert_int_equal(envelope_expiry(&record, 1).us, 0);
    write_record("{\"class\":\"c\",\"args\":[],\"retry_count\":3}", false);
    assert_member("retry_count", "3");
}

/* It was started in time, which is all that it asked for. */
TEST(what_lost_its_lock_no_longer_expires)
{
    failure_set(&failure, "E", "m");
    started = true;
    write_record("{\"class\":\"c\",\"args\":[],\"created_at\":1795194000.5,\"expires_in\":600}", false);
    assert_member("retry_count", NULL);
    assert_int_equal(envelope_expiry(&record, 1).us, 0);
    write_record("{\"class\":\"c\",\"args\":[],\"expires_at\":1795194000.5}", false);
    assert_member("expires_at", NULL);
    assert_int_equal(envelope_expiry(&record, 1).us, 0);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
