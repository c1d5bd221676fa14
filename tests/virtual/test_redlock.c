/* The asynchronous group over five servers that all work: what a lock is there, who excludes whom, how it ends. */
#include "tests/support/test.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "redlock/group_private.h"
#include "tests/support/lock_fixture.h"

/* --- one lock -------------------------------------------------------------------------------------------------- */

TEST(a_lock_is_on_all_nodes_and_its_release_leaves_no_key)
{
    assert_int_equal(lock_probe_acquire(&mine, "account:1"), REDLOCK_ACQUIRED);
    assert_int_equal(mine.attempts, 1);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:account:1") == NODES);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    assert_true(redlock_lock_is_free(mine.lock));
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

TEST(the_key_is_plain_redlock)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    char first[256];
    snprintf(first, sizeof first, "%s", lock_cluster_ask(&cluster, 0, "GET lock:r"));
    for (size_t i = 0; i < 32; i++)
        assert_true(isxdigit((unsigned char)first[i]) && !isupper((unsigned char)first[i]));
    assert_string_equal(first + 32, ":host:1:2:test");
    for (unsigned i = 0; i < NODES; i++) {
        assert_string_equal(lock_cluster_ask(&cluster, i, "TYPE lock:r"), "string");
        assert_string_equal(lock_cluster_ask(&cluster, i, "GET lock:r"), first);
        long left = strtol(lock_cluster_ask(&cluster, i, "PTTL lock:r"), NULL, 10);
        assert_in_range(left, 1, 10000);
    }
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

/* E4: a late grant of an earlier one cannot be mistaken for it, or refuse it as its own. */
TEST(every_acquisition_has_a_value_of_its_own)
{
    char first[256];
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    snprintf(first, sizeof first, "%s", lock_cluster_ask(&cluster, 0, "GET lock:r"));
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == 0);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    assert_string_not_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), first);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

TEST(the_deadline_word_says_until_when_it_is_held)
{
    const _Atomic int64_t *deadline = &redlock_lock_validity(mine.lock)->until;
    assert_int_equal(atomic_load(deadline), 0);
    int64_t before = instant_now().ns;
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_true(atomic_load(deadline) > before);
    assert_true(atomic_load(deadline) <= instant_now().ns + terms.ttl_ms * NS_PER_MS - REDLOCK_MS(102));
    redlock_lock_release(mine.lock);
    assert_int_equal(atomic_load(deadline), 0);
    loop_await(loop, mine.releases == 1);
}

TEST(requests_outside_the_limits_send_nothing)
{
    char long_name[REDLOCK_RESOURCE_BYTES_MAX + 2];
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    const char *names[REDLOCK_RESOURCES_MAX + 1];
    for (size_t i = 0; i <= REDLOCK_RESOURCES_MAX; i++)
        names[i] = "same";
    const char *too_long = long_name, *empty = "", *longest = long_name + 1;

    assert_false(redlock_lock_acquire(mine.lock, &(struct redlock_request){.resources = names, .resource_count = 0}));
    assert_false(redlock_lock_acquire(
        mine.lock, &(struct redlock_request){.resources = names, .resource_count = REDLOCK_RESOURCES_MAX + 1}));
    assert_false(
        redlock_lock_acquire(mine.lock, &(struct redlock_request){.resources = &too_long, .resource_count = 1}));
    assert_false(redlock_lock_acquire(mine.lock, &(struct redlock_request){.resources = &empty, .resource_count = 1}));
    assert_true(redlock_lock_is_free(mine.lock));
    assert_int_equal(mine.answers, 0);
    assert_int_equal(lock_probe_acquire(&mine, longest), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

/* --- against others -------------------------------------------------------------------------------------------- */

TEST(who_comes_second_is_told_busy_after_all_its_passes)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_acquire(&theirs, "r"), REDLOCK_BUSY);
    assert_int_equal(theirs.attempts, 3);
    assert_true(theirs.waited_ns >= 2 * REDLOCK_MS(2));
    assert_int_equal(atomic_load(&redlock_lock_validity(theirs.lock)->until), 0);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    assert_int_equal(lock_probe_acquire(&theirs, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&theirs), REDLOCK_RELEASED);
    assert_int_equal(redlock_group_counters(other_group)->busy, 1);
    assert_int_equal(redlock_group_counters(other_group)->acquired, 1);
}

/* It is refused at the first pass, and only then: what is no holder's refusal may pass. */
TEST(who_leaves_when_it_is_busy_asks_once)
{
    theirs.leaves_when_busy = true;
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_acquire(&theirs, "r"), REDLOCK_BUSY);
    assert_int_equal(theirs.attempts, 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    assert_int_equal(lock_probe_acquire(&theirs, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&theirs), REDLOCK_RELEASED);
    for (unsigned i = 0; i < cluster.count; i++)
        lock_cluster_fence_put(&cluster, i, "lock:other", "none");
    assert_int_equal(lock_probe_acquire(&theirs, "other"), REDLOCK_NO_QUORUM);
    assert_int_equal(theirs.attempts, 3);
}

/* --- quiet releases ----------------------------------------------------------------------------------------------- */

/* A release asks for one key whether anybody listens. Whoever waits keeps
 * that key, and is woken by the first release as by those after it: by its own tries it would come 20 seconds later. */
TEST(a_release_that_finds_a_listener_wakes_it)
{
    struct lock_probe patient;
    struct redlock_terms waiting = quick_terms(60000, 1000);
    waiting.wait_ms = 600000;
    waiting.retry_delay_ms = 20000;
    lock_probe_create(&patient, loop, other_group, &waiting);
    assert_int_equal(lock_cluster_holders(&cluster, "hf:listeners"), 0);
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
        lock_probe_ask(&patient, "r");
        loop_await(loop, lock_cluster_holders(&cluster, "hf:listeners") == NODES);
        loop_for(loop, REDLOCK_MS(2000));
        struct instant from = loop_now(loop);
        assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
        loop_await(loop, patient.answers == round + 1);
        assert_int_equal(patient.answer, REDLOCK_ACQUIRED);
        assert_in_range(instant_since(from, loop_now(loop)), 0, REDLOCK_MS(500));
        assert_int_equal(lock_probe_release(&patient), REDLOCK_RELEASED);
    }
    lock_probe_destroy(&patient);
    loop_for(loop, REDLOCK_MS(100000)); /* nobody renews it */
    assert_int_equal(lock_cluster_holders(&cluster, "hf:listeners"), 0);
}

/* --- several resources ------------------------------------------------------------------------------------------ */

TEST(several_resources_are_sorted_and_taken_once)
{
    assert_int_equal(lock_probe_acquire(&mine, "b a c a b"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_keys(&cluster) == 3 * NODES);
    const char *value = lock_cluster_ask(&cluster, 0, "GET lock:a");
    assert_int_equal(strlen(value), 32 + strlen(":host:1:2:test"));
    long left = strtol(lock_cluster_ask(&cluster, 4, "PTTL lock:c"), NULL, 10);
    assert_in_range(left, 1, 10000);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

TEST(all_of_several_or_none)
{
    assert_int_equal(lock_probe_acquire(&mine, "c"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:c") == NODES);
    assert_int_equal(lock_probe_acquire(&theirs, "a b c d"), REDLOCK_BUSY);
    loop_await(loop, redlock_group_busy(group) == 1 && redlock_group_busy(other_group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), NODES);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    assert_int_equal(lock_probe_acquire(&theirs, "a b c d"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_acquire(&mine, "d"), REDLOCK_BUSY);
    assert_int_equal(lock_probe_release(&theirs), REDLOCK_RELEASED);
}

static unsigned refused;

static void refused_note(struct lock_probe *probe, const struct redlock_event *event)
{
    (void)probe;
    refused = event->kind == REDLOCK_EVENT_ANSWER ? event->resource : refused;
}

/* Who waits for the resource that is told would else wait for one that is free. */
TEST(the_resource_that_is_told_is_one_of_the_last_pass)
{
    struct redlock_terms twice = quick_terms(10000, 2);
    twice.retry_delay_ms = 1000;
    struct lock_probe slow;
    lock_probe_create(&slow, loop, group, &twice);
    slow.on_event = refused_note;
    assert_int_equal(lock_probe_acquire(&theirs, "b"), REDLOCK_ACQUIRED);
    lock_probe_ask(&slow, "a b");
    loop_await(loop, slow.lock->lease.state == LEASE_WAITING);
    assert_int_equal(slow.lock->attempts, 1);
    assert_int_equal(lock_probe_release(&theirs), REDLOCK_RELEASED);
    assert_int_equal(lock_probe_acquire(&theirs, "a"), REDLOCK_ACQUIRED);
    refused = 1;
    loop_await(loop, slow.answers == 1);
    assert_int_equal(slow.answer, REDLOCK_BUSY);
    assert_int_equal(slow.attempts, 2);
    assert_int_equal(refused, 0);
    assert_int_equal(lock_probe_release(&theirs), REDLOCK_RELEASED);
    lock_probe_destroy(&slow);
}

/* --- endings ---------------------------------------------------------------------------------------------------- */

static void each_majority(const char *command)
{
    for (unsigned i = 0; i < QUORUM; i++)
        lock_cluster_ask(&cluster, i, "%s", command);
}

TEST(a_release_of_what_expired_says_so)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    each_majority("DEL lock:r");
    assert_int_equal(lock_probe_release(&mine), REDLOCK_EXPIRED);
    assert_int_equal(redlock_group_counters(group)->expired, 1);
}

TEST(a_release_of_what_is_somebody_elses_says_so_and_leaves_it)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    each_majority("SET lock:r other PX 30000");
    assert_int_equal(lock_probe_release(&mine), REDLOCK_FOREIGN);
    assert_int_equal(redlock_group_counters(group)->foreign, 1);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), QUORUM);
}

TEST(a_release_that_a_majority_does_not_answer_is_unknown)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    pause_first(QUORUM);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_UNKNOWN);
    resume_first(QUORUM);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
}

TEST(cancelling_an_acquire_leaves_nothing)
{
    lock_probe_ask(&mine, "r"); /* nothing has left yet */
    redlock_lock_release(mine.lock);
    assert_int_equal(mine.answer, REDLOCK_CANCELLED);
    assert_true(redlock_lock_is_free(mine.lock));

    pause_first(QUORUM); /* the grants are out, the answers are not in */
    lock_probe_ask(&mine, "r");
    loop_for(loop, REDLOCK_MS(5));
    assert_int_equal(mine.answers, 1);
    redlock_lock_release(mine.lock);
    assert_int_equal(mine.answers, 2);
    assert_int_equal(mine.answer, REDLOCK_CANCELLED);
    resume_first(QUORUM);
    loop_await(loop, redlock_group_busy(group) == 0);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
    assert_int_equal(lock_probe_acquire(&theirs, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&theirs), REDLOCK_RELEASED);
}

TEST(cancelling_while_it_waits_for_its_next_pass_leaves_nothing)
{
    struct redlock_terms slow = quick_terms(10000, 100);
    struct lock_probe waiting;
    slow.retry_delay_ms = 60000;
    lock_probe_create(&waiting, loop, other_group, &slow);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    lock_probe_ask(&waiting, "r");
    loop_await(loop, redlock_group_counters(other_group)->attempts == 1 && redlock_group_busy(other_group) == 1);
    redlock_lock_release(waiting.lock);
    assert_int_equal(waiting.answer, REDLOCK_CANCELLED);
    lock_probe_destroy(&waiting);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

TEST(a_lock_destroyed_while_it_is_released_is_released)
{
    struct lock_probe short_lived;
    lock_probe_create(&short_lived, loop, group, &terms);
    assert_int_equal(lock_probe_acquire(&short_lived, "r"), REDLOCK_ACQUIRED);
    redlock_lock_release(short_lived.lock);
    lock_probe_destroy(&short_lived);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(short_lived.releases, 0);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
    assert_int_equal(redlock_group_counters(group)->released, 1);
}

/* --- who is told -------------------------------------------------------------------------------------------------- */

static unsigned told;

static void count_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    assert_ptr_equal(lock, context);
    told += event->kind == REDLOCK_EVENT_RELEASED;
}

static void count_verified(struct redlock_verify *verify, bool is_held)
{
    (void)verify, (void)is_held;
    told++;
}

TEST(another_function_gets_the_events_from_then_on)
{
    struct redlock_verify verify = {.done = count_verified};
    told = 0;
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    redlock_lock_verify(mine.lock, &verify);
    redlock_lock_tell_to(mine.lock, count_event, mine.lock);
    loop_for(loop, REDLOCK_MS(1000));
    assert_int_equal(told, 0);
    redlock_lock_release(mine.lock);
    loop_await(loop, told == 1);
    assert_int_equal(mine.releases, 0);
}

TEST(a_verification_that_is_cancelled_has_no_answer)
{
    struct redlock_verify verify[2] = {{.done = count_verified}, {.done = count_verified}};
    told = 0;
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    redlock_lock_verify(mine.lock, &verify[0]);
    redlock_lock_verify(mine.lock, &verify[1]);
    redlock_lock_verify_cancel(mine.lock, &verify[0]);
    loop_for(loop, REDLOCK_MS(1000));
    assert_int_equal(told, 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_for(loop, REDLOCK_MS(1000));
    assert_int_equal(told, 1);
}

TEST(what_a_lock_is_worth_is_published_elsewhere_too)
{
    struct redlock_validity elsewhere = {0}, *own = redlock_lock_validity(mine.lock);
    redlock_lock_publish_to(mine.lock, &elsewhere);
    assert_int_equal(redlock_validity_left_ns(&elsewhere), 0);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_true(elsewhere.until > 0 && elsewhere.until == own->until);
    assert_true(elsewhere.danger_from > 0 && elsewhere.danger_from == own->danger_from);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    assert_int_equal(elsewhere.until, 0);
    redlock_lock_publish_to(mine.lock, NULL);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(elsewhere.until, 0);
    redlock_lock_publish_to(mine.lock, &elsewhere); /* what it is worth already */
    assert_true(elsewhere.until > 0 && elsewhere.until == own->until);
    redlock_lock_publish_to(mine.lock, NULL);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, lock_set_up, lock_tear_down)
