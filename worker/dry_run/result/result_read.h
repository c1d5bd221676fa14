/* The JSON of a result (result_json.h) as a result again: to compare two, for the runs of a what-if, for a page that is
 * made later. What is no such JSON, is cut off, or comes from a later version is refused with a text that says what is
 * wrong and where; nothing in it is believed that would not fit. */
#ifndef WORKER_DRY_RUN_RESULT_READ_H
#define WORKER_DRY_RUN_RESULT_READ_H

#include <stddef.h>

#include "base/error.h"
#include "worker/dry_run/result/result.h"

/* `result` is overwritten; after a failure it is empty, else result_fini frees it. Members that it does not know are
 * passed over. Pure. */
bool result_read(const char *bytes, size_t length, struct result *result, struct error *error) MUST_CHECK;
/* The file of that name, "-" for standard input; at most RESULT_FILE_MAX bytes. Blocks. */
bool result_read_file(const char *path, struct result *result, struct error *error) MUST_CHECK;

enum { RESULT_FILE_MAX = 64 * 1024 * 1024 };

#endif
