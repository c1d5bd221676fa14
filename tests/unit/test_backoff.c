/* How long to wait before an attempt at the nodes, when many wait for the same lock. */
#include "tests/support/test.h"

#include "base/clock.h"
#include "redlock/backoff.h"

#define ATTEMPT_NS (10 * NS_PER_MS)
#define SLOT_NS    (2 * ATTEMPT_NS)

static double steady(unsigned number, unsigned count)
{
    return ((double)number + 0.5) / count;
}

/* Of so many whose draws are spread evenly: when the first asks, and how many ask within one slot after it. */
static unsigned beside_the_first(unsigned count, int64_t *first_ns)
{
    unsigned beside = 0;
    *first_ns = backoff_after_release_ns(count, ATTEMPT_NS, steady(0, count));
    for (unsigned i = 1; i < count; i++)
        beside += backoff_after_release_ns(count, ATTEMPT_NS, steady(i, count)) < *first_ns + SLOT_NS;
    return beside;
}

TEST(of_many_the_first_is_nearly_alone_and_soon)
{
    static const unsigned counts[] = {2, 10, 40, 41, 100, 1000, 10000};
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int64_t first_ns = 0;
        assert_in_range(beside_the_first(counts[i], &first_ns), 0, 1);
        assert_in_range(first_ns, 0, 2 * SLOT_NS);
    }
}

TEST(one_who_was_taken_for_many_waits_hardly_longer_than_among_few)
{
    assert_in_range(backoff_after_release_ns(1000, ATTEMPT_NS, 1), 20 * SLOT_NS, 40 * SLOT_NS);
    assert_int_equal(backoff_after_release_ns(40, ATTEMPT_NS, 1), 40 * SLOT_NS);
}

TEST(few_or_unknown_have_a_range_of_four_slots)
{
    for (int64_t count = 0; count <= 4; count++) {
        assert_int_equal(backoff_after_release_ns(count, ATTEMPT_NS, 0), 0);
        assert_int_equal(backoff_after_release_ns(count, ATTEMPT_NS, 0.5), 2 * SLOT_NS);
        assert_int_equal(backoff_after_release_ns(count, ATTEMPT_NS, 1), 4 * SLOT_NS);
    }
}

TEST(the_length_of_a_slot_has_bounds)
{
    assert_int_equal(backoff_after_release_ns(1, 0, 1), 4 * 2500 * NS_PER_US);
    assert_int_equal(backoff_after_release_ns(1, NS_PER_S, 1), 4 * 50000 * NS_PER_US);
}

TEST(splits_double_the_wait_up_to_a_bound)
{
    for (unsigned splits = 1; splits <= 5; splits++)
        assert_int_equal(backoff_after_split_ns(splits, ATTEMPT_NS, 1), SLOT_NS << splits);
    assert_int_equal(backoff_after_split_ns(1000, ATTEMPT_NS, 1), SLOT_NS << 5);
    assert_int_equal(backoff_after_split_ns(3, ATTEMPT_NS, 0), 0);
}

TEST(the_first_attempt_counts_whole_and_later_ones_a_quarter)
{
    assert_int_equal(backoff_attempt_ns(0, 40), 40);
    assert_int_equal(backoff_attempt_ns(40, 80), 50);
    assert_int_equal(backoff_attempt_ns(40, 0), 30);
}

RUN_TESTS
