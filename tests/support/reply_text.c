#include "tests/support/reply_text.h"

void reply_text_write(const struct redis_reply *reply, struct buffer *out)
{
    switch (reply->kind) {
    case REDIS_NIL:
        buffer_append_text(out, "(nil)");
        break;
    case REDIS_INTEGER:
        buffer_format(out, "%lld", reply->integer);
        break;
    case REDIS_FAILURE:
        buffer_append_text(out, "-");
        buffer_append(out, reply->bytes, reply->length);
        break;
    case REDIS_STATUS:
    case REDIS_STRING:
        buffer_append(out, reply->bytes, reply->length);
        break;
    case REDIS_ARRAY:
        for (size_t i = 0; i < reply->count; i++) {
            if (i > 0)
                buffer_append_text(out, "\n");
            reply_text_write(&reply->elements[i], out);
        }
    }
}
