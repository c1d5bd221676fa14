/* Whole fleets in simulated worlds (tests/sim/world/play.h says what the environment chooses; HF_PROFILE: one of all,
 * kills, leases, operators). */
#include <stdlib.h>

#include "tests/sim/fleet/fleet.h"
#include "tests/sim/world/trouble.h"
#include "tests/support/test.h"

static const char *const expected[] = {"begun",
                                       "done",
                                       "parked",
                                       "woken",
                                       "successors",
                                       "failed",
                                       "snoozed",
                                       "buried",
                                       "scheduled",
                                       "recoveries",
                                       "failover",
                                       "duplicate",
                                       "ticks",
                                       "verified",
                                       "a program ends",
                                       "a program is asked to stop",
                                       "a program crashes",
                                       "a program does not start",
                                       "killed at the end of its time",
                                       "unlock",
                                       "cancel",
                                       "pushed from elsewhere",
                                       "exact statistics",
                                       "another seat than the first",
                                       "taken by a program",
                                       "drained",
                                       "workers with other terms",
                                       "workers with another lock node",
                                       "quiet",
                                       "ended because there was nothing to do",
                                       "lost its lock",
                                       "a majority is away",
                                       "back before its network",
                                       "queue node",
                                       NULL};

/* A third of what is usual, and three times that: the judges of lost locks are to have something to judge. */
static const struct play_bound bounds[] = {{"lost its lock", 160, 1500}, {NULL, 0, 0}};

static const struct play play = {
    .name = "fleets", .schedule = fleet_play, .troubles = trouble_names, .expected = expected, .bounds = bounds};

TEST(fleets_keep_their_promises)
{
    assert_int_equal(play_today(&play), 0);
}

TEST(fleets_keep_their_promises_in_the_same_schedules_each_day)
{
    if (getenv("HF_SEED") != NULL)
        test_skip("HF_SEED asks for other schedules");
    assert_int_equal(play_each_day(&play), 0);
}

RUN_TESTS
