/* Numbers with a point, and times that scores stand for, whoever wrote the score. */
#include "tests/support/test.h"

#include <math.h>

#include "base/real.h"

TEST(numbers_are_read_up_to_what_is_none)
{
    char *rest = NULL;
    assert_true(fabs(real_read("1795194409.25x", &rest) - 1795194409.25) < 1e-9);
    assert_string_equal(rest, "x");
    assert_true(fabs(real_read("1,5", &rest) - 1) < 1e-9);
    assert_string_equal(rest, ",5");
    assert_true(fabs(real_read("0.1", NULL) - 0.1) < 1e-12);
}

TEST(scores_are_times_within_bounds)
{
    static const struct {
        const char *score;
        int64_t us;
    } cases[] = {{"1795194409.088278", 1795194409088278},
                 {"-5", -5000000},
                 {"", 0},
                 {"nan", 0},
                 {"words", 0},
                 {"1e300", 100000000000000000},
                 {"inf", 100000000000000000},
                 {"-inf", -100000000000000000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(wall_read(cases[i].score).us, cases[i].us);
}

RUN_TESTS
