/* A file of measured holds; what is wrong is told with its line. */
#include "tests/unit/plan_options_fixture.h"

static void write_file(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void assert_file_refused(const char *text, size_t length, const char *reason)
{
    char argument[sizeof path + 8];
    write_file(text, length);
    snprintf(argument, sizeof argument, "file:%s", path);
    assert_refused("hold", argument, reason);
}

#define FILE_REFUSED(text, reason) assert_file_refused(text, sizeof(text) - 1, reason)

TEST(holds_from_a_file)
{
    static const char text[] = "# as measured\n4ms\n 1ms \r\n\n2ms";
    char argument[sizeof path + 8];
    write_file(text, sizeof text - 1);
    snprintf(argument, sizeof argument, "file:%s", path);
    take("hold", argument);
    assert_int_equal(plan.hold.kind, DISTRIBUTION_MEASURED);
    assert_int_equal(plan.hold.quantile_count, 3);
    assert_near(plan.hold.quantiles[0], 0.001);
    assert_near(plan.hold.quantiles[2], 0.004);
    take("hold", "fixed:1ms"); /* what it had is freed */
    assert_null(plan.hold.quantiles);
}

TEST(hostile_files_of_holds_are_refused_by_line)
{
    FILE_REFUSED("", "has no durations in it");
    FILE_REFUSED("5ms\n7\n", "file:2: \"7\" has no unit");
    FILE_REFUSED("5ms\n\n\33[31m\n", "file:3: ");
    FILE_REFUSED("5ms 6ms\n", "is no duration; write for example 5ms");
    FILE_REFUSED("25h\n", "a hold lasts at most 24h");
    FILE_REFUSED("5m\0s\n", "there is a byte 0");
    assert_refused("hold", "file:", "No such file");
    assert_refused("hold", "file:/does/not/exist", "/does/not/exist: No such file");
}

RUN_TESTS_BETWEEN(set_up, tear_down)
