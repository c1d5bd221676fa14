/* The lock on a node is plain Redlock: whoever locks by the page of redis.io (SET key value NX PX ttl on all nodes, a
 * majority counts, deletion by comparing) excludes us, and we exclude him, with fences and all. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/lock_fixture.h"

#define TEXTBOOK_RELEASE                                                                                               \
    "EVAL \"if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end\" 1 "
#define TEXTBOOK_EXTEND                                                                                                \
    "EVAL \"if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 "  \
    "end\" 1 "

static bool textbook_set(unsigned node, const char *resource, const char *value, unsigned ttl_ms)
{
    return strcmp(lock_cluster_ask(&cluster, node, "SET lock:%s %s NX PX %u", resource, value, ttl_ms), "OK") == 0;
}

static unsigned textbook_release(const char *resource, const char *value)
{
    unsigned deleted = 0;
    for (unsigned i = 0; i < NODES; i++)
        deleted += strcmp(lock_cluster_ask(&cluster, i, TEXTBOOK_RELEASE "lock:%s %s", resource, value), "1") == 0;
    return deleted;
}

/* As the book says: a majority, or everything back. */
static bool textbook_acquire(const char *resource, const char *value, unsigned ttl_ms)
{
    unsigned granted = 0;
    for (unsigned i = 0; i < NODES; i++)
        granted += textbook_set(i, resource, value, ttl_ms);
    if (granted < QUORUM)
        textbook_release(resource, value);
    return granted >= QUORUM;
}

static void no_quick_repeats(unsigned tries)
{
    lock_probe_destroy(&mine);
    terms = quick_terms(10000, tries);
    lock_probe_create(&mine, loop, group, &terms);
}

static void acquired(const char *resources)
{
    assert_int_equal(lock_probe_acquire(&mine, resources), REDLOCK_ACQUIRED);
}

static void released(void)
{
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, redlock_group_busy(group) == 0);
}

/* --- theirs against ours ------------------------------------------------------------------------------------------ */

/* E12: who holds it, and for how long yet. E14, E16: what we had got on the way is taken back, by its value and not by
 * its name: nothing of theirs. */
TEST(a_textbook_lock_excludes_ours_until_it_is_released)
{
    for (unsigned i = 0; i < QUORUM; i++)
        assert_true(textbook_set(i, "r", "5f8c1e", 30000));
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_BUSY);
    assert_string_equal(mine.holder, "5f8c1e");
    assert_in_range(mine.remaining_ns, 1, 30000 * NS_PER_MS);
    assert_contains(mine.reason, "held by 5f8c1e for ");
    assert_int_equal(lock_probe_acquire(&mine, "q r"), REDLOCK_BUSY);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), QUORUM);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), "5f8c1e");
    assert_int_equal(textbook_release("r", "5f8c1e"), QUORUM);
    acquired("r");
    released();
}

TEST(a_textbook_lock_on_a_minority_excludes_nobody_and_stays)
{
    for (unsigned i = 0; i < MINORITY; i++)
        assert_true(textbook_set(i, "r", "5f8c1e", 30000));
    acquired("r");
    released();
    assert_int_equal(lock_cluster_keys(&cluster), MINORITY);
    assert_int_equal(textbook_release("r", "5f8c1e"), MINORITY);
}

TEST(a_textbook_lock_that_is_not_released_expires)
{
    assert_true(textbook_acquire("r", "5f8c1e", 400));
    no_quick_repeats(1000);
    acquired("r");
    assert_true(lock_cluster_holders(&cluster, "lock:r") >= QUORUM);
    released();
}

TEST(a_textbook_lock_that_is_extended_goes_on_excluding)
{
    assert_true(textbook_acquire("r", "5f8c1e", 400));
    for (unsigned i = 0; i < NODES; i++)
        assert_string_equal(lock_cluster_ask(&cluster, i, TEXTBOOK_EXTEND "lock:r 5f8c1e 60000"), "1");
    loop_for(loop, REDLOCK_MS(450));
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_BUSY);
    assert_int_equal(textbook_release("r", "5f8c1e"), NODES);
}

/* The page of redis.io takes 20 random bytes for a value: no text, and perhaps a NUL in front. */
TEST(values_of_any_bytes_are_told_apart_and_kept_from_peoples_eyes)
{
    no_quick_repeats(1);
    assert_true(textbook_acquire("r", "\"\\x00\\x1b[31m\\xff\\n\"", 30000));
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_BUSY);
    assert_contains(mine.reason, "held by somebody for ");
    assert_lacks(mine.reason, "\x1b");
    assert_int_equal(textbook_release("r", "\"\\x00\\x1b[31m\\xff\\n\""), NODES);

    assert_true(textbook_acquire("r", "\"\\x1b[31mred\\xff\\n\"", 30000));
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_BUSY);
    assert_contains(mine.reason, "held by somebody for ");
    assert_int_equal(textbook_release("r", "\"\\x1b[31mred\\xff\\n\""), NODES);

    static const char *const values[QUORUM] = {"\"\\x00one\"", "\"\\x00two\"", "\"\\x00three\""};
    for (unsigned i = 0; i < QUORUM; i++)
        assert_true(textbook_set(i, "r", values[i], 30000));
    unsigned splits = 0;
    for (unsigned i = 0; i < 100; i++) /* three quick answers leave it open whether one of them has a majority */
        splits += lock_probe_acquire(&mine, "r") == REDLOCK_SPLIT;
    assert_true(splits > 0);
    for (unsigned i = 0; i < QUORUM; i++)
        assert_int_equal(textbook_release("r", values[i]), 1);
}

/* --- ours against theirs ------------------------------------------------------------------------------------------ */

/* The colon is there without an owner, too: so a value of ours is known from that of any other client. */
TEST(our_value_is_32_digits_a_colon_and_the_owner)
{
    const char *resource = "r";
    loop_for(loop, 0);
    assert_true(
        redlock_lock_acquire(mine.lock, &(struct redlock_request){.resources = &resource, .resource_count = 1}));
    loop_await(loop, mine.answers == 1);
    assert_int_equal(mine.answer, REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    char value[64];
    snprintf(value, sizeof value, "%s", lock_cluster_ask(&cluster, 4, "GET lock:r"));
    assert_int_equal(strlen(value), 33);
    assert_int_equal(value[32], ':');
    assert_int_equal(strspn(value, "0123456789abcdef"), 32);
    assert_string_equal(lock_cluster_ask(&cluster, 4, "TYPE lock:r"), "string");
    assert_in_range(strtoll(lock_cluster_ask(&cluster, 4, "PTTL lock:r"), NULL, 10), 1, 10000);
    released();
}

TEST(ours_excludes_a_textbook_client_until_it_is_released)
{
    locks_destroy();
    locks_create(900);
    acquired("a r");
    loop_await(loop, lock_cluster_keys(&cluster) == 2 * NODES);
    while (mine.extended < 3) {
        assert_false(textbook_acquire("r", "5f8c1e", 30000));
        assert_false(textbook_acquire("a", "5f8c1e", 30000));
        assert_int_equal(textbook_release("r", "5f8c1e"), 0); /* nor can it delete or prolong ours */
        assert_string_equal(lock_cluster_ask(&cluster, 0, TEXTBOOK_EXTEND "lock:r 5f8c1e 60000"), "0");
        loop_for(loop, REDLOCK_MS(20));
    }
    assert_int_equal(mine.losses, 0);
    assert_int_equal(lock_cluster_keys(&cluster), 2 * NODES);
    released();
    assert_true(textbook_acquire("r", "5f8c1e", 30000));
    assert_true(textbook_acquire("a", "5f8c1e", 30000));
    assert_int_equal(textbook_release("r", "5f8c1e") + textbook_release("a", "5f8c1e"), 2 * NODES);
}

/* A textbook client has no fence; ours go on counting over its holds. */
TEST(tokens_rise_over_the_holds_of_textbook_clients)
{
    uint64_t last = 0;
    for (unsigned i = 0; i < 4; i++) {
        acquired("r");
        assert_true(redlock_lock_token(mine.lock) > last);
        last = redlock_lock_token(mine.lock);
        released();
        assert_true(textbook_acquire("r", "5f8c1e", 30000));
        loop_await(loop, strtoull(lock_cluster_fence(&cluster, 0, "lock:r"), NULL, 10) >= last);
        assert_int_equal(textbook_release("r", "5f8c1e"), NODES);
    }
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, lock_set_up, lock_tear_down)
