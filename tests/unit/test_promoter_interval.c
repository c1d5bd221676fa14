/* How often a process looks for what is due, by the number of those who do. */
#include "tests/support/test.h"

#include "queue/promoter.h"

static void one_alone_looks_once_a_second(void **state)
{
    (void)state;
    assert_int_equal(promoter_interval_ns(1), NS_PER_S);
    assert_int_equal(promoter_interval_ns(0), NS_PER_S); /* nobody has told yet */
}

static void all_together_look_twice_a_second(void **state)
{
    (void)state;
    for (unsigned serving = 2; serving <= 30; serving++)
        assert_int_equal(promoter_interval_ns(serving), serving * NS_PER_S / 2);
}

static void no_one_rests_for_longer_than_fifteen_seconds(void **state)
{
    (void)state;
    assert_int_equal(promoter_interval_ns(31), 15 * NS_PER_S);
    assert_int_equal(promoter_interval_ns(65), 15 * NS_PER_S);
    assert_int_equal(promoter_interval_ns(UINT32_MAX), 15 * NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_alone_looks_once_a_second),
        cmocka_unit_test(all_together_look_twice_a_second),
        cmocka_unit_test(no_one_rests_for_longer_than_fifteen_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
