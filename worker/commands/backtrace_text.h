/* error_backtrace of a failed task: a JSON array of lines, deflated (zlib's format), in base64. Pure. */
#ifndef WORKER_BACKTRACE_TEXT_H
#define WORKER_BACKTRACE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* Appends the JSON array. Takes base64 with line breaks too, which older producers wrote. False, with `out` as it was,
 * when the text is nothing of the kind or would unfold to more than a mebibyte. */
bool backtrace_read(const char *text, size_t length, struct buffer *out) MUST_CHECK;

#endif
