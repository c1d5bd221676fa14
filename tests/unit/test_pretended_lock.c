/* The lock that a handler of run-handler sees. */
#include "tests/support/test.h"

#include "worker/commands/pretended_lock.h"

#define TTL_NS (9 * NS_PER_S)

static const struct instant taken = {1000 * NS_PER_S};

static struct pretended_lock lock_with(int64_t danger_after_ns, int64_t lose_after_ns, int64_t max_hold_ns)
{
    return (struct pretended_lock){.taken = taken,
                                   .danger_after_ns = danger_after_ns,
                                   .lose_after_ns = lose_after_ns,
                                   .max_hold_ns = max_hold_ns,
                                   .ttl_ns = TTL_NS};
}

static struct pretended_view view_after(const struct pretended_lock *lock, int64_t ns)
{
    return pretended_lock_at(lock, instant_after(taken, ns));
}

static int64_t since_taken(struct instant at)
{
    return instant_since(taken, at);
}

TEST(it_is_extended_for_ever)
{
    struct pretended_lock lock = lock_with(-1, -1, 0);
    for (int64_t s = 0; s < 1000; s += 7) {
        struct pretended_view view = view_after(&lock, s * NS_PER_S);
        assert_int_equal(since_taken(view.until), s * NS_PER_S + TTL_NS);
        assert_int_equal(since_taken(view.danger_from), s * NS_PER_S + TTL_NS / 3 * 2);
        assert_int_equal(view.lost, HF_NOT_CANCELLED);
        assert_true(since_taken(view.next) > s * NS_PER_S && view.next.ns < view.danger_from.ns);
    }
}

/* Its end is known as soon as no extension lies before it, as with a lock that cannot be extended any more. */
TEST(it_is_lost_when_it_shall_be)
{
    struct pretended_lock lock = lock_with(-1, 30 * NS_PER_S, 0);
    assert_int_equal(since_taken(view_after(&lock, 10 * NS_PER_S).until), 19 * NS_PER_S);
    assert_int_equal(since_taken(view_after(&lock, 25 * NS_PER_S).until), 30 * NS_PER_S);
    assert_int_equal(since_taken(view_after(&lock, 25 * NS_PER_S).danger_from), 27 * NS_PER_S);
    assert_int_equal(view_after(&lock, 30 * NS_PER_S - 1).lost, HF_NOT_CANCELLED);
    assert_int_equal(view_after(&lock, 30 * NS_PER_S).lost, HF_LOCK_LOST);
    assert_int_equal(since_taken(view_after(&lock, 40 * NS_PER_S).until), 30 * NS_PER_S);
    assert_int_equal(view_after(&lock, 30 * NS_PER_S).next.ns, INSTANT_NEVER.ns);
}

TEST(a_short_life_is_in_danger_for_its_second_half)
{
    struct pretended_lock lock = lock_with(-1, 2 * NS_PER_S, 0);
    assert_int_equal(since_taken(view_after(&lock, 0).danger_from), NS_PER_S);
    assert_int_equal(since_taken(view_after(&lock, 950 * NS_PER_MS).next), NS_PER_S);
    assert_int_equal(since_taken(view_after(&lock, 1950 * NS_PER_MS).next), 2 * NS_PER_S);
    lock = lock_with(-1, 0, 0);
    assert_int_equal(view_after(&lock, 0).lost, HF_LOCK_LOST);
}

TEST(danger_comes_when_it_shall_and_passes_not)
{
    struct pretended_lock lock = lock_with(3 * NS_PER_S, -1, 0);
    assert_int_equal(since_taken(view_after(&lock, 0).danger_from), 3 * NS_PER_S);
    assert_int_equal(since_taken(view_after(&lock, 100 * NS_PER_S).danger_from), 3 * NS_PER_S);
    assert_int_equal(view_after(&lock, 100 * NS_PER_S).lost, HF_NOT_CANCELLED);
}

TEST(the_earlier_of_two_ends_counts)
{
    struct pretended_lock held = lock_with(-1, 30 * NS_PER_S, 20 * NS_PER_S);
    struct pretended_lock lost = lock_with(-1, 20 * NS_PER_S, 30 * NS_PER_S);
    assert_int_equal(view_after(&held, 20 * NS_PER_S - 1).lost, HF_NOT_CANCELLED);
    assert_int_equal(view_after(&held, 20 * NS_PER_S).lost, HF_HELD_TOO_LONG);
    assert_int_equal(view_after(&lost, 20 * NS_PER_S).lost, HF_LOCK_LOST);
    assert_int_equal(since_taken(pretended_lock_end(&lost)), 20 * NS_PER_S);
}

RUN_TESTS
