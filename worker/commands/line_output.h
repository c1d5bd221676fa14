/* Lines for a reader that may have stopped to read, of a loop that must not block: what the file does not take now
 * stays here, up to LINE_OUTPUT_MAX bytes, and is tried again.
 *
 *     line_output_open(&output, loop, STDERR_FILENO);
 *     if (!line_output_write(&output, line, length)) ...    the file refuses it for good
 *     line_output_close(&output);
 *
 * Others may have the same file: whether their writes block is not changed.
 *
 * Threads: the loop's. */
#ifndef WORKER_LINE_OUTPUT_H
#define WORKER_LINE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/loop.h"

enum { LINE_OUTPUT_MAX = 64 * 1024 };

struct line_output {
    struct loop *loop;
    int given, own; /* `own` does not block; -1 = the file has no such descriptor */
    bool is_socket;
    struct buffer waiting;
    struct loop_timer again;
};

void line_output_open(struct line_output *output, struct loop *loop, int fd);
/* The line goes to the file, or waits, or is dropped if too many wait. False: it cannot be written (the reader has
 * gone, the disk is full). */
bool line_output_write(struct line_output *output, const char *line, size_t length);
/* Whether lines wait for the reader. */
bool line_output_waits(const struct line_output *output);
/* Drops what waits. */
void line_output_close(struct line_output *output);

#endif
