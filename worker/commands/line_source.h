/* Lines of a file descriptor, for a loop that must not block on it: a thread of its own reads ahead, two chunks at
 * most, and notifies the loop.
 *
 *     struct line_source *source = line_source_start(loop, 0, line_max, ready, context, &error);
 *     ready:  while (line_source_next(source, &line) == LINE_READ) ...     until LINE_NONE, or as long as one likes
 *     line_source_stop(source); loop_destroy(loop); line_source_free(source);
 *
 * Threads: the loop's only; line_source_free after the loop is gone. */
#ifndef WORKER_LINE_SOURCE_H
#define WORKER_LINE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"

struct line_source;

enum line_found {
    LINE_READ,     /* `text` is valid until the next call */
    LINE_TOO_LONG, /* there was one of more than line_max bytes; `text` is its beginning */
    LINE_NONE,     /* not now: `ready` will be called */
    LINE_END,      /* there are no more */
    LINE_FAILED,   /* reading failed: line_source_reason */
};

struct line {
    const char *text; /* without the newline */
    size_t length;
};

struct line_source *line_source_start(struct loop *loop, int fd, size_t line_max, void (*ready)(void *context),
                                      void *context, struct error *error) MUST_CHECK;
enum line_found line_source_next(struct line_source *source, struct line *line);
uint64_t line_source_bytes(const struct line_source *source); /* in the lines that were given out */
const char *line_source_reason(const struct line_source *source);
/* Ends the thread, also one that waits for input. */
void line_source_stop(struct line_source *source);
void line_source_free(struct line_source *source);

#endif
