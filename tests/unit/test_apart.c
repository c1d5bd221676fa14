/* What is done in a child process: what it brings back, and whose the signals are meanwhile. */
#include "worker/dry_run/run/apart.h"

#include "tests/support/test.h"

enum { DEADLINE_S = 10, CODE = 7 };

static int tell(void *context, int descriptor)
{
    return write(descriptor, context, strlen(context)) > 0 ? CODE : 1;
}

static int die(void *context, int descriptor)
{
    (void)context, (void)descriptor;
    return raise(SIGKILL);
}

TEST(what_it_wrote_and_its_code_come_back)
{
    struct buffer output = {0};
    assert_int_equal(apart_do(tell, (char[]){"one"}, &output), CODE);
    assert_int_equal(apart_do_interruptible(tell, (char[]){" two"}, &output), CODE);
    assert_string_equal(buffer_text(&output), "one two");
    buffer_fini(&output);
}

TEST(who_dies_is_told)
{
    struct buffer output = {0};
    assert_int_equal(apart_do(die, NULL, &output), APART_DIED);
    assert_int_equal(apart_do_interruptible(die, NULL, &output), APART_DIED);
    buffer_fini(&output);
}

static volatile sig_atomic_t interrupts;

static void interrupted(int number)
{
    (void)number;
    interrupts++;
}

/* As a terminal does it, but only to the caller. */
static int interrupt_caller(void *context, int descriptor)
{
    sigset_t both, before;
    int number = *(int *)context;
    signal(number, interrupted);
    alarm(DEADLINE_S);
    sigemptyset(&both);
    sigaddset(&both, number);
    sigprocmask(SIG_BLOCK, &both, &before);
    kill(getppid(), number);
    while (interrupts == 0)
        sigsuspend(&before);
    if (getpgrp() != getpid())
        return 1;
    return tell((char[]){"interrupted"}, descriptor);
}

TEST(an_interrupt_is_for_the_child)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct buffer output = {0};
        struct sigaction now;
        int number = numbers[i];
        assert_int_equal(apart_do_interruptible(interrupt_caller, &number, &output), CODE);
        assert_string_equal(buffer_text(&output), "interrupted");
        assert_int_equal(sigaction(number, NULL, &now), 0);
        assert_true(now.sa_handler == SIG_DFL);
        buffer_fini(&output);
    }
}

RUN_TESTS
