/* The JSON scanner: every form of value, every wrong text refused where it is wrong, limits that hold. */
#include "tests/support/test.h"

#include "base/utf8.h"
#include "queue/json.h"
#include "queue/json_scan.h"

static const struct envelope_limits defaults = ENVELOPE_LIMITS_DEFAULT;
static const struct envelope_limits unlimited = {.size = SIZE_MAX, .depth = SIZE_MAX, .keys = SIZE_MAX};

/* Checks a copy that ends where the text ends, so that a sanitizer sees a read beyond it. */
static bool checks_bytes(const char *bytes, size_t length, const struct envelope_limits *limits, struct error *error)
{
    char *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    bool valid = json_check(copy, length, limits, error);
    free(copy);
    return valid;
}

static bool checks(const char *text)
{
    struct error error = ERROR_NONE;
    bool valid = checks_bytes(text, strlen(text), &defaults, &error);
    assert_int_equal(valid, !error_is_set(&error));
    return valid;
}

static struct text_span span_of(const char *text)
{
    return (struct text_span){text, strlen(text)};
}

static void assert_span(struct text_span span, const char *text)
{
    assert_int_equal(span.length, strlen(text));
    assert_memory_equal(span.bytes, text, span.length);
}

/* Strings are passed by words: what a byte means must not depend on where in a word it is, nor on its neighbours. */
TEST(each_byte_means_the_same_at_each_place_of_a_string)
{
    enum { LENGTH = 20 };
    for (unsigned filler = '!'; filler <= '~'; filler += '~' - '!')
        for (unsigned place = 1; place < LENGTH - 2; place++)
            for (unsigned byte = 0; byte < 256; byte++) {
                char text[LENGTH], wanted[64];
                struct error error = ERROR_NONE;
                memset(text, (int)filler, sizeof text);
                text[0] = text[LENGTH - 1] = '"';
                text[place] = (char)byte;
                bool valid = checks_bytes(text, sizeof text, &defaults, &error);
                assert_int_equal(valid, byte >= ' ' && byte < 0x80 && byte != '"' && byte != '\\');
                snprintf(wanted, sizeof wanted, "at byte %u", byte == '"' ? place + 1 : place);
                assert_true(valid || strstr(error.text, wanted) != NULL);
            }
}

TEST(every_form_of_value_is_accepted)
{
    static const char *const valid[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "7",
        "-12",
        "10",
        "0.5",
        "-0.0",
        "1e5",
        "1E+5",
        "1.25e-3",
        "1e400",
        "123456789012345678901234567890123456789012",
        "\"\"",
        "\"a b\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\u0000\"",
        "\"\\uD83D\\uDE00\"",
        "\"\\ud800\"",
        "\"\\uDC00\\uD800\"",
        "\"\x7F\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[[],{},[[]]]",
        "[1,2]",
        "{\"\":1}",
        "{\"a\":{\"b\":[{}]},\"a\":2}",
        " \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : null } \n",
        "\"\xC2\x80\xDF\xBF\"",
        "\"\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\"",
        "\"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF\"",
    };
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++)
        if (!checks(valid[i]))
            fail_msg("refused: %s", valid[i]);
}

static void assert_all_refused(const char *const texts[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (checks(texts[i]))
            fail_msg("accepted: %s", texts[i]);
}

TEST(other_words_and_numbers_are_refused)
{
    static const char *const invalid[] = {
        "",   " ", "nul", "nulll", "True", "NaN", "Infinity", "-Infinity", "undefined", "01",  "-01", "00",
        "+1", "-", ".5",  "1.",    "1.e5", "1e",  "1e+",      "0x10",      "1_000",     "- 1", "1 2", "'a'",
    };
    assert_all_refused(invalid, sizeof invalid / sizeof invalid[0]);
}

TEST(other_strings_and_structures_are_refused)
{
    static const char *const invalid[] = {
        "\"",
        "\"a",
        "\"\\",
        "\"\\\"",
        "\"\\x41\"",
        "\"\\a\"",
        "\"\\'\"",
        "\"\\u\"",
        "\"\\u12\"",
        "\"\\u123\"",
        "\"\\u123g\"",
        "\"\\U0041\"",
        "\"\n\"",
        "\"\t\"",
        "\"\x01\"",
        "\"\x1F\"",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "[1]]",
        "[:]",
        "{",
        "}",
        "{]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\" 1}",
        "{\"a\"=1}",
        "{\"a\"::1}",
        "{=\"a\":1}",
        "{xa\":1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1;\"b\":2}",
        "{a:1}",
        "{1:1}",
        "{null:1}",
        "{\"a\":1]",
        "{\"a\":1}}",
        "{\"a\":1}{",
        "[1] // no",
        "/* no */[1]",
        "[1]\x0B",
        "\xC2\xA0[1]",
        "\xEF\xBB\xBF[1]",
        "[1]\xEF\xBB\xBF",
    };
    assert_all_refused(invalid, sizeof invalid / sizeof invalid[0]);
}

TEST(what_is_not_utf8_is_refused)
{
    static const char *const invalid[] = {
        "\"\x80\"",
        "\"\xBF\"",
        "\"\xC0\x80\"",
        "\"\xC1\xBF\"",
        "\"\xC2\"",
        "\"\xC2\x41\"",
        "\"\xE0\x9F\xBF\"",
        "\"\xE2\x82\"",
        "\"\xE2\x28\xA1\"",
        "\"\xED\xA0\x80\"",
        "\"\xED\xBF\xBF\"",
        "\"\xF0\x8F\xBF\xBF\"",
        "\"\xF0\x9F\x98\"",
        "\"\xF4\x90\x80\x80\"",
        "\"\xF5\x80\x80\x80\"",
        "\"\xFE\"",
        "\"\xFF\"",
        "{\"\xFF\":1}",
        "\xFF",
    };
    assert_all_refused(invalid, sizeof invalid / sizeof invalid[0]);
}

TEST(nul_bytes_are_refused_everywhere)
{
    static const struct {
        const char *bytes;
        size_t length;
    } texts[] = {{"\0", 1}, {"[1]\0", 4}, {"[\0]", 3}, {"\"\0\"", 3}, {"{\"a\0\":1}", 8}, {"1\0", 2}, {"\0null", 5}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(checks_bytes(texts[i].bytes, texts[i].length, &defaults, NULL));
}

TEST(no_part_of_a_text_passes_for_the_whole)
{
    const char *text =
        "{\"a\\u00e9\\n\":[1,-2.5e+10,true,false,null,\"\xE2\x82\xAC\\uD83D\\uDE00\",{\"b\":{}}],\"c\":[]}";
    assert_true(checks(text));
    for (size_t length = 0; length < strlen(text); length++)
        assert_false(checks_bytes(text, length, &defaults, NULL));
    for (size_t start = 1; start < strlen(text); start++)
        assert_false(checks_bytes(text + start, strlen(text) - start, &defaults, NULL));
}

TEST(a_refusal_says_where)
{
    struct error error = ERROR_NONE;
    assert_false(json_check("[1,2,x]", 7, &defaults, &error));
    assert_contains(error.text, "at byte 5");
    error = ERROR_NONE;
    assert_false(json_check("[1} ", 4, &defaults, &error));
    assert_contains(error.text, "',' or ']' is missing at byte 2");
    error = ERROR_NONE;
    assert_false(json_check("\"ab\xFF\"", 5, &defaults, &error));
    assert_contains(error.text, "not UTF-8 at byte 3");
}

/* ----- limits ----- */

/* `depth` containers inside each other: every second one is an object when `mixed`. */
static bool nested_checks(size_t depth, const struct envelope_limits *limits, bool mixed)
{
    struct buffer text = {.bytes = NULL};
    for (size_t i = 0; i < depth; i++)
        buffer_append_text(&text, mixed && i % 2 == 0 ? "{\"k\":" : "[");
    buffer_append_text(&text, "0");
    for (size_t i = depth; i-- > 0;)
        buffer_append_text(&text, mixed && i % 2 == 0 ? "}" : "]");
    bool valid = checks_bytes(text.bytes, text.length, limits, NULL);
    buffer_fini(&text);
    return valid;
}

TEST(nesting_ends_at_the_limit)
{
    for (int mixed = 0; mixed < 2; mixed++) {
        assert_true(nested_checks(64, &defaults, mixed));
        assert_false(nested_checks(65, &defaults, mixed));
        assert_true(nested_checks(JSON_DEPTH_MAX, &unlimited, mixed));
        assert_false(nested_checks(JSON_DEPTH_MAX + 1, &unlimited, mixed));
    }
    const struct envelope_limits flat = {.size = 100, .depth = 0, .keys = 0};
    assert_true(checks_bytes("1", 1, &flat, NULL));
    assert_false(checks_bytes("[]", 2, &flat, NULL));
}

TEST(a_megabyte_of_brackets_is_refused)
{
    enum { SIZE = 1 << 20 };
    char *bomb = malloc(SIZE);
    assert_non_null(bomb);
    memset(bomb, '[', SIZE);
    struct error error = ERROR_NONE;
    assert_false(json_check(bomb, SIZE, &defaults, &error));
    assert_contains(error.text, "deeper than the limit of 64 at byte 64");
    assert_false(json_check(bomb, SIZE, &unlimited, NULL));
    for (size_t i = 0; i + 5 <= SIZE; i += 5)
        memcpy(bomb + i, "{\"a\":", 5);
    assert_false(json_check(bomb, SIZE, &unlimited, NULL));
    free(bomb);
}

static bool keys_check(size_t keys)
{
    struct buffer text = {.bytes = NULL};
    buffer_append_text(&text, "[");
    /* In two objects, because all of the text counts. */
    for (size_t i = 0; i < keys; i++)
        buffer_append_text(&text, i == 0 ? "{\"k\":0" : i == keys / 2 ? "},{\"k\":0" : ",\"k\":0");
    buffer_append_text(&text, "}]");
    bool valid = json_check(text.bytes, text.length, &defaults, NULL);
    buffer_fini(&text);
    return valid;
}

TEST(keys_are_counted_over_the_whole_text)
{
    assert_true(keys_check(4096));
    assert_false(keys_check(4097));
    assert_false(keys_check(100000));
}

TEST(the_size_is_checked_before_anything_else)
{
    const struct envelope_limits small = {.size = 4, .depth = 4, .keys = 4};
    assert_true(json_check("[12]", 4, &small, NULL));
    struct error error = ERROR_NONE;
    /* The bytes behind the limit are not looked at: there are none. */
    assert_false(json_check("[12]", 1000000, &small, &error));
    assert_string_equal(error.text, "1000000 bytes long, more than the limit of 4");
}

/* ----- reading values ----- */

TEST(elements_come_as_they_are_written)
{
    struct text_span array = span_of("[ 1e400 ,\"a,]\\\"\", [1,[2]] ,{\"b\":[3]},-0]");
    assert_span(json_array_element(array, 0), "1e400");
    assert_span(json_array_element(array, 1), "\"a,]\\\"\"");
    assert_span(json_array_element(array, 2), "[1,[2]]");
    assert_span(json_array_element(array, 3), "{\"b\":[3]}");
    assert_span(json_array_element(array, 4), "-0");
    assert_null(json_array_element(array, 5).bytes);
    assert_null(json_array_element(array, SIZE_MAX).bytes);
    assert_null(json_array_element(span_of("[]"), 0).bytes);
    assert_null(json_array_element(span_of("{\"a\":1}"), 0).bytes);
    assert_null(json_array_element((struct text_span){NULL, 0}, 0).bytes);
}

TEST(members_come_as_they_are_written)
{
    struct text_span object = span_of("{\"b\":1,\"a\":[2]}"), name, value;
    assert_true(json_object_element(object, 0, &name, &value));
    assert_span(name, "b");
    assert_span(value, "1");
    assert_true(json_object_element(object, 1, &name, &value));
    assert_span(name, "a");
    assert_span(value, "[2]");
    assert_false(json_object_element(object, 2, &name, &value));
    assert_false(json_object_element(span_of("[1]"), 0, &name, &value));
}

TEST(a_scan_that_fails_has_no_more_items)
{
    struct json_scan scan;
    struct json_item item;
    json_scan_begin(&scan, "[1,]", 4, &defaults, NULL);
    assert_true(json_scan_open(&scan, '['));
    assert_true(json_scan_next(&scan, &item));
    assert_span(item.value, "1");
    assert_false(json_scan_next(&scan, &item));
    assert_false(json_scan_next(&scan, &item));
    assert_false(json_scan_end(&scan));
}

TEST(members_of_an_object_are_found_by_name_and_counted)
{
    struct text_span value = {NULL, 0};
    struct text_span object = span_of("{ \"a\" : {\"b\":1}, \"\\u0062\":[2] ,\"a\":\"}\", \"\":0, \"\\ud800\":9}");
    assert_int_equal(json_object_member(object, span_of("b"), &value), 1);
    assert_span(value, "[2]");
    assert_int_equal(json_object_member(object, span_of("a"), &value), 2);
    assert_span(value, "\"}\"");
    assert_int_equal(json_object_member(object, span_of(""), &value), 1);
    assert_span(value, "0");
    assert_int_equal(json_object_member(object, span_of("\\u0062"), &value), 0);
    assert_int_equal(json_object_member(object, span_of("c"), &value), 0);
    assert_int_equal(json_object_member(span_of("{}"), span_of("a"), &value), 0);
    assert_int_equal(json_object_member(span_of("[\"a\"]"), span_of("a"), &value), 0);
    assert_span(value, "0");
}

TEST(strings_are_unescaped)
{
    static const struct {
        const char *raw, *text;
        size_t length;
    } cases[] = {
        {"\"\"", "", 0},
        {"\"plain\"", "plain", 5},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 10},
        {"\"a\\u0000b\"", "a\0b", 3},
        {"\"\\uFFFF\\udbff\\udfff\"", "\xEF\xBF\xBF\xF4\x8F\xBF\xBF", 7},
        {"\"\xC3\xA9\\u007f\\u0080\\u07ff\\u0800\"", "\xC3\xA9\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80", 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer out = {.bytes = NULL};
        assert_true(checks(cases[i].raw));
        assert_true(json_string_read(span_of(cases[i].raw), &out));
        assert_int_equal(out.length, cases[i].length);
        if (out.length > 0)
            assert_memory_equal(out.bytes, cases[i].text, out.length);
        buffer_fini(&out);
    }
}

TEST(what_is_no_text_is_mended_and_all_else_stays)
{
    static const struct {
        const char *text, *mended;
    } cases[] = {{"[\"a\\n\\u00e9\\ud83d\\ude00\\\\ud83d\", \t1]", NULL},
                 {"\"\\ud83d\"", "\"\\ufffd\""},
                 {"\"\\ude00\\ud83d\\n\"", "\"\\ufffd\\ufffd\\n\""},
                 {"\"\\uD83D\\u0041\\u0000\"", "\"\\ufffd\\u0041\\ufffd\""},
                 {"\"\xC3\xA9\xC3\x1b\"", "\"\xC3\xA9" UTF8_REPLACEMENT UTF8_REPLACEMENT "\""},
                 {"\xED\xA0\xBD", UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT},
                 {"\"\\u00", NULL}, /* no JSON, and none afterwards */
                 {"\"\\", NULL}};
    struct buffer out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buffer_clear(&out);
        json_mend(cases[i].text, strlen(cases[i].text), &out);
        assert_string_equal(buffer_text(&out), cases[i].mended != NULL ? cases[i].mended : cases[i].text);
    }
    buffer_fini(&out);
}

TEST(what_is_no_text_leaves_the_buffer_alone)
{
    static const char *const cases[] = {
        "\"a\\ud800\"", "\"\\udc00\"", "\"\\ud83d\\ud83d\"", "\"\\ud83dx\"", "\"\\ud83d\\u0041\"", "12",
        "[\"a\"]",      "null"};
    struct buffer out = {.bytes = NULL};
    buffer_append_text(&out, "kept");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(checks(cases[i]));
        assert_false(json_string_read(span_of(cases[i]), &out));
    }
    assert_false(json_string_read((struct text_span){NULL, 0}, &out));
    assert_string_equal(buffer_text(&out), "kept");
    buffer_fini(&out);
}

TEST(integers_are_exact_or_refused)
{
    static const struct {
        const char *raw;
        int64_t value;
    } fit[] = {
        {"0", 0},
        {"-0", 0},
        {"42", 42},
        {"-7", -7},
        {"9007199254740993", INT64_C(9007199254740993)},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    static const char *const others[] = {"9223372036854775808",
                                         "-9223372036854775809",
                                         "99999999999999999999",
                                         "1.0",
                                         "1e3",
                                         "\"1\"",
                                         "null",
                                         "[1]",
                                         "{}"};
    int64_t value;
    for (size_t i = 0; i < sizeof fit / sizeof fit[0]; i++) {
        assert_true(json_integer_read(span_of(fit[i].raw), &value));
        assert_int_equal(value, fit[i].value);
    }
    value = 11;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(json_integer_read(span_of(others[i]), &value));
    assert_false(json_integer_read((struct text_span){NULL, 0}, &value));
    assert_int_equal(value, 11);
}

RUN_TESTS
