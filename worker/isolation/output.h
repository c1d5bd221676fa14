/* What a child writes to its standard output or standard error, line by line.
 *
 *     int ends[2];
 *     output_pipe(ends)                              ends[1] goes to the child, and is closed here when it was spawned
 *     struct output *output = output_open(loop, ends[0], &budget, told, context);
 *     ... told(context, line, length) ... told(context, NULL, 0) once, when nobody can write any more
 *     output_drain(output);                          when the child has ended or its run is over
 *     output_close(output);
 *
 * A child may write anything: no line end at all, bytes that are no text, a gigabyte, or nothing while somebody that
 * it left behind keeps the pipe. So a line is told up to its first OUTPUT_LINE_MAX bytes, at most OUTPUT_TURN_MAX bytes
 * are read in a turn of the loop, and nobody has to wait for the end. What is told is limited by a budget, which the
 * streams of one run share; beyond it lines are read, counted and dropped. The lines are not text: whoever shows them
 * quotes them (log_value_bytes). Empty lines are not told.
 *
 * Threads: the loop's. */
#ifndef WORKER_OUTPUT_H
#define WORKER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/loop.h"

enum {
    OUTPUT_LINE_MAX = LOG_QUOTE_MAX, /* so much of a line that the log shows that it was cut */
    OUTPUT_TURN_MAX = 64 * 1024,
    OUTPUT_DRAIN_MAX = 1024 * 1024,
    OUTPUT_RUN_LINES_MAX = 1000,
    OUTPUT_RUN_BYTES_MAX = 256 * 1024,
};

/* What one run has said so far. Zeroed = nothing; that is how its owner begins the next run. */
struct output_budget {
    unsigned lines; /* that were told */
    size_t bytes;   /* of them, in full length */
    uint64_t dropped_lines, dropped_bytes;
};

struct output;

/* A pipe that a child may inherit: both ends are closed by exec (the child's copy is not), and reading does not block.
 * False when there is no descriptor left; errno says so. */
bool output_pipe(int ends[2]) MUST_CHECK;

/* `fd` does not block and belongs to the output from now on. `told` may ask for output_last and output_close, the
 * latter only when `line` is NULL. */
struct output *output_open(struct loop *loop, int fd, struct output_budget *budget,
                           void (*told)(void *context, const char *line, size_t length), void *context);
/* The same, but nothing is read before output_watch or output_drain: for a child that has probably ended by then, so
 * that the loop need not wake up for each of its pipes. */
struct output *output_open_unwatched(struct loop *loop, int fd, struct output_budget *budget,
                                     void (*told)(void *context, const char *line, size_t length), void *context);
void output_watch(struct output *output);
/* Reads what is there, without waiting and at most OUTPUT_DRAIN_MAX, and tells a line that has not ended as one. The
 * end of the stream, if it is met, is told too, and `told` may then not close. */
void output_drain(struct output *output);
/* Nothing is told any more. NULL is fine. */
void output_close(struct output *output);

/* The last line that was not empty, also when it was dropped; up to OUTPUT_LINE_MAX bytes. Length 0 = there was none.
 * Valid until the next turn. */
const char *output_last(const struct output *output, size_t *length);

/* For the log: `job_output jid=... class=... stream=... text=...`, and the line about what was dropped, if anything. */
void output_log(const char *jid, const char *class_name, const char *stream, const char *line, size_t length);
void output_log_dropped(const char *jid, const char *class_name, const struct output_budget *budget);

#endif
