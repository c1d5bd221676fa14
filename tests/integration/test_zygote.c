/* Children of the zygote: how they start, what they have, and how they end. */
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/support/launcher_fixture.h"

/* --- programs --------------------------------------------------------------------------------------------------- */

static void a_program_has_its_arguments_and_its_environment_and_no_other(void **state)
{
    (void)state;
    setenv("SECRET", "of the worker", 1);
    const char *const environment[] = {"FIRST=1", "SECOND=two words", NULL};
    assert_string_equal(script_output("echo \"$FIRST,$SECOND,$SECRET,$#\"", environment), "1,two words,,0\n");
    int file = memfd_create("output", MFD_CLOEXEC);
    struct kid kid;
    kid_start(&kid, file, (const char *const[]){"/bin/echo", "a", "", "b c", NULL});
    assert_int_equal(kid_await_end(&kid), 0);
    char text[64] = "";
    assert_int_equal(pread(file, text, sizeof text, 0), 7);
    assert_string_equal(text, "a  b c\n");
    close(file);
}

static void the_end_of_a_program_is_told_as_it_was(void **state)
{
    (void)state;
    struct kid kid;
    kid_start(&kid, -1, (const char *const[]){"/bin/sh", "-c", "exit 75", NULL});
    kid_await_birth(&kid);
    assert_int_equal(kid.failure, 0);
    assert_true(kid.pid > 0);
    int status = kid_await_end(&kid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 75);
    assert_int_equal(kid.end.killed_run, 0);
    assert_true(kid.end.memory_peak > 100 * 1024);
    kid_start(&kid, -1, (const char *const[]){"/bin/sh", "-c", "kill -SEGV $$", NULL});
    status = kid_await_end(&kid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void what_cannot_be_executed_is_told_with_its_reason(void **state)
{
    (void)state;
    struct kid kid;
    kid_start(&kid, -1, (const char *const[]){"/no/such/program", NULL});
    kid_await_birth(&kid);
    assert_int_equal(kid.failure, ENOENT);
    kid_start(&kid, -1, (const char *const[]){"/etc/passwd", NULL});
    kid_await_birth(&kid);
    assert_int_equal(kid.failure, EACCES);
    assert_string_equal(script_output("echo fine", NULL), "fine\n");
}

/* --- runner processes ------------------------------------------------------------------------------------------- */

static void a_runner_process_talks_over_its_socket_until_it_ends(void **state)
{
    (void)state;
    struct kid kid;
    int socket = kid_start_runner(&kid, NULL);
    char answer[16] = "";
    assert_int_equal(write(socket, "hello", 5), 5);
    assert_int_equal(read(socket, answer, sizeof answer), 5);
    assert_string_equal(answer, "hello");
    assert_int_equal(write(socket, "7", 1), 1);
    int status = kid_await_end(&kid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    close(socket);
}

static void a_runner_process_can_be_killed(void **state)
{
    (void)state;
    struct kid kid;
    int socket = kid_start_runner(&kid, NULL);
    assert_int_equal(write(socket, "hang", 4), 4);
    launcher_kill(launcher, &kid.child, SIGKILL);
    int status = kid_await_end(&kid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(kid.end.killed_run, 0);
    close(socket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        launcher_test(a_program_has_its_arguments_and_its_environment_and_no_other),
        launcher_test(the_end_of_a_program_is_told_as_it_was),
        launcher_test(what_cannot_be_executed_is_told_with_its_reason),
        launcher_test(a_runner_process_talks_over_its_socket_until_it_ends),
        launcher_test(a_runner_process_can_be_killed),
    };
    return cmocka_run_group_tests_name("zygote", tests, NULL, NULL);
}
