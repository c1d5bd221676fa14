#include "worker/config/trusted_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static bool group_is_private(const struct stat *facts)
{
    uid_t user = geteuid();
    return user != 0 && facts->st_uid == user && facts->st_gid == getegid() && facts->st_gid == user;
}

bool trusted_facts(const struct stat *facts, const char *path, const char *stake, struct error *error)
{
    mode_t refused = facts->st_mode & (group_is_private(facts) ? S_IWOTH : S_IWGRP | S_IWOTH);
    if (facts->st_uid != 0 && geteuid() == 0)
        return error_set(error,
                         "%.250s: belongs to user %u; it %s, so for root it has to belong to root: chown it, or "
                         "do this as that user (runuser -u)",
                         path, (unsigned)facts->st_uid, stake);
    if (facts->st_uid != 0 && facts->st_uid != geteuid())
        return error_set(error, "%.250s: belongs to user %u; it %s, so it has to belong to root or to user %u", path,
                         (unsigned)facts->st_uid, stake, (unsigned)geteuid());
    if (refused != 0)
        return error_set(error, "%.160s: %s may write it (mode %03o), and it %s; chmod go-w %.160s", path,
                         (refused & S_IWOTH) != 0 ? "others" : "its group", (unsigned)facts->st_mode & 0777, stake,
                         path);
    return true;
}

/* Programs are checked at each start, so what matters only for a directory that would be refused comes last. */
static bool directory_is_trusted(const char *directory, struct error *error)
{
    struct error refusal = ERROR_NONE;
    struct stat facts;
    struct statvfs system;
    if (stat(directory, &facts) != 0)
        return error_set(error, "%.250s: this directory cannot be examined: %s", directory, strerror(errno));
    if ((facts.st_mode & S_ISVTX) != 0)
        facts.st_mode &= ~(mode_t)(S_IWGRP | S_IWOTH);
    if (trusted_facts(&facts, directory, "holds what must not be replaced", &refusal))
        return true;
    if (statvfs(directory, &system) == 0 && (system.f_flag & ST_RDONLY) != 0)
        return true;
    return error_set(error, "%s", refusal.text);
}

/* Cuts `path` to its directory. */
static const char *directory_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return ".";
    slash[slash == path] = '\0';
    return path;
}

bool trusted_file(int fd, const char *path, const char *stake, struct error *error)
{
    char given[PATH_MAX], real[PATH_MAX], opened[32];
    struct stat facts;
    snprintf(given, sizeof given, "%s", path);
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(opened, real, sizeof real - 1);
    if (length < 0 || fstat(fd, &facts) != 0)
        return error_set(error, "%.250s: cannot be examined: %s", path, strerror(errno));
    real[length] = '\0';
    return trusted_facts(&facts, path, stake, error) && directory_is_trusted(directory_of(given), error) &&
           (facts.st_nlink == 0 || strcmp(directory_of(real), given) == 0 || directory_is_trusted(real, error));
}
