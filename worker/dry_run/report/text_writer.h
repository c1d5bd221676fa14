/* Paragraphs, tables and headings of a report, within a width. Text is made safe for a terminal and broken at blanks.
 *
 *     struct text_writer writer = {.width = 100, .has_colour = true, .out = &out};
 *     writer_heading(&writer, "NODES");
 *     writer_text(&writer, TABLE_WARN, "- ", advice);
 *
 * Pure. */
#ifndef WORKER_DRY_RUN_TEXT_WRITER_H
#define WORKER_DRY_RUN_TEXT_WRITER_H

#include <stdbool.h>

#include "base/buffer.h"
#include "worker/print/table.h"

struct text_writer {
    unsigned width;
    bool has_colour;
    struct buffer *out;
};

/* An empty line, and the text in capitals as it is given. */
void writer_heading(struct text_writer *writer, const char *text);
/* `lead` stands before the first line, and as many blanks before the others. */
void writer_text(struct text_writer *writer, enum table_style style, const char *lead, const char *text);
void writer_format(struct text_writer *writer, enum table_style style, const char *lead, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* At most `rows` of it. */
void writer_table(struct text_writer *writer, struct table *table, size_t rows);

#endif
