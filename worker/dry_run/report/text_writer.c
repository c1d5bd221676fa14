#include "worker/dry_run/report/text_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

enum { FORMATTED_MAX = 2048 };

void writer_heading(struct text_writer *writer, const char *text)
{
    buffer_append(writer->out, "\n", 1);
    writer_text(writer, TABLE_DIM, "", text);
}

/* How many bytes of the text go into a line of that width: to a gap of several blanks, which is between things that
 * belong together, else to a blank, else as many as there is room for. */
static size_t line_length(const char *text, unsigned width)
{
    size_t blank = 0, gap = 0, cut = 0, length = strlen(text);
    if (table_text_width(text) <= width)
        return length;
    char *copy = memory_text(text);
    for (size_t i = 1; i < length; i++) {
        copy[i] = '\0';
        bool fits = table_text_width(copy) <= width;
        copy[i] = text[i];
        if (!fits)
            break;
        if (text[i] == ' ' && text[i - 1] != ' ')
            blank = i;
        if (blank == i && text[i + 1] == ' ')
            gap = i;
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            cut = i;
    }
    free(copy);
    return gap > 0 ? gap : blank > 0 ? blank : cut > 0 ? cut : length;
}

static void line_write(struct text_writer *writer, enum table_style style, const char *lead, bool is_first,
                       const char *text, size_t length)
{
    bool is_styled = writer->has_colour && style != TABLE_PLAIN;
    if (is_first)
        buffer_append_text(writer->out, lead);
    else
        buffer_format(writer->out, "%*s", (int)strlen(lead), "");
    buffer_append_text(writer->out, is_styled ? table_style_code(style) : "");
    buffer_append(writer->out, text, length);
    buffer_append_text(writer->out, is_styled ? table_style_code(TABLE_PLAIN) : "");
    buffer_append(writer->out, "\n", 1);
}

void writer_text(struct text_writer *writer, enum table_style style, const char *lead, const char *text)
{
    char *safe = log_defuse(memory_text(text)), *at = safe;
    unsigned indent = (unsigned)strlen(lead), room = writer->width > indent + 20 ? writer->width - indent : 20;
    do {
        size_t length = line_length(at, room);
        line_write(writer, style, lead, at == safe, at, length);
        at += length;
        at += strspn(at, " ");
    } while (*at != '\0');
    free(safe);
}

void writer_format(struct text_writer *writer, enum table_style style, const char *lead, const char *format, ...)
{
    char text[FORMATTED_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    writer_text(writer, style, lead, text);
}

void writer_table(struct text_writer *writer, struct table *table, size_t rows)
{
    table_write(table, writer->width, rows, writer->has_colour, writer->out);
    table_free(table);
}
