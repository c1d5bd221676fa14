/* The mutex of libredlock and time: how long it waits and holds, how long an attempt takes, and what is told when. In
 * virtual time only: real threads and servers keep no such bounds. */
#include "tests/support/test.h"

#include <string.h>

#include "base/clock.h"
#include "tests/support/mutex_fixture.h"

static int64_t boot_ms(void)
{
    return instant_now().ns / NS_PER_MS;
}

/* --- time --------------------------------------------------------------------------------------------------------- */

TEST(by_itself_it_is_certain_for_ten_seconds)
{
    struct redlock_mutex mutex = {.client = client, .name = "r"};
    lock(&mutex);
    assert_in_range(redlock_mutex_valid_for_ms(&mutex), 9000, 10000);
    assert_in_range(redlock_mutex_valid_until_ms(&mutex) - boot_ms(), 9000, 10000);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
}

TEST(a_wait_ends_when_the_time_is_over)
{
    struct redlock_mutex mutex = mutex_of("r"), other = mutex_of("r");
    lock(&mutex);
    int64_t before = boot_ms();
    assert_int_equal(redlock_mutex_try_lock_for(&other, 3000, 0), REDLOCK_BUSY);
    assert_in_range(boot_ms() - before, 2990, 3500);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
}

TEST(a_lease_ends_however_often_it_was_extended)
{
    struct redlock_mutex mutex = mutex_of("r");
    int64_t before = boot_ms();
    assert_int_equal(redlock_mutex_try_lock_for(&mutex, 0, 5000), REDLOCK_ACQUIRED);
    while (redlock_mutex_valid_for_ms(&mutex) > 0) {
        (void)redlock_mutex_touch(&mutex);
        poll(NULL, 0, 20);
    }
    assert_in_range(boot_ms() - before, 4980, 5100);
    assert_false(redlock_mutex_touch(&mutex));
    assert_contains(mutex.reason, "does not confirm");
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
}

TEST(an_extension_makes_it_certain_for_so_long)
{
    struct redlock_mutex mutex = mutex_of("r");
    lock(&mutex);
    assert_true(redlock_mutex_extend(&mutex, 30000));
    assert_in_range(redlock_mutex_valid_for_ms(&mutex), 29000, 30000);
    test_await(strtol(lock_cluster_ask(&cluster, 0, "PTTL lock:r"), NULL, 10) > 29000);
    poll(NULL, 0, 60000); /* later extensions keep it so */
    assert_in_range(redlock_mutex_valid_for_ms(&mutex), 15000, 30000);
    assert_true(redlock_mutex_extend(&mutex, 60000)); /* the max_ttl of the group */
    assert_in_range(redlock_mutex_valid_for_ms(&mutex), 58000, 60000);
    int64_t valid_until = redlock_mutex_valid_until_ms(&mutex);
    assert_false(redlock_mutex_extend(&mutex, 60001));
    assert_contains(mutex.reason, "60001 ms is above the max_ttl of the lock group, 60000 ms");
    assert_false(redlock_mutex_extend(&mutex, INT64_MAX));
    assert_false(redlock_mutex_extend(&mutex, 0));
    assert_false(redlock_mutex_extend(&mutex, -1));
    assert_contains(mutex.reason, "at least 1 ms");
    assert_int_equal(redlock_mutex_valid_until_ms(&mutex), valid_until);
    assert_true(redlock_mutex_extend(&mutex, 1)); /* never less than it has */
    assert_true(redlock_mutex_valid_until_ms(&mutex) >= valid_until);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
}

TEST(an_extension_that_no_majority_confirms_changes_nothing)
{
    struct redlock_mutex mutex = mutex_of("r");
    lock(&mutex);
    pause_first(QUORUM);
    assert_false(redlock_mutex_extend(&mutex, 60000));
    assert_contains(mutex.reason, "does not confirm");
    assert_true(redlock_mutex_valid_for_ms(&mutex) <= MUTEX_TTL_MS);
    test_await(redlock_mutex_in_danger(&mutex));
    test_await(redlock_mutex_valid_for_ms(&mutex) == 0);
    resume_first(QUORUM);
    redlock_mutex_unlock(&mutex);
}

TEST(delays_can_be_a_function)
{
    struct redlock_mutex mutex = mutex_of("r"), other = mutex_of("r");
    lock(&mutex);
    other.terms.tries = 5;
    other.delay_ms = delay_of;
    other.context = delays;
    memcpy(delays, (int64_t[]){0, 100, 1000, -1, 2000}, 5 * sizeof delays[0]);
    int64_t before = boot_ms();
    uint64_t attempts = counted().busy;
    assert_int_equal(redlock_mutex_lock(&other), REDLOCK_BUSY);
    assert_in_range(boot_ms() - before, 3100, 3500);
    assert_int_equal(counted().busy - attempts, 5);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    assert_int_equal(redlock_mutex_lock(&other), REDLOCK_ACQUIRED);
    assert_int_equal(redlock_mutex_unlock(&other), REDLOCK_RELEASED);
}

TEST(closing_the_client_ends_a_delay)
{
    struct redlock_mutex mutex = mutex_of("r");
    mutex.terms.tries = 2;
    mutex.delay_ms = delay_of;
    mutex.context = delays;
    delays[1] = 3600000;
    ask_first(NODES, "SET lock:r somebody PX 3600000");
    pthread_t thread = locker_start(wait_long, &mutex);
    poll(NULL, 0, 500);
    int64_t before = boot_ms();
    redlock_client_close(client);
    pthread_join(thread, NULL);
    assert_int_equal(waited, REDLOCK_CANCELLED);
    assert_in_range(boot_ms() - before, 0, 10000);
    ask_first(NODES, "DEL lock:r");
    client = redlock_client_open(&cluster.options, reason, sizeof reason);
    assert_non_null(client);
}

TEST(factors_bound_what_is_trusted_and_how_long_an_attempt_takes)
{
    struct redlock_mutex mutex = mutex_of("r");
    mutex.terms.ttl_ms = 10000;
    mutex.terms.drift_factor = 0.1;
    lock(&mutex);
    assert_in_range(redlock_mutex_valid_for_ms(&mutex), 8000, 9000);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    pause_first(QUORUM);
    mutex.terms.tries = 1;
    mutex.terms.timeout_factor = 0.01;
    int64_t before = boot_ms();
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_NO_QUORUM);
    assert_in_range(boot_ms() - before, 100, 150);
    resume_first(QUORUM);
    mutex.terms.timeout_factor = 0.26;
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
    assert_contains(mutex.reason, "timeout factor");
    mutex.terms.timeout_factor = 0;
    mutex.terms.drift_factor = -0.1;
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
    assert_contains(mutex.reason, "drift factor");
}

TEST(a_wait_for_the_owner_and_then_for_others_is_one_wait)
{
    struct redlock_owner owner = {0};
    struct redlock_mutex mutex = mutex_of("r"), first = mutex_of_owner("r", &owner), second = first;
    lock(&mutex);
    first.terms.wait_ms = 2000;
    pthread_t quicker = locker_start(wait_long, &first);
    int64_t before = boot_ms();
    assert_int_equal(redlock_mutex_try_lock_for(&second, 3000, 0), REDLOCK_BUSY);
    assert_in_range(boot_ms() - before, 2990, 3500);
    pthread_join(quicker, NULL);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
}

/* --- danger and loss ---------------------------------------------------------------------------------------------- */

TEST(a_callback_is_told_of_danger_and_loss)
{
    struct told told = {0}, calm = {0};
    struct redlock_mutex mutex = mutex_of("r"), free = mutex_of("free");
    mutex.told = free.told = note;
    mutex.context = &told;
    free.context = &calm;
    lock(&free);
    assert_int_equal(redlock_mutex_unlock(&free), REDLOCK_RELEASED);
    lock(&mutex);
    poll(NULL, 0, 5 * MUTEX_TTL_MS);
    assert_int_equal(told.dangers, 0);
    pause_first(QUORUM);
    test_await(told.dangers == 1);
    assert_int_equal(told.losses, 0);
    test_await(told.losses == 1);
    resume_first(QUORUM);
    redlock_mutex_unlock(&mutex);
    assert_int_equal(told.dangers, 1);
    assert_int_equal(calm.dangers + calm.losses, 0);
}

TEST(a_callback_is_told_of_every_danger)
{
    struct told told = {0};
    struct redlock_mutex mutex = mutex_of("r");
    mutex.terms.ttl_ms = 20000;
    mutex.told = note;
    mutex.context = &told;
    lock(&mutex);
    for (unsigned dangers = 1; dangers <= 2; dangers++) {
        pause_first(QUORUM);
        test_await(told.dangers == dangers);
        resume_first(QUORUM);
        test_await(!redlock_mutex_in_danger(&mutex));
    }
    assert_int_equal(told.losses, 0);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
}

TEST(what_is_unlocked_before_it_is_told_keeps_no_other_from_being_told)
{
    for (unsigned leaves = 0; leaves < 3; leaves++) {
        struct told told[4] = {{0}};
        struct redlock_mutex mutexes[4] = {mutex_of("a"), mutex_of("b"), mutex_of("c"), mutex_of("d")};
        for (unsigned i = 0; i < 4; i++) {
            mutexes[i].told = note;
            mutexes[i].is_dispatched = true;
            mutexes[i].context = &told[i];
            mutexes[i].terms.ttl_ms = i < 3 ? 20000 : 60000;
            lock(&mutexes[i]);
        }
        pause_first(QUORUM);
        for (unsigned i = 0; i < 3; i++)
            danger_await(&mutexes[i]);
        redlock_mutex_unlock(&mutexes[leaves]);
        memset(&mutexes[leaves], 0xff, sizeof mutexes[leaves]); /* nobody looks at it any more */
        danger_await(&mutexes[3]);
        redlock_client_dispatch(client);
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(told[i].dangers + told[i].losses > 0, i != leaves);
        resume_first(QUORUM);
        for (unsigned i = 0; i < 4; i++)
            if (i != leaves)
                redlock_mutex_unlock(&mutexes[i]);
        struct redlock_mutex probe = mutex_of("probe"); /* the client connects again when its backoff is over */
        test_await(redlock_mutex_try_lock(&probe) == REDLOCK_ACQUIRED);
        redlock_mutex_unlock(&probe);
    }
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, client_set_up, client_tear_down)
