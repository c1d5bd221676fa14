/* Locks whose keys stay for a while after their release, and locks that somebody declares lost. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/waiting_fixture.h"

enum { TTL_MS = 10000 };

static struct lock_probe *user(unsigned of_process)
{
    struct redlock_terms terms = quick_terms(TTL_MS, 1);
    struct lock_probe *probe = &waiters[waiter_count++];
    lock_probe_create(probe, loop, process(of_process), &terms);
    probe->waits_here = true;
    return probe;
}

static struct lock_probe *holder_of(const char *resources)
{
    struct lock_probe *probe = user(0);
    assert_int_equal(lock_probe_acquire(probe, resources), REDLOCK_ACQUIRED);
    return probe;
}

static void delete_by_hand(unsigned servers)
{
    ask_first(servers, "DEL lock:r");
}

static void await_no_keys(void)
{
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
}

/* --- lingering ---------------------------------------------------------------------------------------------------- */

static enum redlock_ending linger(struct lock_probe *probe, int64_t ms)
{
    unsigned releases = probe->releases;
    loop_for(loop, 0);
    redlock_lock_linger(probe->lock, REDLOCK_MS(ms));
    loop_await(loop, probe->releases == releases + 1);
    return probe->ending;
}

static long longest_left_ms(void)
{
    long longest = -2;
    for (unsigned i = 0; i < NODES; i++) {
        long left = strtol(lock_cluster_ask(&cluster, i, "PTTL lock:r"), NULL, 10);
        longest = left > longest ? left : longest;
    }
    return longest;
}

TEST(test_a_lock_that_lingers_stays_so_long)
{
    struct lock_probe *holder = holder_of("r"), *other = user(1);
    ask_first(NODES, "CONFIG RESETSTAT");
    assert_int_equal(linger(holder, 3000), REDLOCK_RELEASED);
    loop_await(loop, longest_left_ms() <= 3000);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), NODES);
    assert_int_equal(calls("del") + calls("publish"), 0);
    assert_int_equal(lock_probe_acquire(other, "r"), REDLOCK_BUSY);
    assert_int_equal(lock_probe_acquire(holder, "r"), REDLOCK_BUSY); /* its own process neither */
    struct lock_probe *patient = waiter(0, 60000);
    assert_int_equal(lock_probe_acquire(patient, "r"), REDLOCK_ACQUIRED);
    assert_true(patient->waited_ns < 8 * NS_PER_S); /* the ttl was 10 s */
    assert_int_equal(lock_probe_release(patient), REDLOCK_RELEASED);
}

TEST(test_a_lock_that_lingers_is_not_handed_over)
{
    struct lock_probe *holder = holder_of("r"), *successor = user(0);
    lock_probe_ask(successor, "r");
    assert_int_equal(linger(holder, 5000), REDLOCK_RELEASED);
    loop_await(loop, successor->answers == 1);
    assert_int_equal(successor->answer, REDLOCK_BUSY);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), NODES);
    delete_by_hand(NODES);
}

TEST(test_no_lock_lingers_beyond_what_the_group_allows)
{
    struct lock_probe *holder = holder_of("r");
    assert_int_equal(linger(holder, INT64_C(3600000)), REDLOCK_RELEASED);
    assert_true(longest_left_ms() > TTL_MS);
    assert_true(longest_left_ms() <= CLUSTER_MAX_TTL_MS);
    delete_by_hand(NODES);
}

TEST(test_what_is_lost_or_somebody_elses_does_not_linger)
{
    struct lock_probe *holder = holder_of("r");
    loop_for(loop, 0);
    redlock_lock_forfeit(holder->lock);
    assert_int_equal(linger(holder, 5000), REDLOCK_RELEASED);
    await_no_keys();
    assert_int_equal(lock_probe_acquire(holder, "r"), REDLOCK_ACQUIRED);
    ask_first(NODES, "SET lock:r theirs PX 59000");
    assert_int_equal(linger(holder, 5000), REDLOCK_FOREIGN);
    assert_true(longest_left_ms() > 50000);
    delete_by_hand(NODES);
}

/* --- forfeiting --------------------------------------------------------------------------------------------------- */

TEST(test_a_forfeited_lock_is_lost_at_once)
{
    struct lock_probe *holder = holder_of("r");
    loop_for(loop, 0);
    redlock_lock_forfeit(holder->lock);
    assert_int_equal(holder->losses, 1);
    assert_int_equal(holder->loss, REDLOCK_LOST_FORFEIT);
    assert_contains(holder->reason, "by hand");
    assert_int_equal(redlock_validity_left_ns(redlock_lock_validity(holder->lock)), 0);
    assert_true(redlock_lock_token(holder->lock) > 0);
    redlock_lock_forfeit(holder->lock); /* no hold any more */
    assert_int_equal(holder->losses, 1);
    assert_int_equal(lock_probe_release(holder), REDLOCK_RELEASED);
    await_no_keys();
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, waiting_set_up, waiting_tear_down)
