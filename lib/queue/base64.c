/* libcrypto reads more than it writes: white space at the ends, and unused bits that are not zero. So what was decoded
 * is encoded again and compared; then each byte string has exactly one text. */
#include "queue/base64.h"

#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/invariant.h"

void base64_encode(const char *bytes, size_t length, struct buffer *out)
{
    invariant(length <= INT_MAX / 4 * 3);
    char *text = buffer_reserve(out, (length + 2) / 3 * 4 + 1); /* libcrypto adds a NUL */
    out->length += (size_t)EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)bytes, (int)length);
}

bool base64_decode(const char *text, size_t length, struct buffer *out)
{
    if (length == 0 || length % 4 != 0 || length > INT_MAX)
        return length == 0;
    char *bytes = buffer_reserve(out, length / 4 * 3);
    size_t padding = text[length - 1] != '=' ? 0 : text[length - 2] != '=' ? 1 : 2;
    if (EVP_DecodeBlock((unsigned char *)bytes, (const unsigned char *)text, (int)length) != (int)(length / 4 * 3))
        return false;
    struct buffer again = {0};
    base64_encode(bytes, length / 4 * 3 - padding, &again);
    bool is_same = again.length == length && memcmp(again.bytes, text, length) == 0;
    buffer_fini(&again);
    out->length += is_same ? length / 4 * 3 - padding : 0;
    return is_same;
}
