#include "worker/isolation/child_end.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

void child_end_describe(int wait_status, char *text, size_t size)
{
    if (!WIFSIGNALED(wait_status)) {
        snprintf(text, size, "exited with status %d", WEXITSTATUS(wait_status));
        return;
    }
    int number = WTERMSIG(wait_status);
    const char *name = sigdescr_np(number);
    snprintf(text, size, "was killed by signal %d (%s)%s", number, name != NULL ? name : "unknown",
             number == SIGKILL ? "; the kernel does so when memory is short" : "");
}
