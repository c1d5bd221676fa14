/* Base64 in groups: three bytes are four digits of six bits. The last group may be short; it is padded with '=', and
 * its unused bits must be zero, so that each byte string has exactly one text. Pure; any thread. */
#include "queue/base64.h"

#include <stdint.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const char *bytes, size_t length, struct buffer *out)
{
    char *to = buffer_reserve(out, (length + 2) / 3 * 4);
    char *start = to;
    for (size_t i = 0; i < length; i += 3) {
        size_t have = length - i < 3 ? length - i : 3;
        uint32_t group = 0;
        for (size_t j = 0; j < 3; j++)
            group = group << 8 | (j < have ? (unsigned char)bytes[i + j] : 0);
        *to++ = digits[group >> 18];
        *to++ = digits[group >> 12 & 63];
        *to++ = have > 1 ? digits[group >> 6 & 63] : '=';
        *to++ = have > 2 ? digits[group & 63] : '=';
    }
    out->length += (size_t)(to - start);
}

/* The value of a digit, or 64 for any other byte. */
static uint32_t digit_value(char digit)
{
    if (digit >= 'A' && digit <= 'Z')
        return (uint32_t)(digit - 'A');
    if (digit >= 'a' && digit <= 'z')
        return (uint32_t)(digit - 'a') + 26;
    if (digit >= '0' && digit <= '9')
        return (uint32_t)(digit - '0') + 52;
    return digit == '+' ? 62 : digit == '/' ? 63 : 64;
}

/* Four digits, of which the last `padding` are '='. */
static bool group_decode(const char *text, size_t padding, char *out)
{
    uint32_t group = 0;
    for (size_t i = 0; i < 4; i++) {
        uint32_t value = i < 4 - padding ? digit_value(text[i]) : 0;
        if (value > 63)
            return false;
        group = group << 6 | value;
    }
    if ((padding == 1 && (group & 0xFF) != 0) || (padding == 2 && (group & 0xFFFF) != 0))
        return false;
    for (size_t i = 0; i < 3 - padding; i++)
        out[i] = (char)(group >> (16 - 8 * i));
    return true;
}

bool base64_decode(const char *text, size_t length, struct buffer *out)
{
    if (length % 4 != 0)
        return false;
    char *start = buffer_reserve(out, length / 4 * 3);
    size_t padding = 0;
    if (length > 0 && text[length - 1] == '=')
        padding = text[length - 2] == '=' ? 2 : 1;
    for (size_t i = 0; i < length / 4; i++)
        if (!group_decode(text + 4 * i, 4 * (i + 1) == length ? padding : 0, start + 3 * i))
            return false;
    out->length += length / 4 * 3 - padding;
    return true;
}
