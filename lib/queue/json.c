/* Reads single values out of raw JSON, and checks a whole text. The scanner (json_scan.c) does the work. Values
 * that passed the limits before are scanned again without limits. Pure; any thread. */
#include "queue/json.h"

#include <string.h>

#include "base/invariant.h"
#include "base/utf8.h"
#include "queue/json_scan.h"

static const struct envelope_limits checked_before = {.size = SIZE_MAX, .depth = SIZE_MAX, .keys = SIZE_MAX};

bool json_check(const char *text, size_t length, const struct envelope_limits *limits, struct error *error)
{
    struct json_scan scan;
    struct text_span value;
    json_scan_begin(&scan, text, length, limits, error);
    return json_scan_value(&scan, &value) && json_scan_end(&scan);
}

struct text_span json_array_element(struct text_span array, size_t index)
{
    struct json_scan scan;
    struct json_item item;
    json_scan_begin(&scan, array.bytes, array.length, &checked_before, NULL);
    if (json_scan_open(&scan, '['))
        for (size_t i = 0; json_scan_next(&scan, &item); i++)
            if (i == index)
                return item.value;
    return (struct text_span){NULL, 0};
}

static bool name_is(const struct json_item *item, struct text_span name, struct buffer *unescaped)
{
    struct text_span found = item->name;
    if (item->name_escaped) {
        size_t length;
        if (!json_text_unescape(found, buffer_reserve(unescaped, found.length), &length))
            return false; /* half a surrogate pair, which is not valid text */
        found = (struct text_span){unescaped->bytes, length};
    }
    return found.length == name.length && memcmp(found.bytes, name.bytes, name.length) == 0;
}

size_t json_object_member(struct text_span object, struct text_span name, struct text_span *value)
{
    struct json_scan scan;
    struct json_item item;
    struct buffer unescaped = {0};
    size_t found = 0;
    json_scan_begin(&scan, object.bytes, object.length, &checked_before, NULL);
    if (json_scan_open(&scan, '{'))
        while (json_scan_next(&scan, &item))
            if (name_is(&item, name, &unescaped)) {
                *value = item.value;
                found++;
            }
    buffer_fini(&unescaped);
    return found;
}

bool json_object_element(struct text_span object, size_t index, struct text_span *name, struct text_span *value)
{
    struct json_scan scan;
    struct json_item item;
    json_scan_begin(&scan, object.bytes, object.length, &checked_before, NULL);
    if (!json_scan_open(&scan, '{'))
        return false;
    while (json_scan_next(&scan, &item))
        if (index-- == 0) {
            *name = item.name;
            *value = item.value;
            return true;
        }
    return false;
}

size_t json_object_count(struct text_span object)
{
    struct json_scan scan;
    struct json_item item;
    size_t count = 0;
    json_scan_begin(&scan, object.bytes, object.length, &checked_before, NULL);
    if (json_scan_open(&scan, '{'))
        while (json_scan_next(&scan, &item))
            count++;
    return count;
}

bool json_string_read(struct text_span value, struct buffer *out)
{
    struct text_span contents = json_text_contents(value);
    size_t length;
    if (contents.bytes == NULL || !json_text_unescape(contents, buffer_reserve(out, contents.length), &length))
        return false;
    out->length += length;
    return true;
}

bool json_integer_read(struct text_span value, int64_t *out)
{
    bool negative = value.length > 0 && value.bytes[0] == '-';
    size_t start = negative ? 1 : 0;
    int64_t result = 0;
    if (value.length == start)
        return false;
    for (size_t i = start; i < value.length; i++) {
        int digit = value.bytes[i] - '0';
        /* Counted on the negative side, which reaches one further. */
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(result, 10, &result) ||
            __builtin_sub_overflow(result, digit, &result))
            return false;
    }
    if (!negative && result == INT64_MIN)
        return false;
    *out = negative ? result : -result;
    return true;
}

/* The significant digits and the power of ten behind them; false if the value is no number. Cuts what follows the
 * eighteenth digit. */
static bool number_take(struct text_span value, int64_t *digits, int64_t *exponent)
{
    const char *at = value.bytes, *end = at + value.length;
    bool is_fraction = false, is_negative = at < end && *at == '-';
    int64_t power = 0;
    *digits = *exponent = 0;
    at += is_negative;
    if (at == end || *at < '0' || *at > '9')
        return false;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        bool fits = *digits < INT64_C(100000000000000000);
        if (*at == '.')
            is_fraction = true;
        else if (fits)
            *digits = *digits * 10 + (*at - '0');
        if (*at != '.')
            *exponent += (fits ? 0 : 1) - is_fraction;
    }
    bool is_small = at + 1 < end && at[1] == '-';
    for (; at < end; at++)
        if (*at >= '0' && *at <= '9' && power < 100000)
            power = power * 10 + (*at - '0');
    *exponent += is_small ? -power : power;
    *digits = is_negative ? -*digits : *digits;
    return true;
}

bool json_seconds_read(struct text_span value, int64_t *us)
{
    enum { MICRO = 6 };
    int64_t digits, exponent;
    if (value.bytes == NULL || !number_take(value, &digits, &exponent))
        return false;
    for (exponent += MICRO; exponent < 0 && digits != 0; exponent++)
        digits /= 10;
    for (; exponent > 0 && digits != 0; exponent--)
        if (__builtin_mul_overflow(digits, 10, &digits))
            return false;
    if (digits > JSON_SECONDS_MAX_US || digits < -JSON_SECONDS_MAX_US)
        return false;
    *us = digits;
    return true;
}

/* --- strings ------------------------------------------------------------------------------------------------------ */

/* Reading the contents of JSON strings.
 *
 * Both functions use `unit_next`, which takes one character or escape at a time, so that comparing needs no memory. A
 * pair of surrogate escapes is one character. Half a pair is returned as the surrogate that it is, because two names
 * with the same half are still the same name. Pure; any thread. */

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

/* Reads the code point of the escape at *at and advances past it: two escapes if they are a surrogate pair. */
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

/* Reads the code point at *at and advances past it. */
static unsigned unit_next(const char **at, const char *end)
{
    if (**at == '\\')
        return escape_next(at, end);
    size_t length = utf8_length(*at, end);
    invariant(length > 0);
    unsigned unit = utf8_point(*at, length);
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

void json_mend(const char *text, size_t length, struct buffer *out)
{
    const char *at = text, *end = text + length, *copied = text;
    while (at < end) {
        const char *from = at, *instead = NULL;
        if (*at == '\\' && end - at >= 2 && (at[1] != 'u' || end - at >= 6)) {
            unsigned unit = escape_next(&at, end);
            instead = unit == 0 || is_high_surrogate(unit) || is_low_surrogate(unit) ? "\\ufffd" : NULL;
        } else {
            size_t size = utf8_length(at, end);
            bool is_text = size > 0 && ((unsigned char)*at >= ' ' || *at == '\t' || *at == '\n' || *at == '\r');
            instead = is_text ? NULL : UTF8_REPLACEMENT;
            at += size > 0 ? size : 1;
        }
        if (instead != NULL) {
            buffer_append(out, copied, (size_t)(from - copied));
            buffer_append_text(out, instead);
            copied = at;
        }
    }
    buffer_append(out, copied, (size_t)(end - copied));
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
