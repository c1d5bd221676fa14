/* Tests that registered themselves, as a group. Apart from group_run.c: in virtual time the world takes its place. */
#include "tests/support/test.h"

void group_register(struct registered_test **tests, struct registered_test *test)
{
    while (*tests != NULL && (*tests)->line < test->line)
        tests = &(*tests)->next;
    test->next = *tests;
    *tests = test;
}

int group_run_registered(const char *file, struct registered_test *tests, CMFixtureFunction test_set_up,
                         CMFixtureFunction test_tear_down, CMFixtureFunction group_set_up,
                         CMFixtureFunction group_tear_down)
{
    enum { TESTS_MAX = 200 };
    struct CMUnitTest list[TESTS_MAX];
    size_t count = 0;
    for (const struct registered_test *test = tests; test != NULL; test = test->next) {
        if (count == TESTS_MAX)
            abort();
        list[count] = test->test;
        if (test->test.setup_func == NULL && test->test.teardown_func == NULL) {
            list[count].setup_func = test_set_up;
            list[count].teardown_func = test_tear_down;
        }
        count++;
    }
    const char *slash = strrchr(file, '/');
    return group_run(slash != NULL ? slash + 1 : file, list, count, group_set_up, group_tear_down);
}
