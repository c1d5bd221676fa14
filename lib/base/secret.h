/* Reads passwords from a private file, or from the environment; never from the configuration. The command line may have
 * one in an address, which is overwritten there (redis_address_hide).
 *
 * A private file belongs to this user or to root, and nobody else has access to it. Of root's files, a group that this
 * process is in may read them: so Kubernetes gives its secrets to a process of another user. The file may be reached
 * by symbolic links. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <sys/stat.h>

#include "base/error.h"

/* False, with a reason, unless the file is private. */
bool secret_facts(const struct stat *facts, const char *path, struct error *error) MUST_CHECK;

/* The first line of the file, which the caller frees with secret_free; NULL with a reason that does not quote it. */
char *secret_read_file(const char *path, struct error *error) MUST_CHECK;
/* The same of an HTTP server's token, which has at least 16 characters, because others may guess. */
char *secret_read_token(const char *path, struct error *error) MUST_CHECK;
char *secret_read_environment(const char *name, struct error *error) MUST_CHECK;
/* Overwrites and frees. NULL is harmless. */
void secret_free(char *secret);

#endif
