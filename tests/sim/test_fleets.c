/* Whole fleets in simulated worlds (tests/sim/world/play.h says what the environment chooses). */
#include "tests/sim/fleet/fleet.h"
#include "tests/support/test.h"

static const char *const expected[] = {"begun", "done", NULL};

static void fleets_keep_their_promises(void **state)
{
    (void)state;
    struct play play = {.name = "fleets",
                        .schedule = fleet_play,
                        .count = 500,
                        .limit_ns = 45 * NS_PER_S,
                        .expected = expected,
                        .expected_after = 20};
    assert_int_equal(play_all(&play), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fleets_keep_their_promises)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
