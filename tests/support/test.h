/* What every test includes; the only file that knows cmocka. */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/group_run.h"

/* Why a test failed is printed also when its teardown aborts. */
#undef cmocka_run_group_tests
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests(tests, set_up, tear_down) cmocka_run_group_tests_name(#tests, tests, set_up, tear_down)
#define cmocka_run_group_tests_name(name, tests, set_up, tear_down)                                                    \
    group_run(name, tests, sizeof(tests) / sizeof((tests)[0]), set_up, tear_down)

#if defined(__SANITIZE_THREAD__)
#define TEST_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_THREAD_SANITIZER
#endif
#endif

/* Of a test. The Makefile gives it the name of its file: a program has many of them. */
int main(void);

/* A test: TEST(what_it_shows), its body. It registers itself, so that none can be forgotten, and `state` is there for
 * those that need it. The last line of the file runs them all: RUN_TESTS, or with what comes before and after each. */
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* One with a fixture of its own. */
#define TEST_WITH(name, set_up, tear_down)                                                                             \
    static void name(void **state);                                                                                    \
    __attribute__((constructor)) static void register_##name(void)                                                     \
    {                                                                                                                  \
        static struct registered_test test = {{#name, name, set_up, tear_down, NULL}, __LINE__, NULL};                 \
        group_register(&tests_of_this_file, &test);                                                                    \
    }                                                                                                                  \
    static void name(__attribute__((unused)) void **state)

#define RUN_TESTS                         RUN_TESTS_WITH(NULL, NULL)
#define RUN_TESTS_WITH(set_up, tear_down) RUN_GROUP(NULL, NULL, set_up, tear_down)

/* With what comes before the first and after the last of them. */
#define RUN_GROUP(group_set_up, group_tear_down, set_up, tear_down)                                                    \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return group_run_registered(__FILE__, tests_of_this_file, set_up, tear_down, group_set_up, group_tear_down);   \
    }

/* The same with functions that need no state: void set_up(void). */
#define RUN_TESTS_BETWEEN(before, after)                                                                               \
    static int test_set_up(__attribute__((unused)) void **state)                                                       \
    {                                                                                                                  \
        void (*const test_begin)(void) = before;                                                                       \
        if (test_begin != NULL)                                                                                        \
            test_begin();                                                                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static int test_tear_down(__attribute__((unused)) void **state)                                                    \
    {                                                                                                                  \
        void (*const test_end)(void) = after;                                                                          \
        if (test_end != NULL)                                                                                          \
            test_end();                                                                                                \
        return 0;                                                                                                      \
    }                                                                                                                  \
    RUN_TESTS_WITH(test_set_up, test_tear_down)

__attribute__((unused)) static struct registered_test *tests_of_this_file;

/* Far more than anything takes, on a slow machine under a sanitizer too: reaching it means "never". */
#ifndef TEST_PATIENCE_NS
#define TEST_PATIENCE_NS (100 * NS_PER_S)
#endif

/* The root of the build tree. (Tests run in the root of the sources.) */
static inline const char *test_build(void)
{
    const char *build = getenv("HOLDFAST_BUILD");
    return build != NULL ? build : "build";
}

/* A bare root has no /etc/hosts, and not every name server knows it. */
static inline bool test_knows_localhost(void)
{
    struct addrinfo *found = NULL;
    bool is_known = getaddrinfo("localhost", NULL, NULL, &found) == 0;
    if (is_known)
        freeaddrinfo(found);
    return is_known;
}

/* What this place cannot show, and why, for printf. scripts/run-tests counts and tells such lines. */
#undef skip
#define test_skip(...)                                                                                                 \
    do {                                                                                                               \
        printf("skipped: " __VA_ARGS__);                                                                               \
        printf("\n");                                                                                                  \
        _skip(__FILE__, __LINE__);                                                                                     \
    } while (0)

#define assert_contains(text, part)                                                                                    \
    do {                                                                                                               \
        const char *whole_text = (text), *wanted_part = (part);                                                        \
        if (strstr(whole_text, wanted_part) == NULL)                                                                   \
            fail_msg("\"%s\" is not in: %s", wanted_part, whole_text);                                                 \
    } while (0)

#define assert_lacks(text, part)                                                                                       \
    do {                                                                                                               \
        const char *whole_text = (text), *unwanted_part = (part);                                                      \
        if (strstr(whole_text, unwanted_part) != NULL)                                                                 \
            fail_msg("\"%s\" is in: %s", unwanted_part, whole_text);                                                   \
    } while (0)

/* Waits until another thread or process has made the condition true. */
#define test_await(condition)                                                                                          \
    do {                                                                                                               \
        struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);                                      \
        while (!(condition)) {                                                                                         \
            if (instant_reached(instant_now(), patience))                                                              \
                fail_msg("never came true: %s", #condition);                                                           \
            poll(NULL, 0, 1);                                                                                          \
        }                                                                                                              \
    } while (0)

/* True when the function aborts the process it runs in (a child, so the test goes on). What the child says is sent
 * to /dev/null. */
static inline bool test_aborts(void (*function)(void))
{
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDERR_FILENO);
        function();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
