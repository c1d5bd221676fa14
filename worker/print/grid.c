#include "worker/print/grid.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"

enum { CELL_MAX = 320, GAP = 2 };

struct cell {
    enum table_style style;
    char *text;
    unsigned width;
};

struct grid {
    const struct grid_column *columns;
    unsigned column_count;
    struct cell *cells;
    size_t cell_count, capacity;
};

/* --- characters ------------------------------------------------------------------------------------------------- */

struct range {
    uint32_t first, last;
};

static bool is_within(uint32_t point, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (point >= ranges[i].first && point <= ranges[i].last)
            return true;
    return false;
}

/* As good as terminals agree with each other. */
static unsigned point_width(uint32_t point)
{
    static const struct range wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xac00, 0xd7a3},
                                        {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},  {0xffe0, 0xffe6},
                                        {0x1f300, 0x1f64f}, {0x1f680, 0x1faff}, {0x20000, 0x3fffd}};
    static const struct range marks[] = {{0x0300, 0x036f}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
                                         {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
    if (is_within(point, marks, sizeof marks / sizeof marks[0]))
        return 0;
    return is_within(point, wide, sizeof wide / sizeof wide[0]) ? 2 : 1;
}

/* The character at the front of valid UTF-8: its bytes, and its width. */
static size_t character_read(const char *text, unsigned *width)
{
    unsigned char first = (unsigned char)text[0];
    size_t size = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t point = size == 1 ? first : first & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) { /* a cell that was cut by its bytes ends so */
            *width = 1;
            return i;
        }
        point = point << 6 | ((unsigned char)text[i] & 0x3fu);
    }
    *width = point_width(point);
    return size;
}

unsigned grid_text_width(const char *text)
{
    unsigned total = 0, width;
    while (*text != '\0') {
        text += character_read(text, &width);
        total += width;
    }
    return total;
}

unsigned grid_text_write(const char *text, unsigned width, struct buffer *out)
{
    bool is_whole = grid_text_width(text) <= width;
    unsigned room = is_whole ? width : width > 0 ? width - 1 : 0, used = 0, one;
    while (*text != '\0') {
        size_t size = character_read(text, &one);
        if (used + one > room)
            break;
        buffer_append(out, text, size);
        used += one;
        text += size;
    }
    if (!is_whole && width > 0) {
        buffer_append(out, "~", 1);
        used++;
    }
    return used;
}

/* --- cells ------------------------------------------------------------------------------------------------------ */

struct grid *grid_create(const struct grid_column *columns)
{
    struct grid *grid = memory_new(struct grid);
    grid->columns = columns;
    while (columns[grid->column_count].title != NULL)
        grid->column_count++;
    invariant(grid->column_count <= GRID_COLUMNS_MAX);
    return grid;
}

void grid_free(struct grid *grid)
{
    for (size_t i = 0; i < grid->cell_count; i++)
        free(grid->cells[i].text);
    free(grid->cells);
    free(grid);
}

void grid_cell(struct grid *grid, enum table_style style, const char *format, ...)
{
    char text[CELL_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    log_defuse(text);
    if (grid->cell_count == grid->capacity) {
        grid->capacity = grid->capacity * 2 + 64;
        grid->cells = memory_resize(grid->cells, grid->capacity, sizeof *grid->cells);
    }
    grid->cells[grid->cell_count++] =
        (struct cell){.style = style, .text = memory_text(text), .width = grid_text_width(text)};
}

size_t grid_rows(const struct grid *grid)
{
    return grid->cell_count / grid->column_count;
}

/* --- fitting ---------------------------------------------------------------------------------------------------- */

struct fit {
    unsigned widths[GRID_COLUMNS_MAX];
    bool is_out[GRID_COLUMNS_MAX];
};

static unsigned fit_total(const struct grid *grid, const struct fit *fit)
{
    unsigned total = 0, shown = 0;
    for (unsigned i = 0; i < grid->column_count; i++)
        if (!fit->is_out[i]) {
            total += fit->widths[i];
            shown++;
        }
    return total + (shown > 0 ? (shown - 1) * GAP : 0);
}

/* The widest of the columns that may be cut, by as much as it takes. False when none may be cut any more. */
static bool column_cut(const struct grid *grid, struct fit *fit, unsigned excess)
{
    int widest = -1;
    for (unsigned i = 0; i < grid->column_count; i++) {
        bool may = !fit->is_out[i] && grid->columns[i].least > 0 && fit->widths[i] > grid->columns[i].least;
        if (may && (widest < 0 || fit->widths[i] > fit->widths[widest]))
            widest = (int)i;
    }
    if (widest < 0)
        return false;
    unsigned most = fit->widths[widest] - grid->columns[widest].least, half = (most + 1) / 2;
    unsigned cut = half < excess ? half : excess; /* in steps, so that two long ones share it */
    fit->widths[widest] -= cut;
    return true;
}

static bool column_leave(const struct grid *grid, struct fit *fit)
{
    int last = -1;
    for (unsigned i = 0; i < grid->column_count; i++)
        if (!fit->is_out[i] && grid->columns[i].rank > 0 &&
            (last < 0 || grid->columns[i].rank > grid->columns[last].rank))
            last = (int)i;
    if (last >= 0)
        fit->is_out[last] = true;
    return last >= 0;
}

/* What is left is too wide even so: from the right, without regard. */
static void columns_squeeze(const struct grid *grid, struct fit *fit, unsigned width)
{
    for (unsigned i = grid->column_count; i-- > 0 && fit_total(grid, fit) > width;) {
        unsigned excess = fit_total(grid, fit) - width;
        if (fit->is_out[i])
            continue;
        if (i > 0 && fit->widths[i] <= excess)
            fit->is_out[i] = true;
        else
            fit->widths[i] = fit->widths[i] > excess ? fit->widths[i] - excess : 0;
    }
}

static void natural_widths(const struct grid *grid, size_t rows, const char *first_title, struct fit *fit)
{
    for (unsigned i = 0; i < grid->column_count; i++)
        fit->widths[i] = grid_text_width(i == 0 ? first_title : grid->columns[i].title);
    for (size_t i = 0; i < rows * grid->column_count; i++)
        if (grid->cells[i].width > fit->widths[i % grid->column_count])
            fit->widths[i % grid->column_count] = grid->cells[i].width;
}

/* Columns that are left out make room: those that stay are cut only as far as it takes then. */
static void grid_fit(const struct grid *grid, size_t rows, const char *first_title, unsigned width, struct fit *fit)
{
    *fit = (struct fit){.widths = {0}};
    do {
        natural_widths(grid, rows, first_title, fit);
        for (unsigned total; (total = fit_total(grid, fit)) > width && column_cut(grid, fit, total - width);)
            ;
    } while (fit_total(grid, fit) > width && column_leave(grid, fit));
    columns_squeeze(grid, fit, width);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void blanks_append(struct buffer *out, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        buffer_append(out, " ", 1);
}

/* `blanks` is what stands between the last cell and this one: none at the end of a line. */
static void cell_write(const struct grid *grid, const struct fit *fit, unsigned column, const struct cell *cell,
                       bool has_colour, unsigned *blanks, struct buffer *out)
{
    unsigned width = fit->widths[column], used = cell->width < width ? cell->width : width;
    bool is_right = grid->columns[column].is_right, is_styled = has_colour && cell->style != TABLE_PLAIN;
    if (cell->width == 0) {
        *blanks += width + GAP;
        return;
    }
    blanks_append(out, *blanks + (is_right ? width - used : 0));
    buffer_append_text(out, is_styled ? table_style_code(cell->style) : "");
    used = grid_text_write(cell->text, width, out);
    buffer_append_text(out, is_styled ? table_style_code(TABLE_PLAIN) : "");
    *blanks = (is_right ? 0 : width - used) + GAP;
}

static void row_write(const struct grid *grid, const struct fit *fit, const struct cell *cells, bool has_colour,
                      struct buffer *out)
{
    unsigned blanks = 0;
    for (unsigned i = 0; i < grid->column_count; i++)
        if (!fit->is_out[i])
            cell_write(grid, fit, i, &cells[i], has_colour, &blanks, out);
    buffer_append(out, "\n", 1);
}

void grid_write(const struct grid *grid, unsigned width, size_t rows, bool has_colour, struct buffer *out)
{
    struct fit fit;
    struct cell titles[GRID_COLUMNS_MAX];
    char first[64];
    size_t all = grid_rows(grid), shown = rows < all ? rows : all;
    if (shown < all)
        snprintf(first, sizeof first, "%s %zu/%zu", grid->columns[0].title, shown, all);
    else
        snprintf(first, sizeof first, "%s", grid->columns[0].title);
    grid_fit(grid, shown, first, width, &fit);
    for (unsigned i = 0; i < grid->column_count; i++) {
        titles[i].style = TABLE_DIM;
        titles[i].text = i == 0 ? first : (char *)(uintptr_t)grid->columns[i].title;
        titles[i].width = grid_text_width(titles[i].text);
    }
    row_write(grid, &fit, titles, has_colour, out);
    for (size_t i = 0; i < shown; i++)
        row_write(grid, &fit, &grid->cells[i * grid->column_count], has_colour, out);
}
