/* The backtraces of the core, which has no zlib: all can read what it writes, and what it cannot read it refuses. */
#include "tests/support/test.h"

#include <zlib.h>

#include "worker/task/deflate.h"

static const char text[] = "[\"a.so(run+0x1)\"]";

TEST(zlib_reads_what_is_written)
{
    static const size_t lengths[] = {0, 1, sizeof text - 1, 5552, DEFLATE_BYTES_MAX};
    static char bytes[DEFLATE_BYTES_MAX], plain[DEFLATE_BYTES_MAX];
    memset(bytes, 0xFF, sizeof bytes);
    memcpy(bytes, text, sizeof text);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct buffer packed = {0};
        uLongf length = sizeof plain;
        deflate_append(bytes, lengths[i], &packed);
        assert_int_equal(uncompress((Bytef *)plain, &length, (const Bytef *)packed.bytes, packed.length), Z_OK);
        assert_int_equal(length, lengths[i]);
        assert_memory_equal(plain, bytes, length);
        buffer_fini(&packed);
    }
}

TEST(nothing_else_is_read)
{
    struct buffer packed = {0}, out = {0};
    char squeezed[sizeof text + 64];
    uLongf length = sizeof squeezed;
    deflate_append(text, strlen(text), &packed);
    for (size_t i = 0; i < packed.length; i++) {
        assert_false(inflate_append(packed.bytes, i, sizeof text, &out));
        packed.bytes[i] ^= 1;
        assert_false(inflate_append(packed.bytes, packed.length, sizeof text, &out));
        packed.bytes[i] ^= 1;
    }
    assert_false(inflate_append(packed.bytes, packed.length, strlen(text) - 1, &out));
    assert_int_equal(compress((Bytef *)squeezed, &length, (const Bytef *)text, strlen(text)), Z_OK);
    assert_false(inflate_append(squeezed, length, sizeof text, &out));
    assert_int_equal(out.length, 0);
    assert_true(inflate_append(packed.bytes, packed.length, strlen(text), &out));
    assert_string_equal(buffer_text(&out), text);
    buffer_fini(&packed);
    buffer_fini(&out);
}

RUN_TESTS
