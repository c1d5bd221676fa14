/* A table that fits into a width: columns are cut, and then left out, until it does. For screens that are drawn again
 * and again; table.h is for what is printed once.
 *
 *     static const struct grid_column columns[] = {
 *         {"QUEUE", .least = 8}, {"TASKS", .is_right = true}, {"LATENCY", .is_right = true, .rank = 1}, {NULL}};
 *     struct grid *grid = grid_create(columns);
 *     grid_cell(grid, TABLE_PLAIN, "%s", log_quote(name, quoted));     one call a column, row by row
 *     grid_write(grid, 80, 10, true, &out);                            title, and at most 10 rows
 *     grid_free(grid);
 *
 * Cells are made safe for a terminal. Widths are those that terminals give to characters: two for those of East Asia
 * and for pictures, none for marks that are put upon others. Pure; not thread-safe. */
#ifndef WORKER_GRID_H
#define WORKER_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "worker/print/table.h"

struct grid_column {
    const char *title; /* NULL ends the list */
    bool is_right;
    unsigned least; /* it may be cut to this width; 0 = never */
    unsigned rank;  /* the highest is left out first; 0 = never left out */
};

enum { GRID_COLUMNS_MAX = 12 };

struct grid;

struct grid *grid_create(const struct grid_column *columns);
void grid_free(struct grid *grid);
void grid_cell(struct grid *grid, enum table_style style, const char *format, ...) PRINTF_LIKE(3, 4);
size_t grid_rows(const struct grid *grid);
/* The line of titles and at most `rows` rows, each with a line end and at most `width` wide. When rows are left out,
 * the first title says so: "QUEUE 3/12". */
void grid_write(const struct grid *grid, unsigned width, size_t rows, bool has_colour, struct buffer *out);

/* Appends `text` as far as it has room, with '~' for what has not. Returns the width that it took. */
unsigned grid_text_write(const char *text, unsigned width, struct buffer *out);
unsigned grid_text_width(const char *text);

#endif
