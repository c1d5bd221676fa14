/* Reading a task: what the job format allows is understood, whatever else is there is refused with a reason. */
#include "tests/support/test.h"

#include "queue/envelope.h"

static const struct envelope_limits limits = ENVELOPE_LIMITS_DEFAULT;

/* The task that was parsed last, with its own exact copy of the text, so that a sanitizer sees a read beyond it. */
static struct {
    struct envelope envelope;
    struct error error;
    char *text;
    bool valid;
} parsed;

static void forget(void)
{
    envelope_fini(&parsed.envelope);
    free(parsed.text);
    memset(&parsed, 0, sizeof parsed);
}

static void parse(const char *text, size_t length)
{
    forget();
    parsed.text = malloc(length > 0 ? length : 1);
    assert_non_null(parsed.text);
    memcpy(parsed.text, text, length);
    parsed.valid = envelope_parse(&parsed.envelope, parsed.text, length, &limits, &parsed.error);
    assert_int_equal(parsed.valid, !error_is_set(&parsed.error));
}

/* The task {"class":"c","args":[]MORE}. */
static void parse_with(const char *more)
{
    struct buffer text = {.bytes = NULL};
    buffer_format(&text, "{\"class\":\"c\",\"args\":[]%s}", more);
    parse(text.bytes, text.length);
    buffer_fini(&text);
}

static void assert_accepted(const char *more)
{
    parse_with(more);
    if (!parsed.valid)
        fail_msg("refused: %s: %s", more, parsed.error.text);
}

/* The reason must name what is wrong. */
static void assert_refused_text(const char *text, const char *reason)
{
    parse(text, strlen(text));
    if (parsed.valid)
        fail_msg("accepted: %s", text);
    if (strstr(parsed.error.text, reason) == NULL)
        fail_msg("%s: the reason is \"%s\", not \"%s\"", text, parsed.error.text, reason);
}

static void assert_refused(const char *more, const char *reason)
{
    struct buffer text = {.bytes = NULL};
    buffer_format(&text, "{\"class\":\"c\",\"args\":[]%s}", more);
    assert_refused_text(buffer_text(&text), reason);
    buffer_fini(&text);
}

/* A string of `count` times `unit` between quotes, as a member. */
static const char *member_of(struct buffer *out, const char *name, const char *unit, size_t count)
{
    buffer_clear(out);
    buffer_format(out, ",\"%s\":\"", name);
    for (size_t i = 0; i < count; i++)
        buffer_append_text(out, unit);
    buffer_append_text(out, "\"");
    return buffer_text(out);
}

TEST(all_members_of_a_real_task_are_found)
{
    const char *text =
        " {\"retry\":7,\"queue\":\"mail\",\"class\":\"Mail::Send\",\"args\":[1, \"a\", {\"b\":[]}],\"jid\":"
        "\"b4a577edbccf1d805744efa9\",\"created_at\":1795194374.5,\"tags\":[\"x\"],\"resource\":[\"user:7\",\"acct:"
        "42\"],"
        "\"enqueued_at\":\"1795194374\",\"retry_count\":2,\"dead\":false} \n";
    parse(text, strlen(text));
    const struct envelope *task = &parsed.envelope;
    assert_true(parsed.valid);
    assert_string_equal(task->class_name, "Mail::Send");
    assert_string_equal(task->queue, "mail");
    assert_string_equal(task->jid, "b4a577edbccf1d805744efa9");
    assert_int_equal(task->args.length, strlen("[1, \"a\", {\"b\":[]}]"));
    assert_memory_equal(task->args.bytes, "[1, \"a\", {\"b\":[]}]", task->args.length);
    assert_int_equal(task->resource_count, 2);
    assert_string_equal(task->resources[0], "acct:42");
    assert_string_equal(task->resources[1], "user:7");
    assert_false(task->retry_off);
    assert_int_equal(task->retry_max, 7);
    assert_true(task->was_retried);
    assert_int_equal(task->retry_count, 2);
    assert_true(task->dead_off);
    assert_ptr_equal(task->text.bytes, parsed.text);
    assert_int_equal(task->member_count, 11);
    assert_memory_equal(task->members[5].name.bytes, "created_at", 10);
    assert_memory_equal(task->members[5].value.bytes, "1795194374.5", 12);
    assert_int_equal(task->members[5].value.length, 12);
}

TEST(class_and_args_are_enough)
{
    parse_with("");
    assert_true(parsed.valid);
    assert_string_equal(parsed.envelope.class_name, "c");
    assert_string_equal(parsed.envelope.jid, "");
    assert_string_equal(parsed.envelope.queue, "");
    assert_int_equal(parsed.envelope.resource_count, 0);
    assert_false(parsed.envelope.retry_off);
    assert_int_equal(parsed.envelope.retry_max, 25);
    assert_false(parsed.envelope.was_retried);
    assert_int_equal(parsed.envelope.retry_count, 0);
    assert_false(parsed.envelope.dead_off);
}

TEST(what_is_not_an_object_is_no_task)
{
    static const char *const texts[] = {"", "[]", "1", "\"class\"", "null", "[{\"class\":\"c\",\"args\":[]}]", "hello"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_refused_text(texts[i], "'{' is missing at byte 0");
    assert_refused_text("\xEF\xBB\xBF{\"class\":\"c\",\"args\":[]}", "at byte 0");
    assert_refused_text("{\"class\":\"c\",\"args\":[]}{}", "something follows");
    assert_refused_text("{\"class\":\"c\",\"args\":[],}", "not valid JSON");
    assert_refused_text("{\"class\":\"c\",\"args\":[\"\xFF\"]}", "not UTF-8");
    parse("{\"class\":\"c\",\"args\":[]}\0", 24);
    assert_false(parsed.valid);
}

TEST(a_cut_task_is_no_task)
{
    const char *text =
        "{\"class\":\"cl\\u0061ss\",\"args\":[1,{\"a\":\"\xE2\x82\xAC\"}],\"resource\":[\"r\"],\"retry\":3}";
    parse(text, strlen(text));
    assert_true(parsed.valid);
    for (size_t length = 0; length < strlen(text); length++) {
        parse(text, length);
        assert_false(parsed.valid);
    }
}

TEST(class_must_be_a_short_string)
{
    struct buffer text = {.bytes = NULL}, member = {.bytes = NULL};
    assert_refused_text("{\"args\":[]}", "\"class\" is missing");
    assert_refused_text("{\"args\":[],\"class\":null}", "\"class\" is not a string");
    assert_refused_text("{\"args\":[],\"class\":7}", "\"class\" is not a string");
    assert_refused_text("{\"args\":[],\"class\":[\"c\"]}", "\"class\" is not a string");
    assert_refused_text("{\"args\":[],\"class\":\"\"}", "\"class\" is not 1 to 256");
    assert_refused_text("{\"args\":[],\"class\":\"a\\u0000\"}", "\"class\" holds a NUL");
    assert_refused_text("{\"args\":[],\"class\":\"\\ud83d\"}", "\"class\" holds half");
    static const char *const units[] = {"x", "\\u0041", "\\n"};
    for (size_t i = 0; i < 6; i++) {
        size_t length = 256 + i / 3;
        buffer_clear(&text);
        buffer_format(&text, "{\"args\":[]%s}", member_of(&member, "class", units[i % 3], length));
        parse(text.bytes, text.length);
        assert_int_equal(parsed.valid, length == 256);
        if (parsed.valid)
            assert_int_equal(strlen(parsed.envelope.class_name), 256);
    }
    buffer_fini(&member);
    buffer_fini(&text);
}

TEST(args_must_be_an_array)
{
    assert_refused_text("{\"class\":\"c\"}", "\"args\" is missing");
    static const char *const others[] = {"null", "{}", "\"[]\"", "1", "false"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"class\":\"c\",\"args\":%s}", others[i]);
        assert_refused_text(text, "\"args\" is not an array");
    }
    assert_accepted(",\"more\":\"half a pair in other members is fine: \\ud800\"");
}

TEST(jid_and_queue_are_short_strings_or_unset)
{
    struct buffer member = {.bytes = NULL};
    assert_accepted(",\"jid\":null,\"queue\":null");
    assert_accepted(",\"jid\":\"\",\"queue\":\"\"");
    assert_accepted(member_of(&member, "jid", "a", 128));
    assert_refused(member_of(&member, "jid", "a", 129), "\"jid\" is not 0 to 128");
    assert_refused(",\"jid\":123", "ids are strings");
    assert_refused(",\"jid\":[\"a\"]", "ids are strings");
    assert_refused(",\"jid\":\"a\\nb\"", "printable");
    assert_refused(",\"jid\":\"a\\u007f\"", "printable");
    assert_refused(",\"jid\":\"\\u001f\"", "printable");
    assert_refused(",\"jid\":\"\xC3\xA9\"", "printable");
    assert_refused(",\"jid\":\"a\\u0000\"", "NUL");
    assert_refused(",\"jid\":\"\\udc00\"", "half");
    assert_accepted(",\"queue\":\"\xC3\xA9\"");
    assert_accepted(member_of(&member, "queue", "q", 128));
    assert_refused(member_of(&member, "queue", "q", 129), "\"queue\" is not 1 to 128");
    assert_refused(",\"queue\":1", "\"queue\" is not a string");
    assert_refused(",\"queue\":\"a\\u0000\"", "NUL");
    assert_refused(",\"queue\":\"\\ud800\"", "half");
    buffer_fini(&member);
}

TEST(timestamps_come_in_any_form)
{
    assert_accepted(",\"created_at\":1795194374.5,\"enqueued_at\":1795194374500");
    assert_accepted(",\"created_at\":\"1795194374.5\",\"enqueued_at\":null,\"at\":{}");
}

TEST(names_may_not_repeat)
{
    assert_refused(",\"args\":[]", "\"args\" occurs twice");
    assert_refused(",\"cl\\u0061ss\":\"d\"", "\"cl\\u0061ss\" occurs twice");
    assert_refused(",\"x\":1,\"x\":1", "\"x\" occurs twice");
    assert_refused(",\"\":1,\"\":1", "occurs twice");
    assert_refused(",\"\\n\":1,\"\\u000a\":1", "occurs twice");
    assert_refused(",\"\\ud83d\\uDE00\":1,\"\xF0\x9F\x98\x80\":1", "occurs twice");
    assert_refused(",\"\\ud800\":1,\"\\uD800\":1", "occurs twice");
    assert_accepted(
        ",\"\\ud800\":1,\"\\ud801\":1,\"\\ud800x\":1,\"Class\":1,\"clas\":1,\"classs\":1,\"class\\u0000\":1");
    assert_accepted(",\"nested\":{\"a\":1,\"a\":2}");
}

TEST(escaped_names_are_recognised)
{
    const char *text = "{\"\\u0063lass\":\"x\",\"ar\\u0067s\":[5],\"re\\u0073ource\":\"r\\u002d1\",\"\\u0061t\":9}";
    parse(text, strlen(text));
    assert_true(parsed.valid);
    assert_string_equal(parsed.envelope.class_name, "x");
    assert_memory_equal(parsed.envelope.args.bytes, "[5]", 3);
    assert_string_equal(parsed.envelope.resources[0], "r-1");
    assert_int_equal(parsed.envelope.at.us, 9000000);
}

TEST(members_are_bounded)
{
    struct buffer more = {.bytes = NULL};
    for (int i = 0; i < ENVELOPE_MEMBERS_MAX - 2; i++)
        buffer_format(&more, ",\"m%d\":%d", i, i);
    assert_accepted(buffer_text(&more));
    buffer_append_text(&more, ",\"one\":1");
    assert_refused(buffer_text(&more), "more than 64 members");
    buffer_clear(&more);
    buffer_append_text(&more, ",\"");
    for (int i = 0; i < ENVELOPE_MEMBER_NAME_MAX; i++)
        buffer_append_text(&more, "n");
    size_t length = more.length;
    buffer_append_text(&more, "\":1");
    assert_accepted(buffer_text(&more));
    more.length = length;
    buffer_append_text(&more, "n\":1");
    assert_refused(buffer_text(&more), "name of more than 1024 bytes");
    buffer_fini(&more);
}

/* ----- resources ----- */

static void assert_resources(const char *json, const char *joined)
{
    char more[600], list[600] = "";
    snprintf(more, sizeof more, ",\"resource\":%s", json);
    parse_with(more);
    assert_true(parsed.valid);
    size_t length = 0;
    for (unsigned i = 0; i < parsed.envelope.resource_count; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s|", parsed.envelope.resources[i]);
    assert_string_equal(list, joined);
}

TEST(resources_are_sorted_by_bytes_and_kept_once)
{
    assert_resources("null", "");
    assert_resources("[]", "");
    assert_resources(" [ ] ", "");
    assert_resources("\"one\"", "one|");
    assert_resources("[\"one\"]", "one|");
    assert_resources("[\"b\",\"a\",\"c\"]", "a|b|c|");
    assert_resources("[\"a\",\"a\"]", "a|");
    assert_resources("[\"b\",\"a\",\"b\",\"\\u0061\",\"ab\"]", "a|ab|b|");
    assert_resources("[\"\xC3\xA9\",\"z\",\"Z\",\"~\"]", "Z|z|~|\xC3\xA9|");
    assert_resources(
        "[\"16\",\"15\",\"14\",\"13\",\"12\",\"11\",\"10\",\"09\",\"08\",\"07\",\"06\",\"05\",\"04\",\"03\","
        "\"02\",\"01\"]",
        "01|02|03|04|05|06|07|08|09|10|11|12|13|14|15|16|");
    assert_resources(
        "[\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\"]", "x|");
    assert_resources("\"a b\\n{}*hf:\"", "a b\n{}*hf:|");
    assert_resources("\"HF:a\"", "HF:a|");
}

TEST(other_resources_are_refused)
{
    struct buffer member = {.bytes = NULL};
    assert_refused(",\"resource\":1", "not a string");
    assert_refused(",\"resource\":{}", "not a string");
    assert_refused(",\"resource\":true", "not a string");
    assert_refused(",\"resource\":[1]", "not a string");
    assert_refused(",\"resource\":[\"a\",null]", "not a string");
    assert_refused(",\"resource\":[[\"a\"]]", "not a string");
    assert_refused(",\"resource\":\"\"", "not 1 to 512");
    assert_refused(",\"resource\":[\"a\",\"\"]", "not 1 to 512");
    assert_refused(",\"resource\":\"a\\u0000b\"", "NUL");
    assert_refused(",\"resource\":\"\\ud800\"", "half");
    assert_refused(",\"resource\":\"hf:a\"", "begins with \"hf:\"");
    assert_refused(",\"resource\":[\"a\",\"\\u0068f\\u003a\"]", "begins with \"hf:\"");
    assert_accepted(member_of(&member, "resource", "r", 512));
    assert_accepted(member_of(&member, "resource", "\\u0041", 512));
    assert_refused(member_of(&member, "resource", "r", 513), "not 1 to 512");
    assert_refused(member_of(&member, "resource", "\\u0041", 513), "not 1 to 512");
    assert_refused(member_of(&member, "resource", "r", 100000), "not 1 to 512");
    assert_refused(",\"resource\":[\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\","
                   "\"x\",\"x\",\"x\"]",
                   "more than 16");
    buffer_fini(&member);
}

/* ----- retry ----- */

TEST(retry_is_read_from_any_form)
{
    static const struct {
        const char *json;
        bool off;
        unsigned max;
    } cases[] = {{"true", false, 25},
                 {"false", true, 25},
                 {"null", true, 25},
                 {"0", false, 0},
                 {"3", false, 3},
                 {"-0", false, 0},
                 {"-4", false, 0},
                 {"1000000", false, 1000000},
                 {"1000001", false, 1000000},
                 {"99999999999999999999999999999999999999999", false, 1000000},
                 {"-99999999999999999999999999999999999999999", false, 0},
                 {"\"true\"", false, 25},
                 {"\"false\"", true, 25},
                 {"\"3\"", false, 3},
                 {"\"0\"", false, 0},
                 {"\"-1\"", false, 0},
                 {"\"\"", false, 25},
                 {"\"-\"", false, 25},
                 {"\" 3\"", false, 25},
                 {"\"3 \"", false, 25},
                 {"\"3x\"", false, 25},
                 {"\"yes\"", false, 25},
                 {"\"null\"", false, 25},
                 {"3.0", false, 25},
                 {"1e3", false, 25},
                 {"[]", false, 25},
                 {"{}", false, 25},
                 {"[3]", false, 25}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char more[100];
        snprintf(more, sizeof more, ",\"retry\":%s", cases[i].json);
        parse_with(more);
        assert_true(parsed.valid);
        if (parsed.envelope.retry_off != cases[i].off || parsed.envelope.retry_max != cases[i].max)
            fail_msg("retry %s: off %d, max %u", cases[i].json, parsed.envelope.retry_off, parsed.envelope.retry_max);
    }
}

TEST(retry_count_is_an_integer_or_absent)
{
    static const struct {
        const char *json;
        bool present;
        int count;
        unsigned attempt;
    } cases[] = {{"0", true, 0, 1},
                 {"1", true, 1, 2},
                 {"24", true, 24, 25},
                 {"\"5\"", true, 5, 6},
                 {"-0", true, 0, 1},
                 {"-1", true, -1, 1}, /* retried by hand */
                 {"\"-2\"", true, -2, 1},
                 {"-5000000000", true, -1000000, 1},
                 {"\"-\"", false, 0, 0},
                 {"null", false, 0, 0},
                 {"1.5", false, 0, 0},
                 {"\"x\"", false, 0, 0},
                 {"true", false, 0, 0},
                 {"[]", false, 0, 0},
                 {"5000000000", true, 1000000, 1000001}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char more[100];
        snprintf(more, sizeof more, ",\"retry_count\":%s", cases[i].json);
        parse_with(more);
        assert_true(parsed.valid);
        assert_int_equal(parsed.envelope.was_retried, cases[i].present);
        assert_int_equal(parsed.envelope.retry_count, cases[i].count);
        assert_int_equal(envelope_attempt(&parsed.envelope), cases[i].attempt);
    }
}

TEST(only_false_keeps_a_task_out_of_dead)
{
    static const char *const others[] = {"true", "null", "0", "\"false\"", "[false]"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char more[60];
        snprintf(more, sizeof more, ",\"dead\":%s", others[i]);
        parse_with(more);
        assert_true(parsed.valid && !parsed.envelope.dead_off);
    }
    parse_with(",\"dead\":false");
    assert_true(parsed.valid && parsed.envelope.dead_off);
}

/* ----- reuse ----- */

TEST(a_used_envelope_keeps_nothing_and_needs_no_memory)
{
    const char *full = "{\"class\":\"first\",\"args\":[1],\"jid\":\"j\",\"queue\":\"q\",\"resource\":[\"a\",\"b\"],"
                       "\"retry\":false,\"retry_count\":4,\"dead\":false}";
    const char *bare = "{\"class\":\"second\",\"args\":[2]}";
    struct envelope envelope = {.member_count = 0};
    struct error error = ERROR_NONE;
    assert_true(envelope_parse(&envelope, full, strlen(full), &limits, &error));
    const char *memory = envelope.texts.bytes;
    for (int i = 0; i < 3; i++) {
        assert_true(envelope_parse(&envelope, bare, strlen(bare), &limits, &error));
        assert_string_equal(envelope.class_name, "second");
        assert_string_equal(envelope.jid, "");
        assert_string_equal(envelope.queue, "");
        assert_int_equal(envelope.resource_count, 0);
        assert_int_equal(envelope.member_count, 2);
        assert_false(envelope.retry_off || envelope.was_retried || envelope.dead_off);
        assert_false(envelope_parse(&envelope, "{\"class\":\"x\",\"y\":[", 17, &limits, NULL));
        assert_true(envelope_parse(&envelope, full, strlen(full), &limits, &error));
        assert_int_equal(envelope.resource_count, 2);
        assert_true(envelope.retry_off && envelope.was_retried && envelope.dead_off);
        assert_ptr_equal(envelope.texts.bytes, memory);
    }
    envelope_fini(&envelope);
}

/* --- the trace ---------------------------------------------------------------------------------------------------- */

TEST(a_traceparent_has_its_form)
{
    static const char sound[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_true(traceparent_is_sound(sound, strlen(sound)));
    for (size_t i = 0; i < strlen(sound); i++) { /* one letter is wrong */
        char wrong[sizeof sound];
        memcpy(wrong, sound, sizeof sound);
        wrong[i] = sound[i] == '-' ? '0' : 'G';
        assert_false(traceparent_is_sound(wrong, strlen(wrong)));
    }
    assert_false(traceparent_is_sound(sound, strlen(sound) - 1));
    char *alone = malloc(strlen(sound)); /* nothing ends it */
    memcpy(alone, sound, strlen(sound));
    assert_true(traceparent_is_sound(alone, strlen(sound)));
    free(alone);
    assert_false(traceparent_is_sound("00-00000000000000000000000000000000-b7ad6b7169203331-01", 55));
    assert_false(traceparent_is_sound("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", 55));
}

TEST(only_a_sound_traceparent_is_handed_on)
{
    static const char *const cases[][2] = {
        {",\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"",
         "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
        {",\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x\"", ""},
        {",\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 \"", ""},
        {",\"traceparent\":[]", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char traceparent[ENVELOPE_TRACE_BYTES + 1];
        memset(traceparent, 'x', sizeof traceparent);
        parse_with(cases[i][0]);
        envelope_traceparent(&parsed.envelope, traceparent);
        assert_string_equal(traceparent, cases[i][1]);
    }
}

RUN_TESTS_BETWEEN(NULL, forget)
