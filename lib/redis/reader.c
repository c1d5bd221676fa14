/* Limits and memory around hiredis' parser. Loop thread only.
 *
 * hiredis calls back for every element; our functions build struct redis_reply values in an arena that is reset
 * before the next reply, so a reply costs no allocation. The children of an array lie side by side: their slots are
 * taken when the array's header arrives, and each child is written into its slot by index.
 *
 * This file bounds what a server can cost, because hiredis bounds little of it (0.14 reserves 16 GiB for thirteen
 * bytes, 1.2 follows any depth):
 *   - elements of all arrays of a reply, before anything is allocated for them; depth of nesting; bytes of all its
 *     strings; bytes waiting for the rest of a bulk string that a header announced; the length of a line, because every
 *     read searches an unfinished line from its start;
 *   - RESP3 types, which we never request. hiredis 0.14 does not know them, 1.x does.
 * A refusal is a NULL to hiredis, which then reports "Out of memory"; `refusal` keeps the true reason.
 *
 * Bytes are fed in slices to keep hiredis' buffer small: it moves the rest of the buffer to the front after each
 * kilobyte of replies, and frees a large buffer between two feeds.
 *
 * hiredis calls abort() when memory runs out (0.14), which is our policy too (base/memory.h). */
#include "redis/reader.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "redis/arena.h"

enum {
    SLICE = 4096,
    DEPTH_MAX = 7, /* arrays inside arrays; the limit of hiredis 0.14 */
    LINE_MAX_LENGTH = 16 * 1024,
    HEADER_SLACK = 64, /* the header and the line ends around a bulk string */
};

#if HIREDIS_MAJOR >= 1
typedef size_t array_count;
#else
typedef int array_count;
#endif

struct redis_reader {
    redisReader *codec;
    struct arena arena;
    size_t reply_limit, element_limit;
    size_t bytes, elements; /* of the current reply */
    const char *given;
    size_t given_length;
    bool delivered;      /* the caller holds a reply */
    const char *refusal; /* static text; NULL = nothing was refused */
    char reason[192];
};

/* --- building values ---------------------------------------------------------------------------------------- */

static struct redis_reader *reader_of(const redisReadTask *task)
{
    return task->privdata;
}

static void *refuse(const redisReadTask *task, const char *why)
{
    struct redis_reader *reader = reader_of(task);
    if (reader->refusal == NULL)
        reader->refusal = why;
    return NULL;
}

/* Where the value goes: a slot of its parent, or a new one for the outermost value. */
static struct redis_reply *slot_for(const redisReadTask *task)
{
    if (task->parent == NULL)
        return arena_take(&reader_of(task)->arena, sizeof(struct redis_reply));
    const struct redis_reply *array = task->parent->obj;
    invariant(task->idx >= 0 && (size_t)task->idx < array->count);
    return (struct redis_reply *)array->elements + task->idx;
}

static void *build_string(const redisReadTask *task, char *bytes, size_t length)
{
    struct redis_reader *reader = reader_of(task);
    enum redis_reply_kind kind;
    switch (task->type) {
    case REDIS_REPLY_STRING:
        kind = REDIS_STRING;
        break;
    case REDIS_REPLY_STATUS:
        kind = REDIS_STATUS;
        break;
    case REDIS_REPLY_ERROR:
        kind = REDIS_FAILURE;
        break;
    default:
        return refuse(task, "a RESP3 type that was not asked for");
    }
    if (length > reader->reply_limit - reader->bytes)
        return refuse(task, "a reply of more bytes than the limit");
    reader->bytes += length;

    char *copy = arena_take(&reader->arena, length + 1);
    memcpy(copy, bytes, length);
    copy[length] = '\0';
    struct redis_reply *reply = slot_for(task);
    *reply = (struct redis_reply){.kind = kind, .bytes = copy, .length = length};
    return reply;
}

static void *build_integer(const redisReadTask *task, long long value)
{
    struct redis_reply *reply = slot_for(task);
    *reply = (struct redis_reply){.kind = REDIS_INTEGER, .integer = value};
    return reply;
}

static void *build_nil(const redisReadTask *task)
{
    if (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_ARRAY)
        return refuse(task, "a RESP3 type that was not asked for");
    struct redis_reply *reply = slot_for(task);
    *reply = (struct redis_reply){.kind = REDIS_NIL};
    return reply;
}

static void *build_array(const redisReadTask *task, array_count announced)
{
    struct redis_reader *reader = reader_of(task);
    size_t count = (size_t)announced; /* a negative number becomes a huge one */
    if (task->type != REDIS_REPLY_ARRAY)
        return refuse(task, "a RESP3 type that was not asked for");
    int depth = 1;
    for (const redisReadTask *outer = task->parent; outer != NULL; outer = outer->parent)
        depth++;
    if (depth > DEPTH_MAX)
        return refuse(task, "arrays nested deeper than the limit");
    if (count > reader->element_limit - reader->elements)
        return refuse(task, "a reply of more elements than the limit");
    reader->elements += count;

    struct redis_reply *elements = NULL;
    if (count > 0) {
        elements = arena_take(&reader->arena, count * sizeof *elements);
        memset(elements, 0, count * sizeof *elements);
    }
    struct redis_reply *reply = slot_for(task);
    *reply = (struct redis_reply){.kind = REDIS_ARRAY, .elements = elements, .count = count};
    return reply;
}

#if HIREDIS_MAJOR >= 1
static void *refuse_double(const redisReadTask *task, double value, char *text, size_t length)
{
    (void)value, (void)text, (void)length;
    return refuse(task, "a RESP3 type that was not asked for");
}

static void *refuse_bool(const redisReadTask *task, int value)
{
    (void)value;
    return refuse(task, "a RESP3 type that was not asked for");
}
#endif

/* Values belong to the arena. */
static void keep(void *value)
{
    (void)value;
}

static redisReplyObjectFunctions builders = {
    .createString = build_string,
    .createArray = build_array,
    .createInteger = build_integer,
    .createNil = build_nil,
#if HIREDIS_MAJOR >= 1
    .createDouble = refuse_double,
    .createBool = refuse_bool,
#endif
    .freeObject = keep,
};

/* --- the reader --------------------------------------------------------------------------------------------- */

static redisReader *codec_create(struct redis_reader *reader)
{
    redisReader *codec = redisReaderCreateWithFunctions(&builders);
    if (codec == NULL)
        abort();
    codec->privdata = reader;
    return codec;
}

struct redis_reader *redis_reader_create(size_t reply_limit, size_t element_limit)
{
    struct redis_reader *reader = memory_new(struct redis_reader);
    reader->reply_limit = reply_limit;
    reader->element_limit = element_limit;
    reader->codec = codec_create(reader);
    return reader;
}

void redis_reader_destroy(struct redis_reader *reader)
{
    if (reader == NULL)
        return;
    redisReaderFree(reader->codec);
    arena_fini(&reader->arena);
    free(reader);
}

void redis_reader_limit(struct redis_reader *reader, size_t reply_limit)
{
    reader->reply_limit = reply_limit;
}

void redis_reader_reset(struct redis_reader *reader)
{
    redisReaderFree(reader->codec);
    reader->codec = codec_create(reader);
    arena_reset(&reader->arena);
    reader->bytes = reader->elements = 0;
    reader->given = NULL;
    reader->given_length = 0;
    reader->delivered = false;
    reader->refusal = NULL;
    reader->reason[0] = '\0';
}

void redis_reader_give(struct redis_reader *reader, const char *bytes, size_t length)
{
    invariant(reader->given_length == 0);
    reader->given = bytes;
    reader->given_length = length;
}

static size_t unread(const struct redis_reader *reader)
{
    return reader->codec->len - reader->codec->pos;
}

static enum redis_reader_found broken(struct redis_reader *reader, const char *why)
{
    if (reader->reason[0] == '\0')
        snprintf(reader->reason, sizeof reader->reason, "%s", why);
    reader->given_length = 0;
    return REDIS_READER_BROKEN;
}

static bool feed_slice(struct redis_reader *reader)
{
    size_t slice = reader->given_length < SLICE ? reader->given_length : SLICE;
    if (redisReaderFeed(reader->codec, reader->given, slice) != REDIS_OK)
        return false;
    reader->given += slice;
    reader->given_length -= slice;
    return true;
}

/* hiredis waits for more bytes. Returns why it must not, or NULL. */
static const char *excess(const struct redis_reader *reader)
{
    size_t waiting = unread(reader);
    if (waiting > reader->reply_limit + HEADER_SLACK)
        return "a reply of more bytes than the limit";
    if (waiting > LINE_MAX_LENGTH && memchr(reader->codec->buf + reader->codec->pos, '\n', LINE_MAX_LENGTH) == NULL)
        return "a line without an end";
    return NULL;
}

static void begin_reply(struct redis_reader *reader)
{
    arena_reset(&reader->arena);
    reader->bytes = reader->elements = 0;
    reader->delivered = false;
}

enum redis_reader_found redis_reader_next(struct redis_reader *reader, const struct redis_reply **reply)
{
    if (reader->reason[0] != '\0')
        return broken(reader, reader->reason);
    if (reader->delivered)
        begin_reply(reader);
    for (;;) {
        /* Without an unread byte hiredis would begin a reply and wait inside it, which would break
         * redis_reader_is_idle. */
        if (unread(reader) > 0) {
            void *found = NULL;
            if (redisReaderGetReply(reader->codec, &found) != REDIS_OK)
                return broken(reader, reader->refusal != NULL ? reader->refusal : reader->codec->errstr);
            if (found != NULL) {
                reader->delivered = true;
                *reply = found;
                return REDIS_READER_REPLY;
            }
            const char *why = excess(reader);
            if (why != NULL)
                return broken(reader, why);
        }
        if (reader->given_length == 0)
            return REDIS_READER_NOTHING;
        if (!feed_slice(reader))
            return broken(reader, reader->codec->errstr);
    }
}

const char *redis_reader_reason(const struct redis_reader *reader)
{
    return reader->reason;
}

bool redis_reader_is_idle(const struct redis_reader *reader)
{
    return reader->given_length == 0 && unread(reader) == 0 && reader->codec->ridx == -1;
}
