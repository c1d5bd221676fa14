/* An iterative JSON scanner.
 *
 * Design. Producers are strangers, so the length of the text bounds the work and the struct bounds the memory: the
 * open containers are a stack of bytes, one each, that says how they close. Two alternating steps in json_scan_value
 * pass a value: `token_passed` takes a scalar or an opening bracket, `item_follows` takes what stands
 * between two values (commas, member names, closing brackets). The same second step drives the iteration over the
 * container that the caller opened.
 *
 * Most bytes of a text are in strings, so these are passed in words of eight bytes. Loops walk a local pointer,
 * because one through the struct waits for memory at each byte; the functions marked inline are worth it, by
 * measurement. The text is not NUL-terminated; `peek` answers NUL at its end, which no token begins with.
 *
 * Not checked here, because it is not grammar: duplicate names (envelope.c does it for the top level) and the range
 * of numbers (nobody converts them). Pure; any thread. */
#include "queue/json_scan.h"

#include <endian.h>
#include <string.h>

#include "base/utf8.h"

enum byte_class { PLAIN, QUOTE, BACKSLASH, CONTROL, MULTIBYTE };

/* What a byte means inside a string. */
static const unsigned char byte_classes[256] = {
    [0x00 ... 0x1F] = CONTROL,
    ['"'] = QUOTE,
    ['\\'] = BACKSLASH,
    [0x80 ... 0xFF] = MULTIBYTE,
};

static bool fault(struct json_scan *scan, const char *what)
{
    scan->failed = true;
    return error_set(scan->error, "not valid JSON: %s at byte %zu", what, (size_t)(scan->at - scan->text));
}

static char peek(const struct json_scan *scan)
{
    return scan->at < scan->end ? *scan->at : '\0';
}

static bool is_space(char byte)
{
    /* Almost never true: one comparison rules out nearly every byte. */
    return byte <= ' ' && (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r');
}

/* Passes white space; the byte behind it, NUL at the end of the text. */
static inline char skip_space(struct json_scan *scan)
{
    const char *at = scan->at, *end = scan->end;
    if (at < end && !(*at <= ' '))
        return *at;
    while (at < end && is_space(*at))
        at++;
    scan->at = at;
    return at < end ? *at : '\0';
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_hex_digit(char byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

/* Length of the escape at `at`, 0 if it is none. */
static size_t escape_length(const char *at, const char *end)
{
    if (end - at < 2)
        return 0;
    switch (at[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return 2;
    case 'u':
        return end - at >= 6 && is_hex_digit(at[2]) && is_hex_digit(at[3]) && is_hex_digit(at[4]) && is_hex_digit(at[5])
                   ? 6
                   : 0;
    default:
        return 0;
    }
}

/* The scan stands on a byte of a string that needs a look. Passes it, or says why not. */
static bool special_byte_passed(struct json_scan *scan, unsigned char class)
{
    if (class == CONTROL)
        return fault(scan, "a control character in a string");
    size_t length = class == BACKSLASH ? escape_length(scan->at, scan->end) : utf8_length(scan->at, scan->end);
    if (length == 0)
        return fault(scan, class == BACKSLASH ? "an unknown escape in a string" : "bytes that are not UTF-8");
    scan->at += length;
    scan->escaped = scan->escaped || class == BACKSLASH;
    return true;
}

/* The first byte of a string from `at` on that is not plain, or one within eight bytes of the end. In a word, a byte
 * that is not plain sets its highest bit, and perhaps that of bytes behind it. */
static inline const char *plain_words_passed(const char *at, const char *end)
{
    static const uint64_t ones = 0x0101010101010101, highest = ones * 0x80;
    uint64_t word, found;
    for (; end - at >= (ptrdiff_t)sizeof word; at += sizeof word) {
        memcpy(&word, at, sizeof word);
        word = le64toh(word);
        found = (((word ^ ones * '"') - ones) | ((word ^ ones * '\\') - ones) | (word - ones * ' ') | word) & highest;
        if (found != 0)
            return at + __builtin_ctzll(found) / 8;
    }
    return at;
}

/* The scan stands on the opening quote. */
static inline bool string_passed(struct json_scan *scan)
{
    scan->at++;
    for (;;) {
        const char *end = scan->end, *at = plain_words_passed(scan->at, end);
        unsigned char class = PLAIN;
        while (at < end && (class = byte_classes[(unsigned char)*at]) == PLAIN)
            at++;
        scan->at = at;
        if (at == end)
            return fault(scan, "a string without its closing quote");
        if (class == QUOTE)
            break;
        if (!special_byte_passed(scan, class))
            return false;
    }
    scan->at++;
    return true;
}

static bool digits_passed(struct json_scan *scan)
{
    if (!is_digit(peek(scan)))
        return fault(scan, "a digit is missing");
    const char *at = scan->at;
    while (at < scan->end && is_digit(*at))
        at++;
    scan->at = at;
    return true;
}

static bool number_passed(struct json_scan *scan)
{
    if (peek(scan) == '-')
        scan->at++;
    if (peek(scan) == '0')
        scan->at++; /* and no digit may follow: then neither a comma nor a bracket is found */
    else if (!digits_passed(scan))
        return false;
    if (peek(scan) == '.') {
        scan->at++;
        if (!digits_passed(scan))
            return false;
    }
    if (peek(scan) == 'e' || peek(scan) == 'E') {
        scan->at++;
        if (peek(scan) == '+' || peek(scan) == '-')
            scan->at++;
        if (!digits_passed(scan))
            return false;
    }
    return true;
}

static bool literal_passed(struct json_scan *scan, const char *literal)
{
    size_t length = strlen(literal);
    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, literal, length) != 0)
        return fault(scan, "an unknown word");
    scan->at += length;
    return true;
}

static bool container_entered(struct json_scan *scan, char closing)
{
    if (scan->depth == scan->depth_limit) {
        scan->failed = true;
        return error_set(scan->error, "nested deeper than the limit of %zu at byte %zu", scan->depth_limit,
                         (size_t)(scan->at - scan->text));
    }
    scan->closing[scan->depth++] = closing;
    scan->at++;
    return true;
}

/* Passes a scalar or enters a container, whatever comes next. */
static bool token_passed(struct json_scan *scan, bool *entered)
{
    char byte = skip_space(scan);
    *entered = byte == '{' || byte == '[';
    switch (byte) {
    case '{':
        return container_entered(scan, '}');
    case '[':
        return container_entered(scan, ']');
    case '"':
        return string_passed(scan);
    case 't':
        return literal_passed(scan, "true");
    case 'f':
        return literal_passed(scan, "false");
    case 'n':
        return literal_passed(scan, "null");
    default:
        return byte == '-' || is_digit(byte) ? number_passed(scan) : fault(scan, "a value is missing");
    }
}

/* Passes `"name":` of an object member. */
static bool name_passed(struct json_scan *scan)
{
    if (skip_space(scan) != '"')
        return fault(scan, "a member name in double quotes is missing");
    if (++scan->keys > scan->key_limit) {
        scan->failed = true;
        return error_set(scan->error, "more object members than the limit of %zu", scan->key_limit);
    }
    const char *start = scan->at + 1;
    scan->escaped = false;
    if (!string_passed(scan))
        return false;
    scan->name = (struct text_span){start, (size_t)(scan->at - start) - 1};
    scan->name_escaped = scan->escaped;
    if (skip_space(scan) != ':')
        return fault(scan, "':' is missing behind a member name");
    scan->at++;
    return true;
}

/* Between two values of the innermost container. True if another value must follow, false if the container was
 * left, or on failure. `first`: the container has just been entered. */
static inline bool item_follows(struct json_scan *scan, bool first)
{
    char closing = scan->closing[scan->depth - 1];
    char byte = skip_space(scan);
    if (byte == closing) {
        scan->at++;
        scan->depth--;
        return false;
    }
    if (!first) {
        if (byte != ',')
            return fault(scan, closing == '}' ? "',' or '}' is missing" : "',' or ']' is missing");
        scan->at++;
    }
    return closing == ']' || name_passed(scan);
}

void json_scan_begin(struct json_scan *scan, const char *text, size_t length, const struct envelope_limits *limits,
                     struct error *error)
{
    /* Member by member: the stack of containers need not be cleared. */
    scan->text = scan->at = text;
    scan->end = length > 0 ? text + length : text;
    scan->name = (struct text_span){NULL, 0};
    scan->depth = scan->keys = 0;
    scan->depth_limit = limits->depth < JSON_DEPTH_MAX ? limits->depth : JSON_DEPTH_MAX;
    scan->key_limit = limits->keys;
    scan->entered = scan->escaped = scan->name_escaped = false;
    scan->error = error;
    scan->failed = length > limits->size;
    if (scan->failed) {
        scan->end = text;
        error_set(error, "%zu bytes long, more than the limit of %zu", length, limits->size);
    }
}

bool json_scan_open(struct json_scan *scan, char opening)
{
    if (skip_space(scan) != opening || scan->failed)
        return fault(scan, opening == '{' ? "'{' is missing" : "'[' is missing");
    scan->entered = true;
    return container_entered(scan, opening == '{' ? '}' : ']');
}

bool json_scan_value(struct json_scan *scan, struct text_span *value)
{
    size_t outside = scan->depth;
    skip_space(scan);
    const char *start = scan->at;
    do {
        bool first;
        if (scan->failed || !token_passed(scan, &first))
            return false;
        /* A container that ends is itself a value of the one around it. */
        while (scan->depth > outside && !item_follows(scan, first)) {
            if (scan->failed)
                return false;
            first = false;
        }
    } while (scan->depth > outside);
    *value = (struct text_span){start, (size_t)(scan->at - start)};
    return true;
}

bool json_scan_next(struct json_scan *scan, struct json_item *item)
{
    bool first = scan->entered;
    scan->entered = false;
    if (scan->failed || !item_follows(scan, first))
        return false;
    bool is_member = scan->closing[scan->depth - 1] == '}';
    item->name = is_member ? scan->name : (struct text_span){NULL, 0};
    item->name_escaped = is_member && scan->name_escaped;
    return json_scan_value(scan, &item->value);
}

bool json_scan_end(struct json_scan *scan)
{
    if (scan->failed)
        return false;
    skip_space(scan);
    return scan->at == scan->end || fault(scan, "something follows the value");
}
