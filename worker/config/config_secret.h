/* Reads passwords from a file that only its owner can read, or from the environment; never from the configuration.
 * The command line may have one in an address, which is overwritten there (redis_address_hide). */
#ifndef WORKER_CONFIG_SECRET_H
#define WORKER_CONFIG_SECRET_H

#include "base/error.h"

/* The first line of the file, which the caller frees with secret_free; NULL with a reason that does not quote it. */
char *secret_read_file(const char *path, struct error *error) MUST_CHECK;
/* The same of an HTTP server's token, which has at least 16 characters, because others may guess. */
char *secret_read_token(const char *path, struct error *error) MUST_CHECK;
char *secret_read_environment(const char *name, struct error *error) MUST_CHECK;
/* Overwrites and frees. NULL is harmless. */
void secret_free(char *secret);

#endif
