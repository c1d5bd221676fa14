#include "tests/support/program_run.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "tests/support/test.h"

enum { ARGUMENTS_MAX = 32, PATIENCE_S = 120 };

static void child_run(const char *const *arguments, int input, int out, int error)
{
    char program[4096], *all[ARGUMENTS_MAX + 2] = {program};
    snprintf(program, sizeof program, "%s/holdfast", test_build());
    for (int i = 0; i < ARGUMENTS_MAX && arguments[i] != NULL; i++)
        all[i + 1] = (char *)(uintptr_t)arguments[i];
    dup2(input >= 0 ? input : open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    dup2(out, 1);
    dup2(error, 2);
    alarm(PATIENCE_S); /* survives exec */
    execv(program, all);
    _exit(127);
}

/* A file in memory takes any amount, so that the child never waits for a reader. */
static char *content_of(int fd)
{
    off_t length = lseek(fd, 0, SEEK_END);
    char *text = memory_zeroed(1, (size_t)length + 1);
    invariant(pread(fd, text, (size_t)length, 0) == length);
    return text;
}

static char *content_take(int fd)
{
    char *text = content_of(fd);
    close(fd);
    return text;
}

struct program program_start_to(const char *const *arguments, int input, int out)
{
    struct program program = {.out = out, .error = memfd_create("error", MFD_CLOEXEC)};
    program.pid = fork();
    invariant(program.out >= 0 && program.error >= 0 && program.pid >= 0);
    if (program.pid == 0)
        child_run(arguments, input, program.out, program.error);
    if (input >= 0)
        close(input);
    return program;
}

struct program program_start(const char *const *arguments, int input)
{
    return program_start_to(arguments, input, memfd_create("out", MFD_CLOEXEC));
}

struct program_result program_wait(struct program *program)
{
    int status = 0;
    invariant(waitpid(program->pid, &status, 0) == program->pid);
    return (struct program_result){.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                                   .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                                   .out = content_take(program->out),
                                   .error = content_take(program->error)};
}

char *program_error_text(const struct program *program)
{
    int copy = dup(program->error);
    invariant(copy >= 0);
    return content_take(copy);
}

struct program_result program_run_arguments(const char *const *arguments, int input)
{
    struct program program = program_start(arguments, input);
    return program_wait(&program);
}

struct program_result program_run(const char *line)
{
    const char *arguments[ARGUMENTS_MAX + 1] = {NULL};
    char *copy = memory_text(line), *rest = copy;
    int count = 0;
    for (char *argument; (argument = strsep(&rest, " ")) != NULL && count < ARGUMENTS_MAX;)
        if (argument[0] != '\0')
            arguments[count++] = argument;
    struct program_result result = program_run_arguments(arguments, -1);
    free(copy);
    return result;
}

void program_result_free(struct program_result *result)
{
    free(result->out);
    free(result->error);
}
