/* Text from outside, made harmless for a log line and the terminal that shows it: what is no plain letter becomes an
 * escape of plain letters. Besides control characters that means the Unicode ones that terminals and editors obey
 * (C1, line and paragraph separators, changes of the writing direction, marks without width), and every byte that is
 * not valid UTF-8. */
#include "base/log.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CUT_MARK "..."

enum { PIECE_MAX = 8 }; /* the longest escape, \uHHHH, and its NUL */

static bool is_bare(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._:/@+-", c) != NULL);
}

/* A lone "-" is what NULL looks like. */
static bool is_bare_word(const char *bytes, size_t length)
{
    if (length == 0 || length >= LOG_QUOTE_MAX || (length == 1 && bytes[0] == '-'))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_bare((unsigned char)bytes[i]))
            return false;
    return true;
}

/* The length of the valid UTF-8 character at the front, and its code point; 0 when there is none. */
static size_t character_read(const unsigned char *bytes, size_t length, uint32_t *point)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length: longer forms are forgeries */

    size_t size = bytes[0] < 0x80   ? 1
                  : bytes[0] < 0xC0 ? 0
                  : bytes[0] < 0xE0 ? 2
                  : bytes[0] < 0xF0 ? 3
                  : bytes[0] < 0xF8 ? 4
                                    : 0;
    if (size <= 1 || size > length) {
        *point = bytes[0];
        return size == 1;
    }
    uint32_t value = bytes[0] & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xC0) != 0x80)
            return 0;
        value = value << 6 | (bytes[i] & 0x3Fu);
    }
    *point = value;
    bool surrogate = value >= 0xD800 && value <= 0xDFFF;
    return value < smallest[size] || value > 0x10FFFF || surrogate ? 0 : size;
}

/* Characters that are not shown but obeyed. All lie in the first 65536. */
static bool is_obeyed(uint32_t point)
{
    return point < 0x20 || (point >= 0x7F && point <= 0x9F) || point == 0x061C ||
           (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
           (point >= 0x2060 && point <= 0x206F) || point == 0xFEFF || (point >= 0xFFF9 && point <= 0xFFFB);
}

/* Writes the front character as it is to be shown; returns how many bytes of the input it took. */
static size_t piece_print(const unsigned char *bytes, size_t length, char piece[PIECE_MAX])
{
    uint32_t point;
    size_t size = character_read(bytes, length, &point);
    if (size == 0 || (size == 1 && is_obeyed(point))) {
        snprintf(piece, PIECE_MAX, "\\x%02X", bytes[0]);
        return 1;
    }
    if (is_obeyed(point)) {
        snprintf(piece, PIECE_MAX, "\\u%04X", (unsigned)(point & 0xFFFF));
    } else if (point == '"' || point == '\\') {
        snprintf(piece, PIECE_MAX, "\\%c", (char)point);
    } else {
        memcpy(piece, bytes, size);
        piece[size] = '\0';
    }
    return size;
}

static void quote(const unsigned char *bytes, size_t length, char out[LOG_QUOTE_MAX])
{
    const size_t end = LOG_QUOTE_MAX - 2; /* the closing quote and the NUL come there at the latest */
    size_t used = 0, cut = 1;             /* `cut`: how much may stay if the mark has to go behind it */
    out[used++] = '"';

    for (size_t i = 0; i < length;) {
        char piece[PIECE_MAX];
        i += piece_print(bytes + i, length - i, piece);
        size_t size = strlen(piece);
        if (used + size > end) {
            memcpy(out + cut, CUT_MARK, strlen(CUT_MARK));
            used = cut + strlen(CUT_MARK);
            break;
        }
        memcpy(out + used, piece, size);
        used += size;
        if (used + strlen(CUT_MARK) <= end)
            cut = used;
    }
    out[used] = '"';
    out[used + 1] = '\0';
}

const char *log_quote_bytes(const char *bytes, size_t length, char out[LOG_QUOTE_MAX])
{
    if (bytes == NULL) {
        memcpy(out, "-", 2);
    } else if (is_bare_word(bytes, length)) {
        memcpy(out, bytes, length);
        out[length] = '\0';
    } else {
        quote((const unsigned char *)bytes, length, out);
    }
    return out;
}

const char *log_quote(const char *text, char out[LOG_QUOTE_MAX])
{
    return log_quote_bytes(text, text == NULL ? 0 : strlen(text), out);
}

char *log_defuse(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at != '\0'; at++) {
        bool is_c1 = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0; /* U+0080 to U+009F */
        if (is_c1)
            *at++ = '?';
        if (is_c1 || *at < ' ' || *at == 0x7f)
            *at = '?';
    }
    return text;
}
