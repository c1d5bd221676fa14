/* What a child writes to its standard output or standard error, line by line.
 *
 *     int ends[2];
 *     output_pipe(ends)                              ends[1] goes to the child; close it after the spawn
 *     struct output *output = output_open(loop, ends[0], &budget, told, context);
 *     ... told(context, line, length) ... told(context, NULL, 0) once, at the end of the stream
 *     output_drain(output);                          when the child or its run has ended
 *     output_close(output);
 *
 * A child may write anything: no line end at all, binary data, a gigabyte, or nothing while a process that it left
 * behind keeps the pipe open. So `told` gets at most OUTPUT_LINE_MAX bytes of a line, a cycle of the loop reads at most
 * OUTPUT_CYCLE_MAX bytes, and the owner never has to wait for the end. The streams of one run share a budget; beyond it
 * lines are read, counted and dropped. The lines may be binary: quote them before showing them (log_value_bytes). Empty
 * lines are skipped.
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
    OUTPUT_LINE_MAX = LOG_QUOTE_MAX, /* enough that the log shows that a line was cut */
    OUTPUT_CYCLE_MAX = 64 * 1024,
    OUTPUT_DRAIN_MAX = 1024 * 1024,
    OUTPUT_RUN_LINES_MAX = 1000,
    OUTPUT_RUN_BYTES_MAX = 256 * 1024,
};

/* The output of one run so far. Its owner zeroes it before the next run. */
struct output_budget {
    unsigned lines; /* those reported */
    size_t bytes;   /* of those lines, uncut */
    uint64_t dropped_lines, dropped_bytes;
};

struct output;

/* Makes a pipe for a child. Both ends are close-on-exec (the child's copy is not), and reading does not block. False
 * with errno if there are no descriptors left. */
bool output_pipe(int ends[2]) MUST_CHECK;

/* Takes over `fd`, which must not block. `told` may call output_last, and output_close if `line` is NULL. */
struct output *output_open(struct loop *loop, int fd, struct output_budget *budget,
                           void (*told)(void *context, const char *line, size_t length), void *context);
/* The same, but reads nothing before output_watch or output_drain: for a child that has probably ended by then, so
 * that its pipes do not wake the loop. */
struct output *output_open_unwatched(struct loop *loop, int fd, struct output_budget *budget,
                                     void (*told)(void *context, const char *line, size_t length), void *context);
void output_watch(struct output *output);
/* Reads what is available, at most OUTPUT_DRAIN_MAX bytes, without waiting, and reports an unfinished line too. Also
 * reports the end of the stream if it is reached; `told` must not close the output then. */
void output_drain(struct output *output);
/* `told` is not called again. NULL is harmless. */
void output_close(struct output *output);

/* The last line that was not empty, even if it was dropped; up to OUTPUT_LINE_MAX bytes. Length 0 = none. Valid
 * until the next cycle. */
const char *output_last(const struct output *output, size_t *length);

/* Logs `job_output jid=... class=... stream=... text=...`; the other logs what was dropped, if anything. */
void output_log(const char *jid, const char *class_name, const char *stream, const char *line, size_t length);
void output_log_dropped(const char *jid, const char *class_name, const struct output_budget *budget);

#endif
