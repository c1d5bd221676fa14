/* Files that a plan is made of: resources with weights, and holds; what is wrong is told with its line. */
#include "tests/unit/plan_options_fixture.h"

static void write_file(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* --- resources ---------------------------------------------------------------------------------------------------- */

TEST(popularity_from_a_file)
{
    static const char text[] = "# who is wanted\n\naccount:1 5\n  a name with blanks\t 0.5 \r\naccount:2 1e2";
    write_file(text, sizeof text - 1);
    take("popularity", path);
    const struct popularity *popularity = &plan.popularity;
    assert_int_equal(popularity->kind, POPULARITY_WEIGHTS);
    assert_int_equal(popularity->count, 3);
    assert_string_equal(popularity->names[0], "account:2");
    assert_string_equal(popularity->names[1], "account:1");
    assert_string_equal(popularity->names[2], "a name with blanks");
    assert_near(popularity->weights[0], 100);
    assert_near(popularity->weights[2], 0.5);
    assert_refused("resources", "5", "have names and weights already");
    take("zipf", "1"); /* as many, without those names */
    assert_null(plan.popularity.names);
    assert_int_equal(plan.popularity.count, 3);
}

TEST(a_number_of_resources_and_a_file_contradict_each_other)
{
    write_file("a 1\n", 4);
    take("resources", "5");
    assert_refused("popularity", path, "leave --resources out");
}

static void assert_file_refused(const char *function, const char *text, size_t length, const char *reason)
{
    char argument[sizeof path + 8];
    write_file(text, length);
    snprintf(argument, sizeof argument, "%s%s", strcmp(function, "hold") == 0 ? "file:" : "", path);
    assert_refused(function, argument, reason);
}

#define FILE_REFUSED(function, text, reason) assert_file_refused(function, text, sizeof(text) - 1, reason)

TEST(hostile_files_of_resources_are_refused_by_line)
{
    FILE_REFUSED("popularity", "", "has no resources in it");
    FILE_REFUSED("popularity", "# only this\n\n", "has no resources in it");
    FILE_REFUSED("popularity", "a 1\nb\n", "file:2: b: a line has the name of a resource and its weight");
    FILE_REFUSED("popularity", "a 1\n\nb x\n", "file:3: x is no weight");
    FILE_REFUSED("popularity", "a 0\n", "file:1: 0 is no weight");
    FILE_REFUSED("popularity", "a -1\n", "is no weight");
    FILE_REFUSED("popularity", "a inf\n", "is no weight");
    FILE_REFUSED("popularity", "a 1e16\n", "is no weight");
    FILE_REFUSED("popularity", "a 1e999\n", "is no weight");
    FILE_REFUSED("popularity", "a 0x1\n", "is no weight");
    FILE_REFUSED("popularity", "a 1\nb 2\na 3\n", "a is there twice");
    FILE_REFUSED("popularity", "hf:x 1\n", "cannot be the name of a resource");
    FILE_REFUSED("popularity", "a\xff 1\n", "cannot be the name of a resource");
    FILE_REFUSED("popularity", "a\33[31m 1\n", "cannot be the name of a resource");
    FILE_REFUSED("popularity", "a\0b 1\n", "file:1: there is a byte 0");
    char large[1200];
    memset(large, 'a', sizeof large);
    assert_file_refused("popularity", large, sizeof large, "file:1: the line has more than 1024 bytes");
    memcpy(large + 600, " 1\n", 3);
    assert_file_refused("popularity", large, 603, "cannot be the name of a resource");
    (void)unlink(path);
    assert_refused("popularity", path, "No such file");
    assert_refused("popularity", directory, "Is a directory");
}

/* --- holds -------------------------------------------------------------------------------------------------------- */

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
    FILE_REFUSED("hold", "", "has no durations in it");
    FILE_REFUSED("hold", "5ms\n7\n", "file:2: \"7\" has no unit");
    FILE_REFUSED("hold", "5ms\n\n\33[31m\n", "file:3: ");
    FILE_REFUSED("hold", "5ms 6ms\n", "is no duration; write for example 5ms");
    FILE_REFUSED("hold", "25h\n", "a hold lasts at most 24h");
    FILE_REFUSED("hold", "5m\0s\n", "there is a byte 0");
    assert_refused("hold", "file:", "No such file");
    assert_refused("hold", "file:/does/not/exist", "/does/not/exist: No such file");
}

RUN_TESTS_BETWEEN(set_up, tear_down)
