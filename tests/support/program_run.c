#include "tests/support/program_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/memory.h"

enum { ARGUMENTS_MAX = 32, PATIENCE_S = 30 };

static void child_run(char *line, int out, int error)
{
    char program[4096], *arguments[ARGUMENTS_MAX + 2] = {program};
    const char *build = getenv("HOLDFAST_BUILD");
    int count = 1;
    snprintf(program, sizeof program, "%s/holdfast", build != NULL ? build : "build");
    for (char *argument; (argument = strsep(&line, " ")) != NULL && count <= ARGUMENTS_MAX;)
        if (argument[0] != '\0')
            arguments[count++] = argument;
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    dup2(out, 1);
    dup2(error, 2);
    alarm(PATIENCE_S); /* survives exec */
    execv(program, arguments);
    _exit(127);
}

/* A file in memory takes any amount, so that the child never waits for a reader. */
static char *content_take(int fd)
{
    off_t length = lseek(fd, 0, SEEK_END);
    char *text = memory_zeroed(1, (size_t)length + 1);
    invariant(pread(fd, text, (size_t)length, 0) == length);
    close(fd);
    return text;
}

struct program_result program_run(const char *line)
{
    int out = memfd_create("out", MFD_CLOEXEC), error = memfd_create("error", MFD_CLOEXEC), status = 0;
    char *copy = memory_text(line);
    pid_t child = fork();
    invariant(out >= 0 && error >= 0 && child >= 0);
    if (child == 0)
        child_run(copy, out, error);
    invariant(waitpid(child, &status, 0) == child);
    free(copy);
    return (struct program_result){.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                                   .out = content_take(out),
                                   .error = content_take(error)};
}

void program_result_free(struct program_result *result)
{
    free(result->out);
    free(result->error);
}
