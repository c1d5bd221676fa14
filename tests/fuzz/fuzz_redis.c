/* Any bytes as the replies of a Redis server. What comes in pieces is the same as what comes at once. */
#include "redis/reader.h"
#include "tests/fuzz/fuzz.h"

enum { REPLY_MAX = 512, ELEMENTS_MAX = 64 };

static void reply_note(const struct redis_reply *reply, struct buffer *out)
{
    buffer_format(out, "%d ", (int)reply->kind);
    if (reply->kind == REDIS_INTEGER)
        buffer_format(out, "%lld ", reply->integer);
    if (reply->kind == REDIS_FAILURE)
        buffer_format(out, "%s ", redis_error_name(redis_error_classify(reply->bytes, reply->length)));
    if (reply->kind == REDIS_STATUS || reply->kind == REDIS_STRING || reply->kind == REDIS_FAILURE) {
        invariant(reply->length <= REPLY_MAX && reply->bytes[reply->length] == '\0');
        buffer_append(out, reply->bytes, reply->length);
    }
    if (reply->kind == REDIS_ARRAY) {
        invariant(reply->count <= ELEMENTS_MAX);
        buffer_format(out, "%zu ", reply->count);
        for (size_t i = 0; i < reply->count; i++)
            reply_note(&reply->elements[i], out);
    }
}

static void pieces_note(const char *bytes, size_t size, size_t piece, struct buffer *out)
{
    struct redis_reader *reader = redis_reader_create(REPLY_MAX, ELEMENTS_MAX);
    const struct redis_reply *reply;
    enum redis_reader_found found = REDIS_READER_NOTHING;
    for (size_t at = 0; at < size && found != REDIS_READER_BROKEN; at += piece) {
        redis_reader_give(reader, bytes + at, piece < size - at ? piece : size - at);
        while ((found = redis_reader_next(reader, &reply)) == REDIS_READER_REPLY)
            reply_note(reply, out);
    }
    invariant((found == REDIS_READER_BROKEN) == (redis_reader_reason(reader)[0] != '\0'));
    buffer_format(out, "%d %d", (int)found, found == REDIS_READER_NOTHING && redis_reader_is_idle(reader));
    redis_reader_destroy(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer whole = {.bytes = NULL}, parts = {.bytes = NULL};
    char *bytes = fuzz_copy(data, size);
    pieces_note(bytes, size, size + 1, &whole);
    pieces_note(bytes, size, 1 + size % 7, &parts);
    invariant(fuzz_same(&whole, &parts));
    buffer_fini(&whole);
    buffer_fini(&parts);
    free(bytes);
    return 0;
}
