/* Points in time: arithmetic that a deadline rests on. */
#include "tests/support/test.h"

static void a_moment_may_lie_before_another(void **state)
{
    (void)state;
    struct instant noon = {1000 * NS_PER_S};
    assert_int_equal(instant_after(noon, -50 * NS_PER_MS).ns, noon.ns - 50 * NS_PER_MS);
    assert_true(instant_before(instant_after(noon, -1), noon));
    assert_int_equal(instant_since(noon, instant_after(noon, -7)), -7);
}

static void what_lies_beyond_the_end_of_time_is_never(void **state)
{
    (void)state;
    assert_int_equal(instant_after(INSTANT_NEVER, 1).ns, INSTANT_NEVER.ns);
    assert_int_equal(instant_after((struct instant){1}, INT64_MAX).ns, INSTANT_NEVER.ns);
    assert_int_equal(instant_after((struct instant){0}, INT64_MAX).ns, INSTANT_NEVER.ns);
    assert_false(instant_reached(instant_now(), INSTANT_NEVER));
}

static void the_clock_does_not_go_back(void **state)
{
    (void)state;
    struct instant before = instant_now();
    for (int i = 0; i < 100000; i++) {
        struct instant now = instant_now();
        assert_false(instant_before(now, before));
        before = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_moment_may_lie_before_another),
        cmocka_unit_test(what_lies_beyond_the_end_of_time_is_never),
        cmocka_unit_test(the_clock_does_not_go_back),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
