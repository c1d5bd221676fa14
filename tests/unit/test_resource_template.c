/* Templates for what a task locks: which are templates, what they make of which arguments, and what they refuse. */
#include "tests/support/test.h"

#include "worker/locks/resource_template.h"

static struct resource_template parsed(const char *text)
{
    struct resource_template made;
    struct error error = ERROR_NONE;
    if (!resource_template_parse(&made, text, &error))
        fail_msg("%s: %s", text, error.text);
    return made;
}

static bool fill(const char *text, const char *args, struct buffer *out, struct error *error)
{
    struct resource_template made = parsed(text);
    assert_true(json_check(args, strlen(args), &ENVELOPE_LIMITS_DEFAULT, NULL));
    bool filled = resource_template_fill(&made, (struct text_span){args, strlen(args)}, out, error);
    resource_template_fini(&made);
    return filled;
}

/* --- filling ------------------------------------------------------------------------------------------------------ */

TEST(names_are_made_of_texts_and_whole_numbers)
{
    static const struct {
        const char *text, *args, *name;
    } cases[] = {
        {"one", "[]", "one"},
        {"acct:{0}", "[17]", "acct:17"},
        {"acct:{0}", "[\"a b\"]", "acct:a b"},
        {"acct:{1}-{0}", "[1, -20]", "acct:-20-1"},
        {"{0}", "[\"whole\"]", "whole"},
        {"{0}{0}", "[5]", "55"},
        {"n:{0}", "[1234567890123456789012345678901234567890]", "n:1234567890123456789012345678901234567890"},
        {"n:{0}", "[-0]", "n:-0"},
        {"n:{0}", "[\"1.5\"]", "n:1.5"},
        {"user:{0.id}", "[{\"name\": \"x\", \"id\" : 7}]", "user:7"},
        {"user:{1.a.b}", "[0, {\"a\": {\"c\": 1, \"b\": \"deep\"}}]", "user:deep"},
        {"user:{0.arguments.1}", "[{\"arguments\": [1, \"two\"]}]", "user:two"},
        {"user:{0.0}", "[[8]]", "user:8"},
        {"user:{0.0}", "[{\"0\": 9}]", "user:9"},
        {"user:{0.a b}", "[{\"a b\": 9}]", "user:9"},
        {"user:{0.id}", "[{\"\\u0069d\": \"caf\\u00e9\"}]", "user:caf\xc3\xa9"},
        {"user:{0.\xc3\xa9}", "[{\"\\u00e9\": 3}]", "user:3"},
        {"user:{0.\\u0069d}", "[{\"id\": 1, \"\\\\u0069d\": 2}]", "user:2"},
        {"{{0}", "[1]", "{0}"},
        {"a{{b{0}}", "[1]", "a{b1}"},
        {"{{{0}", "[1]", "{1"},
        {"}", "[]", "}"},
        {"x:{11}", "[0,1,2,3,4,5,6,7,8,9,10,\"eleven\"]", "x:eleven"},
        {"x:{10}", "[0,1,2,3,4,5,6,7,8,9,\"ten\"]", "x:ten"},
        {"x:{0}", "[\"quote\\\" and \\\\ and \\ud83d\\ude00\"]", "x:quote\" and \\ and \xf0\x9f\x98\x80"},
    };
    struct buffer out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = ERROR_NONE;
        buffer_clear(&out);
        if (!fill(cases[i].text, cases[i].args, &out, &error))
            fail_msg("%s with %s: %s", cases[i].text, cases[i].args, error.text);
        assert_string_equal(buffer_text(&out), cases[i].name);
    }
    buffer_fini(&out);
}

TEST(what_cannot_name_a_resource_is_refused_and_named)
{
    static const struct {
        const char *text, *args, *reason;
    } cases[] = {
        {"acct:{0}", "[]", "the resource \"acct:{0}\": {0} is missing in the arguments"},
        {"acct:{2}", "[1,2]", "{2} is missing"},
        {"acct:{0}", "[\"\"]", "{0} is an empty text"},
        {"acct:{0}", "[1.0]", "{0} is no whole number (1.0)"},
        {"acct:{0}", "[1e3]", "{0} is no whole number (1e3)"},
        {"acct:{0}", "[1E3]", "{0} is no whole number (1E3)"},
        {"acct:{0}", "[true]", "{0} is neither a text nor a whole number (true)"},
        {"acct:{0}", "[false]", "{0} is neither a text nor a whole number (false)"},
        {"acct:{0}", "[null]", "{0} is neither a text nor a whole number (null)"},
        {"acct:{0}", "[[1]]", "{0} is a list"},
        {"acct:{0}", "[{\"id\":1}]", "{0} is an object"},
        {"acct:{0.id}", "[{\"ID\":1}]", "{0.id} is missing"},
        {"acct:{0.id}", "[7]", "{0.id} is missing"},
        {"acct:{0.id}", "[\"id\"]", "{0.id} is missing"},
        {"acct:{0.id}", "[[1]]", "{0.id} is missing"},
        {"acct:{0.1}", "[[1]]", "{0.1} is missing"},
        {"acct:{0.00}", "[[1]]", "{0.00} is missing"},
        {"acct:{0.id}", "[{\"id\":1,\"\\u0069d\":2}]", "{0.id} is there twice"},
        {"acct:{0.a.b}", "[{\"a\":{\"b\":1},\"a\":{\"b\":1}}]", "{0.a.b} is there twice"},
        {"acct:{0}", "[\"\\ud800\"]", "{0} is a text with half a surrogate pair"},
        {"acct:{0}", "[\"a\\u0000b\"]", "would have a name with the character NUL"},
        {"{0}", "[\"hf:2:claims\"]", "would begin with \"hf:\""},
        {"h{0}", "[\"f:x\"]", "would begin with \"hf:\""},
    };
    struct buffer out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = ERROR_NONE;
        if (fill(cases[i].text, cases[i].args, &out, &error))
            fail_msg("%s with %s: was filled", cases[i].text, cases[i].args);
        assert_contains(error.text, cases[i].reason);
    }
    buffer_fini(&out);
}

TEST(a_name_has_at_most_512_bytes)
{
    char args[600] = "[\"";
    struct buffer out = {0};
    struct error error = ERROR_NONE;
    memset(args + 2, 'x', 507);
    snprintf(args + 509, 8, "\"]");
    assert_true(fill("acct:{0}", args, &out, &error));
    assert_int_equal(out.length, 512);
    buffer_clear(&out);
    memset(args + 2, 'x', 508);
    snprintf(args + 510, 8, "\"]");
    assert_false(fill("acct:{0}", args, &out, &error));
    assert_contains(error.text, "a name of 513 bytes, at most 512 are possible");
    buffer_fini(&out);
}

/* --- parsing ------------------------------------------------------------------------------------------------------ */

TEST(what_is_no_template_is_refused_with_its_place)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "a template is a text of 1 to 512 bytes"},
        {"acct:{0", "byte 6 of \"acct:{0\": this brace is not closed"},
        {"acct:{", "byte 6 of"},
        {"a{0{1}}", "byte 2 of \"a{0{1}}\": this brace is not closed"},
        {"acct:{}", "byte 7 of \"acct:{}\": a place begins with the number of an argument"},
        {"acct:{id}", "byte 7 of"},
        {"acct:{-1}", "byte 7 of"},
        {"acct:{ 0}", "byte 7 of"},
        {"acct:{00}", "byte 7 of"},
        {"acct:{1234567}", "byte 7 of"},
        {"acct:{.a}", "byte 7 of"},
        {"acct:{0.}", "byte 9 of \"acct:{0.}\": the name of a member is missing between the dots"},
        {"acct:{0..a}", "byte 9 of"},
        {"acct:{0.a.}", "byte 11 of"},
        {"a\nb", "byte 2: a control character, or no UTF-8"},
        {"ab\x7f", "byte 3: a control character"},
        {"a\xff", "byte 2: a control character, or no UTF-8"},
        {"hf:{0}", "begins with \"hf:\""},
        {"{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}", "byte 49 of"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct resource_template made;
        struct error error = ERROR_NONE;
        if (resource_template_parse(&made, cases[i].text, &error))
            fail_msg("%s: was parsed", cases[i].text);
        assert_contains(error.text, cases[i].reason);
        assert_null(made.text);
        assert_int_equal(made.count, 0);
    }
    char text[514];
    memset(text, 'x', sizeof text);
    text[513] = '\0';
    struct resource_template made;
    struct error error = ERROR_NONE;
    assert_false(resource_template_parse(&made, text, &error));
    assert_contains(error.text, "1 to 512 bytes");
    text[512] = '\0';
    assert_true(resource_template_parse(&made, text, &error));
    resource_template_fini(&made);
}

/* --- beginnings --------------------------------------------------------------------------------------------------- */

TEST(the_beginning_of_a_template_is_what_all_its_names_begin_with)
{
    static const struct {
        const char *text, *prefix;
        bool is_exact;
    } cases[] = {
        {"acct:{0}", "acct:", false},
        {"acct:x:{0}", "acct:", false},
        {"acct:fixed", "acct:", false},
        {"acct{0}:", "acct", false},
        {"{0}", "", false},
        {"report", "report", true},
        {"a{{b:{0}", "a{b:", false},
        {"a{{b", "a{b", true},
        {"{{", "{", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct resource_template made = parsed(cases[i].text);
        assert_string_equal(made.prefix, cases[i].prefix);
        assert_int_equal(made.is_exact, cases[i].is_exact);
        resource_template_fini(&made);
    }
}

TEST(templates_meet_when_one_name_can_come_of_both)
{
    static const struct {
        const char *one, *other;
        bool meet;
    } cases[] = {
        {"acct:{0}", "acct:{1.id}", true}, {"acct:{0}", "acct:fixed", true}, {"acct:{0}", "accts:{0}", false},
        {"acct:{0}", "acct{0}", true},     {"acct:{0}", "acc{0}", true},     {"acct:{0}", "{0}", true},
        {"acct:{0}", "acct", false},       {"report", "report", true},       {"report", "reports", false},
        {"report{0}", "report", true},     {"a{0}", "b{0}", false},          {"user:{0}", "acct:{0}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct resource_template one = parsed(cases[i].one), other = parsed(cases[i].other);
        if (resource_templates_meet(&one, &other) != cases[i].meet ||
            resource_templates_meet(&other, &one) != cases[i].meet)
            fail_msg("%s and %s", cases[i].one, cases[i].other);
        resource_template_fini(&one);
        resource_template_fini(&other);
    }
}

TEST(a_name_belongs_to_the_template_that_it_begins_as)
{
    struct resource_template account = parsed("acct:{0}"), report = parsed("report");
    assert_true(resource_template_owns(&account, "acct:7"));
    assert_true(resource_template_owns(&account, "acct:"));
    assert_false(resource_template_owns(&account, "acct"));
    assert_false(resource_template_owns(&account, "ACCT:7"));
    assert_true(resource_template_owns(&report, "report"));
    assert_false(resource_template_owns(&report, "report:7"));
    resource_template_fini(&account);
    resource_template_fini(&report);
}

/* --- anything ----------------------------------------------------------------------------------------------------- */

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Texts of the characters that mean something: no crash, and what is parsed keeps the promises of the header. */
TEST(random_templates_and_arguments_keep_the_promises)
{
    static const char *const bits[] = {"{", "}", "{0}", "{1.a}", "{0.a.0}", ".",        "0",
                                       "1", "a", ":",   "{{",    "hf:",     "\xc3\xa9", "\\"};
    static const char *const values[] = {
        "1",    "\"a\"", "{\"a\":2}",        "[3]", "null", "\"\"", "1.5", "\"\\n\"", "{\"a\":[\"x\"]}", "\":\"",
        "true", "-9",    "{\"a\":1,\"a\":2}"};
    unsigned seed = 5, filled = 0, refused = 0;
    struct buffer out = {0};
    for (unsigned round = 0; round < 20000; round++) {
        char text[64] = "", args[128];
        size_t length = 0;
        for (unsigned left = next(&seed) % 7; left > 0; left--)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s",
                                       bits[next(&seed) % (sizeof bits / sizeof bits[0])]);
        snprintf(args, sizeof args, "[%s,%s]", values[next(&seed) % (sizeof values / sizeof values[0])],
                 values[next(&seed) % (sizeof values / sizeof values[0])]);
        struct resource_template made;
        struct error error = ERROR_NONE;
        if (!resource_template_parse(&made, text, &error)) {
            assert_true(error_is_set(&error));
            refused++;
            continue;
        }
        buffer_clear(&out);
        bool is_filled = resource_template_fill(&made, (struct text_span){args, strlen(args)}, &out, &error);
        assert_int_equal(is_filled, !error_is_set(&error));
        if (is_filled) {
            const char *name = buffer_text(&out);
            assert_true(name[0] != '\0' && strlen(name) == out.length && strncmp(name, "hf:", 3) != 0);
            if (!resource_template_owns(&made, name))
                fail_msg("%s with %s: %s does not belong to it", text, args, name);
            filled++;
        }
        resource_template_fini(&made);
    }
    buffer_fini(&out);
    assert_true(filled > 1000 && refused > 1000);
}

RUN_TESTS
