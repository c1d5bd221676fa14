/* Reading the arguments of a task piece by piece. */
#include "tests/support/test.h"

#include "jobs/arguments/arguments.h"

static struct argument from(const char *text)
{
    return argument_of(text, strlen(text));
}

static void expect(struct argument found, const char *wanted)
{
    assert_int_equal(found.length, strlen(wanted));
    assert_memory_equal(found.text, wanted, found.length);
}

TEST(elements_are_found_as_they_were_written)
{
    static const char *const wanted[] = {"1.50", "\"a,]\\\"}\"", "{\"b\" : [1,2, {\"c\":\"]\"}]}", "[ ]", "null", "-0"};
    struct argument array = from(" [1.50 , \"a,]\\\"}\",\n{\"b\" : [1,2, {\"c\":\"]\"}]}, [ ],null, -0] "), element;
    for (unsigned i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        assert_true(argument_element(array, i, &element));
        expect(element, wanted[i]);
    }
    assert_false(argument_element(array, 6, &element));
    assert_false(argument_element(from("[]"), 0, &element));
    assert_false(argument_element(from("{\"a\":1}"), 0, &element));
    expect(argument_rest(array, 3), "[ ],null, -0");
    expect(argument_rest(array, 6), "");
}

TEST(members_come_one_by_one)
{
    struct argument object = from("{ \"a\" : 1, \"b:\":{\"c\":[2,3]} ,\"\\u0064\":\"}\"}"), key, value;
    size_t position = 0;
    assert_true(argument_member(object, &position, &key, &value));
    expect(key, "\"a\"");
    expect(value, "1");
    assert_true(argument_member(object, &position, &key, &value));
    expect(key, "\"b:\"");
    expect(value, "{\"c\":[2,3]}");
    assert_true(argument_member(object, &position, &key, &value));
    char *name = argument_text(key);
    assert_string_equal(name, "d");
    free(name);
    expect(value, "\"}\"");
    assert_false(argument_member(object, &position, &key, &value));
    position = 0;
    assert_false(argument_member(from("{}"), &position, &key, &value));
    assert_false(argument_member(from("[1]"), &position, &key, &value));
}

TEST(texts_and_numbers_are_decoded)
{
    double number = 0;
    char *text = argument_text(from("\"\\u00e9\\n\\\"\""));
    assert_string_equal(text, "\xc3\xa9\n\"");
    free(text);
    assert_null(argument_text(from("\"a\\u0000b\"")));
    assert_null(argument_text(from("1")));
    assert_null(argument_text(from("\"a")));
    assert_true(argument_number(from("2.5e1"), &number) && number > 24.9 && number < 25.1);
    assert_true(argument_number(from("123456789012345678901234567890"), &number) && number > 1e29);
    assert_false(argument_number(from("\"1\""), &number));
    assert_false(argument_number(from("1e999"), &number));
}

TEST(whole_numbers_are_not_rounded)
{
    static const char *const others[] = {"1.0",  "1e3", "9223372036854775808", "-9223372036854775809", "\"1\"",
                                         "true", ""};
    int64_t value = 0;
    assert_true(argument_whole(from("9223372036854775807"), &value) && value == INT64_MAX);
    assert_true(argument_whole(from(" -9223372036854775808 "), &value) && value == INT64_MIN);
    assert_true(argument_whole(from("0"), &value) && value == 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(argument_whole(from(others[i]), &value));
}

TEST(what_is_no_json_does_no_harm)
{
    static const char *const texts[] = {"",    "[",     "[1",      "[1,",     "[,]", "[\"a", "[\"\\",
                                        "[{]", "[1:2]", "{\"a\"}", "{\"a\":", "{:}", "]"};
    struct argument piece, key;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        /* Without a NUL behind it, so that a sanitizer sees who reads too far. */
        size_t length = strlen(texts[i]), position = 0;
        char *copy = malloc(length + 1);
        memmove(copy + 1, texts[i], length);
        struct argument text = argument_of(copy + 1, length);
        assert_false(argument_element(text, 1, &piece));
        while (argument_member(text, &position, &key, &piece)) {
        }
        argument_rest(text, 0);
        argument_kind(text);
        free(copy);
    }
}

RUN_TESTS
