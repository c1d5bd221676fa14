/* Waking idle workers: by whatever pushes, at once, and each task once. */
#include "tests/support/test.h"

#include "queue/keys.h"
#include "tests/support/queue_fixture.h"

static void start_listening(struct queue_probe *at, const char *names, unsigned blocked)
{
    queue_probe_start(at, loop, redis_server_port(server), names, NULL);
    queue_listen(at->queue, true);
    wait_blocked(blocked);
    at->rings = 0; /* each connection that comes up rings */
}

TEST(test_a_push_wakes_an_idle_worker)
{
    start_listening(&probe, "a b", 2);
    uint64_t calls = queue_counters(probe.queue)->claim_calls;
    free(redis_server_command(server, "LPUSH queue:b '{\"class\":\"echo\",\"args\":[]}'"));
    queue_probe_wait_rings(&probe, 1);
    assert_int_equal(queue_counters(probe.queue)->claim_calls, calls);
    queue_probe_claim(&probe, 0, "{\"class\":\"echo\",\"args\":[]}");
    assert_string_equal(probe.slots[0].queue, "b");
    queue_probe_claim(&probe, 0, NULL);
    assert_tasks("");

    wait_blocked(2);
    push("a", "again");
    queue_probe_wait_rings(&probe, 2);
    queue_probe_claim(&probe, 0, "again");
}

TEST(test_a_task_in_the_bell_goes_first)
{
    start_listening(&probe, "a", 1);
    push("a", "one");
    queue_probe_wait_rings(&probe, 1);
    queue_listen(probe.queue, false);
    push("a", "two");
    for (unsigned slot = 0; slot < 3; slot++)
        queue_probe_settle(&probe, slot, true);
    queue_probe_wait_all(&probe);
    assert_string_equal(probe.slots[0].payload, "one");
    assert_string_equal(probe.slots[1].payload, "two");
}

/* --- nobody idle -------------------------------------------------------------------------------------------------- */

static bool is_put_back(void *places)
{
    return tasks_are(places) && queue_counters(probe.queue)->rings > 0;
}

static bool has_refused(void *context)
{
    (void)context;
    return queue_counters(probe.queue)->repeats > 0;
}

static bool has_rung_twice(void *context)
{
    (void)context;
    return queue_counters(probe.queue)->rings >= 2;
}

/* The second comes before the first task is back, because the node refuses that for a while. */
TEST(test_each_of_two_rings_while_nobody_is_idle_is_put_back)
{
    start_listening(&probe, "a", 1);
    queue_listen(probe.queue, false);
    free(redis_server_command(server, "ACL SETUSER default -lmove"));
    push("a", "one");
    assert_true(loop_until(loop, has_refused, NULL, TEST_PATIENCE_NS));
    queue_listen(probe.queue, true);
    wait_blocked(1);
    queue_listen(probe.queue, false);
    push("a", "two");
    assert_true(loop_until(loop, has_rung_twice, NULL, TEST_PATIENCE_NS));
    free(redis_server_command(server, "ACL SETUSER default +lmove"));
    wait_tasks("queue:a one\nqueue:a two");
    assert_int_equal(probe.rings, 0);
    queue_probe_claim(&probe, 0, "one");
    queue_probe_claim(&probe, 1, "two");
}

TEST(test_the_end_of_listening_ends_the_waits)
{
    start_listening(&probe, "a b", 2);
    struct instant began = loop_now(loop);
    queue_end_listening(probe.queue);
    wait_blocked(0);
    assert_true(instant_since(began, loop_now(loop)) < 5 * NS_PER_S); /* by itself each ends after ten */
    push("a", "one");
    loop_for(loop, 50 * NS_PER_MS);
    assert_tasks("queue:a one");
    assert_int_equal(probe.rings, 0);
}

TEST(test_nobody_waits_unless_wanted)
{
    queue_probe_start(&probe, loop, redis_server_port(server), "a", NULL);
    queue_probe_wait_up(&probe);
    push("a", "one");
    loop_for(loop, 50 * NS_PER_MS);
    assert_tasks("queue:a one");
    assert_int_equal(probe.rings, 0);
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

static unsigned blmoves(void)
{
    return redis_server_calls(server, "blmove");
}

static unsigned blmoves_at_ring;

static void note_blmoves(struct queue_probe *at)
{
    if (at->rings == 1)
        blmoves_at_ring = blmoves();
}

TEST(test_a_ring_whose_connection_was_cut_is_not_lost)
{
    queue_probe_start(&probe, loop, relay_port(relay), "a", NULL);
    queue_listen(probe.queue, true);
    wait_blocked(1);
    probe.rings = 0;
    probe.on_ring = note_blmoves;
    relay_swallow(relay, true);
    push("a", "one");
    relay_cut(relay);
    relay_swallow(relay, false);
    queue_probe_wait_rings(&probe, 1);
    assert_int_equal(blmoves_at_ring, 1); /* at once, not when the next wait ends */
    queue_probe_claim(&probe, 0, "one");
}

/* Nobody would take the task out of the bell for as long as the process is busy, or quiet. */
TEST(test_a_lost_ring_while_nobody_is_idle_is_put_back)
{
    queue_probe_start(&probe, loop, relay_port(relay), "a", NULL);
    queue_listen(probe.queue, true);
    wait_blocked(1);
    queue_listen(probe.queue, false);
    relay_swallow(relay, true);
    push("a", "one");
    relay_cut(relay);
    relay_swallow(relay, false);
    wait_tasks("queue:a one");
}

/* The server still has the connection that we lost, with its blocking move: it must not take a task any more once a
 * new one waits. */
TEST(test_only_one_connection_waits)
{
    queue_probe_start(&probe, loop, relay_port(relay), "a", NULL);
    queue_listen(probe.queue, true);
    wait_blocked(1);
    probe.rings = 0;
    for (int i = 0; i < 3; i++) {
        relay_cut(relay);
        queue_probe_wait_rings(&probe, (unsigned)i + 1);
    }
    assert_true(blocked_clients() <= 1);
    wait_blocked(1);
    queue_listen(probe.queue, false);
    push("a", "one");
    assert_true(loop_until(loop, is_put_back, "queue:a one", TEST_PATIENCE_NS));
}

/* Refused waits are not repeated in a tight loop, and idle workers are still told now and then. */
TEST(test_a_refused_bell_rests_and_rings)
{
    start_listening(&probe, "a", 1);
    push("a", "one");
    push("a", "two");
    queue_probe_wait_rings(&probe, 1);
    queue_probe_wait_rings(&probe, 2); /* the bell has both now and waits for more */
    wait_blocked(1);
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    unsigned before = blmoves();
    free(redis_server_command(server, "CLIENT KILL TYPE normal"));
    queue_probe_wait_rings(&probe, 5);
    assert_true(blmoves() - before <= 10);
    queue_probe_claim(&probe, 0, "one");
    queue_probe_claim(&probe, 1, "two");
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    wait_blocked(1);
    push("a", "three");
    queue_probe_wait_rings(&probe, probe.rings + 1);
    queue_probe_claim(&probe, 2, "three");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
