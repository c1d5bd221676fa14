/* A lock goes from one to the next of a process: on the servers its value changes, and it is never free in between.
 * Every group is a process of its own. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/waiting_fixture.h"

enum { TTL_MS = 10000 };

/* One that counts tries: it waits for others of its process only if it is told to. */
static struct lock_probe *user_with(unsigned of_process, const struct redlock_terms *terms)
{
    struct lock_probe *probe = &waiters[waiter_count++];
    lock_probe_create(probe, loop, process(of_process), terms);
    return probe;
}

static struct lock_probe *user(unsigned of_process)
{
    struct redlock_terms terms = quick_terms(TTL_MS, 1);
    struct lock_probe *probe = user_with(of_process, &terms);
    probe->waits_here = true;
    return probe;
}

static struct lock_probe *holder_of(const char *resources)
{
    struct lock_probe *probe = user(0);
    assert_int_equal(lock_probe_acquire(probe, resources), REDLOCK_ACQUIRED);
    assert_false(probe->handed_over);
    return probe;
}

/* Asks while another one has it. */
static struct lock_probe *successor_of(const char *resources)
{
    struct lock_probe *probe = user(0);
    lock_probe_ask(probe, resources);
    loop_for(loop, REDLOCK_MS(5));
    assert_int_equal(probe->answers, 0);
    return probe;
}

static void let_go(struct lock_probe *probe)
{
    loop_for(loop, 0); /* outside it the loop's clock stands still */
    redlock_lock_release(probe->lock);
}

static void hand_over(struct lock_probe *from, struct lock_probe *to)
{
    unsigned answers = to->answers, releases = from->releases;
    let_go(from);
    loop_await(loop, to->answers == answers + 1 && from->releases == releases + 1);
    assert_int_equal(to->answer, REDLOCK_ACQUIRED);
}

static void await_no_keys(void)
{
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
    for (unsigned i = 0; i < PROCESSES_MAX; i++)
        if (processes[i] != NULL)
            loop_await(loop, redlock_group_busy(processes[i]) == 0);
}

static void delete_by_hand(unsigned servers)
{
    ask_first(servers, "DEL lock:r");
}

/* --- the swap ----------------------------------------------------------------------------------------------------- */

static uint64_t last_token;
static unsigned holds, intrusions;

/* Whoever tries meanwhile finds it taken, on every server. */
static void try_to_intrude(void)
{
    for (unsigned i = 0; i < NODES; i++)
        intrusions += strcmp(lock_cluster_ask(&cluster, i, "SET lock:r theirs NX PX 50"), "(nil)") != 0;
}

static void hold_and_release(struct lock_probe *probe, const struct redlock_event *event)
{
    if (event->kind != REDLOCK_EVENT_ANSWER)
        return;
    assert_int_equal(event->answer, REDLOCK_ACQUIRED);
    assert_int_equal(event->attempts, 1);
    assert_true(event->handed_over);
    assert_true(redlock_lock_token(probe->lock) > last_token);
    last_token = redlock_lock_token(probe->lock);
    holds++;
    try_to_intrude();
    redlock_lock_release(probe->lock);
    try_to_intrude();
}

TEST(test_the_value_changes_and_it_is_never_free_in_between)
{
    enum { MANY = 8 }; /* as often as it may be by default */
    struct lock_probe *holder = holder_of("r"), *successors[MANY + 1];
    last_token = redlock_lock_token(holder->lock);
    holds = intrusions = 0;
    for (unsigned i = 0; i < MANY; i++)
        (successors[i] = successor_of("r"))->on_event = hold_and_release;
    successors[MANY - 1]->on_event = NULL;
    ask_first(NODES, "CONFIG RESETSTAT");
    hand_over(holder, successors[MANY - 1]);
    loop_await(loop, successors[MANY - 2]->releases == 1);
    assert_int_equal(holds, MANY - 1);
    assert_int_equal(intrusions, 0);
    assert_int_equal(calls("del"), 0);
    assert_true(calls("evalsha") <= MANY * NODES + 2 * NODES); /* an extension or an inspection may fall into it */
    assert_true(redlock_lock_token(successors[MANY - 1]->lock) > last_token);
    assert_int_equal(redlock_group_counters(process(0))->handed_over, MANY);
    assert_int_equal(holder->ending, REDLOCK_RELEASED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    assert_int_equal(lock_probe_release(successors[MANY - 1]), REDLOCK_RELEASED);
    await_no_keys();
}

TEST(test_many_locks_are_swapped_in_one_call)
{
    enum { PAIRS = 6 };
    struct lock_probe *holders[PAIRS], *successors[PAIRS];
    for (unsigned i = 0; i < PAIRS; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%u", i);
        holders[i] = holder_of(name);
        successors[i] = i % 3 == 1 ? user(0) : successor_of(name); /* some have nobody to follow them */
    }
    ask_first(NODES, "CONFIG RESETSTAT");
    loop_for(loop, 0);
    for (unsigned i = 0; i < PAIRS; i++)
        redlock_lock_release(holders[i]->lock);
    lock_probe_ask(successors[1], "fresh"); /* leaves with them, and replaces nothing */
    for (unsigned i = 0; i < PAIRS; i++)
        loop_await(loop, holders[i]->releases == 1 && (i == 4 || successors[i]->answers == 1));
    for (unsigned i = 0; i < PAIRS; i++)
        assert_int_equal(successors[i]->handed_over, i % 3 != 1);
    assert_true(calls("evalsha") <= 5 * NODES);
    for (unsigned i = 0; i < PAIRS; i++)
        if (i != 4)
            assert_int_equal(lock_probe_release(successors[i]), REDLOCK_RELEASED);
    await_no_keys();
}

TEST(test_other_keys_are_not_swapped)
{
    struct lock_probe *holder = holder_of("a"), *successor = successor_of("a b");
    hand_over(holder, successor);
    assert_false(successor->handed_over);
    lock_probe_ask(holder, "a");
    hand_over(successor, holder);
    assert_false(holder->handed_over);
    assert_int_equal(lock_probe_release(holder), REDLOCK_RELEASED);
    await_no_keys();
}

TEST(test_an_unfenced_lock_is_swapped_too)
{
    struct redlock_terms unfenced = quick_terms(TTL_MS, 1);
    unfenced.unfenced = true;
    struct lock_probe *holder = user_with(0, &unfenced), *successor = user_with(0, &unfenced);
    successor->waits_here = true;
    assert_int_equal(lock_probe_acquire(holder, "r"), REDLOCK_ACQUIRED);
    lock_probe_ask(successor, "r");
    hand_over(holder, successor);
    assert_true(successor->handed_over);
    assert_int_equal(redlock_lock_token(successor->lock), 0);
    assert_int_equal(lock_probe_release(successor), REDLOCK_RELEASED);
    await_no_keys();
}

/* --- the budget --------------------------------------------------------------------------------------------------- */

static unsigned order[WAITERS_MAX], ordered;

static void note_and_release(struct lock_probe *probe, const struct redlock_event *event)
{
    if (event->kind != REDLOCK_EVENT_ANSWER)
        return;
    assert_int_equal(event->answer, REDLOCK_ACQUIRED);
    order[ordered++] = (unsigned)(probe - waiters);
    redlock_lock_release(probe->lock);
}

/* How many of this process come before one of another process that listens for the release. All places but one are a
 * third's. */
static unsigned before_the_other(const struct redlock_terms *terms, unsigned many, unsigned limit)
{
    struct lock_probe *holder = user(0), *other = waiter(1, 60000);
    for (unsigned i = 1; i < limit; i++) {
        struct lock_probe *third = user(2);
        third->limit = limit;
        assert_int_equal(lock_probe_acquire(third, "r"), REDLOCK_ACQUIRED);
    }
    holder->limit = other->limit = limit;
    assert_int_equal(lock_probe_acquire(holder, "r"), REDLOCK_ACQUIRED);
    other->on_event = note_and_release;
    ordered = 0;
    lock_probe_ask(other, "r");
    loop_for(loop, REDLOCK_MS(300));
    for (unsigned i = 0; i < many; i++) {
        struct lock_probe *probe = user_with(0, terms);
        probe->waits_here = true;
        probe->limit = limit;
        probe->on_event = note_and_release;
        lock_probe_ask(probe, "r");
    }
    let_go(holder);
    loop_await(loop, ordered == many + 1);
    unsigned place = 0;
    while (order[place] != (unsigned)(other - waiters))
        place++;
    return place;
}

TEST(test_after_so_many_another_process_gets_its_turn)
{
    struct redlock_terms terms = quick_terms(TTL_MS, 1000);
    terms.hand_over_tasks = 5;
    for (unsigned limit = 1; limit <= 2; limit++) {
        unsigned before = before_the_other(&terms, 200, limit);
        assert_true(before < 200);       /* 40 times it could have been the first */
        assert_int_equal(before % 6, 5); /* the first of each row is not handed over */
    }
}

TEST(test_after_so_long_another_process_gets_its_turn)
{
    struct redlock_terms terms = quick_terms(TTL_MS, 1000);
    terms.hand_over_tasks = 1000;
    terms.hand_over_ms = 1;
    assert_true(before_the_other(&terms, 100, 1) < 100);
}

/* --- nodes that fail in the middle -------------------------------------------------------------------------------- */

/* What it was sent it executes later: first the swaps, then the releases behind them. */
TEST(test_a_node_that_hangs_in_between_is_left_with_nothing)
{
    struct lock_probe *holder = holder_of("r"), *successor = successor_of("r"), *last = successor_of("r");
    pause_first(1);
    hand_over(holder, successor);
    hand_over(successor, last);
    assert_true(last->handed_over);
    assert_int_equal(lock_probe_release(last), REDLOCK_RELEASED);
    resume_first(1);
    await_no_keys();
}

TEST(test_a_swap_that_fails_leaves_neither_value)
{
    struct lock_probe *holder = holder_of("r"), *successor = successor_of("r");
    pause_first(QUORUM);
    let_go(holder);
    loop_await(loop, successor->answers == 1 && holder->releases == 1);
    assert_int_equal(successor->answer, REDLOCK_NO_QUORUM);
    resume_first(QUORUM);
    await_no_keys();
}

TEST(test_who_gives_up_in_the_middle_leaves_neither_value)
{
    struct lock_probe *holder = holder_of("r"), *successor = successor_of("r"), *last = successor_of("r");
    pause_first(NODES);
    let_go(holder);
    loop_for(loop, REDLOCK_MS(2));
    assert_int_equal(successor->answers, 0);
    let_go(successor);
    assert_int_equal(successor->answer, REDLOCK_CANCELLED);
    resume_first(NODES);
    loop_await(loop, last->answers == 1 && holder->releases == 1);
    assert_int_equal(last->answer, REDLOCK_ACQUIRED);
    assert_false(last->handed_over);
    assert_int_equal(lock_probe_release(last), REDLOCK_RELEASED);
    await_no_keys();
}

/* A node grants nothing under a fence that is no token. */
TEST(test_a_swap_that_every_node_denies_leaves_neither_value)
{
    struct lock_probe *holder = holder_of("r"), *successor = successor_of("r");
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_fence_put(&cluster, i, "lock:r", "nonsense");
    let_go(holder);
    loop_await(loop, successor->answers == 1 && holder->releases == 1);
    assert_int_equal(successor->answer, REDLOCK_NO_QUORUM);
    await_no_keys();
}

/* --- waiting here ------------------------------------------------------------------------------------------------- */

TEST(test_who_waits_here_waits_without_limit)
{
    struct redlock_terms terms = quick_terms(TTL_MS, 3);
    struct lock_probe *holder = holder_of("r"), *successor = user_with(0, &terms), *impatient = user_with(0, &terms);
    successor->waits_here = true;
    lock_probe_ask(successor, "r");
    assert_int_equal(lock_probe_acquire(impatient, "r"), REDLOCK_BUSY);
    loop_for(loop, REDLOCK_MS(50));
    assert_int_equal(successor->answers, 0);
    hand_over(holder, successor);
    assert_true(successor->handed_over);
    assert_int_equal(lock_probe_release(successor), REDLOCK_RELEASED);
}

TEST(test_its_limit_begins_when_it_has_its_turn)
{
    struct lock_probe *holder = holder_of("r"), *successor = waiter(0, 200);
    successor->waits_here = true;
    lock_probe_ask(successor, "r");
    loop_for(loop, REDLOCK_MS(300));
    assert_int_equal(successor->answers, 0);
    ask_first(NODES, "SET lock:r theirs PX 59000");
    let_go(holder);
    loop_await(loop, successor->answers == 1);
    assert_int_equal(successor->answer, REDLOCK_BUSY);
    assert_true(successor->waited_ns >= REDLOCK_MS(500));
    delete_by_hand(NODES);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, waiting_set_up, waiting_tear_down)
