/* What a program writes, cut into lines, up to a limit for a whole run. No I/O. */
#ifndef JOBS_EXEC_LINES_H
#define JOBS_EXEC_LINES_H

#include <stddef.h>

/* So much of a text fits into a line of the log. */
enum { EXEC_LINE_MAX = 200, EXEC_LINES_MAX = 1000 };

/* Shared by both streams of a run. */
struct exec_budget {
    unsigned lines;
    unsigned long dropped; /* lines that were not told */
    void (*tell)(void *context, const char *stream, const char *text);
    void *context;
};

/* One stream. */
struct exec_lines {
    struct exec_budget *budget;
    const char *stream;
    char text[EXEC_LINE_MAX + 1]; /* the line that has no end yet */
    size_t length;
    char last[EXEC_LINE_MAX + 1]; /* the last one that was not empty, for an error */
};

/* Longer lines are told in pieces, empty ones not at all; NUL bytes as '?'. */
void exec_lines_put(struct exec_lines *lines, const char *bytes, size_t length);
/* Tells a last line that has no end. */
void exec_lines_end(struct exec_lines *lines);

#endif
