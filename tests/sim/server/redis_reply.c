#include "tests/sim/server/redis_reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"

enum { BLOCK_BYTES = 32 * 1024, NUMBER_SIZE = 24 };

struct replies_block {
    struct replies_block *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

/* The digits before `end`; where they begin. */
static char *digits_write(char *end, long long number)
{
    unsigned long long rest = number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;
    do
        *--end = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0)
        *--end = '-';
    return end;
}

void replies_fini(struct replies *replies)
{
    while (replies->blocks != NULL) {
        struct replies_block *block = replies->blocks;
        replies->blocks = block->next;
        free(block);
    }
}

void replies_clear(struct replies *replies)
{
    while (replies->blocks != NULL && (replies->blocks->next != NULL || replies->blocks->size > BLOCK_BYTES)) {
        struct replies_block *block = replies->blocks;
        replies->blocks = block->next;
        free(block);
    }
    if (replies->blocks != NULL)
        replies->blocks->used = 0;
}

void *replies_take(struct replies *replies, size_t size)
{
    struct replies_block *block = replies->blocks;
    size = (size + 15) & ~(size_t)15;
    if (block == NULL || block->size - block->used < size) {
        size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = memory_resize(NULL, 1, sizeof *block + room);
        block->used = 0;
        block->size = room;
        block->next = replies->blocks;
        replies->blocks = block;
    }
    void *taken = block->bytes + block->used;
    block->used += size;
    return taken;
}

struct text replies_text(struct replies *replies, struct text text)
{
    char *copy = replies_take(replies, text.length + 1);
    if (text.length > 0)
        memcpy(copy, text.bytes, text.length);
    copy[text.length] = '\0';
    return (struct text){copy, text.length};
}

struct text replies_format(struct replies *replies, const char *format, ...)
{
    enum { MOSTLY = 64 };
    va_list arguments;
    char *text = replies_take(replies, MOSTLY);
    va_start(arguments, format);
    int length = vsnprintf(text, MOSTLY, format, arguments);
    va_end(arguments);
    invariant(length >= 0);
    if (length >= MOSTLY) {
        text = replies_take(replies, (size_t)length + 1);
        va_start(arguments, format);
        vsnprintf(text, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    return (struct text){text, (size_t)length};
}

struct text replies_number(struct replies *replies, long long number)
{
    char *text = replies_take(replies, NUMBER_SIZE), *at = digits_write(text + NUMBER_SIZE - 1, number);
    text[NUMBER_SIZE - 1] = '\0';
    return (struct text){at, (size_t)(text + NUMBER_SIZE - 1 - at)};
}

static struct reply *reply_new(struct replies *replies, enum reply_kind kind, struct text text)
{
    struct reply *reply = replies_take(replies, sizeof *reply);
    *reply = (struct reply){.kind = kind, .text = text};
    return reply;
}

struct reply *reply_nil(struct replies *replies)
{
    return reply_new(replies, REPLY_NIL, text_of(""));
}

struct reply *reply_nil_array(struct replies *replies)
{
    return reply_new(replies, REPLY_NIL_ARRAY, text_of(""));
}

struct reply *reply_integer(struct replies *replies, long long integer)
{
    struct reply *reply = reply_new(replies, REPLY_INTEGER, text_of(""));
    reply->integer = integer;
    return reply;
}

struct reply *reply_bulk(struct replies *replies, struct text text)
{
    return reply_new(replies, REPLY_BULK, replies_text(replies, text));
}

struct reply *reply_number(struct replies *replies, long long number)
{
    return reply_new(replies, REPLY_BULK, replies_number(replies, number));
}

struct reply *reply_status(struct replies *replies, const char *text)
{
    return reply_new(replies, REPLY_STATUS, replies_text(replies, text_of(text)));
}

struct reply *reply_error(struct replies *replies, const char *text)
{
    return reply_new(replies, REPLY_ERROR, replies_text(replies, text_of(text)));
}

struct reply *reply_array(struct replies *replies, size_t most)
{
    struct reply *reply = reply_new(replies, REPLY_ARRAY, text_of(""));
    reply->items = replies_take(replies, (most + 1) * sizeof(struct reply *));
    reply->room = most;
    return reply;
}

struct reply *reply_several(struct replies *replies, size_t most)
{
    struct reply *reply = reply_array(replies, most);
    reply->kind = REPLY_SEVERAL;
    return reply;
}

void reply_add(struct reply *array, struct reply *item)
{
    invariant(array->count < array->room);
    array->items[array->count++] = item;
}

struct reply *reply_score(struct replies *replies, double score)
{
    return reply_new(replies, REPLY_BULK, replies_format(replies, "%.17g", score));
}

static void number_write(char kind, long long number, struct buffer *out)
{
    char text[NUMBER_SIZE + 3], *end = text + sizeof text;
    end[-1] = '\n';
    end[-2] = '\r';
    char *at = digits_write(end - 2, number);
    *--at = kind;
    buffer_append(out, at, (size_t)(end - at));
}

/* Line ends inside of an error would end it. */
static void error_write(struct text text, struct buffer *out)
{
    buffer_append(out, "-", 1);
    for (size_t i = 0; i < text.length; i++)
        buffer_append(out, text.bytes[i] == '\r' || text.bytes[i] == '\n' ? " " : &text.bytes[i], 1);
    buffer_append(out, "\r\n", 2);
}

void reply_write(const struct reply *reply, struct buffer *out)
{
    switch (reply->kind) {
    case REPLY_NIL:
        buffer_append(out, "$-1\r\n", 5);
        break;
    case REPLY_NIL_ARRAY:
        buffer_append(out, "*-1\r\n", 5);
        break;
    case REPLY_INTEGER:
        number_write(':', reply->integer, out);
        break;
    case REPLY_BULK:
        number_write('$', (long long)reply->text.length, out);
        buffer_append(out, reply->text.bytes, reply->text.length);
        buffer_append(out, "\r\n", 2);
        break;
    case REPLY_STATUS:
        buffer_append(out, "+", 1);
        buffer_append(out, reply->text.bytes, reply->text.length);
        buffer_append(out, "\r\n", 2);
        break;
    case REPLY_ERROR:
        error_write(reply->text, out);
        break;
    case REPLY_ARRAY:
        number_write('*', (long long)reply->count, out);
        /* fall through */
    case REPLY_SEVERAL:
        for (size_t i = 0; i < reply->count; i++)
            reply_write(reply->items[i], out);
        break;
    }
}

const char *reply_text(const struct reply *array, size_t index)
{
    return array->kind == REPLY_ARRAY && index < array->count && array->items[index]->text.bytes != NULL
               ? array->items[index]->text.bytes
               : "";
}
