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

/* Runs the test of the case. */
void one_fleet_run(void **state);
/* When the last one did not come to its end, prints what its workers have said; one_fleet_clean does it first. */
void one_fleet_tell(void);

/* SIGTERM to a worker that has to end well; SIGKILL. Return when it has ended. */
void one_fleet_stop(unsigned worker);
void one_fleet_kill(unsigned worker);

struct fleet_case {
    void (*run)(void **state);
};

#define fleet_test_with(function, enter, leave)                                                                        \
    {                                                                                                                  \
        .name = #function, .test_func = one_fleet_run, .setup_func = (enter), .teardown_func = (leave),                \
        .initial_state = &(struct fleet_case)                                                                          \
        {                                                                                                              \
            .run = (function)                                                                                          \
        }                                                                                                              \
    }
#define fleet_test(function) fleet_test_with(function, NULL, one_fleet_clean)

#endif
