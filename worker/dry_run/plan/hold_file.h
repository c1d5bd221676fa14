/* A file that says how long tasks hold, as it was measured: a duration a line, such as 5ms. Empty lines and those that
 * begin with # are passed over; an error names the file and the line. "-" is standard input. Reading blocks. */
#ifndef WORKER_DRY_RUN_HOLD_FILE_H
#define WORKER_DRY_RUN_HOLD_FILE_H

#include "base/error.h"
#include "worker/dry_run/plan/distribution.h"

enum { HOLD_FILE_LINES_MAX = 1000000 };

/* The distribution stays as it was when false. */
bool hold_file_read(const char *path, struct distribution *hold, struct error *error) MUST_CHECK;

#endif
