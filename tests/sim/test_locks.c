/* The life of locks in simulated worlds (tests/sim/world/play.h says what the environment chooses). */
#include "tests/sim/lock/schedule.h"
#include "tests/support/test.h"

static const char *const expected[] = {"acquired", "busy", NULL};

static void locks_keep_their_promises(void **state)
{
    (void)state;
    struct play play = {.name = "locks",
                        .schedule = lock_schedule_play,
                        .count = 2000,
                        .limit_ns = 45 * NS_PER_S,
                        .expected = expected,
                        .expected_after = 100};
    assert_int_equal(play_all(&play), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(locks_keep_their_promises)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
