/* SHA-1 as such, without the algorithms that can be exchanged: a process without TLS would load these for 2 MiB, and
 * stand still for 3 ms at its first digest. Hence functions that libcrypto calls deprecated. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "queue/digest.h"

#include <openssl/sha.h>

void digest_text(const void *bytes, size_t length, char text[DIGEST_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA_DIGEST_LENGTH];
    SHA_CTX context;
    SHA1_Init(&context);
    SHA1_Update(&context, bytes, length);
    SHA1_Final(digest, &context);
    for (unsigned i = 0; i < DIGEST_TEXT_SIZE - 1; i++)
        text[i] = digits[digest[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
    text[DIGEST_TEXT_SIZE - 1] = '\0';
}
