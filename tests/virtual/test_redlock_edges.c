/* The edge cases of a Redlock, E1 to E51, of which no other test is the better place, and what becomes of a lock that
 * is held. Where a case is tested, a comment or the name of the test has its number; `make tidy` misses those that are
 * nowhere.
 *
 * The judges of simulated locks (tests/sim/lock) see what breaks these:
 *  - E31: a minority that hangs delays no extension (minority). E34: DANGER comes before LOST, and both in time (told).
 *  - E41: nobody deletes or extends a key without naming its value, be the request late or repeated (trespass).
 *  - E35: a process that stood still knows on waking that its lock is over (overlap); test_dry_run_freeze.c shows it
 *    with a signal.
 *
 * These do not apply, or in part:
 *  - E43: without the right to EVALSHA there is no native fallback (SET IFEQ, DELEX). Grants compare the marker, a
 *    deadline and the fence in one step, which no single command does; a node that refuses scripts is told as such.
 *  - E45: keys of one lock need no common slot, because a lock node is no Redis Cluster: each node has all keys.
 *  - E46: nobody counts holders or readers by a majority, which is unsound. So many holders have as many places, each a
 *    lock of its own (test_redlock_seats.c), and each reader has an entry of its own (test_redlock_shared.c).
 *  - E47: there is no re-entrancy by thread. A task cannot ask for a further lock at all (job.h has no call for it). A
 *    second lock of the same owner text is somebody else, see below. The mutex of libredlock lets a struct
 *    redlock_owner enter again, which asks the nodes nothing (test_mutex.c). */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/lock_fixture.h"

static void have(const char *resources)
{
    assert_int_equal(lock_probe_acquire(&mine, resources), REDLOCK_ACQUIRED);
}

static void ttl_change(int64_t ttl_ms)
{
    locks_destroy();
    locks_create(ttl_ms);
}

static int set_up(void **state)
{
    (void)lock_set_up(state);
    ttl_change(500);
    return 0;
}

/* --- failing nodes ---------------------------------------------------------------------------------------------- */

static void first_may_delete(bool may)
{
    assert_string_equal(lock_cluster_ask(&cluster, 0, "ACL SETUSER default %sdel", may ? "+" : "-"), "OK");
}

/* E15: an error of one node ends the clean-up of no other one, and the node that failed gets it again (E40). */
TEST(a_node_that_fails_to_delete_keeps_no_other_from_it)
{
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    first_may_delete(false);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == 1);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "EXISTS lock:r"), "1");
    for (unsigned i = 1; i <= QUORUM; i++) /* so that the next pass fails */
        lock_cluster_ask(&cluster, i, "SET lock:s other PX 60000");
    assert_int_equal(lock_probe_acquire(&mine, "s"), REDLOCK_BUSY);
    loop_await(loop, strcmp(lock_cluster_ask(&cluster, 4, "EXISTS lock:s"), "0") == 0);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:s"), QUORUM + 1);
    first_may_delete(true);
    loop_await(loop,
               lock_cluster_holders(&cluster, "lock:r") == 0 && lock_cluster_holders(&cluster, "lock:s") == QUORUM);
}

/* --- extensions ------------------------------------------------------------------------------------------------- */

static int64_t deadline(void)
{
    return atomic_load(&redlock_lock_validity(mine.lock)->until);
}

static unsigned holders_among_first(unsigned count)
{
    unsigned holders = 0;
    for (unsigned i = 0; i < count; i++)
        holders += (unsigned)strtoul(lock_cluster_ask(&cluster, i, "EXISTS lock:r"), NULL, 10);
    return holders;
}

TEST_WITH(many_locks_are_extended_by_few_calls, set_up, lock_tear_down)
{
    enum { MANY = 150 };
    static struct lock_probe many[MANY];
    ttl_change(2000); /* with a longer one they part more, by what is random in each extension */
    for (unsigned i = 0; i < MANY; i++) {
        char resource[16];
        snprintf(resource, sizeof resource, "many%u", i);
        lock_probe_create(&many[i], loop, group, &terms);
        lock_probe_ask(&many[i], resource);
    }
    loop_await(loop, redlock_group_counters(group)->acquired == MANY);
    unsigned before = lock_cluster_calls(&cluster, "evalsha");
    loop_await(loop, redlock_group_counters(group)->extensions >= 4 * MANY);
    unsigned calls = lock_cluster_calls(&cluster, "evalsha") - before;
    assert_true(calls < NODES * 4 * MANY / 4);
    for (unsigned i = 0; i < MANY; i++)
        redlock_lock_release(many[i].lock);
    for (unsigned i = 0; i < MANY; i++) {
        loop_await(loop, many[i].releases == 1);
        assert_int_equal(many[i].losses, 0);
        lock_probe_destroy(&many[i]);
    }
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

/* E32: an extension sets the ttl, whatever it was: it adds nothing to it, and it does not only lengthen. */
TEST(an_extension_sets_the_ttl_to_what_was_agreed)
{
    ttl_change(1500);
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    ask_first(NODES, "PEXPIRE lock:r 600000");
    unsigned extended = mine.extended;
    loop_await(loop, mine.extended >= extended + 2);
    loop_await(loop, redlock_group_busy(group) == 1);
    for (unsigned i = 0; i < NODES; i++)
        assert_in_range(strtoll(lock_cluster_ask(&cluster, i, "PTTL lock:r"), NULL, 10), 1, 1500);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

static enum redlock_loss loss;

static void note_loss(struct lock_probe *probe, const struct redlock_event *event)
{
    (void)probe;
    if (event->kind == REDLOCK_EVENT_LOST)
        loss = event->loss;
}

static void nothing_done(struct redlock_verify *verify, bool is_held)
{
    (void)verify;
    (void)is_held;
}

/* The later requests shorten the ttl again, and the votes for them count from the same moment. */
TEST(an_extension_of_the_same_turn_takes_the_place_of_a_longer_one)
{
    struct redlock_verify longer = {.done = nothing_done}, usual = {.done = nothing_done};
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    redlock_lock_extend(mine.lock, 30 * NS_PER_S, &longer);
    redlock_lock_verify(mine.lock, &usual);
    unsigned before = mine.extended;
    loop_await(loop, mine.extended > before);
    assert_in_range(redlock_validity_left_ns(redlock_lock_validity(mine.lock)), 1, 10 * NS_PER_S);
    assert_in_range(strtol(lock_cluster_ask(&cluster, 0, "PTTL lock:r"), NULL, 10), 1, 10000);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

/* E37: extended as long as its terms allow, and not once more; by time, not by counting extensions. */
TEST(a_hold_ends_at_its_maximum_however_often_it_was_extended)
{
    struct lock_probe limited;
    struct redlock_terms briefly = quick_terms(900, 3);
    briefly.max_hold_ms = 2000;
    lock_probe_create(&limited, loop, group, &briefly);
    limited.on_event = note_loss;
    loss = REDLOCK_LOST_DEADLINE;
    struct instant before = instant_now();
    assert_int_equal(lock_probe_acquire(&limited, "r"), REDLOCK_ACQUIRED);
    int64_t end = instant_now().ns + briefly.max_hold_ms * NS_PER_MS;
    while (limited.losses == 0) {
        assert_true(atomic_load(&redlock_lock_validity(limited.lock)->until) <= end);
        loop_for(loop, REDLOCK_MS(1));
    }
    assert_true(limited.extended >= 2);
    assert_int_equal(loss, REDLOCK_LOST_MAX_HOLD);
    assert_int_equal(limited.dangers, 1); /* it was told before */
    assert_contains(limited.reason, "as long as its terms allow");
    assert_true(instant_since(before, instant_now()) >= briefly.max_hold_ms * NS_PER_MS - REDLOCK_MS(1));
    assert_int_equal(lock_probe_release(&limited), REDLOCK_RELEASED);
    lock_probe_destroy(&limited);
}

/* --- loss ------------------------------------------------------------------------------------------------------- */

TEST_WITH(a_lock_deleted_on_a_majority_is_lost_and_stays_deleted, set_up, lock_tear_down)
{
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    ask_first(QUORUM, "DEL lock:r");
    loop_await(loop, mine.losses == 1);
    assert_int_equal(deadline(), 0);
    assert_contains(mine.reason, "not ours");
    assert_int_equal(holders_among_first(QUORUM), 0);
    loop_for(loop, 2 * terms.ttl_ms * NS_PER_MS);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), 0);
    assert_int_equal(mine.losses, 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_EXPIRED);
}

TEST_WITH(a_lock_deleted_on_a_minority_goes_on_and_is_there_again, set_up, lock_tear_down)
{
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    ask_first(NODES - QUORUM, "DEL lock:r");
    assert_int_equal(holders_among_first(NODES - QUORUM), 0);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    assert_int_equal(mine.losses, 0);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

TEST_WITH(a_lock_that_somebody_else_has_on_a_majority_is_lost, set_up, lock_tear_down)
{
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    ask_first(QUORUM, "SET lock:r other PX 30000");
    loop_await(loop, mine.losses == 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_FOREIGN);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), QUORUM);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), "other");
}

TEST_WITH(a_lock_that_lacks_one_of_its_keys_is_lost, set_up, lock_tear_down)
{
    have("q r s");
    loop_await(loop, lock_cluster_keys(&cluster) == 3 * NODES);
    ask_first(QUORUM, "DEL lock:r");
    loop_await(loop, mine.losses == 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_EXPIRED);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), 0); /* the rest of it is cleaned up */
}

/* --- owners ----------------------------------------------------------------------------------------------------- */

/* E47: who holds a lock cannot have it a second time, not even in part, under the same owner text. */
TEST(a_nested_acquire_of_the_same_owner_is_refused_as_anybody_elses)
{
    struct lock_probe again;
    lock_probe_create(&again, loop, group, &terms);
    have("r");
    assert_int_equal(lock_probe_acquire(&again, "r"), REDLOCK_BUSY);
    assert_int_equal(lock_probe_acquire(&again, "q r"), REDLOCK_BUSY);
    assert_int_equal(lock_probe_acquire(&theirs, "r"), REDLOCK_BUSY);
    assert_contains(theirs.reason, "held by host:1:2:test");
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    assert_int_equal(lock_probe_acquire(&again, "q r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&again), REDLOCK_RELEASED);
    lock_probe_destroy(&again);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, lock_set_up, lock_tear_down)
