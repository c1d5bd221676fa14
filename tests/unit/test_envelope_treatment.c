/* What a task says about how it is to be treated, in every form that producers write, and what the limits leave to
 * workers. */
#include "tests/support/test.h"

#include "queue/envelope.h"

static const struct envelope_limits limits = ENVELOPE_LIMITS_DEFAULT;
static struct envelope task;

static void tear_down(void)
{
    envelope_fini(&task);
    task = (struct envelope){.jid = NULL};
}

static void parse(const char *more)
{
    static char text[1024];
    struct error error = ERROR_NONE;
    snprintf(text, sizeof text, "{\"class\":\"c\",\"args\":[]%s%s}", more[0] != '\0' ? "," : "", more);
    if (!envelope_parse(&task, text, strlen(text), &limits, &error))
        fail_msg("%s: %s", text, error.text);
}

static void parse_value(const char *name, const char *value)
{
    char more[300];
    snprintf(more, sizeof more, "\"%s\":%s", name, value);
    parse(more);
}

TEST(what_is_absent_is_absent)
{
    parse("\"retry_for\":9,\"retry_queue\":\"q\",\"backtrace\":9,\"created_at\":9,\"enqueued_at\":9,\"failed_at\":9,"
          "\"at\":9,\"expires_at\":9,\"expires_in\":9,\"bid\":1,\"encrypt\":1,\"retry\":9,"
          "\"hf_unique\":\"0123456789abcdef0123456789abcdef01234567\"");
    assert_true(task.retry_for_us > 0 && task.backtrace_given && task.has_batch && task.is_encrypted);
    parse("");
    assert_int_equal(task.retry_for_us, -1);
    assert_string_equal(task.retry_queue, "");
    assert_string_equal(task.unique, "");
    assert_false(task.retry_off || task.retry_counted || task.backtrace_given || task.has_batch || task.is_encrypted);
    assert_int_equal(task.backtrace, 0);
    assert_int_equal(task.created_at.us | task.enqueued_at.us | task.failed_at.us | task.at.us | task.expires_at.us, 0);
    assert_int_equal(task.expires_in_us, 0);
    assert_null(task.ignored);
}

/* 1.18 (h): which of the forms is a number of the task's own. */
TEST(conformance_h_only_integers_are_counts)
{
    static const char *const counts[] = {"0", "3", "\"3\"", "-1", "\"0\""};
    static const char *const others[] = {"true", "false", "null", "\"true\"", "\"false\"", "3.0", "\"x\"", "[]"};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        parse_value("retry", counts[i]);
        assert_true(task.retry_counted && !task.retry_off);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        parse_value("retry", others[i]);
        assert_false(task.retry_counted);
        assert_int_equal(task.retry_max, 25);
    }
}

/* 1.18 (i) */
TEST(conformance_i_times_are_read_in_every_form)
{
    static const struct {
        const char *value;
        int64_t us;
    } cases[] = {{"1795194374", INT64_C(1795194374000000)},
                 {"1795194374.5", INT64_C(1795194374500000)},
                 {"1795194374.123456", INT64_C(1795194374123456)},
                 {"1795194374.1234567", INT64_C(1795194374123457)},
                 {"1.7951943745e9", INT64_C(1795194374500000)},
                 {"1795194374500", INT64_C(1795194374500000)},
                 {"100000000000", INT64_C(100000000000000)},
                 {"99999999999", INT64_C(99999999999000000)},
                 {"1795194374500.25", INT64_C(1795194374500250)},
                 {"\"1795194374.5\"", INT64_C(1795194374500000)},
                 {"\"1795194374500\"", INT64_C(1795194374500000)},
                 {"null", 0},
                 {"true", 0},
                 {"\"\"", 0},
                 {"\"2026-11-20 17:06:14 UTC\"", 0},
                 {"\"0x10\"", 0},
                 {"\"inf\"", 0},
                 {"\"1795194374.5 \"", 0},
                 {"-5", 0},
                 {"1e400", 0},
                 {"1e300", 0},
                 {"999999999999999999999999", 0},
                 {"11111111111111111111111111111111111111111111111111111111", 0},
                 {"[1795194374]", 0},
                 {"{}", 0}};
    static const char *const names[] = {"created_at", "enqueued_at", "failed_at", "at", "expires_at"};
    const struct wall_time *const times[] = {&task.created_at, &task.enqueued_at, &task.failed_at, &task.at,
                                             &task.expires_at};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++) {
            parse_value(names[j], cases[i].value);
            if (times[j]->us != cases[i].us)
                fail_msg("%s %s: %lld", names[j], cases[i].value, (long long)times[j]->us);
        }
}

TEST(spans_are_seconds)
{
    static const struct {
        const char *value;
        int64_t us;
    } cases[] = {{"60", 60000000},
                 {"0", 0},
                 {"0.5", 500000},
                 {"\"60\"", 60000000},
                 {"1e2", 100000000},
                 {"\"1 hour\"", -1},
                 {"-1", -1},
                 {"null", -1},
                 {"true", -1},
                 {"[]", -1},
                 {"1e300", INT64_C(253402300799000000)}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        parse_value("retry_for", cases[i].value);
        if (task.retry_for_us != cases[i].us)
            fail_msg("retry_for %s: %lld", cases[i].value, (long long)task.retry_for_us);
        parse_value("expires_in", cases[i].value);
        assert_int_equal(task.expires_in_us, cases[i].us > 0 ? cases[i].us : 0);
    }
}

TEST(a_backtrace_is_wanted_whole_or_by_lines)
{
    static const struct {
        const char *value;
        unsigned lines;
    } cases[] = {{"true", 100}, {"\"true\"", 100}, {"7", 7},  {"\"7\"", 7}, {"0", 0},       {"false", 0},
                 {"-3", 0},     {"100000", 100},   {"[]", 0}, {"1.5", 0},   {"\"yes\"", 0}, {"null", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        parse_value("backtrace", cases[i].value);
        if (task.backtrace != cases[i].lines)
            fail_msg("backtrace %s: %u", cases[i].value, task.backtrace);
        assert_int_equal(task.backtrace_given, strcmp(cases[i].value, "null") != 0);
    }
}

TEST(batches_and_secrets_are_seen)
{
    static const char *const yes[] = {"true", "\"b-1\"", "0", "{}", "\"\""}, *const no[] = {"null", "false"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        parse_value("bid", yes[i]);
        assert_true(task.has_batch && !task.is_encrypted);
        parse_value("encrypt", yes[i]);
        assert_true(task.is_encrypted && !task.has_batch);
    }
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        parse_value("bid", no[i]);
        assert_false(task.has_batch);
        parse_value("encrypt", no[i]);
        assert_false(task.is_encrypted);
    }
}

TEST(what_cannot_be_used_is_ignored_and_said)
{
    static const char *const queues[] = {"\"a b\"", "\"hf:x\"", "7", "[]", "\"a\\u0000\"", "\"\\ud800\""};
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        parse_value("retry_queue", queues[i]);
        assert_string_equal(task.retry_queue, "");
        assert_string_equal(task.ignored, "retry_queue is not the name of a queue");
    }
    static const char *const digests[] = {"\"0123456789abcdef0123456789abcdef0123456\"",
                                          "\"0123456789abcdef0123456789abcdef012345678\"",
                                          "\"0123456789abcdef0123456789abcdef0123456g\"", "1", "true"};
    for (size_t i = 0; i < sizeof digests / sizeof digests[0]; i++) {
        parse_value("hf_unique", digests[i]);
        assert_string_equal(task.unique, "");
        assert_string_equal(task.ignored, "hf_unique is not 40 hexadecimal digits");
    }
    parse("\"retry_queue\":\"low\",\"hf_unique\":\"0123456789abcdef0123456789ABCDEF01234567\"");
    assert_string_equal(task.retry_queue, "low");
    assert_string_equal(task.unique, "0123456789abcdef0123456789ABCDEF01234567");
    assert_null(task.ignored);
    parse("\"retry_queue\":null,\"hf_unique\":\"\"");
    assert_null(task.ignored);
}

TEST(a_task_waits_in_the_list_of_a_resource_or_a_class)
{
    static const char *const lists[] = {"resource:", "resource:r", "seats:r", "class:c"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char value[32];
        snprintf(value, sizeof value, "\"%s\"", lists[i]);
        parse_value("hf_list", value);
        assert_string_equal(task.list, lists[i]);
    }
    static const char *const others[] = {"\"\"", "\"resource\"", "\"class\"", "\"queue:q\"", "1"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        parse_value("hf_list", others[i]);
        assert_string_equal(task.list, "");
        assert_null(task.ignored);
    }
}

static void assert_expiry(const char *more, int64_t class_us, int64_t us)
{
    parse(more);
    if (envelope_expiry(&task, class_us).us != us)
        fail_msg("%s: %lld", more, (long long)envelope_expiry(&task, class_us).us);
}

TEST(expiry_is_counted_from_the_creation)
{
    assert_expiry("", 5, 0);
    assert_expiry("\"created_at\":100,\"enqueued_at\":200", 0, 0);
    assert_expiry("\"created_at\":100,\"enqueued_at\":200,\"expires_in\":60", 0, 160000000);
    assert_expiry("\"enqueued_at\":200,\"expires_in\":60", 5, 260000000);
    assert_expiry("\"expires_in\":60", 5, 0);
    assert_expiry("\"created_at\":100,\"expires_in\":60,\"expires_at\":120.5", 5, 120500000);
    assert_expiry("\"expires_at\":120.5", 5, 120500000);
    assert_expiry("\"created_at\":100,\"expires_in\":60,\"expires_at\":null", 5, 160000000);
    assert_expiry("\"created_at\":100,\"expires_in\":60,\"expires_at\":120,\"retry_count\":0", 5, 0);
    assert_expiry("\"created_at\":100,\"expires_in\":60,\"expires_at\":120,\"retry_count\":-1", 5, 0);
    /* a failure that did not count: the task was started, unless its record kept the time of its expiry */
    assert_expiry("\"created_at\":100,\"expires_in\":60,\"failed_at\":150", 5, 0);
    assert_expiry("\"created_at\":100,\"expires_in\":60,\"expires_at\":120.5,\"failed_at\":150", 5, 120500000);
    assert_expiry("\"created_at\":100,\"expires_in\":0", 0, 0);
    assert_expiry("\"created_at\":100,\"enqueued_at\":200,\"expires_in\":0", 5, 200000005);
    assert_expiry("\"created_at\":100", 5, 100000005);
}

TEST(expiry_counts_from_when_a_task_is_due)
{
    static const struct {
        const char *more;
        int64_t us;
    } cases[] = {
        {"", 0},
        {"\"expires_in\":60", 1060000000},
        {"\"expires_in\":60,\"expires_at\":120", 0},
        {"\"expires_in\":60,\"retry_count\":0", 0}, /* it was started */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        parse(cases[i].more);
        assert_int_equal(envelope_expiry_when_due(&task, (struct wall_time){1000 * US_PER_S}).us, cases[i].us);
    }
}

/* --- limits ----------------------------------------------------------------------------------------------------- */

static bool fits(const struct buffer *text, const struct envelope_limits *bounds, struct error *error)
{
    *error = ERROR_NONE;
    return envelope_parse(&task, text->bytes, text->length, bounds, error);
}

TEST(members_of_workers_do_not_count)
{
    static const char added[] =
        ",\"jid\":\"j\",\"queue\":\"q\",\"enqueued_at\":1.5,\"failed_at\":1.5,\"retried_at\":1.5,\"retry_count\":1,"
        "\"error_class\":\"E\",\"error_message\":\"m\",\"error_backtrace\":\"b\",\"expires_at\":1.5,"
        "\"hf_fence\":\"7\",\"hf_parked\":1.5,\"hf_list\":\"resource:r\",\"hf_unserved_at\":1.5}";
    struct buffer text = {0};
    struct error error;
    buffer_append_text(&text, "{\"class\":\"c\",\"args\":[{\"k\":1}]");
    for (int i = 0; i < ENVELOPE_MEMBERS_MAX - 2; i++)
        buffer_format(&text, ",\"m%d\":1", i);
    struct envelope_limits tight = {.size = text.length + 1, .depth = 3, .keys = ENVELOPE_MEMBERS_MAX + 1};
    size_t own_start = text.length;
    buffer_append_text(&text, added);
    assert_true(fits(&text, &tight, &error));
    assert_int_equal(task.member_count, ENVELOPE_MEMBERS_MAX + ENVELOPE_OWN_MEMBERS);

    struct envelope_limits less = tight;
    less.keys--;
    assert_false(fits(&text, &less, &error));
    assert_contains(error.text, "more object members than the limit of 64");
    less = tight;
    less.size--;
    assert_false(fits(&text, &less, &error));
    assert_contains(error.text, "more than the limit of ");
    text.length = own_start;
    buffer_append_text(&text, ",\"one\":1");
    buffer_append_text(&text, added);
    assert_false(fits(&text, &limits, &error));
    assert_contains(error.text, "more than 64 members");
    buffer_fini(&text);
}

/* Nor does what tells a task from its twin. */
TEST(blanks_at_the_end_do_not_count)
{
    struct envelope_limits exact = {.size = strlen("{\"class\":\"c\",\"args\":[]}"), .depth = 3, .keys = 10};
    struct buffer text = {0};
    struct error error;
    buffer_append_text(&text, "{\"class\":\"c\",\"args\":[]} \t \t\t");
    assert_true(fits(&text, &exact, &error));
    exact.size--;
    assert_false(fits(&text, &exact, &error));
    assert_contains(error.text, "more than the limit of 22");
    buffer_fini(&text);
}

/* A producer cannot hide a long text in such a member. */
TEST(members_of_workers_count_beyond_their_share)
{
    struct envelope_limits small = {.size = 1000, .depth = 3, .keys = 10};
    struct buffer text = {0};
    struct error error;
    for (size_t more = 0; more < 2; more++) {
        buffer_clear(&text);
        buffer_append_text(&text, "{\"class\":\"c\",\"args\":[],\"error_message\":\"");
        for (size_t i = 0; i < ENVELOPE_OWN_BYTES_MAX + 1000 + more - strlen("{\"class\":\"c\",\"args\":[]}") -
                                   strlen("\"error_message\":\"\",");
             i++)
            buffer_append(&text, "x", 1);
        buffer_append_text(&text, "\"}");
        assert_int_equal(fits(&text, &small, &error), more == 0);
    }
    assert_contains(error.text, "66537 bytes long, more than the limit of 1000");
    buffer_fini(&text);
}

/* --- the queue of any text --------------------------------------------------------------------------------------- */

TEST(the_queue_of_any_object_is_found)
{
    static const struct {
        const char *text, *queue; /* NULL: none */
    } cases[] = {{"{\"queue\":\"q\"}", "q"},
                 {"{\"args\":7,\"qu\\u0065ue\":\"\\u0071\"} ", "q"},
                 {"{\"queue\":7}", NULL},
                 {"{\"queue\":null}", NULL},
                 {"{}", NULL},
                 {"[\"queue\"]", NULL},
                 {"{\"queue\":\"q\"", NULL},
                 {"", NULL}};
    struct buffer queue = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buffer_clear(&queue);
        assert_int_equal(envelope_find_queue(cases[i].text, strlen(cases[i].text), &queue), cases[i].queue != NULL);
        if (cases[i].queue != NULL)
            assert_string_equal(buffer_text(&queue), cases[i].queue);
    }
    buffer_fini(&queue);
}

RUN_TESTS_BETWEEN(NULL, tear_down)
