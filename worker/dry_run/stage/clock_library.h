/* Where the library is that steps the clock of a private node. */
#ifndef WORKER_DRY_RUN_CLOCK_LIBRARY_H
#define WORKER_DRY_RUN_CLOCK_LIBRARY_H

#include <stddef.h>

#include "base/error.h"

/* `given`, unless it is NULL; else beside this program as `make` builds it (preload/) or installs it
 * (../lib/holdfast/preload/). False, with where it was looked for. */
bool clock_library_find(const char *given, char *path, size_t size, struct error *error) MUST_CHECK;

#endif
