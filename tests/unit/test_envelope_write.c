/* Writing a task back: the bytes of the arguments survive, changes go where they belong, invalid texts are wrapped. */
#include "tests/support/test.h"

#include "base/random.h"
#include "queue/envelope.h"

static const struct envelope_limits limits = ENVELOPE_LIMITS_DEFAULT;
static const struct wall_time now = {INT64_C(1795194374500000)};

static struct text_span span_of(const char *text)
{
    return (struct text_span){text, strlen(text)};
}

static void parse(struct envelope *envelope, const char *text, size_t length)
{
    struct error error = ERROR_NONE;
    if (!envelope_parse(envelope, text, length, &limits, &error))
        fail_msg("refused: %.*s: %s", (int)length, text, error.text);
}

static void assert_rewritten(const char *text, const struct envelope_change *changes, size_t count,
                             const char *expected)
{
    struct envelope envelope = {.member_count = 0};
    struct buffer out = {.bytes = NULL};
    parse(&envelope, text, strlen(text));
    envelope_rewrite(&envelope, changes, count, &out);
    assert_string_equal(buffer_text(&out), expected);
    envelope_fini(&envelope);
    buffer_fini(&out);
}

/* ----- values ----- */

TEST(times_are_the_shortest_reals_with_a_point)
{
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {INT64_C(1795194374500000), "1795194374.5"},
        {INT64_C(1795194374000000), "1795194374.0"},
        {INT64_C(1795194374000001), "1795194374.000001"},
        {INT64_C(1795194374123456), "1795194374.123456"},
        {INT64_C(1795194374100100), "1795194374.1001"},
        {INT64_C(1795194370000000), "1795194370.0"},
        {0, "0.0"},
        {10, "0.00001"},
        {-500000, "-0.5"},
        {-1, "-0.000001"},
        {INT64_MAX, "9223372036854.775807"},
        {INT64_MIN, "-9223372036854.775808"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer out = {.bytes = NULL};
        envelope_append_time(&out, (struct wall_time){cases[i].us});
        assert_string_equal(buffer_text(&out), cases[i].text);
        buffer_fini(&out);
    }
}

static void assert_string(const char *bytes, size_t length, const char *expected)
{
    struct buffer out = {.bytes = NULL};
    envelope_append_string(&out, bytes, length);
    assert_string_equal(buffer_text(&out), expected);
    assert_true(json_check(out.bytes, out.length, &limits, NULL));
    buffer_fini(&out);
}

TEST(strings_are_escaped_as_ruby_does)
{
    assert_string("", 0, "\"\"");
    assert_string(NULL, 0, "\"\"");
    assert_string("a/b'c<>&\x7F", 9, "\"a/b'c<>&\x7F\"");
    assert_string("\"\\", 2, "\"\\\"\\\\\"");
    assert_string("\b\t\n\f\r", 5, "\"\\b\\t\\n\\f\\r\"");
    assert_string("\0\x01\x0B\x0E\x1F", 5, "\"\\u0000\\u0001\\u000b\\u000e\\u001f\"");
    assert_string("\xC3\xA9\xE2\x80\xA8\xF0\x9F\x98\x80", 9, "\"\xC3\xA9\xE2\x80\xA8\xF0\x9F\x98\x80\"");
}

TEST(bytes_that_are_not_utf8_are_replaced)
{
    assert_string("\xFF", 1, "\"\xEF\xBF\xBD\"");
    assert_string("a\xC3", 2, "\"a\xEF\xBF\xBD\"");
    assert_string("\xE2\x82z\n", 4, "\"\xEF\xBF\xBD\xEF\xBF\xBDz\\n\"");
    assert_string("\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    for (int i = 0; i < 2000; i++) {
        char bytes[40];
        struct buffer out = {.bytes = NULL};
        random_bytes(bytes, sizeof bytes);
        envelope_append_string(&out, bytes, (size_t)i % sizeof bytes);
        assert_true(json_check(out.bytes, out.length, &limits, NULL));
        buffer_fini(&out);
    }
}

TEST(a_new_jid_is_24_hexadecimal_digits)
{
    char jid[ENVELOPE_NEW_JID_SIZE], other[ENVELOPE_NEW_JID_SIZE];
    envelope_new_jid(jid);
    envelope_new_jid(other);
    assert_int_equal(strlen(jid), 24);
    assert_int_equal(strspn(jid, "0123456789abcdef"), 24);
    assert_string_not_equal(jid, other);
}

/* ----- rewriting ----- */

TEST(a_rewrite_without_changes_only_drops_space_between_members)
{
    assert_rewritten("{\"class\":\"c\",\"args\":[]}", NULL, 0, "{\"class\":\"c\",\"args\":[]}");
    assert_rewritten(" {\t\"class\" : \"c\" ,\n\"args\" : [ 1 , 2 ] } ", NULL, 0,
                     "{\"class\":\"c\",\"args\":[ 1 , 2 ]}");
}

TEST(args_keep_their_bytes_however_often_they_are_rewritten)
{
    static const char *const all[] = {
        "[]",
        "[{}]",
        "[9007199254740993]",
        "[1234567890123456789012345678901234567890]",
        "[0.1]",
        "[0.10]",
        "[\"\\u0000\"]",
        "[-0]",
        "[-0.0]",
        "[1e400]",
        "[1E+2]",
        "[\"\\/\\u00e9\xC3\xA9\\ud800\"]",
        "[ {\"a\" : 1, \"a\" : 2} ]",
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct envelope envelope = {.member_count = 0};
        struct buffer texts[3] = {{.bytes = NULL}};
        buffer_format(&texts[0], "{\"class\":\"c\",\"args\":%s,\"jid\":\"j\"}", all[i]);
        for (int round = 0; round < 2; round++) {
            const struct envelope_change changes[] = {{"retry_count", span_of(round == 0 ? "0" : "1")},
                                                      {"error_message", span_of("\"boom\"")}};
            parse(&envelope, texts[round].bytes, texts[round].length);
            envelope_rewrite(&envelope, changes, 2, &texts[round + 1]);
        }
        parse(&envelope, texts[2].bytes, texts[2].length);
        assert_int_equal(envelope.args.length, strlen(all[i]));
        assert_memory_equal(envelope.args.bytes, all[i], strlen(all[i]));
        assert_int_equal(envelope.retry_count, 1);
        envelope_fini(&envelope);
        for (int round = 0; round < 3; round++)
            buffer_fini(&texts[round]);
    }
}

TEST(changed_members_keep_their_place_and_new_ones_come_last)
{
    const char *text = "{\"queue\":\"a\",\"retry_count\":0,\"class\":\"c\",\"args\":[1],\"x\":{\"y\":null}}";
    const struct envelope_change changes[] = {
        {"failed_at", span_of("1795194374.5")}, {"retry_count", span_of("1")}, {"absent", {NULL, 0}},
        {"error_class", span_of("\"E\"")},      {"queue", {NULL, 0}},
    };
    assert_rewritten(text, changes, 5,
                     "{\"retry_count\":1,\"class\":\"c\",\"args\":[1],\"x\":{\"y\":null},"
                     "\"failed_at\":1795194374.5,\"error_class\":\"E\"}");
    const struct envelope_change nothing_left[] = {{"class", {NULL, 0}}, {"args", {NULL, 0}}};
    assert_rewritten("{\"class\":\"c\",\"args\":[]}", nothing_left, 2, "{}");
}

TEST(an_escaped_name_is_changed_in_place)
{
    const struct envelope_change change = {"queue", span_of("\"new\"")};
    assert_rewritten("{\"\\u0071ueue\":\"old\",\"class\":\"c\",\"args\":[]}", &change, 1,
                     "{\"\\u0071ueue\":\"new\",\"class\":\"c\",\"args\":[]}");
}

static void rewrite_with_a_quote_in_a_name(void)
{
    struct envelope envelope = {.member_count = 0};
    struct buffer out = {.bytes = NULL};
    const struct envelope_change change = {"a\"b", span_of("1")};
    envelope_rewrite(&envelope, &change, 1, &out);
}

TEST(a_name_that_needs_escapes_is_a_programmer_error)
{
    assert_true(test_aborts(rewrite_with_a_quote_in_a_name));
}

/* What a rewritten task holds beside the changes is what the first one held, in the same order and bytes. */
TEST(unknown_members_survive)
{
    const char *text =
        "{\"class\":\"c\",\"args\":[],\"cattr\":{\"a\":[1.50]},\"bid\":\"B\",\"\":0,\"tags\":[\"\\u00e9\"],"
        "\"lock_digest\":null,\"wrapped\":\"W\",\"at\":\"12\",\"\\ud800\":1e400}";
    const struct envelope_change change = {"retried_at", span_of("1.5")};
    struct envelope before = {.member_count = 0}, after = {.member_count = 0};
    struct buffer out = {.bytes = NULL};
    parse(&before, text, strlen(text));
    envelope_rewrite(&before, &change, 1, &out);
    parse(&after, out.bytes, out.length);
    assert_int_equal(after.member_count, before.member_count + 1);
    for (size_t i = 0; i < before.member_count; i++) {
        const struct envelope_member *old = &before.members[i], *new = &after.members[i];
        assert_int_equal(old->name.length, new->name.length);
        assert_memory_equal(old->name.bytes, new->name.bytes, old->name.length);
        assert_int_equal(old->value.length, new->value.length);
        assert_memory_equal(old->value.bytes, new->value.bytes, old->value.length);
    }
    envelope_fini(&before);
    envelope_fini(&after);
    buffer_fini(&out);
}

/* ----- new tasks ----- */

TEST(a_draft_is_written_as_ruby_would_generate_it)
{
    struct buffer out = {.bytes = NULL};
    struct envelope_draft draft = {.class_name = "a \"b\"",
                                   .queue = "caf\xC3\xA9/1",
                                   .args = span_of("[1,\"x\"]"),
                                   .jid = "0123456789abcdef01234567"};
    envelope_write(&draft, now, &out);
    assert_string_equal(buffer_text(&out), "{\"class\":\"a \\\"b\\\"\",\"queue\":\"caf\xC3\xA9/1\",\"args\":[1,\"x\"],"
                                           "\"jid\":\"0123456789abcdef01234567\",\"created_at\":1795194374.5,"
                                           "\"enqueued_at\":1795194374.5,\"retry\":true}");
    buffer_clear(&out);
    draft.resources_json = span_of("[\"b\",\"a\"]");
    draft.retry_off = true;
    draft.jid = NULL;
    envelope_write(&draft, now, &out);
    struct envelope envelope = {.member_count = 0};
    parse(&envelope, out.bytes, out.length);
    assert_string_equal(envelope.class_name, "a \"b\"");
    assert_string_equal(envelope.queue, "caf\xC3\xA9/1");
    assert_int_equal(strlen(envelope.jid), 24);
    assert_int_equal(envelope.resource_count, 2);
    assert_true(envelope.retry_off);
    envelope_fini(&envelope);
    buffer_fini(&out);
}

/* ----- records of what is not a task ----- */

/* The record of the bytes must be a task whatever they are, and give them back. */
static void assert_recovered(const char *bytes, size_t length, const char *encoding)
{
    struct buffer record = {.bytes = NULL}, out = {.bytes = NULL};
    struct envelope envelope = {.member_count = 0};
    struct error error = ERROR_NONE;
    envelope_write_invalid(bytes, length, "mail", "no good: \x01\xFF", now, &record);
    parse(&envelope, record.bytes, record.length);
    assert_string_equal(envelope.class_name, "hf.invalid");
    assert_string_equal(envelope.queue, "mail");
    assert_null(json_array_element(envelope.args, 1).bytes);
    assert_contains(buffer_text(&record), encoding);
    assert_true(envelope_recover_invalid(record.bytes, record.length, &out, &error));
    assert_int_equal(out.length, length);
    if (length > 0)
        assert_memory_equal(out.bytes, bytes, length);
    envelope_fini(&envelope);
    buffer_fini(&record);
    buffer_fini(&out);
}

TEST(an_invalid_text_becomes_a_task_that_says_why)
{
    struct buffer out = {.bytes = NULL};
    char jid[25];
    envelope_write_invalid("[1,\"\n", 5, "mail", "not an \"object\"", now, &out);
    const char *record = buffer_text(&out), *after = strstr(record, "\"jid\":\"");
    assert_non_null(after);
    memcpy(jid, after + 7, 24);
    jid[24] = '\0';
    assert_int_equal(strspn(jid, "0123456789abcdef"), 24);
    struct buffer expected = {.bytes = NULL};
    buffer_format(
        &expected,
        "{\"class\":\"hf.invalid\",\"queue\":\"mail\",\"args\":[\"[1,\\\"\\n\"],\"jid\":\"%s\","
        "\"created_at\":1795194374.5,\"failed_at\":1795194374.5,\"retry_count\":0,\"error_class\":\"HF::InvalidTask\","
        "\"error_message\":\"not an \\\"object\\\"\",\"encoding\":\"text\"}",
        jid);
    assert_string_equal(record, buffer_text(&expected));
    buffer_fini(&expected);
    buffer_fini(&out);
}

TEST(the_raw_bytes_can_be_had_back)
{
    const char *text = "\"encoding\":\"text\"", *base64 = "\"encoding\":\"base64\"";
    assert_recovered("", 0, text);
    assert_recovered("{\"class\":", 9, text);
    assert_recovered("\"\\u0000\\ud800\\/\" \x01\x7F\r\n", 21, text);
    assert_recovered("\xC3\xA9\xF0\x9F\x98\x80", 6, text);
    assert_recovered("a\0b", 3, base64);
    assert_recovered("\xFF", 1, base64);
    assert_recovered("\xED\xA0\x80", 3, base64);
    for (size_t i = 0; i < 3000; i++) {
        char bytes[64];
        size_t length = i % (sizeof bytes + 1);
        random_bytes(bytes, sizeof bytes);
        /* Half of them ASCII without NUL, so that both encodings are met. */
        for (size_t j = 0; i % 2 == 0 && j < sizeof bytes; j++)
            bytes[j] = (char)((bytes[j] & 0x7F) | (bytes[j] & 0x7F ? 0 : 1));
        assert_recovered(bytes, length, i % 2 == 0 ? text : "\"encoding\":");
    }
}

TEST(a_text_that_broke_the_limits_is_recovered_too)
{
    enum { SIZE = 3 << 20 };
    char *bomb = malloc(SIZE);
    assert_non_null(bomb);
    memset(bomb, '[', SIZE);
    struct buffer record = {.bytes = NULL}, out = {.bytes = NULL};
    envelope_write_invalid(bomb, SIZE, "q", "too deep", now, &record);
    assert_true(envelope_recover_invalid(record.bytes, record.length, &out, NULL));
    assert_int_equal(out.length, SIZE);
    assert_memory_equal(out.bytes, bomb, SIZE);
    buffer_fini(&record);
    buffer_fini(&out);
    free(bomb);
}

TEST(other_records_are_refused)
{
    static const struct {
        const char *record, *reason;
    } cases[] = {
        {"[]", "not valid JSON"},
        {"{\"class\":\"c\",\"args\":[\"a\"],\"encoding\":\"text\"}", "class \"c\""},
        {"{\"class\":\"hf.invalid\",\"args\":[\"a\"]}", "\"encoding\" is neither"},
        {"{\"class\":\"hf.invalid\",\"args\":[\"a\"],\"encoding\":\"rot13\"}", "\"encoding\" is neither"},
        {"{\"class\":\"hf.invalid\",\"args\":[],\"encoding\":\"text\"}", "first argument"},
        {"{\"class\":\"hf.invalid\",\"args\":[1],\"encoding\":\"text\"}", "first argument"},
        {"{\"class\":\"hf.invalid\",\"args\":[\"Zg=\"],\"encoding\":\"base64\"}", "first argument"},
        {"{\"class\":\"hf.invalid\",\"args\":[],\"encoding\":\"base64\"}", "first argument"},
    };
    struct buffer out = {.bytes = NULL};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = ERROR_NONE;
        assert_false(envelope_recover_invalid(cases[i].record, strlen(cases[i].record), &out, &error));
        if (strstr(error.text, cases[i].reason) == NULL)
            fail_msg("%s: %s", cases[i].record, error.text);
    }
    assert_int_equal(out.length, 0);
    buffer_fini(&out);
}

RUN_TESTS
