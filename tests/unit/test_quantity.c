/* Durations and sizes: every way to write them, mistakes with their reason, and printing that reads back. */
#include "tests/support/test.h"

#include "base/quantity.h"
#include "base/random.h"

struct good {
    const char *text;
    int64_t value;
};

TEST(durations_are_read)
{
    static const struct good cases[] = {
        {"0", 0},
        {"0s", 0},
        {"0.0", 0},
        {"1ns", 1},
        {"800us", 800 * NS_PER_US},
        {"250ms", 250 * NS_PER_MS},
        {"10s", 10 * NS_PER_S},
        {"1.5s", 1500 * NS_PER_MS},
        {"1.50s", 1500 * NS_PER_MS},
        {"0.000000001s", 1},
        {"1.0000000000000000000000000s", NS_PER_S},
        {"0.25m", 15 * NS_PER_S},
        {"5m", 300 * NS_PER_S},
        {"2h", 7200 * NS_PER_S},
        {"7d", 7 * (86400 * NS_PER_S)},
        {"0.1d", 8640 * NS_PER_S},
        {"007s", 7 * NS_PER_S},
        {"36525d", 36525 * (86400 * NS_PER_S)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = ERROR_NONE;
        int64_t ns = -1;
        if (!duration_parse(cases[i].text, &ns, &error))
            fail_msg("%s: %s", cases[i].text, error.text);
        assert_int_equal(ns, cases[i].value);
        assert_false(error_is_set(&error));
    }
}

TEST(sizes_are_read)
{
    static const struct good cases[] = {
        {"0", 0},
        {"512B", 512},
        {"64KiB", 65536},
        {"1.5KiB", 1536},
        {"0.0009765625KiB", 1},
        {"1MiB", 1 << 20},
        {"2GiB", INT64_C(2) << 30},
        {"3TiB", INT64_C(3) << 40},
        {"4EiB", INT64_C(1) << 62},
        {"4611686018427387904B", INT64_C(1) << 62},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = ERROR_NONE;
        int64_t bytes = -1;
        if (!size_parse(cases[i].text, &bytes, &error))
            fail_msg("%s: %s", cases[i].text, error.text);
        assert_int_equal(bytes, cases[i].value);
    }
}

struct bad {
    const char *text;
    const char *reason; /* part of what the error has to say */
};

TEST(bad_durations_are_refused_with_a_reason)
{
    static const struct bad cases[] = {
        {"", "not a duration"},
        {" 1s", "not a duration"},
        {"s", "not a duration"},
        {".5s", "not a duration"},
        {"+1s", "not a duration"},
        {"1e3s", "not a unit"},
        {"0x10s", "not a unit"},
        {"1.s", "not a unit"},
        {"1..5s", "not a unit"},
        {"1,5s", "not a unit"},
        {"10 s", "not a unit"},
        {"10S", "not a unit"},
        {"10sec", "not a unit"},
        {"10s ", "not a unit"},
        {"1h30m", "not a unit"},
        {"10", "has no unit"},
        {"1.5", "has no unit"},
        {"0.00000000000000000000000000001", "has no unit"},
        {"-1s", "cannot be negative"},
        {"-0", "cannot be negative"},
        {"1.5ns", "whole number of nanoseconds"},
        {"0.0000000001s", "whole number of nanoseconds"},
        {"1.00000000000000000000000000001s", "whole number of nanoseconds"},
        {"36526d", "at most 100 years"},
        {"36525.5d", "at most 100 years"},
        {"9223372036854775807s", "at most 100 years"},
        {"9223372036854775808ns", "at most 100 years"},
        {"18446744073709551617s", "at most 100 years"},
        {"99999999999999999999999999999999999999ns", "at most 100 years"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = ERROR_NONE;
        int64_t ns = 77;
        assert_false(duration_parse(cases[i].text, &ns, &error));
        if (strstr(error.text, cases[i].reason) == NULL)
            fail_msg("%s: %s", cases[i].text, error.text);
        assert_int_equal(ns, 77);
    }
}

TEST(bad_sizes_are_refused_with_a_reason)
{
    static const struct bad cases[] = {
        {"64", "has no unit"},
        {"64KB", "not a unit"},
        {"64k", "not a unit"},
        {"1.5B", "whole number of bytes"},
        {"0.1KiB", "whole number of bytes"},
        {"4611686018427387905B", "at most 4 EiB"},
        {"5EiB", "at most 4 EiB"},
        {"4.5EiB", "at most 4 EiB"},
        {"-1B", "cannot be negative"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = ERROR_NONE;
        int64_t bytes;
        assert_false(size_parse(cases[i].text, &bytes, &error));
        if (strstr(error.text, cases[i].reason) == NULL)
            fail_msg("%s: %s", cases[i].text, error.text);
    }
}

TEST(the_shortest_exact_form_is_printed)
{
    char out[QUANTITY_TEXT_MAX];
    assert_string_equal(duration_print(0, out), "0");
    assert_string_equal(duration_print(1500 * NS_PER_MS, out), "1500ms");
    assert_string_equal(duration_print(10 * NS_PER_S, out), "10s");
    assert_string_equal(duration_print(90 * NS_PER_S, out), "90s");
    assert_string_equal(duration_print(3600 * NS_PER_S, out), "1h");
    assert_string_equal(duration_print(36 * 3600 * NS_PER_S, out), "36h");
    assert_string_equal(duration_print(NS_PER_S + 1, out), "1000000001ns");
    assert_string_equal(duration_print(-5 * NS_PER_S, out), "-5s");
    assert_string_equal(duration_print(INT64_MIN, out), "-9223372036854775808ns");
    assert_string_equal(size_print(65536, out), "64KiB");
    assert_string_equal(size_print(1000, out), "1000B");
    assert_string_equal(size_print(INT64_C(1) << 62, out), "4EiB");
}

TEST(what_is_printed_can_be_read_back)
{
    for (int i = 0; i < 2000; i++) {
        char out[QUANTITY_TEXT_MAX];
        struct error error = ERROR_NONE;
        int64_t value = random_between(0, 1000) * (INT64_C(1) << random_between(0, 50)), read = -1;
        assert_true(duration_parse(duration_print(value, out), &read, &error));
        assert_int_equal(read, value);
        assert_true(size_parse(size_print(value, out), &read, &error));
        assert_int_equal(read, value);
    }
}

TEST(counts_are_digits_only_and_within_their_bounds)
{
    static const char *const wrong[] = {
        "", "-1", "+1", " 1", "1 ", "1x", "0x1", "1.0", "0", "11", "9223372036854775808", "99999999999999999999"};
    int64_t count = 7;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(count_parse(wrong[i], 1, 10, &count));
    assert_int_equal(count, 7);
    assert_true(count_parse("0010", 1, 10, &count));
    assert_int_equal(count, 10);
    assert_true(count_parse("9223372036854775807", 0, INT64_MAX, &count));
    assert_true(count == INT64_MAX);
    assert_false(count_parse("9223372036854775808", 0, INT64_MAX, &count));
}

TEST(decimals_are_written_as_printf_writes_them)
{
    static const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 1234567890, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[DECIMAL_MAX + 1], wanted[DECIMAL_MAX + 1];
        *decimal_write(text, numbers[i]) = '\0';
        snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)numbers[i]);
        assert_string_equal(text, wanted);
    }
}

RUN_TESTS
