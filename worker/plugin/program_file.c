#include "worker/plugin/program_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "worker/config/trusted_file.h"

/* 0, or what `execve` would say; EPERM for what somebody else may change. */
static int refusal_of(int fd, const char *program, struct error *error)
{
    static const struct trust trust = {.what = "runs with the worker's rights"};
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        error_set(error, "%.250s: %m", program);
        return EACCES;
    }
    if (!S_ISREG(facts.st_mode)) {
        error_set(error, "%.250s is no regular file", program);
        return EACCES;
    }
    if (!trusted_file(fd, program, &trust, error))
        return EPERM;
    if (faccessat(fd, "", X_OK, AT_EACCESS | AT_EMPTY_PATH) == 0)
        return 0;
    error_set(error, "%.250s cannot be executed (mode %03o); chmod +x it", program, (unsigned)facts.st_mode & 0777);
    return EACCES;
}

int program_file_open(const char *program, struct error *error)
{
    int fd = open(program, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        int failure = errno;
        error_set(error, "%.250s: %s", program, strerror(failure));
        errno = failure;
        return -1;
    }
    int refusal = refusal_of(fd, program, error);
    if (refusal == 0)
        return fd;
    close(fd);
    errno = refusal;
    return -1;
}

bool program_file_check(const char *program, const char *where, const char *key, struct findings *findings)
{
    struct error error = ERROR_NONE;
    int fd = program_file_open(program, &error);
    if (fd < 0) {
        findings_error(findings, "%s: %s: %s", where, key, error.text);
        return false;
    }
    close(fd);
    return true;
}
