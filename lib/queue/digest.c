/* FIPS 180-4, sections 5.1.1, 5.3.1 and 6.1.2. */
#include "queue/digest.h"

#include <string.h>

enum { BLOCK = 64, LENGTH_BYTES = 8 };

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

static uint32_t big_endian(const unsigned char bytes[4])
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void schedule_fill(const unsigned char block[BLOCK], uint32_t words[80])
{
    for (unsigned t = 0; t < 16; t++)
        words[t] = big_endian(block + 4 * t);
    for (unsigned t = 16; t < 80; t++)
        words[t] = rotate(words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16], 1);
}

/* The function and the constant of round t. */
static uint32_t round_value(unsigned t, uint32_t b, uint32_t c, uint32_t d)
{
    if (t < 20)
        return ((b & c) ^ (~b & d)) + 0x5a827999u;
    if (t < 40)
        return (b ^ c ^ d) + 0x6ed9eba1u;
    if (t < 60)
        return ((b & c) ^ (b & d) ^ (c & d)) + 0x8f1bbcdcu;
    return (b ^ c ^ d) + 0xca62c1d6u;
}

static void block_take(struct digest *digest)
{
    uint32_t words[80], *state = digest->state;
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    schedule_fill(digest->block, words);
    for (unsigned t = 0; t < 80; t++) {
        uint32_t next = rotate(a, 5) + round_value(t, b, c, d) + e + words[t];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void digest_begin(struct digest *digest)
{
    *digest = (struct digest){.state = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u}};
}

void digest_add(struct digest *digest, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    while (length > 0) {
        size_t used = digest->length % BLOCK;
        size_t part = length < BLOCK - used ? length : BLOCK - used;
        memcpy(digest->block + used, at, part);
        digest->length += part;
        at += part;
        length -= part;
        if (digest->length % BLOCK == 0)
            block_take(digest);
    }
}

void digest_end(struct digest *digest, char text[DIGEST_TEXT_SIZE])
{
    static const unsigned char padding[BLOCK] = {0x80};
    static const char digits[] = "0123456789abcdef";
    unsigned char bits[LENGTH_BYTES];
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        bits[i] = (unsigned char)(digest->length * 8 >> (56 - 8 * i));
    size_t used = digest->length % BLOCK, end = BLOCK - LENGTH_BYTES;
    digest_add(digest, padding, used < end ? end - used : BLOCK + end - used);
    digest_add(digest, bits, sizeof bits);
    for (unsigned i = 0; i < DIGEST_TEXT_SIZE - 1; i++)
        text[i] = digits[digest->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    text[DIGEST_TEXT_SIZE - 1] = '\0';
}
