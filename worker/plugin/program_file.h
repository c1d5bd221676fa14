/* A program that the configuration names: whether a worker may start it. It has to be trusted (trusted_file.h). This is
 * looked at when the configuration is read, and again at each start, where the descriptor that was looked at is run. */
#ifndef WORKER_PROGRAM_FILE_H
#define WORKER_PROGRAM_FILE_H

#include <stdbool.h>

#include "base/error.h"
#include "worker/config/findings.h"

/* A descriptor (O_PATH); -1 with errno, which is EPERM when somebody else may change the program. */
int program_file_open(const char *program, struct error *error) MUST_CHECK;
/* `where` is the file and line of the setting `key` that names it. */
bool program_file_check(const char *program, const char *where, const char *key, struct findings *findings);

#endif
