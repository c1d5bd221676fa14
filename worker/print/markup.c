#include "worker/print/markup.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

enum { FORMATTED_MAX = 1024 };

/* How long the character is of which this is the first byte; 0 when it is none. */
static size_t size_of(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

/* The valid character at the front; 0 when there is none. `text` is NUL-terminated, which ends every check early. */
static size_t character(const unsigned char *text)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = size_of(text[0]);
    if (size <= 1)
        return text[0] >= 0x20 && text[0] != 0x7F ? size : 0;
    uint32_t point = text[0] & (0x7FU >> size);
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
        point = point << 6 | (text[i] & 0x3FU);
    }
    bool is_control = point >= 0x80 && point < 0xA0, is_surrogate = point >= 0xD800 && point <= 0xDFFF;
    /* what changes the direction of the text around it */
    bool reorders = (point >= 0x200E && point <= 0x200F) || (point >= 0x202A && point <= 0x202E) ||
                    (point >= 0x2066 && point <= 0x2069);
    bool is_none = (point & 0xFFFE) == 0xFFFE;
    return point < smallest[size] || point > 0x10FFFF || is_control || is_surrogate || reorders || is_none ? 0 : size;
}

void markup_text(struct buffer *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        size_t size = character(at);
        if (size == 0)
            buffer_append(out, "?", 1);
        else if (*at == '&')
            buffer_append_text(out, "&amp;");
        else if (*at == '<')
            buffer_append_text(out, "&lt;");
        else if (*at == '>')
            buffer_append_text(out, "&gt;");
        else if (*at == '"')
            buffer_append_text(out, "&quot;");
        else if (*at == '\'')
            buffer_append_text(out, "&#39;");
        else
            buffer_append(out, at, size);
        at += size > 0 ? size : 1;
    }
}

void markup_format(struct buffer *out, const char *format, ...)
{
    char text[FORMATTED_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    markup_text(out, text);
}
