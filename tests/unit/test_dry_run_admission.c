/* How fast a shadow may be played: cut at once when it took too much, let up slowly when there is room. */
#include "tests/support/test.h"

#include <math.h>

#include "worker/dry_run/load/admission.h"

static void assert_near(double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-9 * fmax(1, fabs(wanted))))
        fail_msg("%.12g is not %.12g", found, wanted);
}

TEST(it_begins_as_fast_as_it_may_and_goes_no_faster)
{
    struct admission admission = admission_begin(0.1, 1000);
    assert_near(admission.rate, 1000);
    assert_near(admission_judge(&admission, 0.01, 1000), 1000);
    assert_near(admission.worst, 0.01);
    assert_int_equal(admission.cuts, 0);
}

/* Twelve hundredths where ten are allowed: ten twelfths of what caused it. */
TEST(too_much_is_cut_in_proportion_to_what_was_let_in)
{
    struct admission admission = admission_begin(0.1, 1000);
    assert_near(admission_judge(&admission, 0.12, 600), 500);
    assert_int_equal(admission.cuts, 1);
    /* what was let in before, and is still there, is more than the rate: the rate counts */
    assert_near(admission_judge(&admission, 0.125, 2000), 400);
    assert_int_equal(admission.cuts, 2);
}

TEST(no_second_cuts_to_less_than_half)
{
    struct admission admission = admission_begin(0.1, 1000);
    assert_near(admission_judge(&admission, 5, 1000), 500);
    assert_near(admission_judge(&admission, 5, 500), 250);
    assert_near(admission.worst, 5);
}

/* Something is always played, also when nothing was let in while it was too much. */
TEST(it_never_stands_still)
{
    struct admission admission = admission_begin(0.1, 1000);
    for (int i = 0; i < 30; i++)
        assert_true(admission_judge(&admission, 1, 0) >= 1);
    assert_near(admission.rate, 1);
    admission = admission_begin(0.1, 1);
    assert_near(admission_judge(&admission, 1, 1), 1);
}

TEST(where_there_is_room_it_lets_up_by_steps_until_it_is_as_fast_as_it_may_be)
{
    struct admission admission = admission_begin(0.1, 1000);
    for (int i = 0; i < 20; i++)
        admission_judge(&admission, 1, 0);
    assert_near(admission_judge(&admission, 0.01, 1), 1 * 1.25 + 1);
    double before = admission.rate;
    for (int i = 0; i < 100 && admission.rate < 1000; i++, before = admission.rate) {
        admission_judge(&admission, 0.01, before);
        assert_true(admission.rate > before && admission.rate <= before * 1.25 + 1);
    }
    assert_near(admission.rate, 1000);
}

/* Between four fifths of the share and all of it. */
TEST(close_to_its_share_it_stays_as_it_is)
{
    struct admission admission = admission_begin(0.1, 1000);
    admission_judge(&admission, 0.2, 1000);
    double rate = admission.rate;
    assert_near(admission_judge(&admission, 0.09, 500), rate);
    assert_near(admission_judge(&admission, 0.1, 500), rate);
    assert_int_equal(admission.cuts, 1);
}

/* Where each task takes a thousandth of a second of the node, a tenth of its time is a hundred tasks a second. */
TEST(it_finds_the_rate_that_is_allowed)
{
    struct admission admission = admission_begin(0.1, 1000);
    unsigned too_much = 0;
    for (int i = 0; i < 100; i++) {
        double told = admission.rate;
        admission_judge(&admission, told * 0.001, told);
        too_much += i >= 10 && told * 0.001 > 0.1 + 1e-9;
        if (i >= 10)
            assert_true(admission.rate >= 70 && admission.rate <= 130);
    }
    assert_true(too_much <= 25);
}

RUN_TESTS
