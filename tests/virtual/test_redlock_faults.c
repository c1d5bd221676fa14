/* The asynchronous group over servers that fail: a minority must not be noticed, a majority must be said at once, and
 * whatever a server executes late must not stay on it. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "redlock/group_private.h"
#include "tests/support/lock_fixture.h"
#include "tests/support/log_capture.h"

static void group_restart(void)
{
    group_end();
    group_start();
}

static unsigned nodes_up(void)
{
    return redlock_group_nodes_up(group);
}

static unsigned cycle_passes(void)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    unsigned passes = mine.attempts;
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    return passes;
}

/* Ten cycles, each had at the first pass. */
static void cycles_go_on(void)
{
    for (int i = 0; i < 10; i++)
        assert_int_equal(cycle_passes(), 1);
}

/* --- a minority ------------------------------------------------------------------------------------------------- */

static unsigned calls_of_first(void)
{
    return redis_server_calls(cluster.servers[0], "evalsha");
}

TEST(a_node_that_hangs_is_sent_no_more_grants_until_it_answers)
{
    cycles_go_on();
    loop_await(loop, redlock_group_busy(group) == 0);
    unsigned before = calls_of_first();
    pause_first(1);
    cycles_go_on(); /* these are sent */
    loop_for(loop, REDLOCK_MS(CLUSTER_TIMEOUT_MS + 50));
    for (int i = 0; i < 10; i++)
        cycles_go_on(); /* these are not */
    resume_first(1);
    loop_await(loop, calls_of_first() > before && lock_cluster_keys(&cluster) == 0);
    cycles_go_on();
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_true(calls_of_first() < before + 120); /* of 240 */
}

static unsigned times_in(const char *text, const char *wanted)
{
    unsigned times = 0;
    while ((text = strstr(text, wanted)) != NULL) {
        times++;
        text += strlen(wanted);
    }
    return times;
}

/* The connection is given up and opened again meanwhile: the node's kernel accepts it, but the node says nothing. */
TEST(a_node_that_hangs_for_long_is_logged_once)
{
    size_t length;
    cycles_go_on();
    loop_await(loop, redlock_group_busy(group) == 0);
    log_capture_begin();
    pause_first(1);
    for (int second = 0; second < 60; second++) {
        cycles_go_on();
        loop_for(loop, REDLOCK_MS(1000));
    }
    resume_first(1);
    loop_await(loop, nodes_up() == NODES);
    cycles_go_on();
    const char *told = log_capture_end(&length);
    assert_int_equal(times_in(told, "lock_node_silent"), 1);
    assert_int_equal(times_in(told, "lock_node_answers"), 1);
}

static bool go_on;

static void begin_again(struct lock_probe *probe, const struct redlock_event *event)
{
    if (event->kind == REDLOCK_EVENT_ANSWER && event->answer == REDLOCK_ACQUIRED) {
        redlock_lock_release(probe->lock);
    } else if (go_on) {
        char resource[32];
        const char *names[] = {resource};
        snprintf(resource, sizeof resource, "%p", (void *)probe);
        assert_true(
            redlock_lock_acquire(probe->lock, &(struct redlock_request){.resources = names, .resource_count = 1}));
    }
}

TEST(a_node_that_hangs_under_load_keeps_its_connection)
{
    enum { MANY = 100 };
    static struct lock_probe many[MANY];
    go_on = true;
    pause_first(1);
    for (unsigned i = 0; i < MANY; i++) {
        char resource[16];
        snprintf(resource, sizeof resource, "many%u", i);
        lock_probe_create(&many[i], loop, group, &terms);
        many[i].on_event = begin_again;
        lock_probe_ask(&many[i], resource);
    }
    loop_for(loop, REDLOCK_MS(800)); /* by then more than a connection may owe would have been asked of it */
    go_on = false;
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(nodes_up(), NODES);
    resume_first(1);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(many[i].releases > 0);
        lock_probe_destroy(&many[i]);
    }
}

/* --- a majority ------------------------------------------------------------------------------------------------- */

static void servers_configure(unsigned count, const char *setting)
{
    for (unsigned i = 0; i < count; i++)
        assert_string_equal(lock_cluster_ask(&cluster, i, "CONFIG SET %s", setting), "OK");
}

TEST(a_majority_that_answers_with_errors_is_told_with_its_words)
{
    servers_configure(QUORUM, "maxmemory 1");
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
    assert_contains(mine.reason, "answers: OOM command not allowed");
    servers_configure(QUORUM, "maxmemory 0");
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    kill_first(QUORUM); /* what was refused once is no reason for ever */
    loop_await(loop, nodes_up() == MINORITY);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
    assert_contains(mine.reason, "cannot be reached");
}

TEST(with_no_node_at_all_every_pass_is_made_and_ends)
{
    struct lock_probe slow;
    struct redlock_terms late = terms;
    late.retry_delay_ms = 100; /* beyond the limit of a pass */
    kill_first(NODES);
    loop_await(loop, nodes_up() == 0);
    lock_probe_create(&slow, loop, group, &late);
    assert_int_equal(lock_probe_acquire(&slow, "r"), REDLOCK_NO_QUORUM);
    assert_int_equal(slow.attempts, 3);
    lock_probe_destroy(&slow);
}

static void ask_again(struct lock_probe *probe, const struct redlock_event *event)
{
    const char *resource = "r";
    if (event->kind == REDLOCK_EVENT_ANSWER && event->answer == REDLOCK_NO_QUORUM)
        redlock_lock_acquire(probe->lock, &(struct redlock_request){.resources = &resource, .resource_count = 1});
}

TEST(who_asks_again_at_once_leaves_the_loop_to_others)
{
    const struct redlock_terms one_try = quick_terms(1000, 1);
    struct lock_probe stubborn;
    kill_first(NODES);
    group_restart();
    lock_probe_create(&stubborn, loop, group, &one_try);
    stubborn.on_event = ask_again;
    lock_probe_ask(&stubborn, "r");
    loop_await(loop, stubborn.answers >= 10);
    stubborn.on_event = NULL;
    unsigned answers = stubborn.answers;
    loop_await(loop, stubborn.answers > answers);
    lock_probe_destroy(&stubborn);
}

TEST(a_majority_that_hangs_is_no_quorum_within_its_timeout)
{
    struct lock_probe once;
    struct redlock_terms single = quick_terms(10000, 1);
    lock_probe_create(&once, loop, group, &single);
    pause_first(QUORUM);
    assert_int_equal(lock_probe_acquire(&once, "r"), REDLOCK_NO_QUORUM);
    assert_true(once.waited_ns >= REDLOCK_MS(49)); /* not before it either */
    loop_await(loop, lock_cluster_ask(&cluster, 3, "KEYS lock:*")[0] == '\0' &&
                         lock_cluster_ask(&cluster, 4, "KEYS lock:*")[0] == '\0');
    resume_first(QUORUM);
    loop_await(loop, redlock_group_busy(group) == 0);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
    lock_probe_destroy(&once);
}

/* The silent ones answered late before, so one that nobody answered would wait for them for longer. */
TEST(a_silent_minority_delays_no_attempt_that_a_quorum_has_answered)
{
    struct lock_probe once;
    struct redlock_terms single = quick_terms(10000, 1);
    lock_probe_create(&once, loop, group, &single);
    pause_first(2);
    cycle_passes();
    loop_for(loop, REDLOCK_MS(2 * CLUSTER_TIMEOUT_MS));
    resume_first(2);
    loop_await(loop, redlock_group_busy(group) == 0 && lock_cluster_keys(&cluster) == 0);
    cycles_go_on();
    loop_await(loop, redlock_group_busy(group) == 0);
    lock_cluster_ask(&cluster, 2, "SET lock:r somebody PX 10000");
    pause_first(2);
    assert_int_not_equal(lock_probe_acquire(&once, "r"), REDLOCK_ACQUIRED);
    assert_true(once.waited_ns >= REDLOCK_MS(CLUSTER_TIMEOUT_MS));
    assert_true(once.waited_ns < REDLOCK_MS(2 * CLUSTER_TIMEOUT_MS));
    resume_first(2);
    loop_await(loop, redlock_group_busy(group) == 0);
    lock_probe_destroy(&once);
}

/* --- what is executed late ---------------------------------------------------------------------------------------- */

/* E1, E2: the grant lies in the stopped server's socket; it executes it after we have given up, and then the release
 * behind it. */
TEST(a_grant_that_is_executed_after_its_pass_is_undone)
{
    redis_server_pause(cluster.servers[0]);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_for(loop, REDLOCK_MS(CLUSTER_TIMEOUT_MS + 50));
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    redis_server_resume(cluster.servers[0]);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

/* E18: the connection breaks between grant and release; the server lives on, with the key. */
TEST(a_release_is_owed_to_a_node_whose_connection_broke)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    lock_cluster_ask(&cluster, 0, "CLIENT KILL TYPE normal SKIPME yes");
    loop_await(loop, nodes_up() == NODES - 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, nodes_up() == NODES);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
    assert_true(redlock_group_counters(group)->owed >= 1);
}

/* One that the node refused is tried again soon; without a connection there is nothing to try. */
TEST(a_release_is_not_tried_again_and_again_while_its_node_is_away)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    lock_cluster_ask(&cluster, 0, "ACL SETUSER default -del");
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, redlock_group_counters(group)->owed >= 3);
    redis_server_kill(cluster.servers[0]);
    loop_await(loop, nodes_up() == NODES - 1);
    uint64_t before = redlock_group_counters(group)->owed;
    loop_for(loop, REDLOCK_MS(5000));
    assert_in_range(redlock_group_counters(group)->owed, before, before + 1);
}

/* The same, but the connection breaks while grant and release lie unread in it. */
TEST(what_a_stopped_node_reads_from_a_dead_connection_is_undone)
{
    redis_server_pause(cluster.servers[0]);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    locks_destroy();
    redlock_group_destroy(group); /* closes the connection */
    redis_server_resume(cluster.servers[0]);
    group = lock_cluster_group(&cluster, loop);
    locks_create(10000);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
}

/* --- pauses ----------------------------------------------------------------------------------------------------- */

enum { SHORT_TIMEOUT_MS = 100, SHORT_PATIENCE_MS = 10 * SHORT_TIMEOUT_MS };

/* A process with short timeouts, which tries once. */
static struct redlock_group *hasty_group(struct lock_probe *hasty)
{
    struct redlock_node nodes[NODES];
    struct redlock_options options = cluster.options;
    char reason[256];
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i] = cluster.options.nodes[i];
        nodes[i].timeout_ms = SHORT_TIMEOUT_MS;
    }
    options.nodes = nodes;
    struct redlock_group *group_of_it = redlock_group_create(loop, &options, reason, sizeof reason);
    assert_non_null(group_of_it);
    loop_await(loop, redlock_group_is_settled(group_of_it));
    struct redlock_terms once = quick_terms(10000, 1);
    lock_probe_create(hasty, loop, group_of_it, &once);
    return group_of_it;
}

static void pause_while_it_asks(struct lock_probe *asking, int64_t ms)
{
    pause_first(QUORUM);
    lock_probe_ask(asking, "r");
    loop_for(loop, REDLOCK_MS(ms));
    resume_first(QUORUM);
}

/* The first time it has learned nothing yet. */
TEST(a_pause_of_a_majority_that_comes_again_is_waited_for)
{
    struct lock_probe hasty;
    struct redlock_group *hasty_one = hasty_group(&hasty);
    assert_int_equal(group_patience_ns(hasty_one), REDLOCK_MS(SHORT_TIMEOUT_MS));
    pause_while_it_asks(&hasty, SHORT_PATIENCE_MS);
    assert_int_equal(hasty.answers, 1);
    assert_int_equal(hasty.answer, REDLOCK_NO_QUORUM);
    loop_await(loop, group_patience_ns(hasty_one) == REDLOCK_MS(SHORT_PATIENCE_MS));
    loop_await(loop, lock_cluster_keys(&cluster) == 0);

    pause_while_it_asks(&hasty, 2 * SHORT_TIMEOUT_MS);
    loop_await(loop, hasty.answers == 2);
    assert_int_equal(hasty.answer, REDLOCK_ACQUIRED);
    assert_int_equal(hasty.attempts, 1);
    assert_int_equal(lock_probe_release(&hasty), REDLOCK_RELEASED);
    lock_probe_destroy(&hasty);
    loop_await(loop, redlock_group_busy(hasty_one) == 0);
    redlock_group_destroy(hasty_one);
}

/* --- the begin -------------------------------------------------------------------------------------------------- */

TEST(a_new_process_does_not_wait_for_a_node_that_hangs)
{
    struct lock_probe lock;
    char reason[256];
    pause_first(1);
    struct redlock_group *new_one = redlock_group_create(loop, &cluster.options, reason, sizeof reason);
    assert_false(redlock_group_is_ready(new_one));
    loop_await(loop, redlock_group_is_ready(new_one));
    assert_int_equal(redlock_group_voters(new_one), NODES - 1); /* those that answer had the time to */
    assert_false(redlock_group_is_settled(new_one));
    lock_probe_create(&lock, loop, new_one, &terms);
    assert_int_equal(lock_probe_acquire(&lock, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&lock), REDLOCK_RELEASED);
    lock_probe_destroy(&lock);
    resume_first(1);
    loop_await(loop, redlock_group_busy(new_one) == 0 && redlock_group_is_settled(new_one));
    redlock_group_destroy(new_one);
}

TEST(a_new_process_waits_for_a_majority)
{
    char reason[256];
    pause_first(QUORUM);
    struct redlock_group *new_one = redlock_group_create(loop, &cluster.options, reason, sizeof reason);
    loop_for(loop, REDLOCK_MS(300));
    assert_false(redlock_group_is_ready(new_one));
    resume_first(QUORUM);
    loop_await(loop, redlock_group_is_ready(new_one));
    redlock_group_destroy(new_one);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, lock_set_up, lock_tear_down)
