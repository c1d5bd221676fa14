/* What a group tells of a test that has failed, when its teardown aborts over what the test had left behind. */
#include "tests/support/test.h"

#include "base/invariant.h"

static bool is_left_behind;

static void passes(void **state)
{
    (void)state;
}

static void passes_and_leaves_something(void **state)
{
    (void)state;
    is_left_behind = true;
}

static void fails_and_leaves_something(void **state)
{
    (void)state;
    is_left_behind = true;
    fail_msg("the reason");
}

static int clean_up(void **state)
{
    (void)state;
    invariant(!is_left_behind);
    return 0;
}

/* Runs the group in a process of its own, since cmocka is at work in this one. Returns its wait status; what it wrote
 * is in `said`. */
static int group_status(const struct CMUnitTest *tests, size_t count, char *said, size_t size)
{
    int ends[2], status = 0;
    size_t length = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        _exit(group_run("inner", tests, count, NULL, NULL));
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], said + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

TEST(the_reason_is_told_although_the_teardown_aborts)
{
    char said[8192];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(passes, NULL, clean_up),
        cmocka_unit_test_setup_teardown(fails_and_leaves_something, NULL, clean_up),
    };
    int status = group_status(tests, 2, said, sizeof said);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_contains(said, "the reason");
    assert_contains(said, "invariant broken: !is_left_behind");
}

TEST(no_test_runs_amid_the_leftovers)
{
    char said[8192];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fails_and_leaves_something, NULL, clean_up),
        cmocka_unit_test(passes),
    };
    int status = group_status(tests, 2, said, sizeof said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_contains(said, "the reason");
    assert_contains(said, "the others cannot be run");
}

TEST(a_teardown_that_aborts_after_a_test_that_passed_ends_the_process)
{
    char said[8192];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(passes_and_leaves_something, NULL, clean_up),
        cmocka_unit_test(passes),
    };
    int status = group_status(tests, 2, said, sizeof said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_lacks(said, "the others cannot be run");
}

RUN_TESTS
