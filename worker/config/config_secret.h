/* Passwords: read from a file that only its owner can see, or from the environment; never from the configuration,
 * the command line or the log. */
#ifndef WORKER_CONFIG_SECRET_H
#define WORKER_CONFIG_SECRET_H

#include "base/error.h"

/* The first line of the file, to be wiped and freed by the caller; NULL with a reason that does not quote it. */
char *secret_read_file(const char *path, struct error *error) MUST_CHECK;
char *secret_read_environment(const char *name, struct error *error) MUST_CHECK;
/* Overwrites and frees. NULL is fine. */
void secret_free(char *secret);

#endif
