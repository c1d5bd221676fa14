/* Random bytes and ranges: never the same for two threads or a forked child, without bias, within bounds. */
#include "tests/support/test.h"

#include <pthread.h>

#include "base/random.h"

TEST(bytes_fill_all_lengths_and_nothing_beyond)
{
    for (size_t length = 0; length < 10000; length = length * 2 + 1) {
        unsigned char bytes[10001] = {0};
        for (int i = 0; i < 40; i++) { /* a byte stays zero through all of these with a chance of 256^-40 */
            unsigned char more[10001];
            random_bytes(more, length);
            for (size_t j = 0; j < length; j++)
                bytes[j] |= more[j];
        }
        for (size_t j = 0; j < length; j++)
            assert_int_not_equal(bytes[j], 0);
        random_bytes(bytes, length);
        assert_int_equal(bytes[length], 0);
    }
}

TEST(values_never_repeat)
{
    enum { VALUES = 1000 }; /* several blocks */
    static unsigned char values[VALUES][16];
    for (int i = 0; i < VALUES; i++) {
        random_bytes(values[i], 16);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(values[i], values[j], 16);
    }
}

/* E23: no two values of locks are the same, across forks and threads. */
TEST(a_forked_child_draws_other_bytes_than_its_parent)
{
    unsigned char warm[8], mine[64], its[64];
    random_bytes(warm, sizeof warm); /* both have a block to go on from */

    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
        random_bytes(its, sizeof its);
        _exit(write(pipe_fds[1], its, sizeof its) == sizeof its ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(pipe_fds[0], its, sizeof its), sizeof its);
    random_bytes(mine, sizeof mine);
    for (size_t i = 0; i + 8 <= sizeof its; i += 8)
        assert_memory_not_equal(its + i, mine + i, 8);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static void *thread_draws(void *out)
{
    random_bytes(out, 32);
    return NULL;
}

/* E23 */
TEST(threads_draw_different_bytes)
{
    unsigned char draws[8][32];
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, thread_draws, draws[i]), 0);
        pthread_join(thread, NULL);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(draws[i], draws[j], 32);
    }
}

TEST(between_keeps_to_its_bounds_and_reaches_both)
{
    int seen[3] = {0};
    for (int i = 0; i < 3000; i++) {
        int64_t value = random_between(-1, 1);
        assert_in_range(value + 1, 0, 2);
        seen[value + 1]++;
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(seen[i], 700, 1300); /* expected 1000, deviation 26 */
    assert_int_equal(random_between(5, 5), 5);
    assert_true(random_between(INT64_MIN, INT64_MIN) == INT64_MIN);
    assert_true(random_between(INT64_MAX - 1, INT64_MAX) >= INT64_MAX - 1);
    (void)random_between(INT64_MIN, INT64_MAX);
}

/* The rest of a division would give the lowest third of these outcomes one half of the draws. */
TEST(between_has_no_bias_in_wide_ranges)
{
    const int64_t third = INT64_C(1) << 62;
    int lowest = 0;
    for (int i = 0; i < 3000; i++)
        lowest += random_between(INT64_MIN, third - 1) < INT64_MIN + third;
    assert_in_range(lowest, 800, 1200); /* expected 1000, deviation 26 */
}

static void bounds_the_wrong_way_round(void)
{
    (void)random_between(2, 1);
}

TEST(bounds_the_wrong_way_round_abort)
{
    assert_true(test_aborts(bounds_the_wrong_way_round));
}

RUN_TESTS
