#include "tests/sim/queue/redis_reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { BLOCK_BYTES = 8192 };

struct replies_block {
    struct replies_block *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

void replies_fini(struct replies *replies)
{
    while (replies->blocks != NULL) {
        struct replies_block *block = replies->blocks;
        replies->blocks = block->next;
        free(block);
    }
}

void *replies_take(struct replies *replies, size_t size)
{
    struct replies_block *block = replies->blocks;
    size = (size + 15) & ~(size_t)15;
    if (block == NULL || block->size - block->used < size) {
        size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = memory_zeroed(1, sizeof *block + room);
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
    return reply;
}

void reply_add(struct reply *array, struct reply *item)
{
    array->items[array->count++] = item;
}

struct reply *reply_score(struct replies *replies, double score)
{
    char text[64];
    snprintf(text, sizeof text, "%.17g", score);
    return reply_bulk(replies, text_of(text));
}

const char *reply_text(const struct reply *array, size_t index)
{
    return array->kind == REPLY_ARRAY && index < array->count && array->items[index]->text.bytes != NULL
               ? array->items[index]->text.bytes
               : "";
}
