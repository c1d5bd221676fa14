#include "base/process.h"

#include <sys/syscall.h>
#include <unistd.h>

/* libc has a function for it only since glibc 2.36. Its flags want Linux 5.10, so there are none. */
int process_descriptor(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0U);
}
