/* The report of a dry run for a terminal or a file of text: the plain answer first, then what it was found by. Pure. */
#ifndef WORKER_DRY_RUN_RESULT_TEXT_H
#define WORKER_DRY_RUN_RESULT_TEXT_H

#include <stdbool.h>

#include "base/buffer.h"
#include "worker/dry_run/report/result.h"

/* What is no terminal gets lines of this width; a terminal gets its own, within the bounds. */
enum { RESULT_TEXT_WIDTH = 100, RESULT_TEXT_WIDTH_MIN = 60, RESULT_TEXT_WIDTH_MAX = 140 };

/* Appends the lines, each with a line end and at most `width` wide. */
void result_text_write(const struct result *result, unsigned width, bool has_colour, struct buffer *out);

#endif
