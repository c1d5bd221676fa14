/* A program that the configuration names: whether a worker may start it. Who may change it may run code as the
 * worker, so it has to belong to root or to the worker's user, and be writable by nobody else. */
#ifndef WORKER_PROGRAM_FILE_H
#define WORKER_PROGRAM_FILE_H

#include <stdbool.h>

#include "worker/config/findings.h"

/* `where` is the file and line of the setting `key` that names it. */
bool program_file_check(const char *program, const char *where, const char *key, struct findings *findings);

#endif
