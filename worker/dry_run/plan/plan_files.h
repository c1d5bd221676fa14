/* Files that say how long tasks hold and how often resources are wanted. Empty lines and those that begin with # are
 * passed over; an error names the file and the line. "-" is standard input. Reading blocks. */
#ifndef WORKER_DRY_RUN_PLAN_FILES_H
#define WORKER_DRY_RUN_PLAN_FILES_H

#include "worker/dry_run/plan/distribution.h"
#include "worker/dry_run/plan/popularity.h"

#include "base/error.h"

enum { PLAN_FILE_HOLDS_MAX = 1000000 };

/* A duration a line, as measured: "5ms". The distribution stays as it was when false. */
bool plan_file_holds(const char *path, struct distribution *hold, struct error *error) MUST_CHECK;
/* NAME WEIGHT a line: a name of a resource, which may have blanks in it, and a number above 0; at most
 * DRY_RUN_NAMED_MAX, none twice. The popularity stays as it was when false. */
bool plan_file_popularity(const char *path, struct popularity *popularity, struct error *error) MUST_CHECK;

/* UTF-8 without control characters. */
bool text_is_plain(const char *text, size_t length);
/* Whether a resource can have this name: 1 to 512 bytes of UTF-8 without control characters, not beginning "hf:". */
bool resource_name_is_sound(const char *name, size_t length);

#endif
