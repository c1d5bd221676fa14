/* Two bytes of zlib's header; one block, the last, stored (RFC 1951, 3.2.4): its length and the complement of that, the
 * low byte first, and its bytes; their Adler-32, the high byte first. */
#include "worker/task/deflate.h"

#include <stdint.h>
#include <string.h>

#include "base/invariant.h"

enum { HEADER = 7, CHECKSUM = 4 };

static void header_write(size_t length, unsigned char header[HEADER])
{
    const unsigned low = length & 255, high = length >> 8 & 255;
    const unsigned bytes[HEADER] = {0x78, 0x01, 0x01, low, high, ~low & 255, ~high & 255};
    for (unsigned i = 0; i < HEADER; i++)
        header[i] = (unsigned char)bytes[i];
}

static void checksum_write(const char *bytes, size_t length, unsigned char checksum[CHECKSUM])
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < length; i++) {
        a = (a + (unsigned char)bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    for (unsigned i = 0; i < CHECKSUM; i++)
        checksum[i] = (unsigned char)((b << 16 | a) >> (24 - 8 * i));
}

void deflate_append(const char *bytes, size_t length, struct buffer *out)
{
    unsigned char header[HEADER], checksum[CHECKSUM];
    invariant(length <= DEFLATE_BYTES_MAX);
    header_write(length, header);
    checksum_write(bytes, length, checksum);
    buffer_append(out, header, HEADER);
    buffer_append(out, bytes, length);
    buffer_append(out, checksum, CHECKSUM);
}

bool inflate_append(const char *bytes, size_t length, size_t most, struct buffer *out)
{
    unsigned char header[HEADER], checksum[CHECKSUM];
    size_t stored = length - HEADER - CHECKSUM;
    if (length < HEADER + CHECKSUM || stored > DEFLATE_BYTES_MAX || stored > most)
        return false;
    header_write(stored, header);
    checksum_write(bytes + HEADER, stored, checksum);
    if (memcmp(bytes, header, HEADER) != 0 || memcmp(bytes + HEADER + stored, checksum, CHECKSUM) != 0)
        return false;
    buffer_append(out, bytes + HEADER, stored);
    return true;
}
