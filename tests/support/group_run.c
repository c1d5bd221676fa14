#include "tests/support/group_run.h"

#include <pthread.h>
#include <stdio.h>

static struct {
    const struct CMUnitTest *tests, *test; /* all, and the one that is at its turn */
    bool has_passed;                       /* it came to its end */
    bool was_aborted;                      /* a teardown: its test has failed, and things of it are left */
    pthread_t thread;
    sigjmp_buf teardown;
} group;

static int set_up_next(void **state)
{
    if (group.was_aborted) {
        fprintf(stderr, "the teardown of the test before was aborted: the others cannot be run\n");
        abort();
    }
    group.test = group.test == NULL ? group.tests : group.test + 1;
    group.has_passed = false;
    return group.test->setup_func != NULL ? group.test->setup_func(state) : 0;
}

static void test_run(void **state)
{
    group.test->test_func(state);
    group.has_passed = true;
}

/* Another thread has no way back from here. */
static void aborted(int number)
{
    if (pthread_equal(pthread_self(), group.thread))
        siglongjmp(group.teardown, 1);
    signal(number, SIG_DFL);
    raise(number);
}

static int failed_tear_down(void **state)
{
    int result = -1;
    group.thread = pthread_self();
    group.was_aborted = sigsetjmp(group.teardown, 1) != 0;
    if (!group.was_aborted) {
        signal(SIGABRT, aborted);
        result = group.test->teardown_func(state);
    }
    signal(SIGABRT, SIG_DFL);
    return group.was_aborted ? -1 : result;
}

static int tear_down(void **state)
{
    if (group.test->teardown_func == NULL)
        return 0;
    return group.has_passed ? group.test->teardown_func(state) : failed_tear_down(state);
}

int group_run(const char *name, const struct CMUnitTest *tests, size_t count, CMFixtureFunction group_set_up,
              CMFixtureFunction group_tear_down)
{
    struct CMUnitTest *wrapped = calloc(count, sizeof wrapped[0]);
    if (wrapped == NULL)
        abort();
    group.tests = tests;
    group.test = NULL;
    for (size_t i = 0; i < count; i++) {
        wrapped[i] = tests[i];
        wrapped[i].test_func = test_run;
        wrapped[i].setup_func = set_up_next;
        wrapped[i].teardown_func = tear_down;
    }
    int failed = _cmocka_run_group_tests(name, wrapped, count, group_set_up, group_tear_down);
    free(wrapped);
    return failed;
}
