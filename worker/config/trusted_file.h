/* Whoever may change code, or a text that names code, can run anything as the worker. So such a file and its directory
 * must belong to root or to the user of this process, and nobody else may write to them. A sticky directory (as /tmp)
 * or one that is mounted read-only will do. The directories above are the administrator's business. A file without
 * links (of memfd_create) lies in none. */
#ifndef WORKER_TRUSTED_FILE_H
#define WORKER_TRUSTED_FILE_H

#include <sys/stat.h>

#include "base/error.h"

struct trust {
    const char *what; /* behind "it": what is at stake */
    /* The group of a user without privileges may write what belongs to both: such groups usually have one member, and
     * then some systems let it write all new files (umask 002). */
    bool own_group;
};

bool trusted_facts(const struct stat *facts, const char *path, const struct trust *trust,
                   struct error *error) MUST_CHECK;
/* A file that is open, and the directories that it was opened in and lies in (`path` may be a symbolic link). */
bool trusted_file(int fd, const char *path, const struct trust *trust, struct error *error) MUST_CHECK;

#endif
