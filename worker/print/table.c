#include "worker/print/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"

enum { CELL_MAX = 512, GAP = 2 };

struct cell {
    enum table_style style;
    char *text;
    size_t width; /* in characters */
};

struct table {
    const struct table_column *columns;
    size_t column_count, cell_count, capacity;
    size_t *widths;
    struct cell *cells;
};

static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80; /* not a continuation of a UTF-8 character */
    return width;
}

struct table *table_create(const struct table_column *columns)
{
    struct table *table = memory_new(struct table);
    table->columns = columns;
    while (columns[table->column_count].title != NULL)
        table->column_count++;
    table->widths = memory_zeroed(table->column_count, sizeof *table->widths);
    for (size_t i = 0; i < table->column_count; i++)
        table->widths[i] = width_of(columns[i].title);
    return table;
}

void table_cell(struct table *table, enum table_style style, const char *format, ...)
{
    char text[CELL_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    log_defuse(text);
    if (table->cell_count == table->capacity) {
        table->capacity = table->capacity * 2 + 64;
        table->cells = memory_resize(table->cells, table->capacity, sizeof *table->cells);
    }
    struct cell *cell = &table->cells[table->cell_count];
    *cell = (struct cell){.style = style, .text = memory_text(text), .width = width_of(text)};
    size_t column = table->cell_count++ % table->column_count;
    if (cell->width > table->widths[column])
        table->widths[column] = cell->width;
}

const char *table_style_code(enum table_style style)
{
    static const char *const codes[TABLE_STYLES] = {[TABLE_PLAIN] = "\x1b[0m",
                                                    [TABLE_DIM] = "\x1b[2m",
                                                    [TABLE_GOOD] = "\x1b[32m",
                                                    [TABLE_WARN] = "\x1b[33m",
                                                    [TABLE_BAD] = "\x1b[31m"};
    return codes[style];
}

bool table_has_colour(FILE *out)
{
    const char *terminal = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    return isatty(fileno(out)) && terminal != NULL && strcmp(terminal, "dumb") != 0 &&
           (no_colour == NULL || no_colour[0] == '\0');
}

const char *table_style_text(FILE *out, enum table_style style)
{
    return table_has_colour(out) ? table_style_code(style) : "";
}

/* `blanks` is what stands between the last cell and this one; an empty cell only adds to it. */
static void cell_print(const struct table *table, size_t column, const struct cell *cell, int *blanks, FILE *out)
{
    int room = (int)(table->widths[column] - cell->width);
    bool is_right = table->columns[column].is_right, is_styled = cell->style != TABLE_PLAIN;
    if (cell->text[0] == '\0') {
        *blanks += room + GAP;
    } else {
        fprintf(out, "%*s%s%s%s", *blanks + (is_right ? room : 0), "",
                is_styled ? table_style_text(out, cell->style) : "", cell->text,
                is_styled ? table_style_text(out, TABLE_PLAIN) : "");
        *blanks = (is_right ? 0 : room) + GAP;
    }
    if (column + 1 == table->column_count) {
        fputc('\n', out);
        *blanks = 0;
    }
}

void table_print(struct table *table, FILE *out)
{
    int blanks = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        char *title = memory_text(table->columns[i].title);
        cell_print(table, i, &(struct cell){.style = TABLE_DIM, .text = title, .width = width_of(title)}, &blanks, out);
        free(title);
    }
    for (size_t i = 0; i < table->cell_count; i++)
        cell_print(table, i % table->column_count, &table->cells[i], &blanks, out);
    table_free(table);
}

void table_free(struct table *table)
{
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i].text);
    free(table->cells);
    free(table->widths);
    free(table);
}
