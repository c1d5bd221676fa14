/* Hashes that tell byte strings apart. Not for secrets; tables whose keys strangers choose begin with a random seed.
 * hash_bytes is FNV-1a, the same on all machines: for what processes agree on. hash_words takes eight bytes at once, in
 * the order of the machine: for tables of a process. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t hash = seed ^ UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static inline uint64_t hash_words(uint64_t seed, const void *bytes, size_t length)
{
    static const uint64_t factor = UINT64_C(0xff51afd7ed558ccd);
    const char *at = bytes, *end = at + length;
    uint64_t word = 0, hash = seed ^ (length * UINT64_C(0x9e3779b97f4a7c15));
    for (; end - at > (ptrdiff_t)sizeof word; at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 32;
    }
    if (length >= sizeof word)
        memcpy(&word, end - sizeof word, sizeof word);
    else
        for (word = 0; at < end; at++)
            word = word << 8 | (unsigned char)*at;
    /* Twice: the last bytes, in which names differ most, are the highest of the word. */
    hash = (hash ^ word) * factor;
    hash = (hash ^ hash >> 32) * factor;
    return hash ^ hash >> 32;
}

#endif
