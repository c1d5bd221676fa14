#include "tests/support/push_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/test.h"

char port[16];
struct program_result result;

int push_set_up(void **state)
{
    (void)state;
    redis_server_heal(server);
    snprintf(port, sizeof port, "%u", redis_server_port(server));
    result = (struct program_result){.exit_code = 0};
    return 0;
}

int push_tear_down(void **state)
{
    (void)state;
    program_result_free(&result);
    return 0;
}

/* --- running it --------------------------------------------------------------------------------------------- */

void complete(const char *const *words, const char *arguments[ARGUMENTS_MAX])
{
    int count = 0;
    arguments[count++] = "push";
    arguments[count++] = "-p";
    arguments[count++] = port;
    arguments[count++] = "--node-timeout=20s"; /* on a busy machine; the words may say another */
    while (*words != NULL && count < ARGUMENTS_MAX - 1)
        arguments[count++] = *words++;
    arguments[count] = NULL;
}

void push_from(const char *const *words, int input)
{
    const char *arguments[ARGUMENTS_MAX];
    complete(words, arguments);
    program_result_free(&result);
    result = program_run_arguments(arguments, input);
}

void push(const char *const *words)
{
    push_from(words, -1);
}

int input_of(const char *bytes, size_t length)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    assert_int_equal(write(fd, bytes, length), (ssize_t)length);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

void push_text(const char *const *words, const char *text)
{
    push_from(words, input_of(text, strlen(text)));
}

void assert_exit(int code)
{
    if (result.exit_code != code)
        fail_msg("exit code %d, not %d: %s%s", result.exit_code, code, result.out, result.error);
}

void assert_length(const char *queue, long long length)
{
    char command[64];
    snprintf(command, sizeof command, "LLEN queue:%s", queue);
    assert_int_equal(queue_probe_number(server, command), length);
}
