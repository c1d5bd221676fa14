/* What waiting costs the lock nodes, in commands, and what it costs when nobody waits. Every group is a process of its
 * own. */
#include "tests/support/test.h"

#include "tests/support/waiting_fixture.h"

static void test_without_waiters_nothing_is_said(void **state)
{
    (void)state;
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

struct hot_hold {
    struct loop_timer timer;
    struct lock_probe *probe;
};
static struct hot_hold holds[WAITERS_MAX];
static unsigned rounds_left[WAITERS_MAX], held_at_once, holds_done;

static void hold_ends(struct loop_timer *timer)
{
    struct hot_hold *own = list_owner(timer, struct hot_hold, timer);
    held_at_once--;
    holds_done++;
    redlock_lock_release(own->probe->lock);
}

static void hold_for_a_while(struct lock_probe *probe, const struct redlock_event *event)
{
    unsigned index = (unsigned)(probe - waiters);
    if (event->kind == REDLOCK_EVENT_ANSWER) {
        assert_int_equal(event->answer, REDLOCK_ACQUIRED);
        assert_int_equal(held_at_once++, 0);
        loop_timer_set(loop, &holds[index].timer, loop_after(loop, REDLOCK_MS(3)));
    } else if (event->kind == REDLOCK_EVENT_RELEASED && --rounds_left[index] > 0) {
        static const char *const names[] = {"r"};
        struct redlock_request request = {.resources = names, .resource_count = 1, .owner = "host:1:2:test"};
        assert_true(redlock_lock_acquire(probe->lock, &request));
    }
}

/* 64 waiters of so many processes want the same resource, each several times. Commands that scripts run count for
 * nothing, but what they publish does. */
static void assert_cheap(unsigned process_count)
{
    enum { WAITERS = 64, ROUNDS = 4 };
    held_at_once = holds_done = 0;
    for (unsigned i = 0; i < process_count; i++)
        (void)process(i);
    ask_first(NODES, "CONFIG RESETSTAT");
    for (unsigned i = 0; i < WAITERS; i++) {
        struct lock_probe *probe = waiter(i % process_count, 120000);
        rounds_left[i] = ROUNDS;
        holds[i] = (struct hot_hold){.probe = probe};
        loop_timer_init(&holds[i].timer, hold_ends);
        probe->on_event = hold_for_a_while;
        lock_probe_ask(probe, "r");
    }
    struct instant began = instant_now();
    loop_await(loop, holds_done == WAITERS * ROUNDS);
    int64_t took_ns = instant_since(began, instant_now());
    for (unsigned i = 0; i < process_count; i++)
        loop_await(loop, redlock_group_busy(process(i)) == 0);
    unsigned scripts = calls("evalsha"), hints = calls("publish");
    unsigned rest = calls("subscribe") + calls("unsubscribe") + calls("ping");
    unsigned passes = 0;
    for (unsigned i = 0; i < process_count; i++)
        passes += (unsigned)redlock_group_counters(process(i))->passes;
    print_message("%2u processes: %.1f commands a hold: %.1f scripts, %.1f hints, %.1f others; %.2f passes, %.1f ms\n",
                  process_count, (double)(scripts + hints + rest) / holds_done, (double)scripts / holds_done,
                  (double)hints / holds_done, (double)rest / holds_done, (double)passes / holds_done,
                  (double)took_ns / 1e6 / holds_done);
    assert_true(scripts + hints + rest <= 40 * holds_done);
}

static void test_64_waiters_of_one_process_are_cheap(void **state)
{
    (void)state;
    assert_cheap(1);
}

static void test_64_waiters_of_4_processes_are_cheap(void **state)
{
    (void)state;
    assert_cheap(4);
}

static void test_64_waiters_of_16_processes_are_cheap(void **state)
{
    (void)state;
    assert_cheap(16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        waiting_test(test_without_waiters_nothing_is_said),
        waiting_test(test_64_waiters_of_one_process_are_cheap),
        waiting_test(test_64_waiters_of_4_processes_are_cheap),
        waiting_test(test_64_waiters_of_16_processes_are_cheap),
    };
    return cmocka_run_group_tests(tests, one_cluster_set_up, one_cluster_tear_down);
}
