#include "worker/servers/server_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { OLDEST_MAJOR = 6, OLDEST_MINOR = 2 };
static const int64_t VERSION_LIMIT_NS = 5 * NS_PER_S;

#define PACKAGES                                                                                                       \
    "install the package redis-server (Debian, Ubuntu), redis (Fedora, Arch, Alpine) or valkey, version 6.2 or "       \
    "newer; "                                                                                                          \
    "or give nodes of your own with -c FILE"

static bool is_program(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static bool path_search(const char *name, struct server_program *program)
{
    if (strchr(name, '/') != NULL)
        return snprintf(program->path, sizeof program->path, "%s", name) < (int)sizeof program->path &&
               is_program(name);
    const char *at = getenv("PATH");
    for (; at != NULL && *at != '\0'; at += *at == ':') {
        size_t length = strcspn(at, ":");
        snprintf(program->path, sizeof program->path, "%.*s/%s", (int)length, at, name);
        at += length;
        if (length > 0 && is_program(program->path))
            return true;
    }
    return false;
}

/* "Redis server v=7.0.15 sha=..." and "Valkey server v=8.0.1 ...". False when that is no version. */
static bool version_read(const char *text, unsigned *major, unsigned *minor)
{
    const char *version = strstr(text, " v=");
    return version != NULL && sscanf(version, " v=%u.%u", major, minor) == 2;
}

/* Reads until its end, or the limit. */
static void text_read(int fd, char *text, size_t size)
{
    struct instant limit = instant_after(instant_now(), VERSION_LIMIT_NS);
    size_t length = 0;
    while (length + 1 < size) {
        int64_t left_ms = instant_since(instant_now(), limit) / NS_PER_MS;
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (left_ms <= 0 || poll(&readable, 1, (int)left_ms) <= 0)
            break;
        ssize_t got = read(fd, text + length, size - 1 - length);
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    text[length] = '\0';
}

static bool version_ask(const char *path, char *text, size_t size)
{
    char *const arguments[] = {(char *)(uintptr_t)path, "--version", NULL};
    int ends[2];
    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        execv(path, arguments);
        _exit(127);
    }
    close(ends[1]);
    if (pid > 0)
        text_read(ends[0], text, size);
    close(ends[0]);
    if (pid > 0) {
        kill(pid, SIGKILL); /* one that has ended waits for us, so its number is its own */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return pid > 0;
}

static bool is_new_enough(struct server_program *program, struct error *error)
{
    char text[512];
    if (!version_ask(program->path, text, sizeof text))
        return error_set(error, "%s: cannot be started: %s", program->path, strerror(errno));
    if (!version_read(text, &program->major, &program->minor))
        return error_set(error, "%s: does not say its version when it is started with --version: " PACKAGES,
                         program->path);
    if (program->major < OLDEST_MAJOR || (program->major == OLDEST_MAJOR && program->minor < OLDEST_MINOR))
        return error_set(error, "%s: version %u.%u is too old: " PACKAGES, program->path, program->major,
                         program->minor);
    return true;
}

bool server_program_find(struct server_program *program, struct error *error)
{
    static const char *const usual[] = {"redis-server", "valkey-server"};
    const char *named = getenv("REDIS_SERVER");
    bool is_named = named != NULL && *named != '\0';
    struct error reason = ERROR_NONE;
    *program = (struct server_program){.path = ""};
    for (size_t i = 0; i < (is_named ? 1 : sizeof usual / sizeof usual[0]); i++) {
        if (path_search(is_named ? named : usual[i], program) && is_new_enough(program, &reason))
            return true;
    }
    if (is_named)
        error_set(&reason, "REDIS_SERVER=%s: there is no such program: name another, or unset it", named);
    error_set(&reason, "private nodes need a server program, and there is no redis-server or valkey-server in the "
                       "PATH: " PACKAGES);
    return error_set(error, "%s", reason.text);
}
