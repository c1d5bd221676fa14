/* A lock that waits for another process (lib/redlock/lock_wait.c): when it asks the nodes again, and how often. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "redlock/group_private.h"
#include "tests/support/lock_fixture.h"

static struct lock_probe waiter; /* in the other process, unless a test says otherwise */

static void waiter_create(struct redlock_group *of, int64_t wait_ms)
{
    struct redlock_terms waiting = quick_terms(10000, 3);
    waiting.wait_ms = wait_ms;
    lock_probe_create(&waiter, loop, of, &waiting);
}

static uint64_t attempts(void)
{
    return redlock_group_counters(other_group)->attempts;
}

static int set_up(void **state)
{
    ask_first(NODES, "ACL SETUSER default allchannels");
    ask_first(NODES, "CONFIG RESETSTAT");
    lock_set_up(state);
    waiter_create(other_group, 60000);
    return 0;
}

static int tear_down(void **state)
{
    if (!redlock_lock_is_free(waiter.lock))
        redlock_lock_release(waiter.lock);
    loop_await(loop, redlock_lock_is_free(waiter.lock));
    lock_probe_destroy(&waiter);
    return lock_tear_down(state);
}

/* The lock of a process that died. */
static void leave(unsigned first, unsigned behind, char digit, unsigned ttl_ms)
{
    char digits[33];
    memset(digits, digit, sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    for (unsigned i = first; i < behind; i++)
        lock_cluster_ask(&cluster, i, "SET lock:r %s:dead PX %u", digits, ttl_ms);
}

static void delete_all(void)
{
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "DEL lock:r");
}

/* What another process says on a node. */
static void say(unsigned node, const char *message)
{
    char channel[NOTIFICATIONS_CHANNEL_MAX];
    notifications_channel(other_group->notifications, "lock:r", strlen("lock:r"), channel);
    lock_cluster_ask(&cluster, node, "PUBLISH %s %s", channel, message);
}

/* From now on. */
static int64_t gets_it_after(void)
{
    struct instant from = loop_now(loop);
    loop_await(loop, waiter.answers == 1);
    assert_int_equal(waiter.answer, REDLOCK_ACQUIRED);
    return instant_since(from, loop_now(loop));
}

TEST(of_a_dead_holder_it_waits_for_the_end)
{
    leave(0, NODES, 'a', 3000);
    assert_int_equal(lock_probe_acquire(&waiter, "r"), REDLOCK_ACQUIRED);
    assert_in_range(waiter.waited_ns, REDLOCK_MS(2900), REDLOCK_MS(3500));
    assert_in_range(waiter.attempts, 2, 4); /* also one when it hears of releases, and one when it cannot yet */
}

TEST(a_holder_that_goes_on_is_asked_about_once_in_its_ttl)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    lock_probe_ask(&waiter, "r");
    loop_for(loop, REDLOCK_MS(30000));
    assert_in_range(attempts(), 4, 8);
    assert_int_equal(waiter.answers, 0);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    assert_in_range(gets_it_after(), 0, REDLOCK_MS(500));
}

/* The last refusal says who has it and for how long. */
TEST(it_gives_up_when_its_time_is_over)
{
    lock_probe_destroy(&waiter);
    waiter_create(other_group, 4000);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_acquire(&waiter, "r"), REDLOCK_BUSY);
    assert_in_range(waiter.waited_ns, REDLOCK_MS(4000), REDLOCK_MS(4500));
    assert_contains(waiter.reason, "held by host:1:2:test for ");
    long long left_ms = strtoll(strstr(waiter.reason, " for ") + strlen(" for "), NULL, 10);
    assert_in_range(left_ms, 3000, 7000); /* of the ten seconds that it had at the beginning, or since an extension */
    assert_in_range(waiter.attempts, 1, 3);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

TEST(who_waits_for_its_own_process_asks_no_node_and_names_the_holder)
{
    lock_probe_destroy(&waiter);
    waiter_create(group, 3000);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_acquire(&waiter, "r"), REDLOCK_BUSY);
    assert_in_range(waiter.waited_ns, REDLOCK_MS(3000), REDLOCK_MS(3500));
    assert_int_equal(waiter.attempts, 0);
    assert_contains(waiter.reason, "held by host:1:2:test for ");
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

/* --- who does not hear -------------------------------------------------------------------------------------------- */

/* What one node says about the holder does not stop it: the other nodes' news of the release is lost. */
TEST(who_hears_too_few_nodes_asks_ever_more_slowly)
{
    ask_first(QUORUM, "ACL SETUSER default resetchannels");
    leave(0, NODES, 'a', 60000);
    lock_probe_ask(&waiter, "r");
    loop_for(loop, REDLOCK_MS(200));
    assert_in_range(attempts(), 3, 40);
    loop_for(loop, REDLOCK_MS(10000));
    uint64_t before = attempts();
    assert_in_range(before, 12, 60);
    say(NODES - 1, "hf:held:60000:lock:r");
    loop_for(loop, REDLOCK_MS(5000));
    assert_in_range(attempts() - before, 5, 40);
    delete_all();
    assert_in_range(gets_it_after(), 0, REDLOCK_MS(1500));
}

TEST(who_hears_too_few_nodes_any_more_asks_again)
{
    leave(0, NODES, 'a', 60000);
    lock_probe_ask(&waiter, "r");
    loop_for(loop, REDLOCK_MS(2000));
    uint64_t before = attempts();
    loop_for(loop, REDLOCK_MS(5000));
    assert_int_equal(attempts(), before);
    ask_first(QUORUM, "ACL SETUSER default resetchannels");
    loop_for(loop, REDLOCK_MS(5000));
    assert_in_range(attempts() - before, 3, 40);
}

TEST(with_too_few_nodes_it_asks_until_they_are_back)
{
    pause_first(QUORUM);
    lock_probe_ask(&waiter, "r");
    loop_for(loop, REDLOCK_MS(8000));
    assert_int_equal(waiter.answers, 0);
    assert_in_range(attempts(), 3, 60);
    resume_first(QUORUM);
    assert_in_range(gets_it_after(), 0, REDLOCK_MS(5000));
}

/* --- split votes -------------------------------------------------------------------------------------------------- */

/* It tries again at once, until it hears that somebody has it. */
TEST(after_a_split_vote_it_listens)
{
    leave(0, 2, 'a', 60000);
    leave(2, 4, 'b', 60000);
    lock_probe_ask(&waiter, "r");
    loop_for(loop, REDLOCK_MS(2000));
    uint64_t before = attempts();
    assert_in_range(before, 10, 400);
    assert_int_equal(lock_cluster_calls(&cluster, "subscribe"), NODES);
    say(0, "hf:held:50000:lock:r");
    loop_for(loop, REDLOCK_MS(100)); /* an attempt may be under way */
    before = attempts();
    loop_for(loop, REDLOCK_MS(5000));
    assert_in_range(attempts() - before, 0, 1);
    delete_all();
    say(0, "lock:r");
    assert_in_range(gets_it_after(), 0, REDLOCK_MS(500));
}

TEST(a_split_vote_ends_when_one_of_the_others_leaves)
{
    leave(0, 2, 'a', 60000);
    leave(2, 4, 'b', 2000);
    assert_int_equal(lock_probe_acquire(&waiter, "r"), REDLOCK_ACQUIRED);
    assert_in_range(waiter.waited_ns, REDLOCK_MS(1900), REDLOCK_MS(2600));
}

/* --- what the others hear ----------------------------------------------------------------------------------------- */

/* The one that gets it says so, so that those who listen as well need not ask. */
TEST(who_was_quicker_keeps_the_others_from_asking)
{
    struct lock_probe quicker;
    struct redlock_terms waiting = quick_terms(10000, 3);
    waiting.wait_ms = 60000;
    lock_probe_create(&quicker, loop, group, &waiting);
    leave(0, NODES, 'a', 60000);
    lock_probe_ask(&quicker, "r");
    lock_probe_ask(&waiter, "r");
    loop_for(loop, REDLOCK_MS(2000));
    delete_all();
    say(0, "hf:free:2:lock:r");
    loop_await(loop, quicker.answers + waiter.answers == 1);
    struct lock_probe *winner = quicker.answers ? &quicker : &waiter, *loser = quicker.answers ? &waiter : &quicker;
    struct redlock_group *its = quicker.answers ? other_group : group;
    uint64_t before = redlock_group_counters(its)->attempts;
    loop_for(loop, REDLOCK_MS(8000));
    assert_in_range(redlock_group_counters(its)->attempts - before, 0, 1); /* it may have been about to ask */
    assert_int_equal(lock_probe_release(winner), REDLOCK_RELEASED);
    loop_await(loop, loser->answers == 1);
    assert_int_equal(loser->answer, REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(loser), REDLOCK_RELEASED);
    lock_probe_destroy(&quicker);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, set_up, tear_down)
