/* A result as one JSON object, and back (result_read.h). Its names stay as they are; a member that changes its meaning
 * raises "version". Times are seconds, histograms are pairs of the largest value in microseconds and how many, without
 * those that are 0. What is not known is null or 0. Pure. */
#ifndef WORKER_DRY_RUN_RESULT_JSON_H
#define WORKER_DRY_RUN_RESULT_JSON_H

#include "base/buffer.h"
#include "worker/dry_run/result/result.h"

/* Appends it without a line end. What is appended cannot steer a terminal. */
void result_json_write(const struct result *result, struct buffer *out);

#endif
