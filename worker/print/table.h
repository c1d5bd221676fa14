/* A table for a terminal or a file: columns as wide as their widest cell, two blanks between them, no blanks at the
 * ends of lines. Colours only on a terminal, and not with NO_COLOR or TERM=dumb.
 *
 *     static const struct table_column columns[] = {{"QUEUE", false}, {"TASKS", true}, {NULL, false}};
 *     struct table *table = table_create(columns);
 *     table_cell(table, TABLE_PLAIN, "%s", name);       one call a column, row by row
 *     table_cell(table, TABLE_BAD, "%lld", length);
 *     table_print(table, stdout);                       frees it
 *
 * Cells are made safe for a terminal. Not thread-safe. */
#ifndef WORKER_TABLE_H
#define WORKER_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

struct table_column {
    const char *title; /* NULL ends the list */
    bool is_right;     /* for numbers */
};

enum table_style { TABLE_PLAIN, TABLE_DIM, TABLE_GOOD, TABLE_WARN, TABLE_BAD, TABLE_STYLES };

struct table;

struct table *table_create(const struct table_column *columns);
void table_cell(struct table *table, enum table_style style, const char *format, ...) PRINTF_LIKE(3, 4);
void table_print(struct table *table, FILE *out);
void table_free(struct table *table); /* without printing it */

/* The escape sequence that begins or, for TABLE_PLAIN, ends a style; of table_style_text "" where there are no
 * colours. */
const char *table_style_code(enum table_style style);
const char *table_style_text(FILE *out, enum table_style style);
bool table_has_colour(FILE *out);

#endif
