/* Locks that are held: extended in the background for as long as they are ours, and said to be lost as soon as they may
 * not be. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/lock_fixture.h"

/* The same locks with other terms. */
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

#define extend_test(function) cmocka_unit_test_setup_teardown(function, set_up, lock_tear_down)

static void have(const char *resources)
{
    assert_int_equal(lock_probe_acquire(&mine, resources), REDLOCK_ACQUIRED);
}

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

/* --- extension -------------------------------------------------------------------------------------------------- */

static void a_held_lock_outlives_many_ttl(void **state)
{
    (void)state;
    ttl_change(2000); /* nobody may keep this program from running for so long */
    have("r");
    int64_t first_deadline = deadline();
    int64_t end = instant_now().ns + 4 * terms.ttl_ns;
    while (instant_now().ns < end) {
        loop_for(loop, terms.ttl_ns / 5);
        assert_true(lock_cluster_holders(&cluster, "lock:r") >= QUORUM);
    }
    assert_int_equal(mine.losses, 0);
    assert_true(mine.extended >= 8);
    assert_true(deadline() >= first_deadline + 3 * terms.ttl_ns);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

static void many_locks_are_extended_by_few_calls(void **state)
{
    (void)state;
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

static void an_extension_that_fails_is_tried_again_until_it_succeeds(void **state)
{
    (void)state;
    ttl_change(3000);
    have("r");
    pause_first(QUORUM);
    loop_await(loop, mine.dangers == 1); /* two thirds of the ttl are gone */
    assert_int_equal(mine.extended, 0);
    resume_first(QUORUM);
    loop_await(loop, mine.extended == 1);
    assert_int_equal(mine.losses, 0);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

static void nothing_extends_a_lock_that_was_released(void **state)
{
    (void)state;
    have("r");
    loop_await(loop, mine.extended >= 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    unsigned extended = mine.extended;
    loop_for(loop, 2 * terms.ttl_ns);
    assert_int_equal(mine.extended, extended);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

/* --- loss ------------------------------------------------------------------------------------------------------- */

static void a_lock_deleted_on_a_majority_is_lost_and_stays_deleted(void **state)
{
    (void)state;
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    ask_first(QUORUM, "DEL lock:r");
    loop_await(loop, mine.losses == 1);
    assert_int_equal(deadline(), 0);
    assert_contains(mine.reason, "not ours");
    assert_int_equal(holders_among_first(QUORUM), 0);
    loop_for(loop, 2 * terms.ttl_ns);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), 0);
    assert_int_equal(mine.losses, 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_EXPIRED);
}

static void a_lock_deleted_on_a_minority_goes_on_without_it(void **state)
{
    (void)state;
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    ask_first(NODES - QUORUM, "DEL lock:r");
    unsigned extended = mine.extended;
    loop_await(loop, mine.extended >= extended + 4);
    assert_int_equal(mine.losses, 0);
    assert_int_equal(holders_among_first(NODES - QUORUM), 0);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), QUORUM);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

static void a_lock_that_somebody_else_has_on_a_majority_is_lost(void **state)
{
    (void)state;
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    ask_first(QUORUM, "SET lock:r other PX 30000");
    loop_await(loop, mine.losses == 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_FOREIGN);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), QUORUM);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), "other");
}

static void a_lock_that_lacks_one_of_its_keys_is_lost(void **state)
{
    (void)state;
    have("q r s");
    loop_await(loop, lock_cluster_keys(&cluster) == 3 * NODES);
    ask_first(QUORUM, "DEL lock:r");
    loop_await(loop, mine.losses == 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_EXPIRED);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), 0); /* the rest of it is cleaned up */
}

static unsigned danger_order, loss_order, events;

static void order_note(struct lock_probe *probe, const struct redlock_event *event)
{
    events++;
    if (event->kind == REDLOCK_EVENT_DANGER)
        danger_order = events;
    if (event->kind == REDLOCK_EVENT_LOST) {
        loss_order = events;
        assert_int_equal(atomic_load(&redlock_lock_validity(probe->lock)->until), 0);
    }
}

/* E34. What decides is the published word; the events follow it. */
static void without_a_majority_comes_danger_and_then_loss_before_the_ttl_ends(void **state)
{
    (void)state;
    danger_order = loss_order = events = 0;
    mine.on_event = order_note;
    have("r");
    int64_t acquired_at = instant_now().ns;
    pause_first(QUORUM);
    loop_await(loop, mine.losses + mine.extended > 0 || deadline() > 0);
    assert_true(deadline() < acquired_at + terms.ttl_ns);
    loop_await(loop, mine.losses == 1);
    assert_int_equal(mine.dangers, 1);
    assert_true(danger_order > 0 && danger_order < loss_order);
    assert_int_equal(deadline(), 0);
    assert_contains(mine.reason, "deadline");
    resume_first(QUORUM);
    loop_for(loop, terms.ttl_ns);
    assert_int_equal(deadline(), 0); /* final */
    assert_int_equal(mine.losses, 1);
    (void)lock_probe_release(&mine);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
}

static void a_lost_lock_can_be_acquired_again_after_its_release(void **state)
{
    (void)state;
    have("r");
    lock_cluster_take_away(&cluster, "lock:r");
    loop_await(loop, mine.losses == 1);
    (void)lock_probe_release(&mine);
    have("r");
    assert_true(deadline() > 0);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        extend_test(a_held_lock_outlives_many_ttl),
        extend_test(many_locks_are_extended_by_few_calls),
        extend_test(an_extension_that_fails_is_tried_again_until_it_succeeds),
        extend_test(nothing_extends_a_lock_that_was_released),
        extend_test(a_lock_deleted_on_a_majority_is_lost_and_stays_deleted),
        extend_test(a_lock_deleted_on_a_minority_goes_on_without_it),
        extend_test(a_lock_that_somebody_else_has_on_a_majority_is_lost),
        extend_test(a_lock_that_lacks_one_of_its_keys_is_lost),
        extend_test(without_a_majority_comes_danger_and_then_loss_before_the_ttl_ends),
        extend_test(a_lost_lock_can_be_acquired_again_after_its_release),
    };
    return cmocka_run_group_tests(tests, one_cluster_set_up, one_cluster_tear_down);
}
