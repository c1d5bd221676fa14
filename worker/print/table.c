#include "worker/print/table.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"

enum { CELL_MAX = 512, TITLE_MAX = 32, COLUMNS_MAX = 16, GAP = 2 };

struct column {
    char title[TITLE_MAX];
    bool is_right, is_dim;
    unsigned least, rank;
};

struct cell {
    enum table_style style;
    char *text;
    unsigned width;
    bool has_number;
    int64_t number; /* by which it is sorted */
};

struct table {
    struct column columns[COLUMNS_MAX];
    unsigned column_count;
    struct cell *cells;
    size_t cell_count, capacity;
    const char **names; /* of rows, as far as they have some */
    size_t name_count;
    size_t *order; /* the rows that are kept, as they are written; NULL = all, as they came */
    size_t order_count;
    size_t marked;          /* of `order`; SIZE_MAX = none */
    unsigned sorted_column; /* + 1; 0 = none */
    bool is_descending;
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

unsigned table_text_width(const char *text)
{
    unsigned total = 0, width;
    while (*text != '\0') {
        text += character_read(text, &width);
        total += width;
    }
    return total;
}

unsigned table_text_write(const char *text, unsigned width, struct buffer *out)
{
    bool is_whole = table_text_width(text) <= width;
    unsigned room = is_whole ? width : width > 0 ? width - 1 : 0, used = 0, one, word_used = 0;
    size_t word_end = 0;
    while (*text != '\0') {
        size_t size = character_read(text, &one);
        if (used + one > room)
            break;
        buffer_append(out, text, size);
        used += one;
        text += size;
        if (text[-1] == ' ') {
            word_end = out->length;
            word_used = used;
        }
    }
    if (!is_whole && word_used * 2 > room && *text != ' ') {
        out->length = word_end;
        used = word_used;
    }
    if (!is_whole && width > 0) {
        buffer_append(out, "~", 1);
        used++;
    }
    return used;
}

/* --- cells ------------------------------------------------------------------------------------------------------ */

struct table *table_create(const char *columns)
{
    struct table *table = memory_new(struct table);
    table->marked = SIZE_MAX;
    table_add_columns(table, columns);
    return table;
}

void table_add_columns(struct table *table, const char *columns)
{
    for (const char *at = columns; at != NULL; at = strchr(at, '|') != NULL ? strchr(at, '|') + 1 : NULL) {
        invariant(table->column_count < COLUMNS_MAX);
        struct column *column = &table->columns[table->column_count++];
        column->is_dim = *at == '.';
        at += column->is_dim;
        column->is_right = *at == '>';
        at += column->is_right;
        size_t title = strcspn(at, "|:");
        snprintf(column->title, sizeof column->title, "%.*s", (int)title, at);
        sscanf(at + title, ":%u,%u", &column->least, &column->rank);
    }
}

void table_free(struct table *table)
{
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i].text);
    free(table->cells);
    free(table->names);
    free(table->order);
    free(table);
}

void table_cell(struct table *table, enum table_style style, const char *format, ...)
{
    char text[CELL_MAX];
    va_list values;
    va_start(values, format);
    if (vsnprintf(text, sizeof text, format, values) >= CELL_MAX)
        text[CELL_MAX - 2] = '~';
    va_end(values);
    log_defuse(text);
    if (table->cell_count == table->capacity) {
        table->capacity = table->capacity * 2 + 64;
        table->cells = memory_resize(table->cells, table->capacity, sizeof *table->cells);
    }
    bool is_dim = style == TABLE_PLAIN && table->columns[table->cell_count % table->column_count].is_dim;
    table->cells[table->cell_count++] =
        (struct cell){.style = is_dim ? TABLE_DIM : style, .text = memory_text(text), .width = table_text_width(text)};
}

void table_restyle(struct table *table, enum table_style style)
{
    table->cells[table->cell_count - 1].style = style;
}

void table_number(struct table *table, int64_t number)
{
    table->cells[table->cell_count - 1].has_number = true;
    table->cells[table->cell_count - 1].number = number;
}

static size_t all_rows(const struct table *table)
{
    return table->column_count > 0 ? table->cell_count / table->column_count : 0;
}

void table_name(struct table *table, const char *name)
{
    size_t rows = all_rows(table);
    table->names = memory_resize(table->names, rows, sizeof *table->names);
    while (table->name_count < rows)
        table->names[table->name_count++] = "";
    table->names[rows - 1] = name;
}

size_t table_rows(const struct table *table)
{
    return table->order != NULL ? table->order_count : all_rows(table);
}

unsigned table_columns(const struct table *table)
{
    return table->column_count;
}

/* --- which rows, and in which order ------------------------------------------------------------------------------- */

static size_t row_at(const struct table *table, size_t position)
{
    return table->order != NULL ? table->order[position] : position;
}

const char *table_name_of(const struct table *table, size_t row)
{
    return row < table_rows(table) && row_at(table, row) < table->name_count ? table->names[row_at(table, row)] : "";
}

static void order_begin(struct table *table)
{
    if (table->order != NULL)
        return;
    table->order_count = all_rows(table);
    table->order = memory_zeroed(table->order_count + 1, sizeof *table->order);
    for (size_t i = 0; i < table->order_count; i++)
        table->order[i] = i;
}

static bool row_has(const struct table *table, size_t row, const char *text)
{
    for (unsigned i = 0; i < table->column_count; i++)
        if (strcasestr(table->cells[row * table->column_count + i].text, text) != NULL)
            return true;
    return false;
}

void table_filter(struct table *table, const char *text)
{
    size_t kept = 0;
    order_begin(table);
    for (size_t i = 0; i < table->order_count; i++)
        if (row_has(table, table->order[i], text))
            table->order[kept++] = table->order[i];
    table->order_count = kept;
}

/* Rows that are alike stay as they came. */
static int rows_compare(const void *a, const void *b, void *context)
{
    const struct table *table = context;
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    const struct cell *one = &table->cells[left * table->column_count + table->sorted_column - 1];
    const struct cell *other = &table->cells[right * table->column_count + table->sorted_column - 1];
    int order = one->has_number && other->has_number ? (one->number > other->number) - (one->number < other->number)
                                                     : strcmp(one->text, other->text);
    if (order != 0)
        return table->is_descending ? -order : order;
    return left < right ? -1 : 1;
}

void table_sort(struct table *table, unsigned column, bool is_descending)
{
    invariant(column < table->column_count);
    order_begin(table);
    table->sorted_column = column + 1;
    table->is_descending = is_descending;
    qsort_r(table->order, table->order_count, sizeof *table->order, rows_compare, table);
}

void table_mark(struct table *table, size_t row)
{
    if (row >= table_rows(table))
        return;
    struct buffer text = {0};
    struct cell *cell = &table->cells[row_at(table, row) * table->column_count];
    buffer_format(&text, "> %s", cell->text);
    free(cell->text);
    cell->text = memory_text(buffer_text(&text));
    cell->width += 2;
    table->marked = row;
    buffer_fini(&text);
}

/* --- fitting ---------------------------------------------------------------------------------------------------- */

struct fit {
    unsigned widths[COLUMNS_MAX];
    bool is_out[COLUMNS_MAX];
};

static unsigned fit_total(const struct table *table, const struct fit *fit)
{
    unsigned total = 0, shown = 0;
    for (unsigned i = 0; i < table->column_count; i++)
        if (!fit->is_out[i]) {
            total += fit->widths[i];
            shown++;
        }
    return total + (shown > 0 ? (shown - 1) * GAP : 0);
}

/* The widest of the columns that may be cut, by as much as it takes. False when none may be cut any more. */
static bool column_cut(const struct table *table, struct fit *fit, unsigned excess)
{
    int widest = -1;
    for (unsigned i = 0; i < table->column_count; i++) {
        bool may = !fit->is_out[i] && table->columns[i].least > 0 && fit->widths[i] > table->columns[i].least;
        if (may && (widest < 0 || fit->widths[i] > fit->widths[widest]))
            widest = (int)i;
    }
    if (widest < 0)
        return false;
    unsigned most = fit->widths[widest] - table->columns[widest].least, half = (most + 1) / 2;
    unsigned cut = half < excess ? half : excess; /* in steps, so that two long ones share it */
    fit->widths[widest] -= cut;
    return true;
}

static bool column_leave(const struct table *table, struct fit *fit)
{
    int last = -1;
    for (unsigned i = 0; i < table->column_count; i++)
        if (!fit->is_out[i] && table->columns[i].rank > 0 &&
            (last < 0 || table->columns[i].rank > table->columns[last].rank))
            last = (int)i;
    if (last >= 0)
        fit->is_out[last] = true;
    return last >= 0;
}

/* What is left is too wide even so: from the right, without regard. */
static void columns_squeeze(const struct table *table, struct fit *fit, unsigned width)
{
    for (unsigned i = table->column_count; i-- > 0 && fit_total(table, fit) > width;) {
        unsigned excess = fit_total(table, fit) - width;
        if (fit->is_out[i])
            continue;
        if (i > 0 && fit->widths[i] <= excess)
            fit->is_out[i] = true;
        else
            fit->widths[i] = fit->widths[i] > excess ? fit->widths[i] - excess : 0;
    }
}

/* The rows that are written: so many, from this position on. */
struct window {
    size_t from, rows;
};

static void natural_widths(const struct table *table, struct window window, const struct cell *titles, struct fit *fit)
{
    for (unsigned i = 0; i < table->column_count; i++)
        fit->widths[i] = titles[i].width;
    for (size_t row = window.from; row < window.from + window.rows; row++)
        for (unsigned i = 0; i < table->column_count; i++) {
            unsigned width = table->cells[row_at(table, row) * table->column_count + i].width;
            fit->widths[i] = width > fit->widths[i] ? width : fit->widths[i];
        }
}

/* Columns that are left out make room: those that stay are cut only as far as it takes then. */
static void table_fit(const struct table *table, struct window window, const struct cell *titles, unsigned width,
                      struct fit *fit)
{
    *fit = (struct fit){.widths = {0}};
    do {
        natural_widths(table, window, titles, fit);
        for (unsigned total; (total = fit_total(table, fit)) > width && column_cut(table, fit, total - width);)
            ;
    } while (fit_total(table, fit) > width && column_leave(table, fit));
    columns_squeeze(table, fit, width);
}

/* --- colours ----------------------------------------------------------------------------------------------------- */

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

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void blanks_append(struct buffer *out, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        buffer_append(out, " ", 1);
}

/* `blanks` is what stands between the last cell and this one: none at the end of a line. */
static void cell_write(const struct table *table, const struct fit *fit, unsigned column, const struct cell *cell,
                       bool has_colour, unsigned *blanks, struct buffer *out)
{
    unsigned width = fit->widths[column], used = cell->width < width ? cell->width : width;
    bool is_right = table->columns[column].is_right, is_styled = has_colour && cell->style != TABLE_PLAIN;
    if (cell->width == 0) {
        *blanks += width + GAP;
        return;
    }
    blanks_append(out, *blanks + (is_right ? width - used : 0));
    buffer_append_text(out, is_styled ? table_style_code(cell->style) : "");
    used = table_text_write(cell->text, width, out);
    buffer_append_text(out, is_styled ? table_style_code(TABLE_PLAIN) : "");
    *blanks = (is_right ? 0 : width - used) + GAP;
}

static void row_write(const struct table *table, const struct fit *fit, const struct cell *cells, bool has_colour,
                      struct buffer *out)
{
    unsigned blanks = 0;
    for (unsigned i = 0; i < table->column_count; i++)
        if (!fit->is_out[i])
            cell_write(table, fit, i, &cells[i], has_colour, &blanks, out);
    buffer_append(out, "\n", 1);
}

void table_write(const struct table *table, unsigned width, size_t rows, bool has_colour, struct buffer *out)
{
    struct fit fit;
    struct cell titles[COLUMNS_MAX];
    char texts[COLUMNS_MAX][64];
    size_t all = table_rows(table);
    struct window window = {.rows = rows < all ? rows : all};
    if (table->marked != SIZE_MAX && table->marked >= window.rows)
        window.from = table->marked + 1 - window.rows;
    for (unsigned i = 0; i < table->column_count; i++) {
        bool is_sorted = table->sorted_column == i + 1;
        int used = snprintf(texts[i], sizeof texts[i], "%s%s", table->columns[i].title,
                            !is_sorted             ? ""
                            : table->is_descending ? " v"
                                                   : " ^");
        if (i == 0 && window.rows < all)
            snprintf(texts[i] + used, sizeof texts[i] - (size_t)used, " %zu/%zu", window.rows, all);
        titles[i] = (struct cell){.style = TABLE_DIM, .text = texts[i], .width = table_text_width(texts[i])};
    }
    table_fit(table, window, titles, width, &fit);
    row_write(table, &fit, titles, has_colour, out);
    for (size_t i = window.from; i < window.from + window.rows; i++)
        row_write(table, &fit, &table->cells[row_at(table, i) * table->column_count], has_colour, out);
}

void table_print(struct table *table, FILE *out)
{
    struct buffer text = {0};
    table_write(table, UINT_MAX, SIZE_MAX, table_has_colour(out), &text);
    fwrite(text.bytes, 1, text.length, out);
    buffer_fini(&text);
    table_free(table);
}
