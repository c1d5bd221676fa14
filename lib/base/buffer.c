#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"

enum { SMALLEST_CAPACITY = 64 };

void buffer_fini(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){.bytes = NULL};
}

char *buffer_reserve(struct buffer *buffer, size_t more)
{
    if (buffer->bytes == NULL || buffer->capacity - buffer->length < more) {
        invariant(more <= SIZE_MAX / 4 && buffer->length <= SIZE_MAX / 4);
        size_t needed = buffer->length + more;
        size_t capacity = 2 * buffer->capacity;
        if (capacity < SMALLEST_CAPACITY)
            capacity = SMALLEST_CAPACITY;
        if (capacity < needed)
            capacity = needed;
        buffer->bytes = memory_resize(buffer->bytes, capacity, 1);
        buffer->capacity = capacity;
    }
    return buffer->bytes + buffer->length;
}

void buffer_format(struct buffer *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);

    char *to = buffer_reserve(buffer, 1);
    size_t room = buffer->capacity - buffer->length;
    int length = vsnprintf(to, room, format, arguments);
    invariant(length >= 0);
    if ((size_t)length >= room)
        vsnprintf(buffer_reserve(buffer, (size_t)length + 1), (size_t)length + 1, format, again);
    buffer->length += (size_t)length;

    va_end(again);
    va_end(arguments);
}

const char *buffer_text(struct buffer *buffer)
{
    *buffer_reserve(buffer, 1) = '\0';
    return buffer->bytes;
}

void buffer_drop_front(struct buffer *buffer, size_t length)
{
    invariant(length <= buffer->length);
    buffer->length -= length;
    if (length > 0 && buffer->length > 0)
        memmove(buffer->bytes, buffer->bytes + length, buffer->length);
}
