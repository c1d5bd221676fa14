#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum { SECRET_BYTES_MAX = 4096 };

static bool group_is_ours(gid_t group)
{
    int count = getgroups(0, NULL);
    gid_t *groups = memory_zeroed(count > 0 ? (size_t)count : 1, sizeof *groups);
    bool is_ours = group == getegid();
    count = getgroups(count, groups);
    for (int i = 0; i < count && !is_ours; i++)
        is_ours = groups[i] == group;
    free(groups);
    return is_ours;
}

bool secret_facts(const struct stat *facts, const char *path, struct error *error)
{
    bool group_may_read = facts->st_uid == 0 && group_is_ours(facts->st_gid);
    mode_t others = group_may_read ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
    if (!S_ISREG(facts->st_mode))
        return error_set(error, "%s: is not a regular file", path);
    if (facts->st_uid != geteuid() && facts->st_uid != 0)
        return error_set(error, "%s: belongs to user %u, and to be trusted it has to belong to this user or root", path,
                         (unsigned)facts->st_uid);
    if ((facts->st_mode & others) != 0)
        return error_set(error,
                         "%s: others than its owner have access to this secret (mode %03o); chmod 600 it, or 440 "
                         "if it is root's with a group of this process",
                         path, (unsigned)facts->st_mode & 0777);
    return true;
}

static bool descriptor_is_private(int fd, const char *path, struct error *error)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return error_set(error, "%s: cannot be examined: %s", path, strerror(errno));
    return secret_facts(&facts, path, error);
}

static char *first_line(const char *bytes, size_t length, const char *path, struct error *error)
{
    const char *newline = memchr(bytes, '\n', length);
    size_t used = newline != NULL ? (size_t)(newline - bytes) : length;
    if (used > 0 && bytes[used - 1] == '\r')
        used--;
    if (used == 0 || used == SECRET_BYTES_MAX || memchr(bytes, '\0', used) != NULL) {
        error_set(error, "%s: its first line is to be a password, but is empty, too long or holds a NUL byte", path);
        return NULL;
    }
    return memory_text_of(bytes, used);
}

static char *descriptor_read(int fd, const char *path, struct error *error)
{
    char bytes[SECRET_BYTES_MAX];
    ssize_t length = read(fd, bytes, sizeof bytes);
    char *secret = NULL;
    if (length < 0)
        error_set(error, "%s: cannot be read: %s", path, strerror(errno));
    else
        secret = first_line(bytes, (size_t)length, path, error);
    memory_wipe(bytes, sizeof bytes);
    return secret;
}

char *secret_read_file(const char *path, struct error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        error_set(error, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    char *secret = descriptor_is_private(fd, path, error) ? descriptor_read(fd, path, error) : NULL;
    close(fd);
    return secret;
}

char *secret_read_token(const char *path, struct error *error)
{
    enum { TOKEN_MIN = 16 };
    char *token = secret_read_file(path, error);
    if (token == NULL || strlen(token) >= TOKEN_MIN)
        return token;
    secret_free(token);
    error_set(error, "%s: a token has at least %d characters", path, TOKEN_MIN);
    return NULL;
}

char *secret_read_environment(const char *name, struct error *error)
{
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0') {
        error_set(error, "the environment variable %s is not set", name);
        return NULL;
    }
    return memory_text(value);
}

void secret_free(char *secret)
{
    if (secret != NULL)
        memory_wipe(secret, strlen(secret));
    free(secret);
}
