/* What stands between the quotes of a JSON string; private to lib/queue. The contents given to these functions have
 * been checked by the scanner. Pure; any thread. */
#ifndef QUEUE_JSON_TEXT_H
#define QUEUE_JSON_TEXT_H

#include "queue/json.h"

/* Undoes the escapes. Writes at most contents.length bytes to `out` and sets `length`; the result is UTF-8 and may
 * hold NUL. False for half a surrogate pair, which is legal JSON but no text. */
bool json_text_unescape(struct text_span contents, char *out, size_t *length);

/* Whether two strings are the same text, however they are escaped ("class" and "cl\u0061ss"). */
bool json_text_equal(struct text_span a, struct text_span b);

/* A raw string value without its quotes; bytes == NULL when the value is not a string. */
static inline struct text_span json_text_contents(struct text_span value)
{
    if (value.bytes == NULL || value.bytes[0] != '"')
        return (struct text_span){NULL, 0};
    return (struct text_span){value.bytes + 1, value.length - 2};
}

#endif
