/* What the fuzz targets share. A target is a file tests/fuzz/fuzz_NAME.c with this one global function: it hands the
 * bytes to a reader of the product, and states by invariant() what must hold for whatever bytes come. Its corpus is
 * tests/fuzz/corpus/NAME.
 *
 *     make fuzz                                    every target, by libFuzzer; FUZZ='http cron' SECONDS_EACH=600
 *     build/fuzz/tests/fuzz/http FILE              plays a find again
 *     build/tests/unit/test_fuzz_corpus            plays all corpora, and seeded mutations of them, without libFuzzer
 *
 * The Makefile gives the function the name of its file, because that test has all of them. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/invariant.h"
#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy that ends where the input ends, so that a sanitizer sees a read beyond it. */
static inline char *fuzz_copy(const uint8_t *data, size_t size)
{
    char *bytes = memory_zeroed(size > 0 ? size : 1, 1);
    if (size > 0)
        memcpy(bytes, data, size);
    return bytes;
}

/* Takes the next line off the front of the input: a text of its own. */
static inline char *fuzz_line(const uint8_t **data, size_t *size)
{
    const uint8_t *newline = *size > 0 ? memchr(*data, '\n', *size) : NULL;
    size_t length = newline != NULL ? (size_t)(newline - *data) : *size, taken = length + (newline != NULL);
    char *line = memory_text_of((const char *)*data, length);
    *data += taken;
    *size -= taken;
    return line;
}

static inline bool fuzz_same(const struct buffer *a, const struct buffer *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->bytes, b->bytes, a->length) == 0);
}

#endif
