/* A result as one JSON object, and back: to compare two, to join those of several hosts, for the runs of a what-if. Its
 * names stay as they are; a member that changes its meaning raises "format_version". Times are seconds. What is not
 * known is null or 0. Pure, but for reading files. */
#ifndef WORKER_DRY_RUN_RESULT_JSON_H
#define WORKER_DRY_RUN_RESULT_JSON_H

#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"
#include "worker/dry_run/plan/json_rows.h"
#include "worker/dry_run/report/result.h"

/* What a result has in it beside its plan. */
extern const struct json_row result_rows[], result_second_rows[];

/* Appends it without a line end. What is appended cannot steer a terminal. */
void result_json_write(const struct result *result, struct buffer *out);

enum { RESULT_FILE_MAX = 64 * 1024 * 1024 };

/* What is no such JSON, is cut off, or comes from a later version is refused with a text that says what is wrong and
 * where; nothing in it is believed that would not fit. `result` is overwritten; after a failure it is empty, else
 * result_fini frees it. Members that it does not know are passed over. */
bool result_read(const char *bytes, size_t length, struct result *result, struct error *error) MUST_CHECK;
/* All of the file, at most RESULT_FILE_MAX bytes. Blocks, as what follows. */
bool result_read_stream(FILE *file, struct result *result, struct error *error) MUST_CHECK;
/* The file of that name, "-" for standard input. */
bool result_read_file(const char *path, struct result *result, struct error *error) MUST_CHECK;

#endif
