/* The scanner under everything that reads JSON in this layer; private to lib/queue.
 *
 * A scan passes over one text from left to right and checks it: the exact grammar of RFC 8259, UTF-8, nesting and
 * number of keys. It neither recurses nor allocates. The caller opens a container and takes its items one by one; the
 * scan checks and skips everything deeper.
 *
 *     json_scan_begin(&scan, text, length, &limits, error);
 *     if (json_scan_open(&scan, '{'))
 *         while (json_scan_next(&scan, &item))
 *             ...
 *     if (!json_scan_end(&scan))
 *         the text is not valid, and `error` says what is wrong at which byte */
#ifndef QUEUE_JSON_SCAN_H
#define QUEUE_JSON_SCAN_H

#include "queue/json.h"

struct json_scan {
    const char *text, *at, *end;
    size_t depth, depth_limit;
    size_t keys, key_limit;
    bool failed;
    bool entered;          /* a container was opened, and no item of it has been read */
    struct error *error;   /* may be NULL */
    bool escaped;          /* the last string has escapes: only names use this, and each name clears it first */
    struct text_span name; /* of the last object member, without quotes */
    bool name_escaped;
    /* The bytes that will close the open containers. */
    char closing[JSON_DEPTH_MAX];
};

struct json_item {
    struct text_span name; /* of an object member: without quotes, escapes not undone */
    bool name_escaped;     /* it has escapes */
    struct text_span value;
};

void json_scan_begin(struct json_scan *scan, const char *text, size_t length, const struct envelope_limits *limits,
                     struct error *error);

/* Enters the object ('{') or array ('[') that must come next. */
bool json_scan_open(struct json_scan *scan, char opening);
/* The next item of the opened container; false after its end and on failure. */
bool json_scan_next(struct json_scan *scan, struct json_item *item);
/* Passes one whole value. */
bool json_scan_value(struct json_scan *scan, struct text_span *value);
/* True when nothing failed and only white space is left. */
bool json_scan_end(struct json_scan *scan);

/* --- strings: the contents between the quotes, which the scanner has checked
 * --------------------------------------- */

/* Undoes the escapes. Writes at most contents.length bytes to `out` and sets `length`; the result is UTF-8 and may
 * hold NUL. False for half a surrogate pair, which is legal JSON but no UTF-8. */
bool json_text_unescape(struct text_span contents, char *out, size_t *length);

/* Whether two strings are the same text, however they are escaped ("class" and "cl\u0061ss"). */
bool json_text_equal(struct text_span a, struct text_span b);

/* A raw string value without its quotes; bytes == NULL if the value is not a string. */
static inline struct text_span json_text_contents(struct text_span value)
{
    if (value.bytes == NULL || value.bytes[0] != '"')
        return (struct text_span){NULL, 0};
    return (struct text_span){value.bytes + 1, value.length - 2};
}

#endif
