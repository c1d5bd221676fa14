#include "worker/commands/backtrace_text.h"

#include <zlib.h>

#include "queue/base64.h"
#include "queue/envelope.h"

enum { UNFOLDED_MAX = 1 << 20 };

static bool inflate_into(const struct buffer *packed, struct buffer *out)
{
    uLongf length = UNFOLDED_MAX;
    char *to = buffer_reserve(out, UNFOLDED_MAX);
    if (uncompress((Bytef *)to, &length, (const Bytef *)packed->bytes, packed->length) != Z_OK)
        return false;
    struct error error = ERROR_NONE;
    struct envelope_limits limits = {.size = UNFOLDED_MAX, .depth = 8, .keys = 64};
    if (length == 0 || to[0] != '[' || !json_check(to, length, &limits, &error))
        return false;
    out->length += length;
    return true;
}

bool backtrace_read(const char *text, size_t length, struct buffer *out)
{
    struct buffer joined = {0}, packed = {0};
    for (size_t i = 0; i < length; i++)
        if (text[i] != '\n' && text[i] != '\r')
            buffer_append(&joined, text + i, 1);
    bool is_good =
        joined.length > 0 && base64_decode(joined.bytes, joined.length, &packed) && inflate_into(&packed, out);
    buffer_fini(&joined);
    buffer_fini(&packed);
    return is_good;
}
