#include "worker/task/deflate.h"

#include <zlib.h>

#include "base/invariant.h"

void deflate_append(const char *bytes, size_t length, struct buffer *out)
{
    invariant(length <= DEFLATE_BYTES_MAX);
    uLongf packed = compressBound(length);
    int outcome =
        compress2((Bytef *)buffer_reserve(out, packed), &packed, (const Bytef *)bytes, length, Z_DEFAULT_COMPRESSION);
    invariant(outcome == Z_OK); /* the room suffices, so only memory could be lacking */
    out->length += packed;
}

bool inflate_append(const char *bytes, size_t length, size_t most, struct buffer *out)
{
    uLongf unfolded = most;
    if (uncompress((Bytef *)buffer_reserve(out, most), &unfolded, (const Bytef *)bytes, length) != Z_OK)
        return false;
    out->length += unfolded;
    return true;
}
