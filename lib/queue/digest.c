#include "queue/digest.h"

#include <openssl/sha.h>

#include "base/invariant.h"

void digest_text(const void *bytes, size_t length, char text[DIGEST_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA_DIGEST_LENGTH];
    invariant(SHA1(bytes, length, digest) != NULL);
    for (unsigned i = 0; i < DIGEST_TEXT_SIZE - 1; i++)
        text[i] = digits[digest[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
    text[DIGEST_TEXT_SIZE - 1] = '\0';
}
