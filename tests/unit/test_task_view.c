/* What commands say of a task, whatever it is; what an operator makes of it; and the JSON that they write. */
#include "tests/support/test.h"

#include "worker/commands/task_view.h"
#include "worker/commands/tasks.h"
#include "worker/print/json_writer.h"

static struct task_view view;

static void read_text(const char *text)
{
    task_view_read(&view, text, strlen(text));
}

static struct buffer out;

static void tear_down(void)
{
    buffer_fini(&out);
    out = (struct buffer){0};
    task_view_fini(&view);
    view = (struct task_view){.length = 0};
}

static int64_t time_of(const char *value)
{
    char text[128];
    snprintf(text, sizeof text, "{\"class\":\"a\",\"args\":[],\"created_at\":%s}", value);
    read_text(text);
    assert_true(view.is_task);
    int64_t us = task_view_time(&view, "created_at").us;
    task_view_read(&view, "", 0);
    return us;
}

TEST(times_are_read_in_every_form)
{
    assert_int_equal(time_of("1795194349.25"), 1795194349250000);
    assert_int_equal(time_of("1795194349"), 1795194349000000);
    assert_int_equal(time_of("1795194349250"), 1795194349250000);
    assert_int_equal(time_of("\"1795194349.25\""), 1795194349250000);
    assert_int_equal(time_of("\"1795194349250\""), 1795194349250000);
    assert_int_equal(time_of("\"soon\""), 0);
    assert_int_equal(time_of("-1"), 0);
    assert_int_equal(time_of("1e300"), 0);
    assert_int_equal(time_of("null"), 0);
    assert_int_equal(time_of("[1]"), 0);
}

/* Other producers and workers may have written anything. */
TEST(errors_are_shown_on_one_line_as_far_as_they_are_text)
{
    struct buffer error = {0};
    read_text("{\"class\":\"w\",\"args\":[],\"error_class\":\"E\",\"error_message\":\"a\\n\\ud83d b\\u0000c\"}");
    task_view_error(&view, &error);
    assert_string_equal(buffer_text(&error), "E: a \xEF\xBF\xBD b\xEF\xBF\xBD"
                                             "c");
    buffer_fini(&error);
}

TEST(classes_are_called_as_people_know_them)
{
    read_text("{\"class\":\"w\",\"args\":[]}");
    assert_string_equal(task_view_class(&view), "w");
    read_text("{\"class\":\"w\",\"args\":[],\"wrapped\":\"inner\"}");
    assert_string_equal(task_view_class(&view), "inner");
    read_text("{\"class\":\"w\",\"args\":[],\"wrapped\":\"inner\",\"display_class\":\"shown\"}");
    assert_string_equal(task_view_class(&view), "shown");
    read_text("[]");
    assert_string_equal(task_view_class(&view), "");
    assert_true(error_is_set(&view.reason));
}

TEST(backtraces_are_unfolded_or_refused)
{
    static const char good[] = "eJyLVkrUS1bSUUpSigUAEM0CwQ==", object[] = "eJyrVkpUsjKsBQAIKgIJ";
    char broken[sizeof good + 1];
    snprintf(broken, sizeof broken, "%.8s\n%s", good, good + 8);
    assert_false(backtrace_read("", 0, &out));
    assert_false(backtrace_read("!!!!", 4, &out));
    assert_false(backtrace_read("QUJD", 4, &out));
    assert_false(backtrace_read(good, 8, &out));
    assert_false(backtrace_read(object, strlen(object), &out));
    assert_int_equal(out.length, 0);
    assert_true(backtrace_read(good, strlen(good), &out));
    assert_true(backtrace_read(broken, strlen(broken), &out)); /* as older producers wrap it */
    assert_string_equal(buffer_text(&out), "[\"a.c\",\"b\"][\"a.c\",\"b\"]");
}

/* --- what goes to the target -------------------------------------------------------------------------------------- */

static const char *fresh(enum operate_verb verb, enum task_state state, const char *text)
{
    static struct buffer made;
    struct buffer queue = {0};
    struct error error = ERROR_NONE;
    struct task_entry entry = {.state = state, .task = {text, strlen(text)}, .queue = "claimed"};
    buffer_fini(&made);
    made = (struct buffer){0};
    read_text(text);
    bool fits = tasks_rewrite(verb, &entry, &view, (struct wall_time){5500000}, &made, &queue, &error);
    buffer_format(&made, " > %s", buffer_text(&queue));
    buffer_fini(&queue);
    return fits ? buffer_text(&made) : "refused";
}

TEST(retried_tasks_forget_one_failure)
{
#define BEGIN "{\"class\":\"a\",\"args\":[ 1.50 ]"
    assert_string_equal(fresh(OPERATE_RETRY, TASK_IN_RETRY, BEGIN ",\"queue\":\"q\",\"retry_count\":3,\"at\":7}"),
                        BEGIN ",\"queue\":\"q\",\"retry_count\":2,\"enqueued_at\":5.5} > q");
    assert_string_equal(fresh(OPERATE_RETRY, TASK_IN_SCHEDULE, BEGIN ",\"retry_count\":3,\"enqueued_at\":1}"),
                        BEGIN ",\"retry_count\":3,\"enqueued_at\":5.5} > default");
    assert_string_equal(fresh(OPERATE_RETRY, TASK_IN_DEAD, BEGIN "}"), BEGIN ",\"enqueued_at\":5.5} > default");
    assert_string_equal(fresh(OPERATE_RETRY, TASK_IN_CLAIMS, "any text"), "any text > claimed");
    assert_string_equal(fresh(OPERATE_RETRY, TASK_IN_RETRY, "any text"), "refused");
    assert_contains(fresh(OPERATE_BURY, TASK_IN_RETRY, BEGIN " }"), "\"error_class\":\"HF::Buried\"");
#define FAILED                                                                                                         \
    BEGIN ",\"jid\":\"j\",\"queue\":\"q\",\"error_class\":\"E\",\"error_message\":\"m\",\"failed_at\":1,\"retry_"      \
          "count\":0}"
    assert_string_equal(fresh(OPERATE_BURY, TASK_IN_RETRY, FAILED), FAILED " > ");
    assert_string_equal(fresh(OPERATE_DELETE, TASK_IN_RETRY, "any text"), " > ");
    assert_contains(fresh(OPERATE_BURY, TASK_IN_QUEUE, "any text"), "\"hf.invalid\"");
}

TEST(a_record_of_what_was_no_task_is_retried_when_it_is_one)
{
    struct buffer record = {0};
    envelope_write_invalid(BEGIN ",\"queue\":\"q\"}", strlen(BEGIN ",\"queue\":\"q\"}"), "q", "too long",
                           (struct wall_time){1}, &record);
    assert_string_equal(fresh(OPERATE_RETRY, TASK_IN_DEAD, buffer_text(&record)),
                        BEGIN ",\"queue\":\"q\",\"enqueued_at\":5.5} > q");
    buffer_clear(&record);
    envelope_write_invalid("nonsense", 8, "q", "no task", (struct wall_time){1}, &record);
    assert_string_equal(fresh(OPERATE_RETRY, TASK_IN_DEAD, buffer_text(&record)), "refused");
    buffer_fini(&record);
}

TEST(ids_with_a_score_are_told_from_plain_ones)
{
    assert_int_equal(task_id_score("1795194409.088278-0123"), 17);
    assert_int_equal(task_id_score("1795194409-0123"), 10);
    assert_int_equal(task_id_score("9-"), 1);
    assert_int_equal(task_id_score("0123456789abcdef01234567"), 0);
    assert_int_equal(task_id_score("-1-x"), 0);
    assert_int_equal(task_id_score(".5-x"), 0);
    assert_int_equal(task_id_score(""), 0);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

TEST(json_is_written_with_its_commas)
{
    struct json_writer json = {.out = &out};
    json_open(&json, NULL, '{');
    json_open(&json, "empty", '[');
    json_close(&json, ']');
    json_open(&json, "list", '[');
    json_number(&json, NULL, -1);
    json_text(&json, NULL, NULL);
    json_seconds(&json, NULL, 1500000);
    json_close(&json, ']');
    json_truth(&json, "yes", true);
    json_raw(&json, "raw", "[1]", 3);
    json_bytes(&json, "text", "a\"\0\xff", 4);
    json_close(&json, '}');
    assert_string_equal(buffer_text(&out), "{\"empty\":[],\"list\":[-1,null,1.5],\"yes\":true,\"raw\":[1],"
                                           "\"text\":\"a\\\"\\u0000\xef\xbf\xbd\"}");
}

TEST(real_numbers_are_written_as_short_as_they_can_be_read_again)
{
    struct json_writer json = {.out = &out};
    json_open(&json, NULL, '[');
    json_decimal(&json, NULL, 0.25);
    json_decimal(&json, NULL, 0.1);
    json_decimal(&json, NULL, 1.0 / 3);
    json_decimal(&json, NULL, 0.1 + 0.2);
    json_decimal(&json, NULL, 1e300);
    json_decimal(&json, NULL, -5);
    json_decimal(&json, NULL, 1.0 / 0.0);
    json_decimal(&json, NULL, 0.0 / 0.0);
    json_close(&json, ']');
    assert_string_equal(buffer_text(&out), "[0.25,0.1,0.3333333333333333,0.30000000000000004,1e+300,-5,null,null]");
}

TEST(what_terminals_obey_is_escaped)
{
    static const char text[] = "[\n\"\xc2\x9b\x7f\xe2\x80\xae\xe2\x81\xa6\xc3\xbc\xe2\x82\xac\"]";
    json_append_defused(&out, text, strlen(text));
    assert_string_equal(buffer_text(&out), "[ \"\\u009b\\u007f\\u202e\\u2066\xc3\xbc\xe2\x82\xac\"]");
    buffer_clear(&out);
    json_append_defused(&out, "\xe2\x80", 2); /* cut in the middle */
    assert_int_equal(out.length, 2);
}

RUN_TESTS_BETWEEN(NULL, tear_down)
