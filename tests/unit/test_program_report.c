/* What a program says on descriptor 3, in any pieces, and what of it is nothing. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "worker/isolation/program_report.h"

static struct hf_job job;
static struct program_report report;
static struct buffer said;

static bool link_hears(struct hf_job *of, enum hf_log_level level)
{
    (void)of;
    return level > HF_LOG_DEBUG;
}

static void link_log(struct hf_job *of, enum hf_log_level level, const char *text)
{
    (void)of;
    buffer_format(&said, "%d:%s;", level, text);
}

static void link_event(struct hf_job *of, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    (void)of;
    buffer_format(&said, "%d:%s", level, name);
    for (size_t i = 0; i < count; i++)
        buffer_format(&said, ",%s=%s", fields[i].key, fields[i].value);
    buffer_append_text(&said, ";");
}

static bool link_progress(struct hf_job *of, const char *json)
{
    (void)of;
    buffer_format(&said, "progress %s;", json);
    return strlen(json) < 100;
}

static const struct job_link test_link = {
    .hears = link_hears, .log = link_log, .event = link_event, .progress = link_progress};

static void set_up(void)
{
    job = (struct hf_job){.class_name = "sums",
                          .jid = "1",
                          .reports_progress = true,
                          .keeps_result = true,
                          .may_push = true,
                          .link = &test_link};
    job_outcome_clear(&job.outcome);
    report = (struct program_report){.ignored = 0};
    buffer_clear(&said);
}

static void tear_down(void)
{
    program_report_fini(&report);
    job_outcome_fini(&job.outcome);
    buffer_fini(&said);
}

static void put(const char *text)
{
    program_report_take(&report, text, strlen(text), &job);
}

/* Why the line is ignored; "" when it is not. */
static const char *reason_of(const char *line)
{
    static struct error error;
    error = ERROR_NONE;
    bool taken = program_report_line(&report, line, strlen(line), &job, &error);
    assert_int_equal(taken, !error_is_set(&error));
    return error.text;
}

TEST(lines_come_in_any_pieces)
{
    put("{\"progress\":1}\n{\"prog");
    assert_string_equal(buffer_text(&said), "progress 1;");
    put("ress\":2}");
    assert_string_equal(buffer_text(&said), "progress 1;");
    put("\n\n");
    assert_string_equal(buffer_text(&said), "progress 1;progress 2;");
    put("{\"progress\":3}");
    program_report_end(&report, &job);
    assert_string_equal(buffer_text(&said), "progress 1;progress 2;progress 3;");
    assert_int_equal(report.ignored, 0);
}

TEST(one_line_may_say_several_things)
{
    put("{\"result\":[1, 2],\"retry_in\":0.25,\"new\":true,\"log\":{\"text\":\"a\\nb\"}}\n");
    assert_string_equal(buffer_text(&job.outcome.result), "[1, 2]");
    assert_int_equal(job.outcome.retry_in_ms, 250);
    assert_string_equal(buffer_text(&said), "1:a\nb;");
}

TEST(the_last_result_and_the_last_error_count)
{
    put("{\"result\":1}\n{\"result\":12345678901234567890.1}\n");
    assert_string_equal(buffer_text(&job.outcome.result), "12345678901234567890.1");
    put("{\"error\":{\"class\":\"A\",\"message\":\"1\"}}\n{\"error\":{\"message\":\"100%s\"}}\n");
    assert_string_equal(job.outcome.failure.error_class, "HF::Failed");
    assert_string_equal(job.outcome.failure.message, "100%s");
}

TEST(fields_of_a_log_line_are_words)
{
    put("{\"log\":{\"level\":\"error\",\"text\":\"t\",\"fields\":{\"a\":\"x y\",\"b "
        "c\":1,\"d\":2.50,\"e\":[1],\"\":3}}}\n");
    assert_string_equal(buffer_text(&said), "3:log,text=t,a=x y,d=2.50,e=[1],fields_dropped=2;");
    buffer_clear(&said);
    put("{\"log\":{\"level\":\"debug\",\"text\":\"t\"}}\n{\"log\":{\"level\":\"loud\"}}\n");
    assert_string_equal(buffer_text(&said), "1:;");
}

TEST(more_fields_of_a_log_line_than_there_may_be_are_counted)
{
    struct buffer text = {0};
    buffer_append_text(&text, "{\"log\":{\"text\":\"t\",\"fields\":{\"f0\":0");
    for (int i = 1; i < 17; i++)
        buffer_format(&text, ",\"f%d\":%d", i, i);
    buffer_append_text(&text, "}}}\n");
    put(buffer_text(&text));
    buffer_fini(&text);
    assert_non_null(strstr(buffer_text(&said), ",f14=14,fields_dropped=2;"));
}

TEST(nonsense_is_ignored_and_counted)
{
    put("hello\n{}\n[1]\n7\n{\"result\":1\n\xff\n{\"unknown\":1}\n");
    assert_int_equal(report.ignored, 7);
    assert_false(job.outcome.has_result);
    assert_string_equal(buffer_text(&said), "");
}

/* Half a surrogate pair, U+0000 and bytes that are no UTF-8: the rest stays. */
TEST(what_is_no_text_is_replaced_and_the_rest_kept)
{
    put("{\"error\":{\"class\":\"E\\u0000\",\"message\":\"said: \\ud83d (cut) \\ud83d\\ude00 caf\xE9\"}}\n");
    assert_string_equal(job.outcome.failure.error_class, "E\xEF\xBF\xBD");
    assert_string_equal(job.outcome.failure.message, "said: \xEF\xBF\xBD (cut) \xF0\x9F\x98\x80 caf\xEF\xBF\xBD");
    put("{\"result\":[\"\\uDE00\",\"\\\\ud83d\"]}\n{\"progress\":\"\\u0000\xFF\"}\n");
    assert_string_equal(buffer_text(&job.outcome.result), "[\"\\ufffd\",\"\\\\ud83d\"]");
    assert_string_equal(buffer_text(&said), "progress \"\\ufffd\xEF\xBF\xBD\";");
    buffer_clear(&said);
    static const char with_nul[] = "{\"log\":{\"text\":\"a\0b \\ud83d\",\"fields\":{\"n\":\"\\u0000\"}}}\n";
    program_report_take(&report, with_nul, sizeof with_nul - 1, &job);
    assert_string_equal(buffer_text(&said), "1:log,text=a\xEF\xBF\xBD"
                                            "b \xEF\xBF\xBD,n=\xEF\xBF\xBD;");
    assert_int_equal(report.ignored, 0);
    put("{\"error\":{\"message\":42}}\n"); /* no text, but not nothing */
    assert_string_equal(job.outcome.failure.message, "42");
}

/* Other arguments would be another task. */
TEST(a_pushed_task_stays_as_it_is_or_is_refused)
{
    put("{\"push\":{\"class\":\"a\",\"args\":[\"\\ud83d\\u0000\"]},\"log\":{\"text\":\"\\ud83d\"}}\n");
    assert_string_equal(job.outcome.follow_ups[0], "{\"class\":\"a\",\"args\":[\"\\ud83d\\u0000\"]}");
    assert_false(error_is_set(&report.refusal));
    put("{\"push\":{\"class\":\"a\",\"args\":[\"caf\xE9\"]}}\n");
    assert_contains(report.refusal.text, "not UTF-8");
    assert_int_equal(job.outcome.follow_up_count, 1);
}

/* The code of a run that went well. */
static int code(void)
{
    int judged = job_outcome_code(&job.outcome, HF_OK);
    assert_int_equal(job_outcome_code(&job.outcome, HF_DISCARD), HF_DISCARD);
    return judged;
}

TEST(a_result_that_is_no_json_fails_the_run)
{
    put("{\"result\":nope}\n");
    assert_int_equal(code(), HF_FAIL);
    assert_string_equal(job.outcome.failure.error_class, "HF::BadResult");
    assert_contains(job.outcome.failure.message, "not valid JSON: an unknown word at byte 10");
    put("{\"result\":1}\nchatter\n"); /* the one that counts is there */
    assert_int_equal(code(), HF_OK);
    job_outcome_clear(&job.outcome);
    put("chatter\n");
    assert_int_equal(code(), HF_FAIL);
    job_outcome_clear(&job.outcome);
    job.keeps_result = false;
    put("chatter\n");
    assert_int_equal(code(), HF_OK);
}

TEST(each_member_is_checked)
{
    assert_contains(reason_of("{\"error\":\"no\"}"), "no object");
    assert_contains(reason_of("{\"retry_in\":\"soon\"}"), "seconds");
    assert_contains(reason_of("{\"retry_in\":-1}"), "seconds");
    assert_contains(reason_of("{\"retry_in\":1e300}"), "seconds");
    assert_contains(reason_of("{\"log\":7}"), "no object");
    assert_int_equal(job.outcome.retry_in_ms, -1);
    assert_contains(reason_of("{\"progress\":\"0123456789012345678901234567890123456789012345678901234567890123456789"
                              "01234567890123456789012345678901234567890123456789\"}"),
                    "longer");
    job.keeps_result = job.reports_progress = false;
    assert_contains(reason_of("{\"result\":1}"), "no results");
    assert_contains(reason_of("{\"progress\":1}"), "no progress");
    assert_false(job.outcome.has_result);
}

TEST(the_first_refused_task_is_told)
{
    put("{\"push\":{\"class\":\"a\",\"args\":[]}}\n");
    assert_false(error_is_set(&report.refusal));
    put("{\"push\":7}\n{\"push\":[]}\n");
    assert_string_equal(report.refusal.text, "it is no JSON object");
    assert_int_equal(job.outcome.follow_up_count, 1);
    report.refusal = ERROR_NONE;
    job.may_push = false;
    put("{\"push\":{\"class\":\"a\",\"args\":[]}}\n");
    assert_contains(report.refusal.text, "at most once");
    assert_int_equal(job.outcome.follow_up_count, 1);
}

TEST(a_line_of_the_largest_result_passes_and_a_longer_one_does_not)
{
    static const char head[] = "{\"result\":\"", tail[] = "\"}\n";
    char *much = memory_zeroed(1, 2 * JOB_RESULT_BYTES_MAX);
    memset(much, 'x', 2 * JOB_RESULT_BYTES_MAX - 1);
    put(head);
    program_report_take(&report, much, JOB_RESULT_BYTES_MAX - 2, &job);
    put(tail);
    assert_int_equal(job.outcome.result.length, JOB_RESULT_BYTES_MAX);
    assert_int_equal(report.ignored, 0);
    put(head);
    for (int i = 0; i < 100; i++)
        program_report_take(&report, much, 2 * JOB_RESULT_BYTES_MAX - 1, &job);
    assert_true(report.line.capacity < 4 * JOB_RESULT_BYTES_MAX);
    put(tail);
    assert_int_equal(report.ignored, 1);
    assert_int_equal(code(), HF_FAIL);
    assert_contains(job.outcome.failure.message, "longer than 1 MiB");
    put("{\"result\":3}\n");
    assert_int_equal(code(), HF_OK);
    assert_string_equal(buffer_text(&job.outcome.result), "3");
    free(much);
}

TEST(a_flood_of_log_lines_is_cut)
{
    for (int i = 0; i < PROGRAM_REPORT_LOGS_MAX + 5; i++)
        put("{\"log\":{\"text\":\"x\"}}\n");
    assert_int_equal(said.length, PROGRAM_REPORT_LOGS_MAX * 4);
    assert_int_equal(report.dropped_logs, 5);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
