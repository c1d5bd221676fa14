/* Numbers, spans and tables as people read them. */
#include "tests/support/test.h"

#include "worker/print/human.h"
#include "worker/print/table.h"

static char out[HUMAN_TEXT_MAX];

TEST(counts_have_commas)
{
    assert_string_equal(human_count(0, out), "0");
    assert_string_equal(human_count(999, out), "999");
    assert_string_equal(human_count(1000, out), "1,000");
    assert_string_equal(human_count(-1234567, out), "-1,234,567");
    assert_string_equal(human_count(INT64_MIN, out), "-9,223,372,036,854,775,808");
}

TEST(sizes_and_spans_have_units)
{
    assert_string_equal(human_size(1023, out), "1023 B");
    assert_string_equal(human_size(1536, out), "1.5 KiB");
    assert_string_equal(human_size(INT64_MAX, out), "8388608.0 TiB");
    assert_string_equal(human_span(-5, out), "0 ms");
    assert_string_equal(human_span(250000, out), "250 ms");
    assert_string_equal(human_span(3200000, out), "3.2 s");
    assert_string_equal(human_span(119 * US_PER_S, out), "119 s");
    assert_string_equal(human_span(300 * US_PER_S, out), "5m");
    assert_string_equal(human_span(3 * 3600 * US_PER_S, out), "3h");
    assert_string_equal(human_span(3 * 86400 * US_PER_S, out), "3d");
}

TEST(moments_are_told_from_now)
{
    const struct wall_time now = {1000 * US_PER_S};
    assert_string_equal(human_moment((struct wall_time){0}, now, out), "-");
    assert_string_equal(human_moment((struct wall_time){now.us - 900000}, now, out), "now");
    assert_string_equal(human_moment((struct wall_time){now.us - 180 * US_PER_S}, now, out), "3m ago");
    assert_string_equal(human_moment((struct wall_time){now.us + 300 * US_PER_S}, now, out), "in 5m");
    assert_string_equal(human_date((struct wall_time){1795284306 * US_PER_S}, out), "2026-11-21T18:05:06Z");
}

TEST(measured_times_have_three_digits)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0"},
                 {-1, "0"},
                 {0.0000004, "400 ns"},
                 {0.0000009996, "1 us"},
                 {0.00085, "850 us"},
                 {0.0009996, "1.00 ms"},
                 {0.0053, "5.30 ms"},
                 {0.0123, "12.3 ms"},
                 {0.3214, "321 ms"},
                 {0.9996, "1.00 s"},
                 {1.25, "1.25 s"},
                 {90, "90.0 s"},
                 {119.9, "120 s"},
                 {300, "5m"},
                 {1e300, "106751991d"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(human_time(cases[i].seconds, out), cases[i].text);
    assert_string_equal(human_time(0.0 / 0.0, out), "0");
}

TEST(rates_and_shares_have_few_digits)
{
    static const struct {
        double number;
        const char *rate, *share;
    } cases[] = {
        {0, "0", "0 %"},           {0.0031, "0.00", "0.3 %"},   {0.25, "0.25", "25 %"},       {0.7349, "0.73", "73 %"},
        {0.994, "0.99", "99.4 %"}, {0.9996, "1.00", "99.96 %"}, {0.99999, "1.00", "99.99 %"}, {1, "1.00", "100 %"},
        {2.5, "2.50", "250 %"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(human_rate(cases[i].number, out), cases[i].rate);
        assert_string_equal(human_share(cases[i].number, out), cases[i].share);
    }
    assert_string_equal(human_rate(613.2, out), "613");
    assert_string_equal(human_rate(999.6, out), "1.00k");
    assert_string_equal(human_rate(12412, out), "12.4k");
    assert_string_equal(human_rate(3.1e6, out), "3.10M");
}

TEST(tables_are_aligned_by_characters_and_safe)
{
    struct table *table = table_create("NAME|>N|");
    table_cell(table, TABLE_PLAIN, "%s",
               "gr\xc3\xbc\xc3\x9f"
               "e");
    table_cell(table, TABLE_GOOD, "%d", 1234);
    table_cell(table, TABLE_BAD, "%s", "");
    table_cell(table, TABLE_PLAIN, "%s", "a\x1b[31mb");
    table_cell(table, TABLE_PLAIN, "%s", "");
    table_cell(table, TABLE_WARN, "%s", "x");
    char text[256] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    assert_non_null(file);
    table_print(table, file);
    fclose(file);
    assert_string_equal(text, "NAME        N\n"
                              "gr\xc3\xbc\xc3\x9f"
                              "e    1234\n"
                              "a?[31mb        x\n");
}

RUN_TESTS
