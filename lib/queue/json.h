/* JSON as raw text: checks one value, and reads single values from a checked text.
 *
 * Builds no tree and converts only what is requested; a value is a span of its text. Pure; any thread. */
#ifndef QUEUE_JSON_H
#define QUEUE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct text_span {
    const char *bytes; /* NULL when absent */
    size_t length;
};

/* All of a buffer, until it changes. */
static inline struct text_span text_span_of(const struct buffer *buffer)
{
    return (struct text_span){buffer->bytes, buffer->length};
}

/* Limits for texts from outside. */
struct envelope_limits {
    size_t size;  /* bytes of the whole text */
    size_t depth; /* of nesting; JSON_DEPTH_MAX when larger */
    size_t keys;  /* object members in the whole text */
};

#define ENVELOPE_LIMITS_DEFAULT ((struct envelope_limits){.size = 1 << 20, .depth = 64, .keys = 4096})

enum { JSON_DEPTH_MAX = 1024 };

/* Checks a whole text as one JSON value within the limits. */
bool json_check(const char *text, size_t length, const struct envelope_limits *limits, struct error *error) MUST_CHECK;

/* Appends a JSON text so that every reader can take it: each byte that is not UTF-8, each control character but white
 * space, and each escape that is U+0000 or half a surrogate pair becomes U+FFFD. All other bytes stay. The length stays
 * if only escapes were replaced. */
void json_mend(const char *text, size_t length, struct buffer *out);

/* The index-th element of a valid raw JSON array; bytes == NULL if there are fewer. */
struct text_span json_array_element(struct text_span array, size_t index);

/* Counts the members called `name` (unescaped) of a valid raw JSON object, and sets `value` to that of the last one. */
size_t json_object_member(struct text_span object, struct text_span name, struct text_span *value);
/* The index-th member of a valid raw JSON object: its name without quotes and with its escapes, and its value. False
 * when there are fewer. */
bool json_object_element(struct text_span object, size_t index, struct text_span *name, struct text_span *value);
size_t json_object_count(struct text_span object); /* its members; 0 if it is none */

/* Whether a valid raw JSON value is a string / an integer that fits, and its value. The string is appended to `out`,
 * unescaped; one with half a surrogate pair, which UTF-8 cannot express, is refused and leaves `out` as it was. */
bool json_string_read(struct text_span value, struct buffer *out);
bool json_integer_read(struct text_span value, int64_t *out);
/* Reads a number of seconds, at most JSON_SECONDS_MAX_US, as whole microseconds, truncated. */
#define JSON_SECONDS_MAX_US INT64_C(4000000000000000000) /* some 120,000 years */
bool json_seconds_read(struct text_span value, int64_t *us);

#endif
