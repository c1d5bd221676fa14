/* Random bytes and ranges: never the same for two threads or a forked child, without bias, within bounds. */
#include "tests/support/test.h"

#include <pthread.h>
#include <string.h>

#include "base/random.h"

static void bytes_fill_all_lengths_and_nothing_beyond(void **state)
{
    (void)state;
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

static void values_never_repeat(void **state)
{
    (void)state;
    enum { VALUES = 1000 }; /* several blocks */
    static unsigned char values[VALUES][16];
    for (int i = 0; i < VALUES; i++) {
        random_bytes(values[i], 16);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(values[i], values[j], 16);
    }
}

/* E23: no two values of locks are the same, across forks and threads. */
static void a_forked_child_draws_other_bytes_than_its_parent(void **state)
{
    (void)state;
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
static void threads_draw_different_bytes(void **state)
{
    (void)state;
    unsigned char draws[8][32];
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, thread_draws, draws[i]), 0);
        pthread_join(thread, NULL);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(draws[i], draws[j], 32);
    }
}

static void between_keeps_to_its_bounds_and_reaches_both(void **state)
{
    (void)state;
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
static void between_has_no_bias_in_wide_ranges(void **state)
{
    (void)state;
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

static void bounds_the_wrong_way_round_abort(void **state)
{
    (void)state;
    assert_true(test_aborts(bounds_the_wrong_way_round));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_fill_all_lengths_and_nothing_beyond),
        cmocka_unit_test(values_never_repeat),
        cmocka_unit_test(a_forked_child_draws_other_bytes_than_its_parent),
        cmocka_unit_test(threads_draw_different_bytes),
        cmocka_unit_test(between_keeps_to_its_bounds_and_reaches_both),
        cmocka_unit_test(between_has_no_bias_in_wide_ranges),
        cmocka_unit_test(bounds_the_wrong_way_round_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
