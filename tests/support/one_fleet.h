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

#define fleet_test(function) cmocka_unit_test_teardown(function, one_fleet_clean)

#endif
