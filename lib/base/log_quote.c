/* Makes text from outside harmless for a log line and the terminal that shows it. Escapes replace control
 * characters, the Unicode characters that terminals and editors obey (C1, line and paragraph separators, changes of
 * the writing direction, zero-width marks), and every byte that is not valid UTF-8. Also the way back, from a line
 * with such texts to JSON. */
#include "base/log.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "base/utf8.h"

#define CUT_MARK "..."

enum { PIECE_MAX = 8 }; /* the longest escape, \uHHHH, and its NUL */

static bool is_bare(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._:/@+-", c) != NULL);
}

/* The number of leading bytes that are in the set. */
static size_t span_before(const char *at, const char *end, const char *set)
{
    size_t count = 0;
    while (at + count < end && at[count] != '\0' && strchr(set, at[count]) != NULL)
        count++;
    return count;
}

/* A number of JSON without an exponent. */
static bool is_number(const char *bytes, size_t length)
{
    static const char digits[] = "0123456789";
    const char *at = bytes, *end = bytes + length;
    at += at < end && *at == '-';
    size_t whole = span_before(at, end, digits);
    if (whole == 0 || (whole > 1 && *at == '0'))
        return false;
    at += whole;
    size_t behind = at < end && *at == '.' ? span_before(at + 1, end, digits) : 0;
    at += behind > 0 ? 1 + behind : 0;
    return at == end;
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

/* Characters that a terminal obeys instead of showing. All are below U+10000. */
static bool is_obeyed(uint32_t point)
{
    return point < 0x20 || (point >= 0x7F && point <= 0x9F) || point == 0x061C ||
           (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
           (point >= 0x2060 && point <= 0x206F) || point == 0xFEFF || (point >= 0xFFF9 && point <= 0xFFFB);
}

/* Writes the first character as it will be shown; returns how many bytes of the input it took. */
static size_t piece_print(const char *bytes, size_t length, char piece[PIECE_MAX])
{
    size_t size = utf8_length(bytes, bytes + length);
    uint32_t point = utf8_point(bytes, size);
    if (size == 0 || (size == 1 && is_obeyed(point))) {
        snprintf(piece, PIECE_MAX, "\\x%02X", (unsigned char)bytes[0]);
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

static void quote(const char *bytes, size_t length, char out[LOG_QUOTE_MAX])
{
    const size_t end = LOG_QUOTE_MAX - 2; /* leaves room for the closing quote and the NUL */
    size_t used = 0, cut = 1;             /* `cut`: how much stays if the text must be cut */
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
        quote(bytes, length, out);
    }
    return out;
}

const char *log_quote(const char *text, char out[LOG_QUOTE_MAX])
{
    return log_quote_bytes(text, text == NULL ? 0 : strlen(text), out);
}

/* --- a line as JSON --------------------------------------------------------------------------------------------- */

struct pair {
    const char *key, *value;
    size_t key_length, value_length;
    bool is_quoted; /* `value` is what is between the quotes */
    bool is_put;
};

static size_t word_before(const char *at, const char *end)
{
    const char *blank = memchr(at, ' ', (size_t)(end - at));
    return (size_t)((blank != NULL ? blank : end) - at);
}

/* A quote without an end is where the line was cut. */
static size_t quoted_before(const char *at, const char *end)
{
    const char *from = at;
    while (at < end && *at != '"')
        at += *at == '\\' && at + 1 < end ? 2 : 1;
    return (size_t)(at - from);
}

/* Returns the end of the pair that begins at `at`. */
static const char *pair_read(const char *at, const char *end, struct pair *pair)
{
    size_t length = word_before(at, end);
    const char *equals = memchr(at, '=', length);
    if (equals == NULL || equals == at) {
        *pair = (struct pair){.key = "text", .key_length = 4, .value = at, .value_length = length};
        return at + length;
    }
    bool is_quoted = equals + 1 < end && equals[1] == '"';
    const char *value = equals + 1 + is_quoted;
    length = is_quoted ? quoted_before(value, end) : word_before(value, end);
    *pair = (struct pair){at, value, (size_t)(equals - at), length, is_quoted, false};
    return value + length + (is_quoted && value + length < end);
}

static char *put(char *to, const char *bytes, size_t length)
{
    memcpy(to, bytes, length);
    return to + length;
}

/* An escape of quote(), or a literal backslash; `length` becomes the number of bytes read. */
static char *escape_put(char *to, const char *bytes, size_t *length)
{
    const char *end = bytes + *length;
    char kind = *length > 1 ? bytes[1] : '\0';
    size_t digits = kind == 'x' || kind == 'u' ? span_before(bytes + 2, end, "0123456789ABCDEF") : 0;
    *length = kind == '"' || kind == '\\' ? 2 : kind == 'x' && digits >= 2 ? 4 : kind == 'u' && digits >= 4 ? 6 : 1;
    if (*length == 1)
        return put(to, "\\\\", 2);
    if (*length != 4)
        return put(to, bytes, *length);
    return bytes[2] < '8' ? put(put(to, "\\u00", 4), bytes + 2, 2)
                          : put(to, UTF8_REPLACEMENT, strlen(UTF8_REPLACEMENT));
}

static char *string_put(char *to, const char *bytes, size_t length, bool is_quoted)
{
    *to++ = '"';
    for (size_t i = 0, size; i < length; i += size) {
        size = utf8_length(bytes + i, bytes + length);
        char point = bytes[i];
        if (size == 0 || (unsigned char)point < ' ') {
            to = put(to, UTF8_REPLACEMENT, strlen(UTF8_REPLACEMENT));
            size = 1;
        } else if (point == '\\' && is_quoted) {
            size = length - i;
            to = escape_put(to, bytes + i, &size);
        } else {
            if (point == '"' || point == '\\')
                *to++ = '\\';
            to = put(to, bytes + i, size);
        }
    }
    *to++ = '"';
    return to;
}

static char *value_put(char *to, const struct pair *pair)
{
    if (!pair->is_quoted && is_number(pair->value, pair->value_length))
        return put(to, pair->value, pair->value_length);
    if (!pair->is_quoted && pair->value_length == 1 && pair->value[0] == '-')
        return put(to, "null", 4);
    return string_put(to, pair->value, pair->value_length, pair->is_quoted);
}

static const char *const head_keys[] = {"time", "level", "msg"};
enum { HEAD_KEYS = sizeof head_keys / sizeof head_keys[0] };

static bool is_head_key(const struct pair *pair)
{
    for (size_t i = 0; i < HEAD_KEYS; i++)
        if (pair->key_length == strlen(head_keys[i]) && memcmp(pair->key, head_keys[i], pair->key_length) == 0)
            return true;
    return false;
}

/* Writes the first pair of a key, with the values of all later pairs of that key. */
static char *member_put(char *to, struct pair *pair, const struct pair *end)
{
    to = string_put(put(to, ",", 1), pair->key, pair->key_length, false);
    to = is_head_key(pair) ? put(to - 1, "_\":", 3) : put(to, ":", 1);
    char *from = to;
    to = value_put(to, pair);
    for (struct pair *other = pair + 1; other < end; other++) {
        if (other->key_length != pair->key_length || memcmp(other->key, pair->key, pair->key_length) != 0)
            continue;
        if (*from != '[') { /* a value begins otherwise */
            memmove(from + 1, from, (size_t)(to++ - from));
            *from = '[';
        }
        to = value_put(put(to, ",", 1), other);
        other->is_put = true;
    }
    return *from == '[' ? put(to, "]", 1) : to;
}

size_t log_json(const char *line, size_t length, char out[LOG_JSON_MAX])
{
    const char *at = line, *end = line + length;
    char *to = out;
    struct pair pairs[LOG_LINE_MAX / 2]; /* each has a byte at least, and one before it */
    size_t count = 0;
    invariant(length <= LOG_LINE_MAX);
    for (size_t i = 0; i < HEAD_KEYS; i++) {
        size_t word = word_before(at, end);
        to = string_put(put(to, i == 0 ? "{" : ",", 1), head_keys[i], strlen(head_keys[i]), false);
        to = string_put(put(to, ":", 1), at, word, false);
        at += word + (at + word < end);
    }
    while (at < end)
        if (*at == ' ')
            at++;
        else
            at = pair_read(at, end, &pairs[count++]);
    for (struct pair *pair = pairs; pair < pairs + count; pair++)
        if (!pair->is_put)
            to = member_put(to, pair, pairs + count);
    return (size_t)(put(to, "}", 1) - out);
}

/* ---------------------------------------------------------------------------------------------------------------- */

const char *log_value_bytes(const char *bytes, size_t length, char out[LOG_QUOTE_MAX])
{
    if (bytes == NULL || !is_number(bytes, length))
        return log_quote_bytes(bytes, length, out);
    quote(bytes, length, out);
    return out;
}

const char *log_value(const char *text, char out[LOG_QUOTE_MAX])
{
    return log_value_bytes(text, text == NULL ? 0 : strlen(text), out);
}

char *log_defuse(char *text)
{
    const char *end = text + strlen(text);
    char *to = text;
    for (const char *at = text; at < end;) {
        size_t size = utf8_length(at, end);
        bool is_shown = size > 0 && !is_obeyed(utf8_point(at, size));
        memmove(to, is_shown ? at : "?", is_shown ? size : 1);
        to += is_shown ? size : 1;
        at += size > 0 ? size : 1;
    }
    *to = '\0';
    return text;
}
