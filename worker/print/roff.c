#include "worker/print/roff.h"

#include <stdbool.h>
#include <string.h>

/* Bare, these become typographic: a command copied from the page would have a wrong character. */
static const char escapes[256][6] = {['\\'] = "\\e",  ['-'] = "\\-",   ['\''] = "\\(aq", ['"'] = "\\(dq",
                                     ['`'] = "\\(ga", ['^'] = "\\(ha", ['~'] = "\\(ti"};

/* A dot is a request only at the beginning of a line. */
static void characters_write(const char *text, size_t length, bool is_literal, struct buffer *out)
{
    if (length > 0 && text[0] == '.')
        buffer_append_text(out, "\\&");
    for (size_t i = 0; i < length; i++) {
        const char *escape = escapes[(unsigned char)text[i]];
        if (text[i] != '`' || is_literal)
            buffer_append(out, escape[0] != '\0' ? escape : &text[i], escape[0] != '\0' ? strlen(escape) : 1);
    }
}

static void line_write(const char *text, size_t length, bool is_literal, struct buffer *out)
{
    characters_write(text, length, is_literal, out);
    buffer_append_text(out, "\n");
}

static void request_write(const char *request, const char *text, size_t length, struct buffer *out)
{
    buffer_format(out, "%s ", request);
    line_write(text, length, false, out);
}

void roff_begin(const char *name, int section, const char *summary, const char *version, struct buffer *out)
{
    buffer_format(out, ".TH \"%s\" %d \"\" \"Holdfast %s\"\n", name, section, version);
    roff_headline("NAME", out);
    characters_write(name, strlen(name), false, out);
    buffer_append_text(out, " \\- ");
    line_write(summary, strlen(summary), false, out);
}

void roff_headline(const char *text, struct buffer *out)
{
    request_write(".SH", text, strlen(text), out);
}

void roff_subheadline(const char *text, struct buffer *out)
{
    request_write(".SS", text, strlen(text), out);
}

void roff_item(const char *term, const char *text, struct buffer *out)
{
    request_write(".TP\n.B", term, strlen(term), out);
    line_write(text, strlen(text), false, out);
}

void roff_literal(const char *text, struct buffer *out)
{
    buffer_append_text(out, ".nf\n");
    for (size_t length; *text != '\0'; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        line_write(text, length, true, out);
    }
    buffer_append_text(out, ".fi\n");
}

/* --- text with paragraphs and lists ------------------------------------------------------------------------------- */

enum shape { SHAPE_FILLED, SHAPE_LITERAL, SHAPE_ITEM, SHAPE_BETWEEN /* a paragraph has ended */ };

/* The length of TERM in "TERM  what it is"; 0 = the line is not such. */
static size_t term_length(const char *line, size_t length)
{
    for (size_t i = 0; i + 2 < length; i++)
        if (line[i] == ' ' && line[i + 1] == ' ')
            return i;
    return 0;
}

static enum shape shape_change(enum shape from, enum shape to, struct buffer *out)
{
    if (from == SHAPE_LITERAL && to != SHAPE_LITERAL)
        buffer_append_text(out, ".fi\n");
    if ((from == SHAPE_ITEM || from == SHAPE_BETWEEN) && (to == SHAPE_FILLED || to == SHAPE_LITERAL))
        buffer_append_text(out, ".PP\n");
    if (from != SHAPE_LITERAL && to == SHAPE_LITERAL)
        buffer_append_text(out, ".nf\n");
    return to;
}

static enum shape text_line(const char *line, size_t length, enum shape shape, struct buffer *out)
{
    size_t indent = strspn(line, " ");
    const char *words = line + indent;
    size_t rest = length - indent, term = indent > 0 ? term_length(words, rest) : 0;
    if (rest > 2 && strncmp(words, "- ", 2) == 0) {
        shape = shape_change(shape, SHAPE_ITEM, out);
        buffer_append_text(out, ".IP \\(bu 2\n");
        line_write(words + 2, rest - 2, false, out);
    } else if (term > 0) {
        size_t gap = term + strspn(words + term, " ");
        shape = shape_change(shape, SHAPE_ITEM, out);
        request_write(".TP\n.B", words, term, out);
        line_write(words + gap, rest - gap, false, out);
    } else if (indent > 0 && shape != SHAPE_ITEM) {
        shape = shape_change(shape, SHAPE_LITERAL, out);
        line_write(line, length, true, out);
    } else {
        shape = shape_change(shape, indent > 0 ? SHAPE_ITEM : SHAPE_FILLED, out);
        line_write(words, rest, false, out);
    }
    return shape;
}

void roff_text(const char *text, struct buffer *out)
{
    enum shape shape = SHAPE_FILLED;
    for (size_t length; *text != '\0'; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        if (length > 0)
            shape = text_line(text, length, shape, out);
        else
            shape = shape_change(shape, SHAPE_BETWEEN, out);
    }
    shape_change(shape, SHAPE_BETWEEN, out);
}
