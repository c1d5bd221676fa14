/* What waiting costs the lock nodes, in commands, and what it costs when nobody waits. */
#include "tests/support/test.h"

#include "tests/support/waiting_fixture.h"

TEST(test_without_waiters_nothing_is_said)
{
    struct lock_probe *holder = waiter(0, 60000);
    assert_int_equal(lock_probe_acquire(holder, "r"), REDLOCK_ACQUIRED);
    ask_first(NODES, "CONFIG RESETSTAT");
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(lock_probe_release(holder), REDLOCK_RELEASED);
        assert_int_equal(lock_probe_acquire(holder, "r"), REDLOCK_ACQUIRED);
    }
    loop_await(loop, redlock_group_busy(process(0)) == 1);
    assert_int_equal(calls("publish"), 0);
    assert_int_equal(calls("subscribe"), 0);
    assert_int_equal(calls("ping"), 0);
    assert_true(calls("evalsha") <= 2 * 50 * NODES + 2 * NODES); /* an extension or an inspection may fall into it */
    assert_int_equal(lock_probe_release(holder), REDLOCK_RELEASED);
}

/* A pass that got some nodes and was refused by a majority gives them back without a word. */
TEST(test_a_refused_pass_wakes_nobody)
{
    struct redlock_terms once = quick_terms(10000, 1);
    struct lock_probe *listening = waiter(1, 60000), *refused = &waiters[waiter_count++];
    lock_probe_create(refused, loop, process(2), &once);
    for (unsigned i = MINORITY; i < NODES; i++)
        (void)lock_cluster_ask(&cluster, i, "SET lock:r somebody PX 59000");
    lock_probe_ask(listening, "r");
    loop_await(loop, calls("subscribe") > 0);
    loop_for(loop, REDLOCK_MS(200)); /* it asks again once it listens, and no more */
    ask_first(NODES, "CONFIG RESETSTAT");
    assert_int_equal(lock_probe_acquire(refused, "r"), REDLOCK_BUSY);
    loop_await(loop, redlock_group_busy(process(2)) == 0);
    assert_int_equal(calls("del"), MINORITY);
    assert_int_equal(calls("publish"), 0);
}

/* --- many processes ----------------------------------------------------------------------------------------------- */

enum { WAITERS = 64, ROUNDS = 4, HOLD_MS = 3 };

/* Of one resource, which one of them may use at a time. */
static unsigned users, done, clashes, passes;

struct hot_hold {
    struct loop_timer timer;
    struct lock_probe *probe;
    unsigned rounds_left;
};
static struct hot_hold holds[WAITERS];
static unsigned waiters_left;

static void hold_ends(struct loop_timer *timer)
{
    struct hot_hold *own = list_owner(timer, struct hot_hold, timer);
    users--;
    redlock_lock_release(own->probe->lock);
}

static void hold_for_a_while(struct lock_probe *probe, const struct redlock_event *event)
{
    struct hot_hold *own = &holds[probe - waiters];
    if (event->kind == REDLOCK_EVENT_ANSWER) {
        assert_int_equal(event->answer, REDLOCK_ACQUIRED);
        clashes += users++ > 0;
        done++;
        passes += event->attempts;
        loop_timer_set(loop, &own->timer, loop_after(loop, REDLOCK_MS(HOLD_MS)));
    } else if (event->kind == REDLOCK_EVENT_RELEASED && --own->rounds_left > 0) {
        static const char *const names[] = {"r"};
        struct redlock_request request = {.resources = names, .resource_count = 1, .owner = "host:1:2:test"};
        assert_true(redlock_lock_acquire(probe->lock, &request));
    } else if (event->kind == REDLOCK_EVENT_RELEASED) {
        waiters_left--;
    }
}

static bool is_any_busy(unsigned process_count)
{
    bool is_busy = waiters_left > 0;
    for (unsigned i = 0; i < process_count; i++)
        is_busy = is_busy || redlock_group_busy(process(i)) > 0;
    return is_busy;
}

/* So many waiters in so many processes want the same resource, each several times. A hold costs so many commands on
 * all nodes together; those that scripts run count for nothing, but what they publish does. */
static void assert_cheap(unsigned process_count, unsigned waiter_total, unsigned commands_most)
{
    users = done = clashes = passes = 0;
    waiters_left = waiter_total;
    for (unsigned i = 0; i < waiter_total; i++) {
        holds[i] = (struct hot_hold){.probe = waiter(i % process_count, 120000), .rounds_left = ROUNDS};
        loop_timer_init(&holds[i].timer, hold_ends);
        holds[i].probe->on_event = hold_for_a_while;
    }
    ask_first(NODES, "CONFIG RESETSTAT");
    struct instant began = instant_now();
    for (unsigned i = 0; i < waiter_total; i++)
        lock_probe_ask(holds[i].probe, "r");
    loop_await(loop, !is_any_busy(process_count));
    double took_ms = (double)instant_since(began, instant_now()) / 1e6;
    unsigned scripts = calls("evalsha"), hints = calls("publish");
    unsigned rest = calls("subscribe") + calls("unsubscribe") + calls("ping");
    print_message("%2u processes, %2u waiters, each hold %d ms: every %.1f ms, by %.2f passes, %.1f commands\n"
                  "    of these %.1f scripts, %.1f hints, %.1f others\n",
                  process_count, waiter_total, HOLD_MS, took_ms / done, (double)passes / done,
                  (double)(scripts + hints + rest) / done, (double)scripts / done, (double)hints / done,
                  (double)rest / done);
    assert_int_equal(done, waiter_total * ROUNDS);
    assert_int_equal(clashes, 0);
    assert_true(scripts + hints + rest <= commands_most * done);
    if (waiter_total > process_count)
        assert_true(hints <= 3 * done); /* most hand-overs are within a process, and nobody is told of them */
}

TEST(test_64_waiters_of_one_process_are_cheap)
{
    assert_cheap(1, WAITERS, 9);
}

TEST(test_64_waiters_of_4_processes_are_cheap)
{
    assert_cheap(4, WAITERS, 10);
}

TEST(test_64_waiters_of_16_processes_are_cheap)
{
    assert_cheap(16, WAITERS, 13);
}

/* Every hand-over is one between processes. */
TEST(test_16_processes_of_one_waiter_are_cheap)
{
    assert_cheap(16, 16, 40);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, waiting_set_up, waiting_tear_down)
