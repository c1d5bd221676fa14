/* The first process of a container: it reaps, passes signals on, and ends as its command does. Here it inherits orphans
 * as a subreaper, which needs no namespace. */
#include "tests/support/test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "worker/first_process.h"

enum { LOOK_MS = 10, STATUS_GOOD = 7, STATUS_BAD = 8 };

/* Whether nothing is left of the process, not even a zombie. */
static bool becomes_nothing(pid_t pid)
{
    struct instant limit = instant_after(instant_now(), TEST_PATIENCE_NS / 4);
    bool is_there = true;
    while ((is_there = kill(pid, 0) == 0 || errno != ESRCH) && instant_before(instant_now(), limit))
        poll(NULL, 0, LOOK_MS);
    return !is_there;
}

/* The pid of a process that has lost its parent. */
static pid_t orphan_make(void)
{
    int ends[2];
    pid_t orphan = -1;
    if (pipe(ends) != 0)
        return -1;
    pid_t parent = fork();
    if (parent == 0) {
        orphan = fork();
        if (orphan > 0)
            (void)!write(ends[1], &orphan, sizeof orphan);
        _exit(0);
    }
    bool is_known = waitpid(parent, NULL, 0) == parent && read(ends[0], &orphan, sizeof orphan) == sizeof orphan;
    return is_known ? orphan : -1;
}

static int orphan_left(void)
{
    pid_t orphan = orphan_make();
    return orphan > 0 && becomes_nothing(orphan) ? STATUS_GOOD : STATUS_BAD;
}

static int terminated(void)
{
    sigset_t set;
    const struct timespec patience = {.tv_sec = 30};
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    kill(getppid(), SIGTERM);
    return sigtimedwait(&set, NULL, &patience) == SIGTERM ? STATUS_GOOD : STATUS_BAD;
}

static int killed(void)
{
    return kill(getpid(), SIGKILL);
}

/* The status with which the first process ends when this is its command. */
static int status_of(int (*command)(void))
{
    int status = 0;
    pid_t first = fork();
    if (first == 0) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_BLOCK, &set, NULL); /* the command waits for it */
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        first_process_become();
        _exit(command());
    }
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(the_first_process_reaps_what_it_inherits)
{
    assert_int_equal(status_of(orphan_left), STATUS_GOOD);
}

TEST(the_first_process_passes_signals_on)
{
    assert_int_equal(status_of(terminated), STATUS_GOOD);
}

TEST(the_first_process_ends_as_its_command_does)
{
    assert_int_equal(status_of(killed), 128 + SIGKILL);
}

RUN_TESTS
