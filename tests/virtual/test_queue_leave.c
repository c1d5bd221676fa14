/* The end of a process at the queue node: nothing of it stays, nothing that it had is lost. */
#include "tests/support/test.h"

#include <stdio.h>

#include "queue/keys.h"
#include "tests/support/queue_fixture.h"

/* It is restarted here, and must come back as it was. */
static int group_setup(void **state)
{
    (void)state;
    server = redis_server_start(&(struct redis_server_options){.config = "appendonly yes\nappendfsync no\n"});
    return 0;
}

TEST(test_an_idle_process_leaves_no_key)
{
    start("a");
    queue_probe_claim(&probe, 0, NULL);
    assert_reply(server, probe.identity, "ZRANGE hf:2:processes 0 -1");
    assert_true(queue_probe_leave(&probe, 5 * NS_PER_S));
    assert_keys("");
}

TEST(test_everything_it_has_goes_back_to_the_head)
{
    start("a b");
    push("a", "a1");
    push("b", "b1");
    push("b", "b2");
    queue_probe_claim(&probe, 0, "a1");
    queue_probe_claim(&probe, 1, "b1");
    queue_probe_claim(&probe, 2, "b2");
    queue_probe_claim(&probe, 3, NULL);
    queue_probe_claim(&probe, 2, NULL);
    push("a", "a2");
    assert_true(queue_probe_leave(&probe, 5 * NS_PER_S));
    assert_keys("queue:a\nqueue:b");
    assert_reply(server, "a2\na1", "LRANGE queue:a 0 -1");
    assert_reply(server, "b1", "LRANGE queue:b 0 -1");
}

TEST(test_a_bell_outstanding_is_ended_first)
{
    start("a b c");
    queue_listen(probe.queue, true);
    wait_blocked(3);
    assert_true(queue_probe_leave(&probe, 5 * NS_PER_S));
    wait_blocked(0);
    push("a", "one");
    loop_for(loop, 20 * NS_PER_MS);
    assert_keys("queue:a");
}

TEST(test_a_task_in_the_bell_goes_back)
{
    start("a");
    queue_listen(probe.queue, true);
    wait_blocked(1);
    push("a", "one");
    push("a", "two");
    queue_probe_wait_rings(&probe, 1);
    assert_true(queue_probe_leave(&probe, 5 * NS_PER_S));
    assert_keys("queue:a");
    assert_reply(server, "two\none", "LRANGE queue:a 0 -1");
}

/* The ring comes between the decision to leave and the end of the wait. */
TEST(test_a_ring_while_leaving_goes_back)
{
    for (int i = 0; i < 20; i++) {
        start("a");
        queue_listen(probe.queue, true);
        wait_blocked(1);
        unsigned rings = probe.rings;
        push("a", "one");
        assert_true(queue_probe_leave(&probe, 5 * NS_PER_S));
        assert_int_equal(probe.rings, rings);
        assert_keys("queue:a");
        assert_reply(server, "one", "RPOP queue:a");
        queue_probe_stop(&probe);
    }
}

/* The server was stopped while a wait and a claim were on their way, and reads both after the process has left over
 * another connection: neither may take a task. */
TEST(test_what_arrives_after_the_end_takes_nothing)
{
    queue_probe_start(&probe, loop, relay_port(relay), "a", NULL);
    queue_listen(probe.queue, true);
    wait_blocked(1);
    relay_cut(relay); /* the server still has our old connection, waiting */
    assert_true(queue_probe_leave(&probe, 5 * NS_PER_S));
    push("a", "one");
    loop_for(loop, 50 * NS_PER_MS);
    assert_keys("queue:a");
    assert_tasks("queue:a one");
}

TEST(test_a_node_that_is_down_is_given_up_by_the_deadline)
{
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    redis_server_kill(server);
    bool left = queue_probe_leave(&probe, 200 * NS_PER_MS);
    char claimed[128];
    snprintf(claimed, sizeof claimed, "hf:2:process:%s one", probe.identity);
    redis_server_restart(server);
    loop_for(loop, 2 * NS_PER_S); /* the caller knows that it did not leave, so nothing follows */
    assert_false(left);
    assert_tasks(claimed);
    assert_reply(server, probe.identity, "ZRANGE hf:2:processes 0 -1");
}

static unsigned lefts;

static void left_late(void *context, bool left)
{
    (void)context;
    assert_false(left);
    lefts++;
}

/* Who waits for it loses patience: the nearer of two deadlines counts. */
TEST(test_a_deadline_may_come_nearer)
{
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    redis_server_kill(server);
    struct instant began = loop_now(loop);
    queue_leave(probe.queue, instant_after(began, TEST_PATIENCE_NS / 2), left_late);
    queue_leave_by(probe.queue, instant_after(began, TEST_PATIENCE_NS));
    queue_leave_by(probe.queue, instant_after(began, 200 * NS_PER_MS));
    loop_await(loop, lefts == 1);
    redis_server_restart(server);
    assert_true(instant_since(began, loop_now(loop)) < TEST_PATIENCE_NS / 4);
}

/* A process that never reached the node has nothing there. */
TEST(test_a_process_that_was_never_connected)
{
    queue_probe_start(&probe, loop, free_port(), "a", NULL);
    queue_probe_settle(&probe, 0, true);
    assert_true(queue_probe_leave(&probe, 100 * NS_PER_MS));
    assert_int_equal(probe.slots[0].answers, 0);
}

/* Slots whose handlers do not end are abandoned: their tasks go back as well, and what they say later is lost. */
TEST(test_a_slot_that_is_abandoned)
{
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    assert_true(queue_probe_leave(&probe, 5 * NS_PER_S));
    queue_probe_settle(&probe, 0, false);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_LOST);
    assert_tasks("queue:a one");
    assert_keys("queue:a");
}

RUN_GROUP(group_setup, one_server_tear_down, queue_setup, queue_teardown)
