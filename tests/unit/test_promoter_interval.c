/* How often a process looks for what is due, by the number of those who do. */
#include "tests/support/test.h"

#include "queue/promoter.h"

TEST(one_alone_looks_once_a_second)
{
    assert_int_equal(promoter_interval_ns(1), NS_PER_S);
    assert_int_equal(promoter_interval_ns(0), NS_PER_S); /* nobody has told yet */
}

TEST(all_together_look_twice_a_second)
{
    for (unsigned serving = 2; serving <= 30; serving++)
        assert_int_equal(promoter_interval_ns(serving), serving * NS_PER_S / 2);
}

TEST(no_one_rests_for_longer_than_fifteen_seconds)
{
    assert_int_equal(promoter_interval_ns(31), 15 * NS_PER_S);
    assert_int_equal(promoter_interval_ns(65), 15 * NS_PER_S);
    assert_int_equal(promoter_interval_ns(UINT32_MAX), 15 * NS_PER_S);
}

RUN_TESTS
