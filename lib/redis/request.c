/* The encoder. Every call runs it, so a part of a request costs one check for room and one copy: no format string,
 * and no allocation after the buffer has grown to its working size. */
#include "redis/request.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/quantity.h"

/* "$18446744073709551615\r\n" and the "\r\n" behind the bytes, rounded up. */
enum { HEADER_MAX = 32 };

static char *room_for(struct buffer *out, size_t bytes)
{
    if (out->capacity - out->length >= bytes)
        return out->bytes + out->length;
    return buffer_reserve(out, bytes);
}

static char *put_header(char *to, char mark, uint64_t number)
{
    *to++ = mark;
    if (number >= 100)
        to = decimal_write(to, number);
    else if (number >= 10)
        *to++ = (char)('0' + number / 10);
    if (number < 100)
        *to++ = (char)('0' + number % 10);
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

void redis_request_begin(struct buffer *out, size_t arguments)
{
    invariant(arguments > 0);
    char *start = room_for(out, HEADER_MAX);
    char *end = put_header(start, '*', arguments);
    out->length += (size_t)(end - start);
}

void redis_request_joined(struct buffer *out, const char *first, const char *second)
{
    size_t length = strlen(first), rest = strlen(second);
    char *start = room_for(out, length + rest + HEADER_MAX);
    char *end = put_header(start, '$', length + rest);
    memcpy(end, first, length);
    memcpy(end + length, second, rest);
    end += length + rest;
    *end++ = '\r';
    *end++ = '\n';
    out->length += (size_t)(end - start);
}

void redis_request_bytes(struct buffer *out, const void *bytes, size_t length)
{
    invariant(length < SIZE_MAX - HEADER_MAX);
    char *start = room_for(out, length + HEADER_MAX);
    char *end = put_header(start, '$', length);
    if (length > 0)
        memcpy(end, bytes, length);
    end += length;
    *end++ = '\r';
    *end++ = '\n';
    out->length += (size_t)(end - start);
}

void redis_request_text(struct buffer *out, const char *text)
{
    redis_request_bytes(out, text, strlen(text));
}

void redis_request_all(struct buffer *out, const char *const *texts, size_t count, bool is_whole)
{
    if (is_whole)
        redis_request_begin(out, count);
    for (size_t i = 0; i < count; i++)
        redis_request_text(out, texts[i]);
}

void redis_request_integer(struct buffer *out, int64_t value)
{
    char digits[24];
    char *end = digits;
    if (value < 0)
        *end++ = '-';
    end = decimal_write(end, value < 0 ? UINT64_C(0) - (uint64_t)value : (uint64_t)value);
    redis_request_bytes(out, digits, (size_t)(end - digits));
}

void redis_request_seconds(struct buffer *out, int64_t us)
{
    char text[32];
    invariant(us >= 0);
    int length = snprintf(text, sizeof text, "%lld.%06lld", (long long)(us / US_PER_S), (long long)(us % US_PER_S));
    redis_request_bytes(out, text, (size_t)length);
}

void redis_request_script(struct buffer *out, const struct redis_script *script, size_t keys, size_t arguments)
{
    redis_request_begin(out, 3 + keys + arguments);
    redis_request_bytes(out, "EVALSHA", 7);
    redis_request_bytes(out, script->sha1, 40);
    redis_request_integer(out, (int64_t)keys);
}
