/* The longest hold (E37): a limit of its own, which extensions do not move. */
#include "tests/unit/lease_fixture.h"

static struct lease_terms terms_with(int64_t max_hold_ns)
{
    terms = terms_of(3);
    terms.max_hold_ns = max_hold_ns;
    lease_terms_derive(&terms);
    return terms;
}

/* Every extension succeeds; returns the step in which the hold ends. */
static struct lease_step hold_to_its_end(struct instant *at, unsigned *dangers)
{
    for (int i = 0; i < 1000; i++) {
        *at = lease_next(&lease, &terms);
        struct lease_step step = lease_tick(&lease, &terms, *at);
        if (step.news == LEASE_NEWS_LOST)
            return step;
        *dangers += step.news == LEASE_NEWS_DANGER;
        if (step.extend != 0)
            votes("yyy", ms_after(*at, 1));
    }
    fail_msg("it never ends");
    return (struct lease_step){0};
}

TEST(test_e37_a_hold_ends_at_its_maximum_although_it_is_extended)
{
    terms = terms_with(25 * NS_PER_S);
    hold();
    struct instant end = lease.hold_until, at;
    unsigned dangers = 0;
    assert_instant(end, instant_after(START, 25 * NS_PER_S));
    struct lease_step step = hold_to_its_end(&at, &dangers);
    assert_int_equal(step.loss, REDLOCK_LOST_MAX_HOLD);
    assert_instant(at, end);
    assert_int_equal(dangers, 1);
    assert_int_equal(lease_believed_until(&lease, &terms).ns, 0);
}

TEST(test_e37_danger_comes_a_third_of_the_ttl_before_the_maximum)
{
    terms = terms_with(11 * NS_PER_S);
    hold();
    assert_instant(lease_believed_until(&lease, &terms),
                   instant_after(START, terms.ttl_ns - terms.drift_ns - terms.guard_ns));
    assert_instant(lease_danger_from(&lease, &terms), instant_after(START, terms.danger_after_ns));
    struct instant at = lease_next(&lease, &terms);
    lease_tick(&lease, &terms, at);
    votes("yyy", ms_after(at, 1));
    assert_instant(lease_believed_until(&lease, &terms), lease.hold_until);
    assert_instant(lease_danger_from(&lease, &terms), instant_after(lease.hold_until, -terms.ttl_ns / 3));
}

/* A process that stood still beyond both ends: what came first is what it lost the lock by. */
TEST(test_e37_the_end_that_came_first_is_the_reason_however_late_it_is_seen)
{
    struct instant late = instant_after(START, 3600 * NS_PER_S);
    terms = terms_with(60 * NS_PER_S);
    hold();
    assert_int_equal(lease_tick(&lease, &terms, late).loss, REDLOCK_LOST_DEADLINE);
    terms = terms_with(5 * NS_PER_S);
    hold();
    assert_int_equal(lease_tick(&lease, &terms, late).loss, REDLOCK_LOST_MAX_HOLD);
}

TEST(test_e37_an_extension_counts_only_before_the_maximum)
{
    for (int64_t late = -1; late <= 0; late++) {
        terms = terms_with(5 * NS_PER_S);
        hold();
        struct instant end = lease.hold_until;
        assert_int_not_equal(lease_tick(&lease, &terms, instant_after(end, -2)).extend, 0);
        struct lease_step step = votes("yy", instant_after(end, late));
        assert_int_equal(step.news, late < 0 ? LEASE_NEWS_EXTENDED : LEASE_NEWS_LOST);
        assert_int_equal(step.loss, late < 0 ? 0 : REDLOCK_LOST_MAX_HOLD);
    }
}

TEST(test_e37_without_a_maximum_a_hold_goes_on)
{
    terms = terms_with(0);
    hold();
    for (int i = 0; i < 1000; i++) {
        struct instant at = lease_next(&lease, &terms);
        assert_int_not_equal(lease_tick(&lease, &terms, at).extend, 0);
        votes("yyy", ms_after(at, 1));
    }
    assert_int_equal(lease.state, LEASE_HELD);
}

RUN_TESTS
