/* Paragraphs, tables and headings of a report, within a width. Text is made safe for a terminal and broken at blanks.
 *
 *     struct sheet sheet = {.width = 100, .has_colour = true, .out = &out};
 *     sheet_heading(&sheet, "Nodes");
 *     sheet_text(&sheet, TABLE_WARN, 2, "- ", advice);
 *     sheet_table(&sheet, table, 20);                      frees it
 *
 * Pure. */
#ifndef WORKER_DRY_RUN_SHEET_H
#define WORKER_DRY_RUN_SHEET_H

#include <stdbool.h>

#include "base/buffer.h"
#include "worker/print/table.h"

struct sheet {
    unsigned width;
    bool has_colour;
    struct buffer *out;
};

/* An empty line, and the text in capitals as it is given. */
void sheet_heading(struct sheet *sheet, const char *text);
/* `lead` stands before the first line, and as many blanks before the others. */
void sheet_text(struct sheet *sheet, enum table_style style, const char *lead, const char *text);
void sheet_format(struct sheet *sheet, enum table_style style, const char *lead, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* At most `rows` of it. */
void sheet_table(struct sheet *sheet, struct table *table, size_t rows);

#endif
