/* SHA-1: the examples of FIPS 180, and every length around the ends of blocks. */
#include "tests/support/test.h"

#include "queue/digest.h"

static void assert_digest(const char *text, size_t length, const char *expected)
{
    char digest[DIGEST_TEXT_SIZE];
    digest_text(text, length, digest);
    assert_string_equal(digest, expected);
}

TEST(test_examples_of_the_standard)
{
    static char million[1000000];
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    memset(million, 'a', sizeof million);
    assert_digest("", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_digest("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_digest(two_blocks, sizeof two_blocks - 1, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    assert_digest(million, sizeof million, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

/* Made with Python's hashlib. */
TEST(test_lengths_around_the_end_of_a_block)
{
    static const struct {
        size_t length;
        const char *expected;
    } cases[] = {
        {1, "11f6ad8ec52a2984abaafd7c3b516503785c2072"},   {54, "31045e7bb077ff8d188a776b196b980388735dbb"},
        {55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1"},  {56, "901305367c259952f4e7af8323f480d59f81335b"},
        {57, "025ecbd5d70f8fb3c5457cd96bab13fda305dc59"},  {63, "0ddc4e0cccd9a12850deb5abb0853a4425559fec"},
        {64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163"},  {65, "78c741ddc482e4cdf8c474a0876347a0905b6233"},
        {119, "4300320394f7ee239bcdce7d3b8bcee173a0cd5c"}, {120, "ceb2821639c4b6dcb10bce0e522ca2e608ce056d"},
        {128, "150fa3fbdc899bd0b8f95a9fb6027f564d953762"},
    };
    char text[200];
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_digest(text, cases[i].length, cases[i].expected);
}

RUN_TESTS
