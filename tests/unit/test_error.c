/* Errors keep their first cause, broken invariants abort and say where, and instants do not overflow. */
#include "tests/support/test.h"

#include <time.h>

#include "base/error.h"
#include "base/invariant.h"

TEST(the_first_cause_wins)
{
    struct error error = ERROR_NONE;
    assert_false(error_is_set(&error));
    assert_false(error_set(&error, "first %d", 1));
    assert_false(error_set(&error, "second"));
    assert_true(error_is_set(&error));
    assert_string_equal(error.text, "first 1");
}

TEST(nobody_has_to_listen)
{
    assert_false(error_set(NULL, "lost"));
    error_prefix(NULL, "lost");
}

TEST(a_prefix_goes_before_the_cause)
{
    struct error error = ERROR_NONE;
    error_prefix(&error, "no cause, no prefix");
    assert_false(error_is_set(&error));
    error_set(&error, "cause");
    error_prefix(&error, "line %d", 3);
    error_prefix(&error, "file");
    assert_string_equal(error.text, "file: line 3: cause");
}

TEST(long_texts_are_cut)
{
    char long_text[2000];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    struct error error = ERROR_NONE;
    error_set(&error, "%s", long_text);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    error_prefix(&error, "before");
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    assert_memory_equal(error.text, "before: xxx", 11);
    error_prefix(&error, "%s", long_text);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void break_an_invariant(void)
{
    invariant(1 + 1 == 3);
}

static void keep_an_invariant(void)
{
    invariant(1 + 1 == 2);
}

TEST(a_broken_invariant_aborts)
{
    assert_true(test_aborts(break_an_invariant));
    assert_false(test_aborts(keep_an_invariant));
}

TEST(a_broken_invariant_says_which_and_where_in_one_line)
{
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        dup2(pipe_fds[1], STDERR_FILENO);
        invariant_broken("the sky is blue", "sky.c", 1207, "look_up");
    }
    char text[600];
    ssize_t length = read(pipe_fds[0], text, sizeof text - 1);
    assert_true(length > 0);
    text[length] = '\0';
    assert_string_equal(text, "invariant broken: the sky is blue in look_up at sky.c:1207\n");
    waitpid(child, NULL, 0);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

TEST(instants_do_not_overflow)
{
    assert_true(instant_after(INSTANT_NEVER, 1).ns == INT64_MAX);
    assert_true(instant_after((struct instant){INT64_MAX - 5}, 6).ns == INT64_MAX);
    assert_true(instant_after((struct instant){INT64_MAX - 5}, 5).ns == INT64_MAX);
    assert_true(instant_after((struct instant){INT64_MAX - 5}, 4).ns == INT64_MAX - 1);
    assert_true(instant_reached((struct instant){5}, (struct instant){5}));
    assert_false(instant_before((struct instant){5}, (struct instant){5}));
}

TEST(the_clocks_are_those_of_the_system)
{
    struct timespec before, after;
    clock_gettime(CLOCK_BOOTTIME, &before);
    int64_t now = instant_now().ns;
    clock_gettime(CLOCK_BOOTTIME, &after);
    assert_true(now >= before.tv_sec * NS_PER_S + before.tv_nsec);
    assert_true(now <= after.tv_sec * NS_PER_S + after.tv_nsec);
    assert_true(wall_now().us / US_PER_S >= 1700000000);
}

RUN_TESTS
