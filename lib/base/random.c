/* Every thread keeps one page of random bytes, filled by one getrandom and used from its end. The page is
 *
 *   wiped in a forked child   its fill level is in the page too, so the child reads "empty" and draws anew;
 *   never dumped              a core file must not hold the values of locks to come;
 *   erased as it is used      nobody can read a used byte again.
 *
 * If the kernel cannot wipe (before Linux 4.14, some emulations), there is no page, and every draw is a getrandom.
 * Not for signal handlers. */
#include "base/random.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/invariant.h"
#include "base/memory.h"

enum { PAGE_BYTES = 4096 };

struct block {
    size_t left; /* bytes[0..left) are fresh */
    unsigned char bytes[PAGE_BYTES - sizeof(size_t)];
};

static _Thread_local struct block *own_block;
static _Thread_local bool own_block_refused;

static pthread_key_t block_key;
static pthread_once_t block_key_once = PTHREAD_ONCE_INIT;

static void buy(void *out, size_t length)
{
    unsigned char *to = out;
    while (length > 0) {
        ssize_t bought = getrandom(to, length, 0);
        if (bought < 0 && errno == EINTR)
            continue;
        if (bought <= 0)
            invariant_unreachable("the kernel gives no randomness (getrandom failed)");
        to += bought;
        length -= (size_t)bought;
    }
}

static void block_unmap(void *block)
{
    own_block = NULL;
    munmap(block, sizeof(struct block));
}

static void block_key_create(void)
{
    invariant(pthread_key_create(&block_key, block_unmap) == 0);
}

/* This thread's page, or NULL when it cannot be made safe against fork. */
static struct block *block_map(void)
{
    pthread_once(&block_key_once, block_key_create);

    struct block *block = mmap(NULL, sizeof *block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        invariant_unreachable("out of memory");
    if (madvise(block, sizeof *block, MADV_WIPEONFORK) != 0) {
        munmap(block, sizeof *block);
        own_block_refused = true;
        return NULL;
    }
    (void)madvise(block, sizeof *block, MADV_DONTDUMP); /* optional: older kernels lack it */
    invariant(pthread_setspecific(block_key, block) == 0);
    return own_block = block;
}

void random_bytes(void *out, size_t length)
{
    struct block *block = own_block;
    if (block == NULL && !own_block_refused)
        block = block_map();
    if (block == NULL || length > sizeof block->bytes) {
        buy(out, length);
        return;
    }
    if (block->left < length) {
        buy(block->bytes, sizeof block->bytes);
        block->left = sizeof block->bytes;
    }
    block->left -= length;
    if (length > 0)
        memcpy(out, block->bytes + block->left, length);
    memory_wipe(block->bytes + block->left, length);
}

int64_t random_between(int64_t low, int64_t high)
{
    invariant(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low;
    uint64_t draw;
    random_bytes(&draw, sizeof draw);
    if (span == UINT64_MAX)
        return (int64_t)draw;

    /* 2^64 is seldom a multiple of the number of outcomes: discard draws from the incomplete last round */
    uint64_t outcomes = span + 1;
    uint64_t incomplete = (UINT64_MAX % outcomes + 1) % outcomes;
    while (draw > UINT64_MAX - incomplete)
        random_bytes(&draw, sizeof draw);
    return (int64_t)((uint64_t)low + draw % outcomes);
}

void random_digits(char *out, size_t digits)
{
    static const char hex[] = "0123456789abcdef";
    invariant(digits % 2 == 0);
    random_bytes(out, digits / 2);
    for (size_t i = digits / 2; i-- > 0;) { /* from the end: each byte becomes two digits */
        unsigned char byte = (unsigned char)out[i];
        out[2 * i] = hex[byte >> 4];
        out[2 * i + 1] = hex[byte & 15];
    }
}
