/* A user who can change code, or a text that names code, can run anything as the worker. So such a file and its
 * directory must belong to root or to the user of this process, and no one else may write to them. A sticky
 * directory (as /tmp) or one that is mounted read-only is acceptable. The administrator is responsible for the
 * directories above. A file without links (of memfd_create) is in no directory.
 *
 * The private group of an unprivileged user is no one else: it has the number of the user, as Debian makes it, and then
 * a umask of 002 lets it write all new files. Any other group may have more members. */
#ifndef WORKER_TRUSTED_FILE_H
#define WORKER_TRUSTED_FILE_H

#include <sys/stat.h>

#include "base/error.h"

/* `stake` follows "it" in errors: what an intruder would gain. */
bool trusted_facts(const struct stat *facts, const char *path, const char *stake, struct error *error) MUST_CHECK;
/* Checks an open file, the directory of `path`, and the directory of the file (`path` may be a symbolic link). */
bool trusted_file(int fd, const char *path, const char *stake, struct error *error) MUST_CHECK;

#endif
