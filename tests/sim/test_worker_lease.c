/* A worker that stood still, or was cut off from the queue node, for longer than its lease: others may have its tasks
 * by then. The queue node is silent just after the wake, as for a virtual machine that is back before its network. */
#include "tests/sim/worker_fixture.h"

#define LEASE     "lease = \"3s\";"
#define AWAY_NS   (4 * NS_PER_S)
#define SILENT_NS (8 * NS_PER_S)

/* --- what happens to it ------------------------------------------------------------------------------------------- */

/* Of the process at the queue node. */
static const char *ask_claims(const char *command)
{
    return ask(
        scene.queue,
        "EVAL \"local id = redis.call('ZRANGE', 'hf:2:processes', 0, 0)[1] local key = 'hf:2:process:' .. (id or "
        "'') local count = 0 for _, field in ipairs(redis.call('HKEYS', key)) do count = count + "
        "((tonumber(field) and redis.call('HSTRLEN', key, field) > 16) and 1 or 0) end %s return count\" 0",
        command);
}

static bool has_claims(const char *count)
{
    return strcmp(ask_claims(""), count) == 0;
}

/* Stands still as soon as the queue node has executed the call that makes it `count`: its reply is not read yet. */
static void stand_still_when_claims_are(const char *count)
{
    for (unsigned i = 0; !has_claims(count); i++) {
        assert_true(i < 1000000);
        run_for(10 * NS_PER_US);
    }
    process_pause(scene.process);
}

/* As another process does once the lease is over; there the tasks are done. */
static void others_take_all(void)
{
    ask_claims("redis.call('DEL', key) redis.call('ZREM', 'hf:2:processes', id)");
}

static void wake_before_the_network(void)
{
    node_pause(scene.queue);
    process_resume(scene.process);
    run_for(SILENT_NS);
}

static unsigned begun(const char *jid)
{
    char text[64];
    snprintf(text, sizeof text, "handler begins %s ", jid);
    return told_times(text);
}

/* --- what runs ---------------------------------------------------------------------------------------------------- */

/* Others count from the last renewal, of which there are three in a lease. */
TEST(handlers_without_a_lock_are_cancelled_when_the_lease_is_over)
{
    work(&(struct setting){.threads = 2, .worker = LEASE});
    push("long", "act", "[60000]", "");
    await_told("handler begins long");
    process_pause(scene.process);
    run_for(1900 * NS_PER_MS);
    process_resume(scene.process);
    run_for(NS_PER_S);
    assert_int_equal(told_times("lease_over") + told_times("handler stops"), 0);
    process_pause(scene.process);
    run_for(3200 * NS_PER_MS);
    process_resume(scene.process);
    await_told("lease_over seconds=");
    await_told("handler stops long: reason 3");
    await(begun("long") == 2); /* it was still ours, went back to its queue, and begins again */
}

TEST(what_holds_a_lock_goes_on)
{
    work(&(struct setting){.threads = 2, .worker = LEASE});
    push("long", "act", "[20000]", ",\"resource\":\"r\"");
    await_told("handler begins long");
    node_pause(scene.queue);
    run_for(SILENT_NS);
    assert_told("lease_over seconds=");
    node_resume(scene.queue);
    await_told("ending=done jid=long ");
    assert_int_equal(begun("long"), 1);
}

TEST(a_worker_that_is_cut_off_cancels_what_has_no_lock)
{
    work(&(struct setting){.threads = 2, .worker = LEASE});
    push("long", "act", "[60000]", "");
    await_told("handler begins long");
    node_pause(scene.queue);
    struct instant since = world_time();
    await_told("handler stops long: reason 3");
    assert_in_range(instant_since(since, world_time()) / NS_PER_MS, 1900, 3100);
    node_resume(scene.queue);
    await(begun("long") == 2);
}

/* What others may have is asked to stop also by a worker that stops. */
TEST(a_stop_that_is_under_way_sees_it_too)
{
    static const char *const classes[] = {"act", "runner", "program"};
    for (unsigned i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        work(&(struct setting){.threads = 2, .worker = LEASE "stop_timeout = \"60s\";"});
        push("one", classes[i], "[60000]", "");
        run_for(NS_PER_S);
        (void)stop();
        run_for(NS_PER_S);
        process_pause(scene.process);
        run_for(AWAY_NS);
        node_pause(scene.queue);
        process_resume(scene.process);
        run_for(NS_PER_S);
        assert_int_equal(told_times("lease_over seconds="), i + 1);
        assert_int_equal(told_times("ending=given_back jid=one "), i + 1);
        node_resume(scene.queue);
        await(!scene.process->is_alive);
        assert_queue("*1|$4|one |");
    }
    assert_told("handler stops one: reason 3");
}

/* --- what has not begun ------------------------------------------------------------------------------------------- */

/* By the reply to the claim, which was not read. */
TEST(what_was_claimed_before_begins_when_the_queue_node_says_that_it_is_ours)
{
    static const char *const classes[] = {"act", "runner", "program", "progress"};
    unsigned done = 0, lost = 0;
    for (unsigned i = 0; i < 2 * sizeof classes / sizeof classes[0]; i++) {
        work(&(struct setting){.threads = 1, .worker = LEASE});
        fleet.hold_ns = 10 * NS_PER_MS; /* of the handlers in processes */
        push("one", classes[i / 2], "[10]", "");
        stand_still_when_claims_are(":1|");
        run_for(AWAY_NS);
        if (i % 2 == 0)
            others_take_all();
        wake_before_the_network();
        assert_int_equal(told_times("ending=done jid=one "), done);
        node_resume(scene.queue);
        lost += i % 2 == 0;
        done += i % 2 != 0;
        await(told_times("ending=claim_lost jid=one ") == lost && told_times("ending=done jid=one ") == done);
        assert_ends(EXIT_CODE_OK, stop(), 0);
    }
    assert_int_equal(told_times(" given_back=0 "), 2 * sizeof classes / sizeof classes[0]); /* it waited where it was */
    assert_int_equal(begun("one"), 2);
}

/* By the first lock node that has executed the request. */
static bool is_granted(void)
{
    bool is_there = false;
    for (unsigned i = 0; i < NODES; i++)
        is_there |= strcmp(ask(scene.nodes[i], "EXISTS r"), ":1|") == 0;
    return is_there;
}

/* A lock that lives for longer than the lease: the lock nodes have granted it, and their replies were not read. */
TEST(what_waited_for_its_lock_lets_it_go_and_does_not_begin)
{
    for (unsigned i = 0; i < 2; i++) {
        bool is_lost = i == 0;
        work(&(struct setting){.threads = 1, .worker = "lease = \"1s\";", .ttl_ms = MAX_TTL_MS});
        push("one", "act", "[10]", ",\"resource\":\"r\"");
        while (!is_granted())
            run_for(10 * NS_PER_US);
        process_pause(scene.process);
        run_for(1500 * NS_PER_MS);
        if (is_lost)
            others_take_all();
        wake_before_the_network();
        assert_int_equal(told_times("handler begins"), 0);
        assert_string_equal(ask(scene.nodes[0], "EXISTS r"), ":0|"); /* whoever recovers the task needs it */
        node_resume(scene.queue);
        await_told(is_lost ? "ending=claim_lost jid=one " : "ending=done jid=one ");
        assert_int_equal(told_times("ending=claim_lost jid=one "), 1);
        run_for(NS_PER_S);
        assert_string_equal(ask(scene.nodes[0], "EXISTS r"), ":0|");
        assert_ends(EXIT_CODE_OK, stop(), 0);
    }
}

/* A task that ended before it ran is nobody else's, and is gone if it does not run. */
TEST(what_ended_before_it_ran_begins_and_goes_on)
{
    work(&(struct setting){.threads = 1, .worker = LEASE});
    push("one", "once", "[6000]", "");
    stand_still_when_claims_are(":1|");
    process_resume(scene.process);
    stand_still_when_claims_are(":0|");
    run_for(AWAY_NS);
    wake_before_the_network();
    assert_told("lease_over seconds=", "handler begins one ", "handler ends one");
}

/* It waits for its turn in this process, and was handed to nobody yet. */
TEST(what_is_ready_does_not_begin)
{
    work(&(struct setting){.threads = 2, .worker = LEASE});
    push("one", "serial", "[5000,\"deaf\"]", "");
    push("two", "serial", "[10]", "");
    push("three", "act", "[5000,\"deaf\"]", ",\"resource\":\"r\"");
    await_told("handler begins one");
    run_for(NS_PER_S);
    node_pause(scene.queue);
    run_for(SILENT_NS);
    assert_told("handler ends one");
    assert_int_equal(begun("two"), 0);
    node_resume(scene.queue);
    await_told("handler ends two");
}

RUN_TESTS_WITH(set_up, tear_down)
