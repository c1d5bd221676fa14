#include "worker/dry_run/apart.h"

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

int apart_do(int (*act)(void *context, int descriptor), void *context, struct buffer *output)
{
    int ends[2], status;
    pid_t parent = getpid();
    fflush(NULL); /* else both would write what is still in memory */
    if (pipe2(ends, O_CLOEXEC) != 0)
        return APART_DIED;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        child_act(act, context, ends[1], parent);
    }
    close(ends[1]);
    if (child > 0)
        output_read(ends[0], output);
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return APART_DIED;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : APART_DIED;
}
