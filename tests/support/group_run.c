#include "tests/support/group_run.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>

static const int64_t TOLD_NS = NS_PER_S / 2;

static struct {
    const struct CMUnitTest *tests, *test; /* all, and the one that is at its turn */
    struct instant began;                  /* it did */
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
    group.began = instant_now();
    return group.test->setup_func != NULL ? group.test->setup_func(state) : 0;
}

static void test_run(void **state)
{
    group.test->test_func(state);
    group.has_passed = true;
}

bool group_test_has_passed(void)
{
    return group.has_passed;
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
    int result = 0;
    if (group.test->teardown_func != NULL)
        result = group.has_passed ? group.test->teardown_func(state) : failed_tear_down(state);
    int64_t took_ns = instant_since(group.began, instant_now());
    if (took_ns >= TOLD_NS)
        printf("[   TOOK   ] %.1f s\n", (double)took_ns / (double)NS_PER_S);
    return result;
}

/* Whether a test belongs to the part that this process runs: HOLDFAST_PART=2/3 is every third, from the second on. */
static bool is_wanted(size_t number)
{
    const char *text = getenv("HOLDFAST_PART");
    unsigned part = 1, parts = 1;
    if (text != NULL && (sscanf(text, "%u/%u", &part, &parts) != 2 || part < 1 || part > parts))
        abort();
    return number % parts == part - 1;
}

/* Whoever started this process may have blocked or ignored signals. sigaction leaves two of them to the C library. */
static void signals_reset(void)
{
    enum { SIGNALS = 64, KERNEL_MASK_SIZE = SIGNALS / 8 };
    static const unsigned long usual[8], none; /* the kernel's struct, all zero: the default */
    for (int number = 1; number <= SIGNALS; number++) {
        unsigned long before[8] = {0};
        (void)syscall(SYS_rt_sigaction, number, NULL, before, KERNEL_MASK_SIZE);
        if (before[0] == (unsigned long)SIG_IGN)
            (void)syscall(SYS_rt_sigaction, number, usual, NULL, KERNEL_MASK_SIZE);
    }
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, KERNEL_MASK_SIZE);
}

int group_run(const char *name, const struct CMUnitTest *tests, size_t count, CMFixtureFunction group_set_up,
              CMFixtureFunction group_tear_down)
{
    struct CMUnitTest *wanted = calloc(count, sizeof wanted[0]), *wrapped = calloc(count, sizeof wrapped[0]);
    if (wanted == NULL || wrapped == NULL)
        abort();
    signals_reset();
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(i))
            continue;
        wanted[left] = wrapped[left] = tests[i];
        wrapped[left].test_func = test_run;
        wrapped[left].setup_func = set_up_next;
        wrapped[left++].teardown_func = tear_down;
    }
    group.tests = wanted;
    group.test = NULL;
    int failed = _cmocka_run_group_tests(name, wrapped, left, group_set_up, group_tear_down);
    free(wrapped);
    free(wanted);
    return failed;
}
