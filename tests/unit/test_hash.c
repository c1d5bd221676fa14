/* The hash of tables: every byte and the length count, and names that differ at their end do not share a bucket. */
#include "tests/support/test.h"

#include "base/hash.h"

TEST(each_bit_of_each_byte_counts)
{
    char bytes[20] = "0123456789abcdefghi";
    for (size_t length = 1; length <= sizeof bytes; length++)
        for (size_t bit = 0; bit < 8 * length; bit++) {
            uint64_t before = hash_words(7, bytes, length);
            bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
            assert_true(hash_words(7, bytes, length) != before);
            bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        }
}

TEST(length_and_seed_count)
{
    static const char zeros[20];
    for (size_t length = 0; length < sizeof zeros; length++) {
        assert_true(hash_words(7, zeros, length) != hash_words(7, zeros, length + 1));
        assert_true(hash_words(7, zeros, length) != hash_words(8, zeros, length));
    }
}

/* As if drawn by lot: four a bucket, and more than twenty about once in a million million tables. */
TEST(numbered_names_are_spread)
{
    enum { BUCKETS = 1024, NAMES = 4 * BUCKETS };
    static const char *const words[] = {"a", "lock:acct:", "resource:account:", "a-rather-long-prefix:"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        unsigned counts[BUCKETS] = {0};
        for (unsigned number = 0; number < NAMES; number++) {
            char name[64];
            int length = snprintf(name, sizeof name, "%s%u", words[i], number);
            assert_true(++counts[hash_words(7, name, (size_t)length) % BUCKETS] <= 20);
        }
    }
}

RUN_TESTS
