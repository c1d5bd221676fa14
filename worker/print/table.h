/* A table for a terminal or a file: columns as wide as their widest cell, two blanks between them, no blanks at the
 * ends of lines. Colours only on a terminal, and not with NO_COLOR or TERM=dumb. On a screen, which has a width,
 * columns are cut, and then left out, until the table fits.
 *
 *     struct table *table = table_create("QUEUE:8|>TASKS|>LATENCY:0,1");
 *     table_cell(table, TABLE_PLAIN, "%s", name);       one call a column, row by row
 *     table_cell(table, TABLE_BAD, "%lld", length);
 *     table_print(table, stdout);                       frees it
 *     or table_write(table, 80, 10, true, &out);        title, and at most 10 rows
 *        table_free(table);
 *
 * Cells are made safe for a terminal. Widths are those that terminals give to characters: two for those of East Asia
 * and for pictures, none for marks that are put upon others. Not thread-safe. */
#ifndef WORKER_TABLE_H
#define WORKER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"

enum table_style { TABLE_PLAIN, TABLE_DIM, TABLE_GOOD, TABLE_WARN, TABLE_BAD, TABLE_STYLES };

struct table;

/* The titles of at most 16 columns. "." stands before those that are dim unless a cell has a style, ">" before those
 * that are for numbers, on the right. ":8" says that one may be cut to this width; ":0,1" (or ":8,1") that it may be
 * left out, the highest number first. */
struct table *table_create(const char *columns);
void table_add_columns(struct table *table, const char *columns); /* before the first row is complete */
void table_free(struct table *table);                             /* without printing it */
void table_cell(struct table *table, enum table_style style, const char *format, ...) PRINTF_LIKE(3, 4);
void table_restyle(struct table *table, enum table_style style); /* of the cell that was added last */
/* Of the cell that was added last: the number by which it is sorted. Without one it is sorted by its text. */
void table_number(struct table *table, int64_t number);
/* Of the row whose last cell was just added: what it is about. The text is not copied. */
void table_name(struct table *table, const char *name);
size_t table_rows(const struct table *table);
const char *table_name_of(const struct table *table, size_t row); /* "" when it has none */

/* When all rows are there: keeps those that have `text` in a cell, in capitals or not; sorts by a column; marks a row,
 * which is then among those that are written. */
void table_filter(struct table *table, const char *text);
void table_sort(struct table *table, unsigned column, bool is_descending);
unsigned table_columns(const struct table *table);
void table_mark(struct table *table, size_t row);

void table_print(struct table *table, FILE *out);
/* The line of titles and at most `rows` rows, each with a line end and at most `width` wide. When rows are left out,
 * the first title says so: "QUEUE 3/12". */
void table_write(const struct table *table, unsigned width, size_t rows, bool has_colour, struct buffer *out);

/* Appends `text` as far as it has room, with '~' for what has not, behind a blank if one is in the second half. Returns
 * the width that it took. */
unsigned table_text_write(const char *text, unsigned width, struct buffer *out);
unsigned table_text_width(const char *text);

/* The escape sequence that begins or, for TABLE_PLAIN, ends a style; of table_style_text "" where there are no
 * colours. */
const char *table_style_code(enum table_style style);
const char *table_style_text(FILE *out, enum table_style style);
bool table_has_colour(FILE *out);

#endif
