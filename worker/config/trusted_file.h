/* A user who can change code, or a text that names code, can run anything as the worker. So such a file and its
 * directory must belong to root or to the user of this process, and no one else may write to them. A sticky
 * directory (as /tmp) or one that is mounted read-only is acceptable. The administrator is responsible for the
 * directories above. A file without links (of memfd_create) is in no directory. */
#ifndef WORKER_TRUSTED_FILE_H
#define WORKER_TRUSTED_FILE_H

#include <sys/stat.h>

#include "base/error.h"

struct trust {
    const char *what; /* follows "it" in errors: what is at stake */
    /* The group of an unprivileged user may write a file with the same owner and group: such groups usually have one
     * member, and some systems let them write all new files (umask 002). */
    bool own_group;
};

bool trusted_facts(const struct stat *facts, const char *path, const struct trust *trust,
                   struct error *error) MUST_CHECK;
/* Checks an open file, the directory of `path`, and the directory of the file (`path` may be a symbolic link). */
bool trusted_file(int fd, const char *path, const struct trust *trust, struct error *error) MUST_CHECK;

#endif
