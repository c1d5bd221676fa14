/* Reading the contents of JSON strings.
 *
 * Both readings go through `unit_next`, which takes one character or escape at a time, so that comparing needs no
 * memory. A pair of surrogate escapes is one character; half a pair is handed out as the surrogate that it is,
 * because two names with the same half are still the same name. Pure; any thread. */
#include "queue/json_text.h"

#include "base/invariant.h"
#include "queue/utf8.h"

static unsigned hex_value(char digit)
{
    unsigned value = (unsigned char)digit;
    return value <= '9' ? value - '0' : (value | 0x20) - 'a' + 10;
}

/* The code unit of the escape \uXXXX at `at`. */
static unsigned unicode_escape(const char *at)
{
    return hex_value(at[2]) << 12 | hex_value(at[3]) << 8 | hex_value(at[4]) << 4 | hex_value(at[5]);
}

static bool is_high_surrogate(unsigned unit)
{
    return unit >= 0xD800 && unit <= 0xDBFF;
}

static bool is_low_surrogate(unsigned unit)
{
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* The code point of the escape at *at, which is passed: two escapes when they are a surrogate pair. */
static unsigned escape_next(const char **at, const char *end)
{
    const char *escape = *at;
    *at += 2;
    switch (escape[1]) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'u':
        break;
    default:
        return (unsigned char)escape[1];
    }
    *at += 4;
    unsigned unit = unicode_escape(escape);
    if (!is_high_surrogate(unit) || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return unit;
    unsigned low = unicode_escape(*at);
    if (!is_low_surrogate(low))
        return unit;
    *at += 6;
    return 0x10000 + ((unit - 0xD800) << 10 | (low - 0xDC00));
}

/* The code point at *at, which is passed. */
static unsigned unit_next(const char **at, const char *end)
{
    static const unsigned char lead_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    if (**at == '\\')
        return escape_next(at, end);
    size_t length = utf8_length(*at, end);
    invariant(length > 0);
    unsigned unit = (unsigned char)**at & lead_bits[length];
    for (size_t i = 1; i < length; i++)
        unit = unit << 6 | ((unsigned char)(*at)[i] & 0x3F);
    *at += length;
    return unit;
}

static bool is_escaped(struct text_span contents)
{
    return memchr(contents.bytes, '\\', contents.length) != NULL;
}

bool json_text_unescape(struct text_span contents, char *out, size_t *length)
{
    const char *at = contents.bytes, *end = at + contents.length;
    char *to = out;
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        size_t plain = (size_t)((escape != NULL ? escape : end) - at);
        memcpy(to, at, plain);
        to += plain;
        at += plain;
        if (escape == NULL)
            break;
        unsigned unit = escape_next(&at, end);
        if (is_high_surrogate(unit) || is_low_surrogate(unit))
            return false;
        to += utf8_write(to, unit);
    }
    *length = (size_t)(to - out);
    return true;
}

bool json_text_equal(struct text_span a, struct text_span b)
{
    if (!is_escaped(a) && !is_escaped(b))
        return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
    const char *at_a = a.bytes, *end_a = at_a + a.length, *at_b = b.bytes, *end_b = at_b + b.length;
    while (at_a < end_a && at_b < end_b)
        if (unit_next(&at_a, end_a) != unit_next(&at_b, end_b))
            return false;
    return at_a == end_a && at_b == end_b;
}
