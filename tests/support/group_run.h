/* Runs the tests of a group as cmocka does, but for one thing: when a test has failed, its teardown finds what the test
 * had not come to clean up, and an invariant of the code may abort the process over it. cmocka prints why a test failed
 * only after its teardown, so that the cause would never be seen. Here such an abort ends the teardown alone; the
 * failure is printed, and then the process aborts before the next test would begin amid the leftovers. After a test
 * that has passed, an abort is what it always is.
 *
 * Signals are at their defaults, whatever the caller left. A group whose tests wait for long can be run in parts, each
 * by a process of its own: HOLDFAST_PART, which scripts/run-tests sets. Tests that took long say so.
 *
 * Used by test.h, for every test; nothing else calls it. The main thread. */
#ifndef SUPPORT_GROUP_RUN_H
#define SUPPORT_GROUP_RUN_H

#include "tests/support/test.h"

/* As _cmocka_run_group_tests. */
int group_run(const char *name, const struct CMUnitTest *tests, size_t count, CMFixtureFunction set_up,
              CMFixtureFunction tear_down);

/* Whether the body of the test has come to its end; for what comes after it. */
bool group_test_has_passed(void);

/* A test that registered itself: see TEST() of test.h. */
struct registered_test {
    struct CMUnitTest test;
    int line;
    struct registered_test *next;
};

/* Keeps the list in the order of the lines: constructors run in any. */
void group_register(struct registered_test **tests, struct registered_test *test);

/* The fixture is that of each test which has none of its own. */
int group_run_registered(const char *file, struct registered_test *tests, CMFixtureFunction test_set_up,
                         CMFixtureFunction test_tear_down, CMFixtureFunction group_set_up,
                         CMFixtureFunction group_tear_down);

#endif
