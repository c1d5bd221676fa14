#include "base/process.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libc has a function for it only since glibc 2.36. Its flags want Linux 5.10, so there are none. */
int process_descriptor(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0U);
}

bool process_ignores(int signal)
{
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}
