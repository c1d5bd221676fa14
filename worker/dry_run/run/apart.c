#include "worker/dry_run/run/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 65536 };

static _Noreturn void child_act(int (*act)(void *context, int descriptor), void *context, int descriptor, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(APART_DIED);
    int status = act(context, descriptor);
    fflush(NULL);
    _exit(status);
}

static void output_read(int descriptor, struct buffer *output)
{
    for (;;) {
        ssize_t length = read(descriptor, buffer_reserve(output, READ_BYTES), READ_BYTES);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0)
            return;
        output->length += (size_t)length;
    }
}

static int child_end(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return APART_DIED;
    return WIFEXITED(status) ? WEXITSTATUS(status) : APART_DIED;
}

/* Returns the child, which writes to what `descriptor` reads; -1 = there is none. */
static pid_t child_begin(int (*act)(void *context, int descriptor), void *context, int *descriptor)
{
    int ends[2];
    pid_t parent = getpid();
    fflush(NULL); /* else both would write what is still in memory */
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        child_act(act, context, ends[1], parent);
    }
    close(ends[1]);
    if (child < 0)
        close(ends[0]);
    *descriptor = ends[0];
    return child;
}

int apart_do(int (*act)(void *context, int descriptor), void *context, struct buffer *output)
{
    int descriptor;
    pid_t child = child_begin(act, context, &descriptor);
    if (child < 0)
        return APART_DIED;
    output_read(descriptor, output);
    close(descriptor);
    return child_end(child);
}

/* --- interrupts --------------------------------------------------------------------------------------------------- */

static sigset_t interrupts(void)
{
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    return both;
}

void interrupts_hold(void)
{
    sigset_t both = interrupts();
    sigprocmask(SIG_BLOCK, &both, NULL);
}

void interrupts_hear(void)
{
    sigset_t both = interrupts();
    sigprocmask(SIG_UNBLOCK, &both, NULL);
}

/* --- with signals for the child ----------------------------------------------------------------------------------- */

static volatile pid_t forward_to; /* 0 = no process */

static void forward(int number)
{
    int before = errno;
    if (forward_to > 0)
        kill(forward_to, number);
    errno = before;
}

struct interruptible {
    int (*act)(void *context, int descriptor);
    void *context;
    sigset_t before;
};

/* Out of the terminal's group: else it would get from there what is forwarded to it as well. */
static int act_in_group(void *context, int descriptor)
{
    const struct interruptible *own = context;
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &own->before, NULL);
    return own->act(own->context, descriptor);
}

int apart_do_interruptible(int (*act)(void *context, int descriptor), void *context, struct buffer *output)
{
    const struct sigaction to_child = {.sa_handler = forward, .sa_flags = SA_RESTART};
    struct sigaction interrupt, termination;
    struct interruptible own = {.act = act, .context = context};
    sigset_t both = interrupts();
    int descriptor;
    sigprocmask(SIG_BLOCK, &both, &own.before);
    pid_t child = child_begin(act_in_group, &own, &descriptor);
    if (child < 0) {
        sigprocmask(SIG_SETMASK, &own.before, NULL);
        return APART_DIED;
    }
    forward_to = child;
    sigaction(SIGINT, &to_child, &interrupt);
    sigaction(SIGTERM, &to_child, &termination);
    sigprocmask(SIG_UNBLOCK, &both, NULL);
    output_read(descriptor, output);
    close(descriptor);
    int status = child_end(child);
    sigprocmask(SIG_BLOCK, &both, NULL);
    forward_to = 0;
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGTERM, &termination, NULL);
    sigprocmask(SIG_SETMASK, &own.before, NULL);
    return status;
}
