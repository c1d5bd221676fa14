/* For tests of a fleet: one that lives as long as the test program, over three lock nodes; each test starts its own
 * workers. */
#ifndef SUPPORT_ONE_FLEET_H
#define SUPPORT_ONE_FLEET_H

#include "tests/support/fleet.h"

extern struct fleet fleet;

/* For the whole group of tests. */
int one_fleet_set_up(void **state);
int one_fleet_tear_down(void **state);
/* After each test. */
int one_fleet_clean(void **state);

/* If the test did not come to its end, prints what its workers have said; one_fleet_clean does it first. */
void one_fleet_tell(void);

/* SIGTERM to a worker that has to end well; SIGKILL. Return when it has ended. */
void one_fleet_stop(unsigned worker);
void one_fleet_kill(unsigned worker);

/* In place of RUN_TESTS. */
#define RUN_FLEET_TESTS RUN_GROUP(one_fleet_set_up, one_fleet_tear_down, NULL, one_fleet_clean)

#endif
