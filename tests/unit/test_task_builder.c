/* What producers hand in becomes a task, or is refused with a reason. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "queue/task_builder.h"

static const struct wall_time now = {1795194374500000};

static struct envelope_limits limits;

static int limits_setup(void **state)
{
    (void)state;
    limits = ENVELOPE_LIMITS_DEFAULT;
    return 0;
}

static struct task_builder *open_builder(const struct hf_task *defaults)
{
    struct error error = ERROR_NONE;
    struct task_builder *builder = task_builder_create(defaults, &limits, NULL, &error);
    if (builder == NULL)
        fail_msg("%s", error.text);
    return builder;
}

/* Takes one text; the payload as text, or NULL and `reason`. */
static char *take(const struct hf_task *options, const char *text, char reason[480])
{
    struct task_builder *builder = open_builder(options);
    struct error error = ERROR_NONE;
    struct built_task task;
    char *payload = NULL;
    if (task_build(builder, text, strlen(text), now, &task, &error))
        payload = memory_text_of(task.payload.bytes, task.payload.length);
    memcpy(reason, error.text, sizeof error.text);
    task_builder_destroy(builder);
    return payload;
}

static void assert_taken(const struct hf_task *options, const char *text, const char *expected)
{
    char reason[480];
    char *payload = take(options, text, reason);
    if (payload == NULL)
        fail_msg("%s: %s", text, reason);
    assert_string_equal(payload, expected);
    free(payload);
}

static void assert_refused(const struct hf_task *options, const char *text, const char *part)
{
    char reason[480];
    char *payload = take(options, text, reason);
    if (payload != NULL)
        fail_msg("%s was taken as %s", text, payload);
    if (strstr(reason, part) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", text, reason, part);
}

static void assert_no_builder(const struct hf_task *options, const char *part)
{
    struct error error = ERROR_NONE;
    assert_null(task_builder_create(options, &limits, NULL, &error));
    if (strstr(error.text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, part);
}

#define TIMES  "\"created_at\":1795194374.5,\"enqueued_at\":1795194374.5"
#define OTHERS "\"retry\":true," TIMES "}"

TEST(test_what_is_missing_is_added)
{
    const struct hf_task options = {.jid = "J"};
    assert_taken(&options, "{\"class\":\"t\",\"args\":[]}",
                 "{\"class\":\"t\",\"args\":[],\"jid\":\"J\",\"queue\":\"default\"," OTHERS);
    assert_taken(&options, " {\"class\" : \"t\", \"args\":[ ], \"queue\":\"q\", \"retry\" :false,\"created_at\":1}\r",
                 "{\"class\":\"t\",\"args\":[ ],\"queue\":\"q\",\"retry\":false,\"created_at\":1,\"jid\":\"J\","
                 "\"enqueued_at\":1795194374.5}");
    assert_taken(&options, "{\"class\":\"t\",\"args\":[],\"jid\":null,\"queue\":\"\"}",
                 "{\"class\":\"t\",\"args\":[],\"jid\":\"J\",\"queue\":\"default\"," OTHERS);
}

TEST(test_what_is_there_stays_byte_for_byte)
{
    static const char whole[] =
        "{\"retry\" : \"3\", \"class\":\"t\\u0041\",\"args\": [1e400, "
        "123456789012345678901234567890,\"\\u0000\\/\xc3\xa9\"],"
        "\"jid\":\"x\",\"queue\":\"q\",\"created_at\":\"then\",\"enqueued_at\":null,\"more\":{\"a\":[]} }";
    assert_taken(&(struct hf_task){.queue = "other", .retry = "false"}, whole, whole);
    assert_taken(
        &(struct hf_task){.class_name = "t", .jid = "J"}, "[1e400,-0,\"\\u00e9\xc3\xa9\", {}]",
        "{\"class\":\"t\",\"args\":[1e400,-0,\"\\u00e9\xc3\xa9\", {}],\"jid\":\"J\",\"queue\":\"default\"," OTHERS);
}

TEST(test_options_are_for_tasks_that_do_not_say)
{
    const struct hf_task options = {.jid = "J",
                                    .queue = "urgent",
                                    .retry = "7",
                                    .resources = (const char *const[]){"a\"b", "\xc3\xa9"},
                                    .resource_count = 2};
    assert_taken(
        &options, "{\"class\":\"t\",\"args\":[]}",
        "{\"class\":\"t\",\"args\":[],\"jid\":\"J\",\"queue\":\"urgent\",\"resource\":[\"a\\\"b\",\"\xc3\xa9\"],"
        "\"retry\":7," TIMES "}");
    assert_taken(&options, "{\"class\":\"t\",\"args\":[],\"resource\":null,\"queue\":\"q\",\"retry\":null}",
                 "{\"class\":\"t\",\"args\":[],\"resource\":null,\"queue\":\"q\",\"retry\":null,\"jid\":\"J\"," TIMES
                 "}");
    const struct hf_task one = {
        .class_name = "c", .jid = "J", .resources = (const char *const[]){"r"}, .resource_count = 1};
    assert_taken(&one, "[]",
                 "{\"class\":\"c\",\"args\":[],\"jid\":\"J\",\"queue\":\"default\",\"resource\":\"r\"," OTHERS);
}

TEST(test_each_task_gets_an_id_of_its_own)
{
    struct task_builder *builder = open_builder(&(struct hf_task){.class_name = "t"});
    struct built_task task;
    char first[64];
    assert_true(task_build(builder, "[]", 2, now, &task, NULL));
    assert_int_equal(strlen(task.jid), 24);
    snprintf(first, sizeof first, "%s", task.jid);
    assert_true(task_build(builder, "[]", 2, now, &task, NULL));
    assert_string_not_equal(task.jid, first);
    assert_non_null(memmem(task.payload.bytes, task.payload.length, task.jid, 24));
    assert_string_equal(task.class_name, "t");
    assert_string_equal(task.queue, "default");
    task_builder_destroy(builder);
}

TEST(test_what_no_worker_would_accept)
{
    const struct hf_task whole = {.queue = NULL}, arguments = {.class_name = "t"};
    assert_refused(&whole, "", "'{' is missing at byte 0");
    assert_refused(&whole, "nonsense", "'{' is missing at byte 0");
    assert_refused(&whole, "[1]", "'{' is missing at byte 0");
    assert_refused(&whole, "{\"args\":[]}", "class");
    assert_refused(&whole, "{\"class\":\"t\"}", "args");
    assert_refused(&whole, "{\"class\":\"t\",\"args\":{}}", "args");
    assert_refused(&whole, "{\"class\":\"t\",\"args\":[],\"resource\":\"hf:x\"}", "hf:");
    assert_refused(&whole, "{\"class\":\"t\",\"args\":[],\"queue\":\"a b\"}", "queue");
    assert_refused(&whole, "{\"class\":\"t\",\"args\":[],\"at\":\"soon\"}", "\"at\"");
    assert_refused(&whole, "{\"class\":\"t\",\"args\":[],\"at\":1e400}", "\"at\"");
    assert_refused(&whole, "{\"class\":\"t\",\"args\":[],\"at\":1795194374500}", "milliseconds");
    assert_refused(&whole, "{\"class\":\"t\",\"args\":[],\"expires_in\":\"1h\"}", "\"expires_in\"");
    assert_refused(&whole, "{\"class\":\"t\",\"args\":[],\"expires_in\":-1}", "\"expires_in\"");
    assert_refused(&whole, "{\"class\":\"t\",\"args\":[]} {}", "something follows the value at byte 24");
    assert_refused(&arguments, "{\"class\":\"t\",\"args\":[]}", "array");
    assert_refused(&arguments, "7", "array");
    assert_refused(&arguments, "", "a value is missing at byte 0");
    assert_refused(&arguments, "[1],\"queue\":[2]", "something follows the value at byte 3");
    assert_refused(&arguments, "[1", "',' or ']' is missing at byte 2");
}

/* --- time and uniqueness ------------------------------------------------------------------------------------------ */

#define TASK(more)                                                                                                     \
    "{\"class\":\"t\",\"args\":[1],\"jid\":\"J\",\"queue\":\"q\",\"retry\":true," more "\"created_at\":1}"
#define AT      INT64_C(1795197974250000) /* an hour later, less a quarter of a second */
#define HOUR_MS (3600 * MS_PER_S)

static void assert_scheduled(const struct hf_task *options, const char *text, int64_t at_us, const char *expected)
{
    struct task_builder *builder = open_builder(options);
    struct error error = ERROR_NONE;
    struct built_task task;
    if (!task_build(builder, text, strlen(text), now, &task, &error))
        fail_msg("%s: %s", text, error.text);
    assert_int_equal(task.at_us, at_us);
    assert_int_equal(task.payload.length, strlen(expected));
    assert_memory_equal(task.payload.bytes, expected, task.payload.length);
    task_builder_destroy(builder);
}

TEST(test_a_time_to_run_at)
{
    const struct hf_task none = {.queue = NULL}, at = {.at_ms = AT / 1000}, in = {.in_ms = HOUR_MS};
    static const char plain[] = TASK(""), queued[] = "{\"class\":\"t\",\"args\":[1],\"jid\":\"J\",\"queue\":\"q\","
                                                     "\"retry\":true,\"created_at\":1,\"enqueued_at\":1795194374.5}";
    assert_scheduled(&none, TASK("\"at\":1795197974.25,"), AT, plain);
    assert_scheduled(&none, TASK("\"at\":179519797425e-2,"), AT, plain);
    assert_scheduled(&none, TASK("\"at\":1.79519797425E9,"), AT, plain);
    assert_scheduled(&none, TASK("\"at\":1795197974.2500009999999999999999999999999,"), AT, plain);
    assert_scheduled(&none, TASK("\"at\":90.5,"), now.us + 90500000, plain);
    assert_scheduled(&at, TASK(""), AT, plain);
    assert_scheduled(&in, TASK(""), now.us + HOUR_MS * 1000, plain);
    assert_scheduled(&in, TASK("\"at\":90,"), now.us + 90000000, plain); /* its own word counts */
    assert_scheduled(&in, TASK("\"at\":null,"), now.us + HOUR_MS * 1000, plain);
    assert_scheduled(&none, TASK("\"at\":1795194374.5,"), 0, queued);
    assert_scheduled(&none, TASK("\"at\":-5,"), 0, queued);
    assert_scheduled(&none, TASK("\"at\":null,"), 0, queued);
    assert_scheduled(&(struct hf_task){.at_ms = 1}, TASK(""), 0, queued);
}

TEST(test_a_time_to_expire_at)
{
    const struct hf_task soon = {.expires_in_ms = 1500}, later = {.at_ms = AT / 1000, .expires_in_ms = 1500};
    static const char end[] = "\"created_at\":1,\"enqueued_at\":1795194374.5";
    char expected[256];
    snprintf(expected, sizeof expected,
             "{\"class\":\"t\",\"args\":[1],\"jid\":\"J\",\"queue\":\"q\",\"retry\":true,%s,\"expires_in\":1.5}", end);
    assert_scheduled(&soon, TASK(""), 0, expected);
    assert_scheduled(&later, TASK(""), AT,
                     "{\"class\":\"t\",\"args\":[1],\"jid\":\"J\",\"queue\":\"q\",\"retry\":true,\"created_at\":1,"
                     "\"expires_in\":1.5,\"expires_at\":1795197975.75}");
    assert_scheduled(&later, TASK("\"expires_in\":60,"), AT,
                     "{\"class\":\"t\",\"args\":[1],\"jid\":\"J\",\"queue\":\"q\",\"retry\":true,\"expires_in\":60,"
                     "\"created_at\":1,\"expires_at\":1795198034.25}");
    assert_scheduled(&later, TASK("\"expires_at\":7,"), AT, TASK("\"expires_at\":7,"));
}

TEST(test_unique_tasks_carry_their_digest)
{
    static const char digest[] = "a80fd59e3d32b0c71bb9da81cab54e076bb7e3dc"; /* of "t\n[1]" */
    const struct hf_task options = {.class_name = "t", .jid = "J", .unique = true, .unique_ms = 60000, .in_ms = 5000};
    struct task_builder *builder = open_builder(&options);
    struct built_task task;
    assert_true(task_build(builder, " [1] ", 5, now, &task, NULL));
    assert_string_equal(task.digest, digest);
    assert_int_equal(task.unique_ms, 65000);
    assert_non_null(memmem(task.payload.bytes, task.payload.length, digest, 40));
    assert_true(task_build(builder, "[1 ]", 4, now, &task, NULL));
    assert_string_not_equal(task.digest, digest);
    task_builder_destroy(builder);
    builder = open_builder(&(struct hf_task){.class_name = "t"});
    assert_true(task_build(builder, "[1]", 3, now, &task, NULL));
    assert_string_equal(task.digest, "");
    assert_null(memmem(task.payload.bytes, task.payload.length, "hf_unique", 9));
    task_builder_destroy(builder);
}

TEST(test_tags)
{
    const struct hf_task options = {
        .class_name = "t", .jid = "J", .tags = (const char *const[]){"a\"", "b"}, .tag_count = 2};
    assert_taken(&options, "[]",
                 "{\"class\":\"t\",\"args\":[],\"jid\":\"J\",\"queue\":\"default\",\"retry\":true,\"tags\":[\"a\\\"\","
                 "\"b\"]," TIMES "}");
}

TEST(test_limits_leave_room_for_what_is_added)
{
    const struct hf_task options = {.class_name = "t"};
    limits = (struct envelope_limits){.size = 2000, .depth = 8, .keys = 20};
    char text[2100] = "[\"";
    memset(text + 2, 'x', sizeof text - 2);
    for (size_t length = 100; length < 2000; length++) {
        memcpy(text + length, "\"]", 3);
        char reason[480];
        char *payload = take(&options, text, reason);
        text[length] = text[length + 1] = text[length + 2] = 'x';
        if (payload == NULL) {
            assert_true(length > 1500);
            return;
        }
        assert_true(strlen(payload) <= 2000);
        free(payload);
    }
    fail_msg("a text of 2000 bytes was taken");
}

TEST(test_options_that_cannot_be_part_of_a_task)
{
    static const char long_name[] = "0123456789012345678901234567890123456789012345678901234567890123456789"
                                    "0123456789012345678901234567890123456789012345678901234567890123456789";
    assert_no_builder(&(struct hf_task){.class_name = ""}, "class");
    assert_no_builder(&(struct hf_task){.class_name = "\xff"}, "UTF-8");
    assert_no_builder(&(struct hf_task){.retry = "often"}, "retry");
    assert_no_builder(&(struct hf_task){.retry = "1,\"x\":2"}, "retry");
    assert_no_builder(&(struct hf_task){.tags = (const char *const[]){"\xff"}, .tag_count = 1}, "tag");
    assert_no_builder(&(struct hf_task){.tag_count = 65}, "tags");
    assert_no_builder(&(struct hf_task){.at_ms = 1, .in_ms = 1}, "not both");
    assert_no_builder(&(struct hf_task){.in_ms = -1}, "negative");
    assert_no_builder(&(struct hf_task){.at_ms = INT64_MAX}, "3,000 years");
    assert_no_builder(&(struct hf_task){.unique = true, .unique_ms = INT64_MAX}, "3,000 years");
    assert_no_builder(&(struct hf_task){.queue = "a b"}, "queue");
    assert_no_builder(&(struct hf_task){.queue = "hf:x"}, "queue");
    assert_no_builder(&(struct hf_task){.queue = ""}, "queue");
    assert_no_builder(&(struct hf_task){.queue = long_name}, "queue");
    assert_no_builder(&(struct hf_task){.jid = ""}, "jid");
    assert_no_builder(&(struct hf_task){.jid = long_name}, "jid");
    assert_no_builder(&(struct hf_task){.jid = "\xc3\xa9"}, "jid");
    const char *resource = "";
    assert_no_builder(&(struct hf_task){.resources = &resource, .resource_count = 1}, "resource");
    resource = "hf:lock";
    assert_no_builder(&(struct hf_task){.resources = &resource, .resource_count = 1}, "hf:");
    assert_no_builder(&(struct hf_task){.traceparent = ""}, "traceparent");
    assert_no_builder(&(struct hf_task){.traceparent = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
                      "traceparent");
    resource = "\xc3";
    assert_no_builder(&(struct hf_task){.resources = &resource, .resource_count = 1}, "UTF-8");
}

TEST(test_a_retry_of_a_task_is_a_number_or_true_or_false)
{
    static const char *const clear[] = {"true", "false", "null", "0", "7", "\"3\"", "\"true\"", "\"false\""};
    static const char *const unclear[] = {"\"x\"", "\"no\"", "\"yes\"", "\"\"", "[]", "{}", "1.5"};
    char text[64], reason[480];
    for (size_t i = 0; i < sizeof clear / sizeof clear[0]; i++) {
        snprintf(text, sizeof text, "{\"class\":\"t\",\"args\":[],\"retry\":%s}", clear[i]);
        char *payload = take(&(struct hf_task){.jid = NULL}, text, reason);
        assert_non_null(payload);
        free(payload);
    }
    for (size_t i = 0; i < sizeof unclear / sizeof unclear[0]; i++) {
        snprintf(text, sizeof text, "{\"class\":\"t\",\"args\":[],\"retry\":%s}", unclear[i]);
        assert_null(take(&(struct hf_task){.jid = NULL}, text, reason));
        assert_contains(reason, "\"retry\" is not a number, true or false");
    }
}

RUN_TESTS_WITH(limits_setup, NULL)
