/* The histogram finds every value within the error that it promises, over the whole range. */
#include "tests/support/test.h"

#include "base/histogram.h"

static const int64_t LARGEST = (INT64_C(1) << 36) - 1;

TEST(an_empty_histogram_has_quantiles_of_zero)
{
    static struct histogram histogram;
    assert_int_equal(histogram_quantile(&histogram, 0.5), 0);
}

TEST(every_single_value_is_found_within_the_promised_error)
{
    for (int64_t value = 1; value <= LARGEST; value += 1 + value / 37) {
        static struct histogram histogram, empty;
        histogram = empty;
        histogram_record(&histogram, value);
        histogram_record(&histogram, LARGEST); /* so that the maximum does not give the value away */
        int64_t found = histogram_quantile(&histogram, 0.5);
        assert_true(found >= value);
        assert_true(found - value <= value / 32);
    }
}

TEST(records_are_spread_over_bounds)
{
    static struct histogram histogram;
    static const int64_t bounds_us[] = {7, 1000, 50000};
    uint64_t counts[4] = {0, 0, 0, 100}; /* it adds */
    for (int64_t value = 1; value <= 100000; value = value * 10)
        histogram_record(&histogram, value);
    histogram_record(&histogram, 7);
    histogram_record(&histogram, 8);
    histogram_spread(&histogram, bounds_us, 3, counts);
    assert_int_equal(counts[0], 2);   /* 1, 7 */
    assert_int_equal(counts[1], 3);   /* 8, 10, 100: 1000 shares a step with more than the bound */
    assert_int_equal(counts[2], 2);   /* 1000, 10000 */
    assert_int_equal(counts[3], 101); /* 100000 */
}

TEST(every_step_is_reached_and_none_beyond)
{
    static struct histogram histogram;
    for (int64_t power = 32; power <= LARGEST; power *= 2)
        for (int64_t step = 0; step < 32; step++)
            histogram_record(&histogram, power + step * (power / 32));
    for (int64_t value = 0; value < 32; value++)
        histogram_record(&histogram, value);
    assert_int_equal(histogram.count, HISTOGRAM_STEPS);
    for (size_t i = 0; i < HISTOGRAM_STEPS; i++)
        assert_int_equal(histogram.counts[i], 1);
}

TEST(values_out_of_range_count_as_the_nearest)
{
    static struct histogram histogram;
    histogram_record(&histogram, -5);
    histogram_record(&histogram, INT64_MAX);
    assert_int_equal(histogram.counts[0], 1);
    assert_int_equal(histogram.counts[HISTOGRAM_STEPS - 1], 1);
    assert_int_equal(histogram.max_us, LARGEST);
    assert_int_equal(histogram.sum_us, LARGEST);
}

TEST(quantiles_split_the_records_where_they_should)
{
    static struct histogram histogram;
    for (int64_t value = 1; value <= 20; value++)
        histogram_record(&histogram, value);
    assert_int_equal(histogram_quantile(&histogram, 0), 1);
    assert_int_equal(histogram_quantile(&histogram, 0.05), 1);
    assert_int_equal(histogram_quantile(&histogram, 0.5), 10);
    assert_int_equal(histogram_quantile(&histogram, 0.51), 11);
    assert_int_equal(histogram_quantile(&histogram, 1), 20);
    assert_int_equal(histogram_quantile(&histogram, 7), 20);
}

/* B = 4 * o + q, with q from 0 to 3, begins at (4 + q) * 2^(o + 2); the first four are 8 us each. */
TEST(a_coarse_step_is_a_quarter_of_an_octave)
{
    for (size_t i = 0; i < HISTOGRAM_COARSE_STEPS; i++) {
        struct histogram_coarse histogram = {0};
        int64_t end = histogram_coarse_end(i);
        size_t next = i + 1;
        assert_int_equal(end, next < 4 ? (int64_t)(8 * next) : (int64_t)(4 + next % 4) << (next / 4 + 2));
        histogram_coarse_record(&histogram, end - 1);
        assert_int_equal(histogram.counts[i], 1);
        if (next < HISTOGRAM_COARSE_STEPS) {
            histogram_coarse_record(&histogram, end);
            assert_int_equal(histogram.counts[next], 1);
        }
        assert_int_equal(histogram.counts[i], 1);
    }
}

TEST(coarse_steps_are_restored_evenly)
{
    static struct histogram histogram;
    histogram_restore(&histogram, 40, 8000); /* 16384 to 20479 us */
    assert_int_equal(histogram.count, 8000);
    assert_int_equal(histogram_quantile(&histogram, 0.25), 17407);
    assert_int_equal(histogram_quantile(&histogram, 1), 20479);
    assert_in_range(histogram.sum_us / histogram.count, 18400, 18450);
    histogram_restore(&histogram, 40, 3);
    histogram_restore(&histogram, 0, 1);
    assert_int_equal(histogram.count, 8004);
    assert_int_equal(histogram.counts[320], 1000);
    assert_int_equal(histogram.counts[327], 1001); /* what is left over is in the upper ones */
    assert_int_equal(histogram.counts[7], 1);
}

TEST(merging_is_recording_both)
{
    static struct histogram a, b, both;
    for (int64_t value = 1; value < 1000000; value = value * 3 + 1) {
        struct histogram *one = value % 2 == 0 ? &a : &b;
        histogram_record(one, value);
        histogram_record(&both, value);
    }
    histogram_merge(&a, &b);
    assert_memory_equal(&a, &both, sizeof both);
}

TEST(every_step_is_found_by_its_largest_value_and_not_by_the_next)
{
    for (size_t step = 0; step < HISTOGRAM_STEPS; step++) {
        assert_int_equal(histogram_step_of(histogram_step_top(step)), step);
        if (step + 1 < HISTOGRAM_STEPS)
            assert_int_equal(histogram_step_of(histogram_step_top(step) + 1), step + 1);
    }
    assert_int_equal(histogram_step_of(-1), 0);
    assert_int_equal(histogram_step_of(INT64_MAX), HISTOGRAM_STEPS - 1);
    assert_int_equal(histogram_step_top(HISTOGRAM_STEPS - 1), LARGEST);
}

RUN_TESTS
