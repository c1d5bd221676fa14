/* Growable bytes. A zeroed struct is an empty buffer; buffer_fini frees it. Only buffer_text NUL-terminates the
 * bytes. Not thread-safe. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

struct buffer {
    char *bytes;
    size_t length, capacity;
};

void buffer_fini(struct buffer *buffer);
/* Makes room for `more` bytes at the end and returns their address. The caller adds what it wrote to `length`. */
char *buffer_reserve(struct buffer *buffer, size_t more);
void buffer_format(struct buffer *buffer, const char *format, ...) PRINTF_LIKE(2, 3);
/* The content as a NUL-terminated string, valid until the next change. */
const char *buffer_text(struct buffer *buffer);

static inline void buffer_clear(struct buffer *buffer)
{
    buffer->length = 0;
}

static inline void buffer_append(struct buffer *buffer, const void *bytes, size_t length)
{
    if (length == 0)
        return;
    char *to =
        buffer->capacity - buffer->length >= length ? buffer->bytes + buffer->length : buffer_reserve(buffer, length);
    memcpy(to, bytes, length);
    buffer->length += length;
}

static inline void buffer_append_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

/* Drops `length` bytes from the front. */
void buffer_drop_front(struct buffer *buffer, size_t length);

#endif
