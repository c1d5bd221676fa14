/* Points in time: arithmetic that a deadline rests on. */
#include "tests/support/test.h"

TEST(a_moment_may_lie_before_another)
{
    struct instant noon = {1000 * NS_PER_S};
    assert_int_equal(instant_after(noon, -50 * NS_PER_MS).ns, noon.ns - 50 * NS_PER_MS);
    assert_true(instant_before(instant_after(noon, -1), noon));
    assert_int_equal(instant_since(noon, instant_after(noon, -7)), -7);
}

TEST(what_lies_beyond_the_end_of_time_is_never)
{
    assert_int_equal(instant_after(INSTANT_NEVER, 1).ns, INSTANT_NEVER.ns);
    assert_int_equal(instant_after((struct instant){1}, INT64_MAX).ns, INSTANT_NEVER.ns);
    assert_int_equal(instant_after((struct instant){0}, INT64_MAX).ns, INSTANT_NEVER.ns);
    assert_false(instant_reached(instant_now(), INSTANT_NEVER));
}

TEST(the_clock_does_not_go_back)
{
    struct instant before = instant_now();
    for (int i = 0; i < 100000; i++) {
        struct instant now = instant_now();
        assert_false(instant_before(now, before));
        before = now;
    }
}

RUN_TESTS
