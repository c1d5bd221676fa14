/* Resources that several may hold: each has a seat of its own, and whoever waits gets the next that is free. Every
 * group is a process of its own. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/waiting_fixture.h"

enum { TTL_MS = 10000, LIMIT = 3 };

static struct lock_probe *user_of(unsigned of_process, int64_t wait_ms)
{
    struct lock_probe *probe = waiter(of_process, wait_ms);
    probe->limit = LIMIT;
    return probe;
}

static struct lock_probe *holder_of_seat(unsigned of_process)
{
    struct lock_probe *probe = user_of(of_process, 0);
    probe->leaves_when_busy = true;
    assert_int_equal(lock_probe_acquire(probe, "r"), REDLOCK_ACQUIRED);
    return probe;
}

static unsigned seat_of(const struct lock_probe *probe)
{
    return redlock_lock_seat(probe->lock);
}

/* All in different seats. */
static void take_all(struct lock_probe *holders[LIMIT], unsigned processes_used)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < LIMIT; i++) {
        holders[i] = holder_of_seat(i % processes_used);
        assert_true(seat_of(holders[i]) >= 1 && seat_of(holders[i]) <= LIMIT);
        taken |= 1u << seat_of(holders[i]);
    }
    assert_int_equal(taken, 2 + 4 + 8);
}

static const char *key_of(unsigned seat)
{
    static char key[64];
    snprintf(key, sizeof key, seat == 1 ? "lock:r" : "lock:hf:seat:%u:r", seat);
    return key;
}

static void let_go(struct lock_probe *probe)
{
    loop_for(loop, 0); /* outside it the loop's clock stands still */
    redlock_lock_release(probe->lock);
}

static void several_hold_it(unsigned processes_used)
{
    struct lock_probe *holders[LIMIT], *late = NULL;
    take_all(holders, processes_used);
    for (unsigned seat = 1; seat <= LIMIT; seat++)
        loop_await(loop, lock_cluster_holders(&cluster, key_of(seat)) == NODES);
    late = user_of(0, 0);
    late->leaves_when_busy = true;
    assert_int_equal(lock_probe_acquire(late, "r"), REDLOCK_BUSY);
    for (unsigned i = 0; i < LIMIT; i++) {
        unsigned seat = seat_of(holders[i]);
        assert_int_equal(lock_probe_release(holders[i]), REDLOCK_RELEASED);
        loop_await(loop, lock_cluster_holders(&cluster, key_of(seat)) == 0);
        assert_int_equal(lock_probe_acquire(late, "r"), REDLOCK_ACQUIRED);
        assert_int_equal(seat_of(late), seat);
        if (processes_used == 1) /* it knows where one is free */
            assert_int_equal(late->attempts, 1);
        assert_int_equal(lock_probe_release(late), REDLOCK_RELEASED);
        holders[i] = holder_of_seat(i % processes_used);
    }
}

TEST(as_many_as_the_limit_hold_it_in_one_process)
{
    several_hold_it(1);
}

TEST(as_many_as_the_limit_hold_it_in_different_processes)
{
    several_hold_it(LIMIT);
}

/* Between two attempts at the same seats it would wait for much longer. */
TEST(a_user_asks_for_the_next_seat_at_once)
{
    struct redlock_terms terms = quick_terms(TTL_MS, 3);
    terms.retry_delay_ms = 60000;
    struct lock_probe *user = &waiters[waiter_count++];
    lock_probe_create(user, loop, process(0), &terms);
    user->limit = LIMIT;
    for (unsigned is_free = 1; is_free <= LIMIT; is_free++) { /* it begins at the one that it had last */
        for (unsigned i = 0; i < NODES * LIMIT; i++)
            lock_cluster_ask(&cluster, i % NODES, i / NODES + 1 == is_free ? "DEL %s" : "SET %s foreign",
                             key_of(i / NODES + 1));
        struct instant asked = loop_now(loop);
        assert_int_equal(lock_probe_acquire(user, "r"), REDLOCK_ACQUIRED);
        assert_int_equal(seat_of(user), is_free);
        assert_true(instant_since(asked, loop_now(loop)) < terms.retry_delay_ms * NS_PER_MS);
        assert_int_equal(lock_probe_release(user), REDLOCK_RELEASED);
    }
}

TEST(each_seat_has_fences_of_its_own)
{
    struct lock_probe *first = holder_of_seat(0);
    unsigned seat = seat_of(first);
    uint64_t last = redlock_lock_token(first->lock);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(lock_probe_release(first), REDLOCK_RELEASED);
        assert_int_equal(lock_probe_acquire(first, "r"), REDLOCK_ACQUIRED);
        assert_int_equal(seat_of(first), seat); /* it was free last */
        assert_true(redlock_lock_token(first->lock) > last);
        last = redlock_lock_token(first->lock);
    }
    char fence[32];
    snprintf(fence, sizeof fence, "%llu", (unsigned long long)last);
    assert_string_equal(lock_cluster_fence(&cluster, 0, key_of(seat)), fence);
    assert_string_equal(lock_cluster_fence(&cluster, 0, key_of(seat % LIMIT + 1)), "(nil)");
}

TEST(a_refusal_names_the_seat_that_is_free_first)
{
    static const unsigned left_ms[LIMIT] = {4000, 2000, 8000};
    for (unsigned seat = 1; seat <= LIMIT; seat++)
        for (unsigned i = 0; i < NODES; i++)
            lock_cluster_ask(&cluster, i, "SET %s foreign PX %u", key_of(seat), left_ms[seat - 1]);
    struct redlock_terms terms = quick_terms(TTL_MS, 1);
    struct lock_probe *probe = &waiters[waiter_count++];
    lock_probe_create(probe, loop, process(0), &terms);
    probe->limit = LIMIT;
    assert_int_equal(lock_probe_acquire(probe, "r"), REDLOCK_BUSY);
    assert_int_equal(probe->attempts, LIMIT);
    assert_contains(probe->reason, "for 19"); /* 1.9... s */
}

/* A client without a limit has, and is excluded by, the first seat only. */
TEST(who_knows_no_limit_competes_for_the_first_seat)
{
    struct lock_probe *plain = waiter(1, 0), *others[LIMIT - 1];
    assert_int_equal(lock_probe_acquire(plain, "r"), REDLOCK_ACQUIRED);
    for (unsigned i = 0; i < LIMIT - 1; i++) {
        others[i] = holder_of_seat(0);
        assert_true(seat_of(others[i]) > 1);
    }
    struct lock_probe *late = user_of(2, 0);
    assert_int_equal(lock_probe_acquire(late, "r"), REDLOCK_BUSY);
    assert_int_equal(lock_probe_release(plain), REDLOCK_RELEASED);
    assert_int_equal(lock_probe_acquire(late, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(seat_of(late), 1);
    assert_int_equal(lock_probe_acquire(plain, "r"), REDLOCK_BUSY);
}

/* Whatever seat is given back, by whichever process. */
static void the_first_release_ends_the_wait(unsigned holding_processes, unsigned waiting_process)
{
    for (unsigned released = 0; released < LIMIT; released++) {
        struct lock_probe *holders[LIMIT];
        take_all(holders, holding_processes);
        struct lock_probe *waiting = user_of(waiting_process, 60000);
        lock_probe_ask(waiting, "r");
        loop_for(loop, REDLOCK_MS(1500)); /* until it only listens */
        assert_int_equal(waiting->answers, 0);
        unsigned seat = seat_of(holders[released]);
        let_go(holders[released]);
        struct instant released_at = loop_now(loop);
        loop_await(loop, waiting->answers == 1);
        assert_int_equal(waiting->answer, REDLOCK_ACQUIRED);
        assert_int_equal(seat_of(waiting), seat);
        assert_true(instant_since(released_at, loop_now(loop)) < REDLOCK_MS(300));
        assert_int_equal(lock_probe_release(waiting), REDLOCK_RELEASED);
        for (unsigned i = 0; i < LIMIT; i++)
            if (i != released)
                assert_int_equal(lock_probe_release(holders[i]), REDLOCK_RELEASED);
    }
}

TEST(whoever_waits_gets_the_seat_that_another_process_gives_back)
{
    the_first_release_ends_the_wait(2, 2);
}

TEST(whoever_waits_gets_the_seat_that_its_own_process_gives_back)
{
    the_first_release_ends_the_wait(1, 0);
}

TEST(those_who_wait_in_a_process_have_their_turns_in_order)
{
    enum { WAITING = 9 };
    struct lock_probe *holders[LIMIT], *waiting[WAITING];
    take_all(holders, 1);
    for (unsigned i = 0; i < WAITING; i++) {
        waiting[i] = user_of(0, 60000);
        lock_probe_ask(waiting[i], "r");
    }
    loop_for(loop, REDLOCK_MS(100));
    for (unsigned i = 0; i < WAITING; i++) {
        struct lock_probe *leaves = i < LIMIT ? holders[i] : waiting[i - LIMIT];
        unsigned seat = seat_of(leaves);
        let_go(leaves);
        loop_await(loop, waiting[i]->answers == 1);
        assert_int_equal(waiting[i]->answer, REDLOCK_ACQUIRED);
        assert_int_equal(seat_of(waiting[i]), seat);
        assert_true(i + 1 == WAITING || waiting[i + 1]->answers == 0);
    }
    assert_true(redlock_group_counters(process(0))->handed_over > 0);
}

/* As a task that is to go on where its predecessor was. */
TEST(a_seat_passes_to_who_asks_for_this_very_seat)
{
    struct lock_probe *holders[LIMIT], *waiting = NULL, *successor = NULL;
    take_all(holders, 1);
    waiting = user_of(0, 60000);
    lock_probe_ask(waiting, "r");
    successor = user_of(0, 0);
    successor->seat = seat_of(holders[1]);
    successor->waits_here = true;
    lock_probe_ask(successor, "r");
    loop_for(loop, REDLOCK_MS(100));
    let_go(holders[1]);
    loop_await(loop, successor->answers == 1);
    assert_int_equal(successor->answer, REDLOCK_ACQUIRED);
    assert_true(successor->handed_over);
    assert_int_equal(seat_of(successor), successor->seat);
    loop_for(loop, REDLOCK_MS(100));
    assert_int_equal(waiting->answers, 0);
    let_go(successor);
    loop_await(loop, waiting->answers == 1);
    assert_int_equal(seat_of(waiting), successor->seat);
}

TEST(who_gives_up_in_line_leaves_the_others_their_turn)
{
    struct lock_probe *holders[LIMIT], *impatient = NULL, *patient = NULL;
    take_all(holders, 1);
    impatient = user_of(0, 200);
    patient = user_of(0, 60000);
    lock_probe_ask(impatient, "r");
    lock_probe_ask(patient, "r");
    loop_await(loop, impatient->answers == 1);
    assert_int_equal(impatient->answer, REDLOCK_BUSY);
    assert_int_equal(patient->answers, 0);
    let_go(holders[2]);
    loop_await(loop, patient->answers == 1);
    assert_int_equal(patient->answer, REDLOCK_ACQUIRED);
}

/* Who knows of more seats does not wait for who knows of fewer. */
TEST(a_seat_passes_over_who_does_not_know_it)
{
    struct lock_probe *holders[LIMIT], *waiting[3];
    take_all(holders, 1);
    for (unsigned i = 0; i < 3; i++) {
        waiting[i] = user_of(0, 60000);
        waiting[i]->limit = i < 2 ? LIMIT - 1 : LIMIT;
        lock_probe_ask(waiting[i], "r");
    }
    loop_for(loop, REDLOCK_MS(100));
    for (unsigned i = 0; i < LIMIT; i++)
        if (seat_of(holders[i]) == LIMIT)
            let_go(holders[i]);
    loop_await(loop, waiting[2]->answers == 1);
    assert_int_equal(waiting[2]->answer, REDLOCK_ACQUIRED);
    assert_int_equal(seat_of(waiting[2]), LIMIT);
    for (unsigned i = 0; i < LIMIT; i++)
        if (seat_of(holders[i]) == 1)
            let_go(holders[i]);
    loop_await(loop, waiting[0]->answers == 1);
    assert_int_equal(seat_of(waiting[0]), 1);
    assert_int_equal(waiting[1]->answers, 0);
}

static struct lock_probe *holder_of_this_seat(unsigned of_process, unsigned seat)
{
    struct lock_probe *probe = user_of(of_process, 0);
    probe->seat = seat;
    assert_int_equal(lock_probe_acquire(probe, "r"), REDLOCK_ACQUIRED);
    return probe;
}

/* A lock that waits moves to another seat, and is no longer in the way of who knows only the one before. */
TEST(a_seat_that_a_waiting_lock_leaves_goes_to_those_that_wait)
{
    struct lock_probe *other = holder_of_this_seat(1, 1), *last = NULL, *waiting = NULL, *modest = NULL;
    (void)holder_of_this_seat(0, 2);
    last = holder_of_this_seat(0, LIMIT);
    waiting = user_of(0, 60000);
    lock_probe_ask(waiting, "r");
    modest = user_of(0, 60000);
    modest->limit = 2;
    lock_probe_ask(modest, "r");
    loop_for(loop, REDLOCK_MS(500));
    let_go(last);
    loop_await(loop, waiting->answers == 1);
    assert_int_equal(waiting->answer, REDLOCK_ACQUIRED);
    assert_int_equal(seat_of(waiting), LIMIT);
    let_go(other);
    struct instant released_at = loop_now(loop);
    loop_await(loop, modest->answers == 1);
    assert_int_equal(modest->answer, REDLOCK_ACQUIRED);
    assert_int_equal(seat_of(modest), 1);
    assert_true(instant_since(released_at, loop_now(loop)) < REDLOCK_MS(300));
}

/* A lock without a limit has the first seat. */
TEST(what_knows_no_limit_leaves_the_first_seat_to_those_that_wait)
{
    struct lock_probe *plain = waiter(0, 0), *holder = user_of(0, 0), *waiting = user_of(0, 60000);
    holder->limit = waiting->limit = 2;
    assert_int_equal(lock_probe_acquire(plain, "q r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_acquire(holder, "r"), REDLOCK_ACQUIRED);
    lock_probe_ask(waiting, "r");
    loop_for(loop, REDLOCK_MS(1500));
    assert_int_equal(waiting->answers, 0);
    let_go(plain);
    struct instant released_at = loop_now(loop);
    loop_await(loop, waiting->answers == 1);
    assert_int_equal(waiting->answer, REDLOCK_ACQUIRED);
    assert_int_equal(seat_of(waiting), 1);
    assert_true(instant_since(released_at, loop_now(loop)) < REDLOCK_MS(300));
}

static struct lock_probe *greedy;

static void takes_another(struct lock_probe *probe, const struct redlock_event *event)
{
    (void)event;
    if (probe->answers == 1 && redlock_lock_is_free(greedy->lock))
        lock_probe_ask(greedy, "r");
}

/* The caller requests a seat while the answers come that say which seats are free. */
TEST(a_callback_may_ask_for_the_seat_that_was_just_left)
{
    struct lock_probe *holders[LIMIT], *waiting[4];
    take_all(holders, 1);
    greedy = user_of(0, 60000);
    for (unsigned i = 0; i < 4; i++) {
        waiting[i] = user_of(i % 2, 60000);
        waiting[i]->on_event = takes_another;
        lock_probe_ask(waiting[i], "r");
    }
    loop_for(loop, REDLOCK_MS(100));
    for (unsigned i = 0; i < LIMIT; i++) {
        holders[i]->on_event = takes_another;
        let_go(holders[i]);
        loop_for(loop, REDLOCK_MS(500));
    }
    unsigned acquired = 0;
    for (unsigned i = 0; i < 4; i++)
        acquired += waiting[i]->answers;
    assert_int_equal(acquired + greedy->answers, LIMIT);
    for (unsigned i = 0; i < waiter_count; i++)
        waiters[i].on_event = NULL;
}

/* The next life of a lock has no limit any more. */
TEST(a_lock_is_used_with_and_without_a_limit)
{
    static const unsigned limits[] = {0, 1, LIMIT, 1, 2, 0};
    struct lock_probe *probe = user_of(0, 0);
    for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        probe->limit = limits[i];
        assert_int_equal(lock_probe_acquire(probe, "r"), REDLOCK_ACQUIRED);
        assert_int_equal(seat_of(probe) > 0, limits[i] > 1);
        assert_int_equal(lock_cluster_keys(&cluster) <= NODES, 1);
        assert_int_equal(lock_probe_release(probe), REDLOCK_RELEASED);
    }
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, waiting_set_up, waiting_tear_down)
