/* UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates, nothing above U+10FFFF. Pure. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#define UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD, in place of what is no character */

static inline bool utf8_between(char byte, unsigned low, unsigned high)
{
    unsigned value = (unsigned char)byte;
    return value >= low && value <= high;
}

/* Bytes of the character at `at` (1 to 4), or 0 when no valid character begins there. `at` < `end`. */
static inline size_t utf8_length(const char *at, const char *end)
{
    size_t left = (size_t)(end - at);
    unsigned lead = (unsigned char)at[0];
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4 || left < 2)
        return 0;
    if (lead < 0xE0)
        return utf8_between(at[1], 0x80, 0xBF) ? 2 : 0;
    if (lead < 0xF0) {
        unsigned low = lead == 0xE0 ? 0xA0 : 0x80, high = lead == 0xED ? 0x9F : 0xBF;
        return left >= 3 && utf8_between(at[1], low, high) && utf8_between(at[2], 0x80, 0xBF) ? 3 : 0;
    }
    unsigned low = lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xF4 ? 0x8F : 0xBF;
    bool valid = left >= 4 && utf8_between(at[1], low, high) && utf8_between(at[2], 0x80, 0xBF) &&
                 utf8_between(at[3], 0x80, 0xBF);
    return valid ? 4 : 0;
}

/* The code point of a valid character of `length` bytes. */
static inline unsigned utf8_point(const char *at, size_t length)
{
    static const unsigned char lead_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    unsigned point = (unsigned char)at[0] & lead_bits[length];
    for (size_t i = 1; i < length; i++)
        point = point << 6 | ((unsigned char)at[i] & 0x3F);
    return point;
}

/* Writes `code_point` (at most 0x10FFFF, no surrogate) and returns its length; `out` has room for 4 bytes. */
static inline size_t utf8_write(char *out, unsigned code_point)
{
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    unsigned lead = length == 2 ? 0xC0 : length == 3 ? 0xE0 : 0xF0;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3F));
        code_point >>= 6;
    }
    out[0] = (char)(lead | code_point);
    return length;
}

#endif
