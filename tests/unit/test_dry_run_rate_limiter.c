/* How fast a shadow may be played: cut at once when it took too much, let up slowly when there is room. */
#include "tests/support/test.h"

#include <math.h>

#include "worker/dry_run/load/rate_limiter.h"

static void assert_near(double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-9 * fmax(1, fabs(wanted))))
        fail_msg("%.12g is not %.12g", found, wanted);
}

TEST(it_begins_as_fast_as_it_may_and_goes_no_faster)
{
    struct rate_limiter limiter = rate_limiter_begin(0.1, 1000);
    assert_near(limiter.rate, 1000);
    assert_near(rate_limiter_judge(&limiter, 0.01, 1000), 1000);
    assert_near(limiter.worst, 0.01);
    assert_int_equal(limiter.cuts, 0);
}

/* Twelve hundredths where ten are allowed: ten twelfths of what caused it. */
TEST(too_much_is_cut_in_proportion_to_what_was_let_in)
{
    struct rate_limiter limiter = rate_limiter_begin(0.1, 1000);
    assert_near(rate_limiter_judge(&limiter, 0.12, 600), 500);
    assert_int_equal(limiter.cuts, 1);
    /* what was let in before, and is still there, is more than the rate: the rate counts */
    assert_near(rate_limiter_judge(&limiter, 0.125, 2000), 400);
    assert_int_equal(limiter.cuts, 2);
}

TEST(no_second_cuts_to_less_than_half)
{
    struct rate_limiter limiter = rate_limiter_begin(0.1, 1000);
    assert_near(rate_limiter_judge(&limiter, 5, 1000), 500);
    assert_near(rate_limiter_judge(&limiter, 5, 500), 250);
    assert_near(limiter.worst, 5);
}

/* Something is always played, also when nothing was let in while it was too much. */
TEST(it_never_stands_still)
{
    struct rate_limiter limiter = rate_limiter_begin(0.1, 1000);
    for (int i = 0; i < 30; i++)
        assert_true(rate_limiter_judge(&limiter, 1, 0) >= 1);
    assert_near(limiter.rate, 1);
    limiter = rate_limiter_begin(0.1, 1);
    assert_near(rate_limiter_judge(&limiter, 1, 1), 1);
}

TEST(where_there_is_room_it_lets_up_by_steps_until_it_is_as_fast_as_it_may_be)
{
    struct rate_limiter limiter = rate_limiter_begin(0.1, 1000);
    for (int i = 0; i < 20; i++)
        rate_limiter_judge(&limiter, 1, 0);
    assert_near(rate_limiter_judge(&limiter, 0.01, 1), 1 * 1.25 + 1);
    double before = limiter.rate;
    for (int i = 0; i < 100 && limiter.rate < 1000; i++, before = limiter.rate) {
        rate_limiter_judge(&limiter, 0.01, before);
        assert_true(limiter.rate > before && limiter.rate <= before * 1.25 + 1);
    }
    assert_near(limiter.rate, 1000);
}

/* Between four fifths of the share and all of it. */
TEST(close_to_its_share_it_stays_as_it_is)
{
    struct rate_limiter limiter = rate_limiter_begin(0.1, 1000);
    rate_limiter_judge(&limiter, 0.2, 1000);
    double rate = limiter.rate;
    assert_near(rate_limiter_judge(&limiter, 0.09, 500), rate);
    assert_near(rate_limiter_judge(&limiter, 0.1, 500), rate);
    assert_int_equal(limiter.cuts, 1);
}

/* Where each task takes a thousandth of a second of the node, a tenth of its time is a hundred tasks a second. */
TEST(it_finds_the_rate_that_is_allowed)
{
    struct rate_limiter limiter = rate_limiter_begin(0.1, 1000);
    unsigned too_much = 0;
    for (int i = 0; i < 100; i++) {
        double told = limiter.rate;
        rate_limiter_judge(&limiter, told * 0.001, told);
        too_much += i >= 10 && told * 0.001 > 0.1 + 1e-9;
        if (i >= 10)
            assert_true(limiter.rate >= 70 && limiter.rate <= 130);
    }
    assert_true(too_much <= 25);
}

RUN_TESTS
