/* Waiting for a lock: who is woken by what, in which order, and how it ends. Every group is a process of its own. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/waiting_fixture.h"

static struct lock_probe *holder; /* the first waiter, who got it at once */

/* Holds the resource in process 0. */
static void hold(const char *resource)
{
    holder = waiter(0, 60000);
    assert_int_equal(lock_probe_acquire(holder, resource), REDLOCK_ACQUIRED);
}

static void let_go(struct lock_probe *probe)
{
    loop_for(loop, 0); /* outside it the loop's clock stands still */
    redlock_lock_release(probe->lock);
}

static void await_acquired(struct lock_probe *probe)
{
    loop_await(loop, probe->answers == 1);
    assert_int_equal(probe->answer, REDLOCK_ACQUIRED);
}

static bool is_listened_to(void)
{
    unsigned nodes = 0;
    for (unsigned i = 0; i < NODES; i++)
        nodes += strstr(lock_cluster_ask(&cluster, i, "PUBSUB CHANNELS hf:free:*"), "hf:free:") != NULL;
    return nodes == NODES;
}

/* Another process waits, has asked once more after it began to listen, and asks no more. */
static struct lock_probe *wait_for_good(unsigned of_process, int64_t wait_ms, const char *resource)
{
    struct lock_probe *probe = waiter(of_process, wait_ms);
    lock_probe_ask(probe, resource);
    loop_await(loop, is_listened_to());
    uint64_t passes = 0;
    do {
        passes = redlock_group_counters(process(of_process))->attempts;
        loop_for(loop, REDLOCK_MS(150));
    } while (redlock_group_counters(process(of_process))->attempts != passes);
    assert_int_equal(probe->answers, 0);
    return probe;
}

/* A lock of some textbook client: it publishes nothing. */
static void textbook_takes(const char *key, unsigned ttl_ms)
{
    for (unsigned i = 0; i < NODES; i++)
        assert_string_equal(lock_cluster_ask(&cluster, i, "SET %s their-random-value NX PX %u", key, ttl_ms), "OK");
}

static void textbook_releases(const char *key)
{
    for (unsigned i = 0; i < NODES; i++)
        (void)lock_cluster_ask(&cluster, i, "DEL %s", key);
}

/* --- between processes -------------------------------------------------------------------------------------------- */

TEST(test_a_release_wakes_who_waits_in_another_process)
{
    hold("r");
    struct lock_probe *other = wait_for_good(1, 60000, "r");
    unsigned passes = (unsigned)redlock_group_counters(process(1))->attempts;
    let_go(holder);
    await_acquired(other);
    assert_int_equal(other->attempts, passes + 1);
    assert_true(other->waited_ns < 8 * NS_PER_S); /* the holder's ttl would have been 10 s */
    assert_int_equal(lock_probe_release(other), REDLOCK_RELEASED);
}

TEST(test_a_release_before_anybody_listened_is_not_missed)
{
    textbook_takes("lock:r", 59000);
    struct lock_probe *other = waiter(1, 50000);
    lock_probe_ask(other, "r");
    loop_await(loop, redlock_group_counters(process(1))->attempts == 1 && other->answers == 0);
    textbook_releases("lock:r");
    await_acquired(other);
    assert_true(other->waited_ns < 20 * NS_PER_S);
}

/* Says on the first server that the key is free, and lets it be heard. */
static void say_free(const char *key)
{
    char channel[64];
    snprintf(channel, sizeof channel, "%s", lock_cluster_ask(&cluster, 0, "PUBSUB CHANNELS hf:free:*"));
    (void)lock_cluster_ask(&cluster, 0, "PUBLISH %s %s", channel, key);
    loop_for(loop, REDLOCK_MS(2));
}

/* Whoever has been refused by some nodes already, when the others are set free, asks again. */
TEST(test_a_release_during_a_pass_is_not_missed)
{
    textbook_takes("lock:r", 59000);
    struct lock_probe *other = wait_for_good(1, 50000, "r");
    for (unsigned round = 0; round < 3; round++) {
        uint64_t passes = redlock_group_counters(process(1))->attempts;
        for (unsigned i = MINORITY; i < NODES; i++)
            redis_server_pause(cluster.servers[i]);
        say_free("lock:r");
        loop_await(loop, redlock_group_counters(process(1))->attempts > passes);
        say_free("lock:r");
        for (unsigned i = MINORITY; i < NODES; i++)
            redis_server_resume(cluster.servers[i]);
        loop_await(loop, redlock_group_counters(process(1))->attempts > passes + 1);
        loop_for(loop, REDLOCK_MS(200)); /* long enough for another release */
    }
    assert_int_equal(other->answers, 0);
    textbook_releases("lock:r");
    say_free("lock:r");
    await_acquired(other);
}

TEST(test_the_more_hear_it_the_wider_they_spread)
{
    textbook_takes("lock:r", 59000);
    struct lock_probe *other = wait_for_good(1, 50000, "r");
    int64_t longest_ns = 0;
    for (unsigned round = 0; round < 15; round++) {
        uint64_t passes = redlock_group_counters(process(1))->attempts;
        struct instant said = instant_now();
        say_free("hf:free:40:lock:r");
        loop_await(loop, redlock_group_counters(process(1))->attempts > passes);
        int64_t took_ns = instant_since(said, instant_now());
        longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
        loop_for(loop, REDLOCK_MS(60)); /* long enough for another release */
    }
    assert_true(longest_ns > REDLOCK_MS(25)); /* of 100 at most; it would be 10 */
    assert_int_equal(other->answers, 0);
}

/* Of several each would wait for up to 200 ms, because attempts take so long here. The first release does not know yet
 * that anybody listens. */
TEST(test_who_hears_it_alone_asks_at_once)
{
    for (unsigned round = 0; round < 4; round++) {
        hold("r");
        struct lock_probe *other = wait_for_good(1, 60000, "r");
        process(1)->attempt_ns = REDLOCK_MS(25);
        struct instant freed = instant_now();
        let_go(holder);
        await_acquired(other);
        assert_true(round == 0 || instant_since(freed, instant_now()) < REDLOCK_MS(30));
        assert_int_equal(lock_probe_release(other), REDLOCK_RELEASED);
    }
}

static void count_call(void *context)
{
    ++*(unsigned *)context;
}

/* Its first report of a release is that of a majority. */
TEST(test_a_watch_is_told_of_a_release_on_one_node)
{
    static struct lock_cluster single;
    struct lock_probe probe;
    struct redlock_terms terms = quick_terms(10000, 1);
    unsigned told = 0;
    lock_cluster_start(&single, 1);
    struct redlock_group *holds = lock_cluster_group(&single, loop), *watches = lock_cluster_group(&single, loop);
    lock_probe_create(&probe, loop, holds, &terms);
    struct redlock_watch *watch = redlock_watch_create(watches, "r", 1, count_call, &told);
    loop_await(loop, told == 1); /* it listens */
    for (unsigned releases = 1; releases <= 3; releases++) {
        assert_int_equal(lock_probe_acquire(&probe, "r"), REDLOCK_ACQUIRED);
        assert_int_equal(lock_probe_release(&probe), REDLOCK_RELEASED);
        loop_await(loop, told == 1 + releases);
        loop_for(loop, REDLOCK_MS(100)); /* longer than a series */
    }
    redlock_watch_destroy(watch);
    lock_probe_destroy(&probe);
    loop_await(loop, redlock_group_busy(holds) == 0);
    redlock_group_destroy(holds);
    redlock_group_destroy(watches);
    lock_cluster_stop(&single);
}

TEST(test_who_cannot_listen_asks_now_and_then)
{
    ask_first(NODES, "ACL SETUSER default resetchannels");
    textbook_takes("lock:r", 59000);
    struct lock_probe *other = waiter(1, 50000);
    lock_probe_ask(other, "r");
    loop_await(loop, redlock_group_counters(process(1))->attempts >= 4);
    loop_for(loop, REDLOCK_MS(1000));
    assert_true(redlock_group_counters(process(1))->attempts <= 40); /* ever more slowly */
    textbook_releases("lock:r");
    await_acquired(other);
    assert_int_equal(lock_probe_release(other), REDLOCK_RELEASED); /* that nobody may publish is no harm */
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
    ask_first(NODES, "ACL SETUSER default allchannels");
}

TEST(test_who_can_listen_no_longer_asks_now_and_then)
{
    textbook_takes("lock:r", 59000);
    struct lock_probe *other = wait_for_good(1, 50000, "r");
    ask_first(QUORUM, "ACL SETUSER default resetchannels");
    ask_first(QUORUM, "CLIENT KILL TYPE pubsub");
    textbook_releases("lock:r");
    await_acquired(other);
    ask_first(NODES, "ACL SETUSER default allchannels");
}

/* --- how it ends without the lock --------------------------------------------------------------------------------- */

TEST(test_e12_the_deadline_names_who_has_it)
{
    hold("r");
    struct lock_probe *other = waiter(1, 300);
    assert_int_equal(lock_probe_acquire(other, "r"), REDLOCK_BUSY);
    assert_true(other->waited_ns >= REDLOCK_MS(300));
    assert_string_equal(other->holder, "host:1:2:test");
    assert_true(other->remaining_ns > 5 * NS_PER_S && other->remaining_ns <= 10 * NS_PER_S - REDLOCK_MS(100));
    assert_contains(other->reason, "held by host:1:2:test for ");
    assert_int_equal(lock_probe_release(holder), REDLOCK_RELEASED);
}

TEST(test_e12_who_had_it_before_is_not_named)
{
    hold("r");
    struct lock_probe *other = wait_for_good(1, 1500, "r");
    uint64_t passes = redlock_group_counters(process(1))->attempts;
    /* Somebody else has it now, and says so. */
    char channel[64];
    snprintf(channel, sizeof channel, "%s", lock_cluster_ask(&cluster, 0, "PUBSUB CHANNELS hf:free:*"));
    (void)lock_cluster_ask(&cluster, 0, "PUBLISH %s hf:held:7000:lock:r", channel);
    loop_await(loop, other->answers == 1);
    assert_int_equal(other->answer, REDLOCK_BUSY);
    assert_int_equal(redlock_group_counters(process(1))->attempts, passes);
    assert_string_equal(other->holder, "");
    assert_contains(other->reason, "held by somebody for ");
    assert_true(other->remaining_ns > 4 * NS_PER_S && other->remaining_ns <= 7 * NS_PER_S);
    assert_int_equal(lock_probe_release(holder), REDLOCK_RELEASED);
}

TEST(test_a_wait_can_be_given_up_at_any_time)
{
    hold("r");
    struct lock_probe *listening = wait_for_good(1, 60000, "r");
    struct lock_probe *queued = waiter(1, 60000), *last = waiter(1, 60000);
    lock_probe_ask(queued, "r");
    lock_probe_ask(last, "r");
    loop_for(loop, REDLOCK_MS(5));
    let_go(queued);
    assert_int_equal(queued->answer, REDLOCK_CANCELLED);
    assert_true(redlock_lock_is_free(queued->lock));
    let_go(listening);
    assert_int_equal(listening->answer, REDLOCK_CANCELLED);
    let_go(holder);
    await_acquired(last);
    assert_int_equal(lock_probe_release(last), REDLOCK_RELEASED);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
    for (unsigned i = 0; i < 2; i++)
        loop_await(loop, redlock_group_busy(process(i)) == 0);
}

/* --- within a process --------------------------------------------------------------------------------------------- */

static unsigned order[WAITERS_MAX], ordered;

static void note_order_and_release(struct lock_probe *probe, const struct redlock_event *event)
{
    if (event->kind != REDLOCK_EVENT_ANSWER)
        return;
    assert_int_equal(event->answer, REDLOCK_ACQUIRED);
    order[ordered++] = (unsigned)(probe - waiters);
    redlock_lock_release(probe->lock);
}

TEST(test_in_a_process_the_first_to_ask_is_the_first_to_get_it)
{
    enum { MANY = 30 };
    hold("r");
    ordered = 0;
    for (unsigned i = 0; i < MANY; i++) {
        struct lock_probe *probe = waiter(0, 60000);
        probe->on_event = note_order_and_release;
        lock_probe_ask(probe, "r");
    }
    loop_for(loop, REDLOCK_MS(50));
    assert_int_equal(redlock_group_counters(process(0))->attempts, 1); /* nobody but the holder has asked */
    let_go(holder);
    loop_await(loop, ordered == MANY);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(order[i], 1 + i);
        assert_int_equal(waiters[1 + i].attempts, 1); /* each asked once, and had it */
    }
    loop_await(loop, redlock_group_busy(process(0)) == 0);
}

TEST(test_who_may_try_a_few_times_waits_so_long_for_its_turn)
{
    hold("r");
    struct redlock_terms terms = quick_terms(10000, 3);
    struct lock_probe *impatient = &waiters[waiter_count++];
    lock_probe_create(impatient, loop, process(0), &terms);
    assert_int_equal(lock_probe_acquire(impatient, "r"), REDLOCK_BUSY);
    assert_int_equal(impatient->attempts, 0);
    assert_true(impatient->waited_ns >= REDLOCK_MS(2 * (2 + 3)));
    assert_string_equal(impatient->holder, "host:1:2:test");
    assert_true(impatient->remaining_ns > 5 * NS_PER_S);
    lock_probe_ask(impatient, "r");
    let_go(holder);
    loop_await(loop, impatient->answers == 2);
    assert_int_equal(impatient->answer, REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(impatient), REDLOCK_RELEASED);
}

/* The lock has somebody else by then: the limit was for the turn. */
TEST(test_who_has_its_turn_late_may_try_as_often)
{
    hold("r");
    struct redlock_terms terms = quick_terms(10000, 3);
    struct lock_probe *late = &waiters[waiter_count++];
    terms.retry_delay_ms = 1000;
    lock_probe_create(late, loop, process(0), &terms);
    lock_probe_ask(late, "r");
    loop_for(loop, REDLOCK_MS(1500));
    textbook_releases("lock:r");
    textbook_takes("lock:r", 10000);
    let_go(holder);
    loop_await(loop, late->answers == 1);
    assert_int_equal(late->answer, REDLOCK_BUSY);
    assert_int_equal(late->attempts, 3);
    textbook_releases("lock:r");
}

TEST(test_a_lost_lock_occupies_its_resource_until_it_is_released)
{
    struct redlock_terms short_terms = quick_terms(600, 3);
    holder = &waiters[waiter_count++];
    lock_probe_create(holder, loop, process(0), &short_terms);
    assert_int_equal(lock_probe_acquire(holder, "r"), REDLOCK_ACQUIRED);
    textbook_releases("lock:r"); /* by hand: its next extension finds nothing */
    loop_await(loop, holder->losses == 1);
    struct lock_probe *next = waiter(0, 60000);
    lock_probe_ask(next, "r");
    loop_for(loop, REDLOCK_MS(50));
    assert_int_equal(lock_cluster_keys(&cluster), 0);
    assert_int_equal(next->answers, 0);
    let_go(holder);
    await_acquired(next);
    assert_int_equal(lock_probe_release(next), REDLOCK_RELEASED);
}

TEST(test_several_resources_wait_for_each_of_them)
{
    hold("b");
    struct lock_probe *all = wait_for_good(1, 60000, "a b c");
    struct lock_probe *one = waiter(1, 60000), *other = waiter(1, 60000);
    lock_probe_ask(one, "c"); /* its turn is taken */
    lock_probe_ask(other, "d");
    await_acquired(other);
    assert_int_equal(one->answers, 0);
    let_go(holder);
    await_acquired(all);
    assert_true(all->waited_ns < 8 * NS_PER_S);
    assert_int_equal(one->answers, 0);
    let_go(all);
    await_acquired(one);
    assert_int_equal(lock_probe_release(one), REDLOCK_RELEASED);
    assert_int_equal(lock_probe_release(other), REDLOCK_RELEASED);
}

/* --- between processes, when one of them hands on within ---------------------------------------------------------- */

TEST(test_a_busy_process_lets_others_have_their_turn)
{
    enum { MANY = 1000 };
    hold("r");
    struct lock_probe *other = wait_for_good(1, 60000, "r");
    other->on_event = note_order_and_release;
    ordered = 0;
    for (unsigned i = 0; i < MANY; i++) {
        struct lock_probe *probe = waiter(0, 60000);
        probe->on_event = note_order_and_release;
        lock_probe_ask(probe, "r");
    }
    let_go(holder);
    loop_await(loop, ordered == MANY + 1);
    assert_int_equal(other->answers, 1);
    assert_true(order[MANY] != (unsigned)(other - waiters)); /* 124 times it could have been the first */
    for (unsigned i = 0; i < 2; i++)
        loop_await(loop, redlock_group_busy(process(i)) == 0);
}

TEST(test_who_took_over_silently_and_gave_up_tells_the_others)
{
    hold("r");
    struct lock_probe *other = wait_for_good(1, 60000, "r");
    struct lock_probe *next = waiter(0, 60000);
    lock_probe_ask(next, "r");
    loop_for(loop, REDLOCK_MS(5));
    redlock_lock_release(holder->lock);
    redlock_lock_release(next->lock); /* before its grants left */
    assert_int_equal(next->answer, REDLOCK_CANCELLED);
    await_acquired(other);
    assert_true(other->waited_ns < 8 * NS_PER_S);
    assert_int_equal(lock_probe_release(other), REDLOCK_RELEASED);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, waiting_set_up, waiting_tear_down)
