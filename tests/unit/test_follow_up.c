/* The tasks that a run hands in are made complete, or refused with a reason; and the record of a result. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "queue/follow_up.h"
#include "queue/task_result.h"

static const struct wall_time now = {1795194374500000};

static struct follow_up_parent parent(void)
{
    return (struct follow_up_parent){.jid = "p1", .queue = "jobs", .limits = ENVELOPE_LIMITS_DEFAULT};
}

static bool take(struct follow_ups *tasks, const char *text, struct error *error)
{
    struct follow_up_parent own = parent();
    char *copy = memory_text(text);
    bool is_taken = follow_ups_read(tasks, &own, &copy, 1, now, error);
    free(copy);
    return is_taken;
}

static void assert_taken(const char *text, const char *queue, int64_t at_us, const char *payload)
{
    struct follow_ups tasks = {.count = 0};
    struct error error = ERROR_NONE;
    if (!take(&tasks, text, &error))
        fail_msg("%s: %s", text, error.text);
    assert_int_equal(tasks.count, 1);
    if (queue == NULL)
        assert_null(tasks.list[0].queue);
    else
        assert_string_equal(tasks.list[0].queue, queue);
    assert_int_equal(tasks.list[0].at_us, at_us);
    char *taken = memory_text_of(tasks.list[0].payload.bytes, tasks.list[0].payload.length);
    assert_string_equal(taken, payload);
    free(taken);
    follow_ups_fini(&tasks);
}

static void assert_refused(const char *text, const char *part)
{
    struct follow_ups tasks = {.count = 0};
    struct follow_up_parent own = parent();
    struct error error = ERROR_NONE;
    assert_false(take(&tasks, text, &error));
    assert_contains(error.text, part);
    assert_contains(error.text, "follow-up task 1");
    assert_int_equal(tasks.count, 0);
    follow_ups_fini(&tasks);
    error = ERROR_NONE;
    assert_false(follow_up_check(&own, text, strlen(text), &error));
    assert_contains(error.text, part);
}

TEST(what_is_missing_is_added_and_the_parent_named)
{
    assert_taken(
        "{\"class\":\"mail\",\"args\":[7],\"jid\":\"c\"}", "jobs", 0,
        "{\"class\":\"mail\",\"args\":[7],\"jid\":\"c\",\"queue\":\"jobs\",\"retry\":true,\"hf_parent\":\"p1\","
        "\"created_at\":1795194374.5,\"enqueued_at\":1795194374.5}");
    assert_taken(" {\"class\":\"mail\",\"args\":[7],\"jid\":\"c\",\"queue\":\"low\",\"retry\":3} ", "low", 0,
                 "{\"class\":\"mail\",\"args\":[7],\"jid\":\"c\",\"queue\":\"low\",\"retry\":3,\"hf_parent\":\"p1\","
                 "\"created_at\":1795194374.5,\"enqueued_at\":1795194374.5}");
}

TEST(it_belongs_to_the_trace_of_its_parent_unless_it_names_another)
{
    struct follow_ups tasks = {.count = 0};
    struct follow_up_parent traced = parent();
    struct error error = ERROR_NONE;
    char texts[2][128] = {"{\"class\":\"mail\",\"args\":[]}",
                          "{\"class\":\"mail\",\"args\":[],\"traceparent\":\"own\"}"};
    char *const list[] = {texts[0], texts[1]};
    traced.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_true(follow_ups_read(&tasks, &traced, list, 2, now, &error));
    char *first = memory_text_of(tasks.list[0].payload.bytes, tasks.list[0].payload.length);
    char *second = memory_text_of(tasks.list[1].payload.bytes, tasks.list[1].payload.length);
    assert_contains(first, "\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"");
    assert_contains(second, "\"traceparent\":\"own\"");
    free(first);
    free(second);
    follow_ups_fini(&tasks);
}

TEST(nobody_else_is_its_parent)
{
    assert_taken("{\"class\":\"m\",\"args\":[],\"jid\":\"c\",\"hf_parent\":\"of its own\",\"retry\":1}", "jobs", 0,
                 "{\"class\":\"m\",\"args\":[],\"jid\":\"c\",\"hf_parent\":\"p1\",\"retry\":1,\"queue\":\"jobs\","
                 "\"created_at\":1795194374.5,\"enqueued_at\":1795194374.5}");
}

TEST(a_jid_is_drawn)
{
    struct follow_ups tasks = {.count = 0};
    struct follow_up_parent own = parent();
    struct error error = ERROR_NONE;
    char text[] = "{\"class\":\"m\",\"args\":[]}";
    char *texts[] = {text, text};
    assert_true(follow_ups_read(&tasks, &own, texts, 2, now, &error));
    assert_int_equal(tasks.count, 2);
    assert_int_equal(tasks.list[0].payload.length, tasks.list[1].payload.length);
    assert_memory_not_equal(tasks.list[0].payload.bytes, tasks.list[1].payload.bytes, tasks.list[0].payload.length);
    follow_ups_fini(&tasks);
}

TEST(times_count_from_the_end_of_the_parent)
{
    assert_taken("{\"class\":\"m\",\"args\":[],\"jid\":\"c\",\"at\":60,\"retry\":1}", NULL, now.us + 60 * US_PER_S,
                 "{\"class\":\"m\",\"args\":[],\"jid\":\"c\",\"retry\":1,\"queue\":\"jobs\",\"hf_parent\":\"p1\","
                 "\"created_at\":1795194374.5}");
    assert_taken("{\"class\":\"m\",\"args\":[],\"jid\":\"c\",\"at\":1795194374,\"retry\":1}", "jobs", 0,
                 "{\"class\":\"m\",\"args\":[],\"jid\":\"c\",\"retry\":1,\"queue\":\"jobs\",\"hf_parent\":\"p1\","
                 "\"created_at\":1795194374.5,\"enqueued_at\":1795194374.5}");
}

TEST(what_no_worker_would_take_is_refused)
{
    assert_refused("", "'{' is missing at byte 0");
    assert_refused("7", "'{' is missing at byte 0");
    assert_refused("{\"class\":\"m\"}", "args");
    assert_refused("{\"args\":[]}", "class");
    assert_refused("{\"class\":\"m\",\"args\":[]", "',' or '}' is missing at byte 22");
    assert_refused("{\"class\":\"m\",\"args\":[],\"queue\":\"hf:2:x\"}", "queue");
    assert_refused("{\"class\":\"m\",\"args\":[],\"at\":\"soon\"}", "at");
    assert_refused("{\"class\":\"m\",\"args\":[],\"resource\":\"hf:x\"}", "hf:");
}

TEST(one_that_is_wrong_refuses_all)
{
    struct follow_ups tasks = {.count = 0};
    struct follow_up_parent own = parent();
    struct error error = ERROR_NONE;
    char good[] = "{\"class\":\"m\",\"args\":[]}", bad[] = "{\"class\":\"m\"}";
    char *texts[] = {good, good, bad, good};
    assert_false(follow_ups_read(&tasks, &own, texts, 4, now, &error));
    assert_contains(error.text, "follow-up task 3");
    assert_int_equal(tasks.count, 0);
    assert_true(follow_ups_read(&tasks, &own, texts, 2, now, &error));
    assert_int_equal(tasks.count, 2);
    follow_ups_fini(&tasks);
}

/* The limits are the parent's worker's, and what is added does not make a task too large for them. */
TEST(limits_hold_for_what_is_complete)
{
    struct follow_up_parent small = parent();
    struct error error = ERROR_NONE;
    char text[700];
    small.limits.size = 1024;
    snprintf(text, sizeof text, "{\"class\":\"m\",\"args\":[\"%0600d\"]}", 0);
    assert_true(follow_up_check(&small, text, 100 + 20, &error) == false); /* cut, so no JSON */
    assert_contains(error.text, "not valid JSON");
    error = ERROR_NONE;
    snprintf(text, sizeof text, "{\"class\":\"m\",\"args\":[\"%0500d\"]}", 0);
    assert_true(follow_up_check(&small, text, strlen(text), &error));
    snprintf(text, sizeof text, "{\"class\":\"m\",\"args\":[\"%0660d\"]}", 0);
    assert_false(follow_up_check(&small, text, strlen(text), &error));
    assert_contains(error.text, "bytes long, more than the limit of");
}

TEST(a_result_is_written_and_read)
{
    static const char *const results[] = {"7", "null", "{\"a\":[1,\"\\u0000\"]}", "\"text\"", " [ ] "};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        struct buffer record = {0};
        struct task_result read;
        task_result_write("j\"1", "c", now, (struct text_span){results[i], strlen(results[i])}, &record);
        assert_true(task_result_read(record.bytes, record.length, &read));
        assert_int_equal(read.ended_at.us, now.us);
        struct text_span trimmed = {results[i], strlen(results[i])};
        while (trimmed.bytes[0] == ' ')
            trimmed.bytes++, trimmed.length--;
        while (trimmed.bytes[trimmed.length - 1] == ' ')
            trimmed.length--;
        assert_int_equal(read.result.length, trimmed.length);
        assert_memory_equal(read.result.bytes, trimmed.bytes, trimmed.length);
        buffer_fini(&record);
    }
}

TEST(a_cancelled_task_leaves_a_record_without_a_result)
{
    struct buffer record = {0};
    struct task_result read;
    task_result_write_cancelled("j1", "c", now, &record);
    assert_true(task_result_read(record.bytes, record.length, &read));
    assert_true(read.was_cancelled);
    assert_int_equal(read.ended_at.us, now.us);
    assert_null(read.result.bytes);
    static const char other[] = "{\"ended_at\":1.5,\"cancelled\":false,\"result\":7}";
    assert_true(task_result_read(other, sizeof other - 1, &read) && !read.was_cancelled && read.result.length == 1);
    buffer_fini(&record);
}

TEST(what_others_wrote_is_no_result)
{
    static const char *const texts[] = {"",
                                        "7",
                                        "[]",
                                        "{}",
                                        "{\"result\":7}",
                                        "{\"ended_at\":1.5}",
                                        "{\"result\":7,\"ended_at\":\"x\"}",
                                        "{\"result\":7,\"ended_at\":1.5"};
    struct task_result read;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(task_result_read(texts[i], strlen(texts[i]), &read));
}

RUN_TESTS
