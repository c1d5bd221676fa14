/* The call stack of a handler as lines of text, and its encoding for the record of a task.
 *
 *     backtrace_capture(&trace, lines);      inside the handler's call into the host
 *     backtrace_encode((const char *const *)trace.lines, trace.count, &out);
 *     backtrace_clear(&trace);
 *
 * A line is OBJECT(FUNCTION+OFFSET), or OBJECT(+OFFSET) for a function that is not exported, which addr2line(1) and
 * gdb(1) turn into a line of source. Any thread; one at a time for each struct. */
#ifndef WORKER_BACKTRACE_H
#define WORKER_BACKTRACE_H

#include <stddef.h>

#include "base/buffer.h"

enum { BACKTRACE_LINE_MAX = 512 }; /* bytes; longer ones are cut */

/* Zeroed = empty. */
struct backtrace {
    char **lines; /* the innermost call first */
    size_t count;
};

/* Captures up to `lines` frames of the code that called into this program, from the innermost to the one that this
 * program called. Replaces the content. Allocates, and the first call loads a library: not for signal handlers. */
void backtrace_capture(struct backtrace *backtrace, size_t lines);
void backtrace_clear(struct backtrace *backtrace);

/* Appends the error_backtrace of the job format: base64 of zlib of a JSON array of the lines. Omits lines at the end
 * to stay below 64 KiB. */
void backtrace_encode(const char *const *lines, size_t count, struct buffer *out);

#endif
