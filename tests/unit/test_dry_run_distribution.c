/* How long simulated holds last: what is drawn has the shape, the mean and the second moment that are promised. */
#include "tests/support/test.h"

#include <math.h>

#include "base/memory.h"
#include "worker/dry_run/plan/distribution.h"

static void assert_near(double found, double wanted, double share)
{
    if (!(fabs(found - wanted) <= share * fabs(wanted) + 1e-12))
        fail_msg("%.9g is not near %.9g", found, wanted);
}

/* Mean and second moment of what is drawn, by the midpoints of so many slices of equal weight. What lies beyond the
 * last midpoint of a long tail makes the difference to the true value. */
static void assert_moments(const struct distribution *hold, double mean, double second, double share)
{
    enum { SLICES = 1000000 };
    double sum = 0, squares = 0;
    for (int i = 0; i < SLICES; i++) {
        double at = distribution_at(hold, (i + 0.5) / SLICES);
        sum += at / SLICES;
        squares += at * at / SLICES;
    }
    assert_near(distribution_mean(hold), mean, 1e-9);
    assert_near(distribution_second_moment(hold), second, 1e-9);
    assert_near(sum, mean, share);
    assert_near(squares, second, share);
}

TEST(a_fixed_hold_is_always_the_same)
{
    struct distribution hold = {.kind = DISTRIBUTION_FIXED, .mean_s = 0.005};
    assert_moments(&hold, 0.005, 0.005 * 0.005, 1e-9);
    assert_near(distribution_at(&hold, 0), 0.005, 0);
}

TEST(an_exponential_hold_has_its_quantiles_and_moments)
{
    struct distribution hold = {.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.2};
    assert_moments(&hold, 0.2, 0.08, 1e-3);
    assert_near(distribution_at(&hold, 0), 0, 0);
    assert_near(distribution_at(&hold, 0.5), 0.2 * log(2), 1e-12);
    assert_near(distribution_at(&hold, 0.999), 0.2 * log(1000), 1e-12);
    /* The longest that 53 bits can ask for: finite, and not cut. */
    assert_near(distribution_at(&hold, 1 - 0x1p-53), 0.2 * 53 * log(2), 1e-12);
}

/* The quantiles of the normal distribution, by printed tables. */
TEST(a_lognormal_hold_has_the_quantiles_of_the_tables)
{
    static const struct {
        double lower, x;
    } normal[] = {{0.5, 0},
                  {0.8413447460685429, 1},
                  {0.15865525393145705, -1},
                  {0.975, 1.959963984540054},
                  {0.9986501019683699, 3},
                  {0.001349898031630095, -3},
                  {2.866515718791939e-7, -5},
                  {0.999, 3.090232306167813}};
    struct distribution hold = {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 0.005, .sigma = 0.8};
    double median = 0.005 * exp(-0.32);
    for (size_t i = 0; i < sizeof normal / sizeof normal[0]; i++)
        assert_near(distribution_at(&hold, normal[i].lower), median * exp(0.8 * normal[i].x), 1e-9);
}

TEST(a_lognormal_hold_has_its_moments)
{
    struct distribution hold = {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 0.005, .sigma = 0.8};
    assert_moments(&hold, 0.005, 25e-6 * exp(0.64), 2e-3);
    struct distribution narrow = {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 3, .sigma = 0.01};
    assert_moments(&narrow, 3, 9 * exp(0.0001), 1e-6);
}

TEST(the_ends_of_a_lognormal_hold_are_numbers)
{
    struct distribution hold = {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 1, .sigma = 1};
    double least = distribution_at(&hold, 0), most = distribution_at(&hold, 1 - 0x1p-53);
    assert_true(least > 0 && least < distribution_at(&hold, 0x1p-53));
    assert_true(isfinite(most) && most > distribution_at(&hold, 1 - 0x1p-52));
}

TEST(every_kind_rises_with_its_share)
{
    double seconds[] = {0.3, 0.1, 0.1, 0.9};
    struct distribution measured = {0};
    distribution_measure(&measured, seconds, 4);
    const struct distribution holds[] = {{.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 1},
                                         {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 1, .sigma = 2},
                                         measured};
    for (size_t kind = 0; kind < 3; kind++)
        for (int i = 1; i < 10000; i++)
            if (distribution_at(&holds[kind], i / 1e4) < distribution_at(&holds[kind], (i - 1) / 1e4))
                fail_msg("kind %zu falls at %d", kind, i);
    distribution_fini(&measured);
}

TEST(measured_holds_lie_on_lines_between_quantiles)
{
    double seconds[] = {4, 1, 2};
    struct distribution hold = {0};
    distribution_measure(&hold, seconds, 3);
    assert_near(distribution_at(&hold, 0), 1, 0);
    assert_near(distribution_at(&hold, 0.25), 1.5, 1e-12);
    assert_near(distribution_at(&hold, 0.5), 2, 1e-12);
    assert_near(distribution_at(&hold, 0.75), 3, 1e-12);
    assert_near(distribution_at(&hold, 1 - 0x1p-53), 4, 1e-12);
    /* Half of it uniform in 1 to 2, half in 2 to 4. */
    assert_moments(&hold, 2.25, (7.0 / 3 + 28.0 / 3) / 2, 1e-6);
    distribution_fini(&hold);
    distribution_fini(&hold); /* twice is harmless */
}

TEST(a_single_measured_hold_is_a_fixed_one)
{
    struct distribution hold = {0};
    distribution_measure(&hold, (double[]){0.7}, 1);
    assert_moments(&hold, 0.7, 0.49, 1e-9);
    distribution_fini(&hold);
}

TEST(many_measured_holds_are_thinned_out_without_changing_their_shape)
{
    enum { MANY = 250000 };
    double *seconds = memory_zeroed(MANY, sizeof *seconds);
    for (int i = 0; i < MANY; i++)
        seconds[i] = (i * 7919 % MANY) / (double)(MANY - 1); /* in no order, each once */
    struct distribution hold = {.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 9};
    distribution_measure(&hold, seconds, MANY);
    free(seconds);
    assert_int_equal(hold.kind, DISTRIBUTION_MEASURED);
    assert_int_equal(hold.quantile_count, DISTRIBUTION_QUANTILES_MAX);
    assert_moments(&hold, 0.5, 1.0 / 3, 1e-6);
    assert_near(distribution_at(&hold, 1 - 0x1p-53), 1, 1e-9); /* the longest is kept */
    distribution_fini(&hold);
}

TEST(a_copy_stands_alone)
{
    struct distribution hold = {0}, copy;
    distribution_measure(&hold, (double[]){1, 3}, 2);
    distribution_copy(&copy, &hold);
    hold.quantiles[1] = 100;
    distribution_fini(&hold);
    assert_near(distribution_mean(&copy), 2, 1e-12);
    distribution_fini(&copy);
    distribution_copy(&copy, &(struct distribution){.kind = DISTRIBUTION_FIXED, .mean_s = 1});
    assert_null(copy.quantiles);
}

RUN_TESTS
