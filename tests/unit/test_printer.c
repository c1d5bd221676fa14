/* One description of a list, as people and as programs see it. */
#include "tests/support/test.h"

#include "worker/print/printer.h"

static const struct wall_time noon = {INT64_C(1795262400000000)};

struct thing {
    const char *name, *text;
    int64_t count, span_us;
    struct wall_time since;
    bool is_paused;
};

static const struct thing things[] = {
    {"default", "one", 1234567, 3200000, {INT64_C(1795262397000000)}, false},
    {"two words", NULL, -1, -1, {0}, true},
};

static void things_put(struct printer *out, size_t count)
{
    printer_list(out, "things");
    for (size_t i = 0; i < count; i++) {
        printer_row(out);
        printer_name(out, "NAME", "name", things[i].name);
        printer_text(out, "TEXT", "text", things[i].text);
        printer_count(out, ">COUNT", "count", things[i].count);
        printer_span(out, ">SPAN", "span", things[i].span_us);
        printer_moment(out, "SINCE", "since", things[i].since);
        printer_truth(out, "paused", things[i].is_paused);
        printer_number(out, NULL, "index", (int64_t)i);
        printer_cell(out, "", TABLE_WARN, "%s", things[i].is_paused ? "paused" : "");
        printer_row_end(out);
    }
    printer_list_end(out, "no things");
}

/* What people see; for free(). */
static char *for_people(size_t count)
{
    struct printer out = printer_begin(false, noon, &(struct buffer){0});
    char *text = NULL;
    size_t length = 0;
    out.file = open_memstream(&text, &length);
    things_put(&out, count);
    printer_line(&out, "%zu in all", count);
    printer_end(&out);
    assert_int_equal(fclose(out.file), 0);
    return text;
}

TEST(people_see_a_table_with_a_dash_for_what_is_unknown)
{
    char *text = for_people(2);
    assert_string_equal(text, "NAME         TEXT      COUNT   SPAN  SINCE\n"
                              "default      one   1,234,567  3.2 s  3.0 s ago\n"
                              "\"two words\"  -             -      -  -          paused\n"
                              "2 in all\n");
    free(text);
}

TEST(people_are_told_that_a_list_is_empty)
{
    char *text = for_people(0);
    assert_string_equal(text, "no things\n0 in all\n");
    free(text);
}

TEST(programs_see_every_member_and_null_for_what_is_unknown)
{
    struct buffer text = {0};
    struct printer out = printer_begin(true, noon, &text);
    things_put(&out, 2);
    printer_line(&out, "not for programs");
    assert_string_equal(buffer_text(&text),
                        "{\"things\":[{\"name\":\"default\",\"text\":\"one\",\"count\":1234567,\"span\":3.2,"
                        "\"since\":1795262397.0,\"paused\":false,\"index\":0},"
                        "{\"name\":\"two words\",\"text\":null,\"count\":null,\"span\":null,\"since\":null,"
                        "\"paused\":true,\"index\":1}]");
    printer_drop(&out);
}

TEST(numbers_that_a_page_would_round_become_strings)
{
    static const char json[] =
        "{\"a\":[0,-1,123456789012345,1795194374.123456,1.5e3,0.0000015,true,false,null,\"1e400\\\"\"],"
        "\"b\":[12345678901234567890,-9007199254740993,1e400,1e-400,0.12345678901234567],\"7\":7}";
    static const char exact[] =
        "{\"a\":[0,-1,123456789012345,1795194374.123456,1.5e3,0.0000015,true,false,null,\"1e400\\\"\"],"
        "\"b\":[\"12345678901234567890\",\"-9007199254740993\",\"1e400\",\"1e-400\",\"0.12345678901234567\"],\"7\":7}";
    struct buffer out = {0};
    json_append_exact(&out, json, sizeof json - 1);
    assert_string_equal(buffer_text(&out), exact);
    buffer_fini(&out);
}

TEST(unknown_values_can_have_another_text)
{
    struct printer out = printer_begin(false, noon, &(struct buffer){0});
    printer_list(&out, NULL);
    printer_unknown(&out, "?");
    printer_count(&out, ">COUNT", NULL, -1);
    printer_row_end(&out);
    struct buffer text = {0};
    table_write(out.table, 80, 10, false, &text);
    assert_string_equal(buffer_text(&text), "COUNT\n    ?\n");
    buffer_fini(&text);
    printer_drop(&out);
}

TEST(numbers_are_sorted_as_numbers_and_dim_columns_are_dim)
{
    static const int64_t counts[] = {9, 10, 1000};
    struct printer out = printer_begin(false, noon, &(struct buffer){0});
    printer_list(&out, NULL);
    for (size_t i = 0; i < 3; i++) {
        printer_count(&out, ".>N", NULL, counts[i]);
        printer_row_end(&out);
    }
    struct buffer text = {0};
    table_sort(out.table, 0, true);
    table_write(out.table, 80, 10, true, &text);
    assert_non_null(strstr(buffer_text(&text), "\x1b[2m1,000\x1b[0m\n   \x1b[2m10\x1b[0m\n    \x1b[2m9\x1b[0m\n"));
    buffer_fini(&text);
    printer_drop(&out);
}

RUN_TESTS
