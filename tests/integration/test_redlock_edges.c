/* The edge cases of a Redlock, E1 to E51, of which no other test is the better place. Where a case is tested, a comment
 * or the name of the test has its number; `make tidy` misses those that are nowhere. These do not apply, or in part:
 *
 *  - E43: without the right to EVALSHA there is no native fallback (SET IFEQ, DELEX). Grants compare the marker, a
 *    deadline and the fence in one step, which no single command does; a node that refuses scripts is told as such.
 *  - E45: keys of one lock need no common slot, because a lock node is no Redis Cluster: each node has all keys.
 *  - E46: semaphores, and read locks, by majorities are unsound, and there are none: every lock is for one.
 *  - E47: there is no re-entrancy by thread. A task cannot ask for a further lock at all (job.h has no call for it); in
 *    the library a second lock of the same owner is somebody else, see below. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/lock_fixture.h"
#include "tests/support/relay.h"

static void have(const char *resources)
{
    assert_int_equal(lock_probe_acquire(&mine, resources), REDLOCK_ACQUIRED);
}

static void ttl_change(int64_t ttl_ms)
{
    locks_destroy();
    locks_create(ttl_ms);
}

/* --- failing nodes ---------------------------------------------------------------------------------------------- */

static void first_may_delete(bool may)
{
    assert_string_equal(lock_cluster_ask(&cluster, 0, "ACL SETUSER default %sdel", may ? "+" : "-"), "OK");
}

/* E15: an error of one node ends the clean-up of no other one, and the node that failed gets it again (E40). */
static void a_node_that_fails_to_delete_keeps_no_other_from_it(void **state)
{
    (void)state;
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    first_may_delete(false);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == 1);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "EXISTS lock:r"), "1");
    for (unsigned i = 1; i <= QUORUM; i++) /* so that the next pass fails */
        lock_cluster_ask(&cluster, i, "SET lock:s other PX 60000");
    assert_int_equal(lock_probe_acquire(&mine, "s"), REDLOCK_BUSY);
    loop_await(loop, strcmp(lock_cluster_ask(&cluster, 4, "EXISTS lock:s"), "0") == 0);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:s"), QUORUM + 1);
    first_may_delete(true);
    loop_await(loop,
               lock_cluster_holders(&cluster, "lock:r") == 0 && lock_cluster_holders(&cluster, "lock:s") == QUORUM);
}

/* --- extensions ------------------------------------------------------------------------------------------------- */

/* E31: nodes that hang delay the extension of no lock. */
static void many_locks_are_extended_in_time_while_a_minority_hangs(void **state)
{
    (void)state;
    enum { MANY = 40 };
    static struct lock_probe many[MANY];
    ttl_change(3000);
    for (unsigned i = 0; i < MANY; i++) {
        char resource[16];
        snprintf(resource, sizeof resource, "many%u", i);
        lock_probe_create(&many[i], loop, group, &terms);
        lock_probe_ask(&many[i], resource);
    }
    loop_await(loop, redlock_group_counters(group)->acquired == MANY);
    pause_first(MINORITY);
    loop_await(loop, redlock_group_counters(group)->extensions >= 2 * MANY);
    resume_first(MINORITY);
    assert_int_equal(redlock_group_counters(group)->dangers, 0);
    assert_int_equal(redlock_group_counters(group)->lost, 0);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(lock_probe_release(&many[i]), REDLOCK_RELEASED);
        lock_probe_destroy(&many[i]);
    }
}

/* E32: an extension sets the ttl, whatever it was: it adds nothing to it, and it does not only lengthen. */
static void an_extension_sets_the_ttl_to_what_was_agreed(void **state)
{
    (void)state;
    ttl_change(1500);
    have("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    ask_first(NODES, "PEXPIRE lock:r 600000");
    unsigned extended = mine.extended;
    loop_await(loop, mine.extended >= extended + 2);
    loop_await(loop, redlock_group_busy(group) == 1);
    for (unsigned i = 0; i < NODES; i++)
        assert_in_range(strtoll(lock_cluster_ask(&cluster, i, "PTTL lock:r"), NULL, 10), 1, 1500);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

static enum redlock_loss loss;

static void note_loss(struct lock_probe *probe, const struct redlock_event *event)
{
    (void)probe;
    if (event->kind == REDLOCK_EVENT_LOST)
        loss = event->loss;
}

/* E37: extended as long as its terms allow, and not once more; by time, not by counting extensions. */
static void a_hold_ends_at_its_maximum_however_often_it_was_extended(void **state)
{
    (void)state;
    struct lock_probe limited;
    struct redlock_terms briefly = quick_terms(900, 3);
    briefly.max_hold_ns = REDLOCK_MS(2000);
    lock_probe_create(&limited, loop, group, &briefly);
    limited.on_event = note_loss;
    loss = REDLOCK_LOST_DEADLINE;
    struct instant before = instant_now();
    assert_int_equal(lock_probe_acquire(&limited, "r"), REDLOCK_ACQUIRED);
    int64_t end = instant_now().ns + briefly.max_hold_ns;
    while (limited.losses == 0) {
        assert_true(atomic_load(&redlock_lock_validity(limited.lock)->until) <= end);
        loop_for(loop, REDLOCK_MS(1));
    }
    assert_true(limited.extended >= 2);
    assert_int_equal(loss, REDLOCK_LOST_MAX_HOLD);
    assert_int_equal(limited.dangers, 1); /* it was told before */
    assert_contains(limited.reason, "as long as its terms allow");
    assert_true(instant_since(before, instant_now()) >= briefly.max_hold_ns - REDLOCK_MS(1));
    assert_int_equal(lock_probe_release(&limited), REDLOCK_RELEASED);
    lock_probe_destroy(&limited);
}

/* --- releases --------------------------------------------------------------------------------------------------- */

/* E41: the reply to a release is lost, so it is sent again; by then the key is somebody else's, and stays his. */
static void a_release_that_is_repeated_deletes_no_newer_lock(void **state)
{
    (void)state;
    struct relay *relay = relay_start(cluster.nodes[0].port);
    struct redlock_node nodes[NODES];
    struct lock_cluster relayed = cluster;
    struct lock_probe probe;
    memcpy(nodes, cluster.nodes, sizeof nodes);
    nodes[0].port = relay_port(relay);
    relayed.options.nodes = nodes;
    struct redlock_group *behind = lock_cluster_group(&relayed, loop);
    lock_probe_create(&probe, loop, behind, &terms);
    assert_int_equal(lock_probe_acquire(&probe, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES && redlock_group_busy(behind) == 1);
    relay_swallow(relay, true);
    assert_int_equal(lock_probe_release(&probe), REDLOCK_RELEASED); /* by the others */
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == 0);
    ask_first(NODES, "SET lock:r newer PX 60000 NX");
    relay_swallow(relay, false);
    relay_cut(relay);
    loop_await(loop, redlock_group_counters(behind)->owed > 0);
    loop_await(loop, redlock_group_nodes_up(behind) == NODES && redlock_group_busy(behind) == 0);
    assert_int_equal(redlock_group_counters(behind)->foreign, 0);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), "newer");
    lock_probe_destroy(&probe);
    redlock_group_destroy(behind);
    relay_destroy(relay);
}

/* --- owners ----------------------------------------------------------------------------------------------------- */

/* E47: who holds a lock cannot have it a second time, not even in part, under the same owner text. */
static void a_nested_acquire_of_the_same_owner_is_refused_as_anybody_elses(void **state)
{
    (void)state;
    struct lock_probe again;
    lock_probe_create(&again, loop, group, &terms);
    have("r");
    assert_int_equal(lock_probe_acquire(&again, "r"), REDLOCK_BUSY);
    assert_int_equal(lock_probe_acquire(&again, "q r"), REDLOCK_BUSY);
    assert_int_equal(lock_probe_acquire(&theirs, "r"), REDLOCK_BUSY);
    assert_contains(theirs.reason, "held by host:1:2:test");
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    assert_int_equal(lock_probe_acquire(&again, "q r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&again), REDLOCK_RELEASED);
    lock_probe_destroy(&again);
}

/* --- suspended processes ---------------------------------------------------------------------------------------- */

static void tell(int fd, char byte)
{
    assert_int_equal(write(fd, &byte, 1), 1);
}

static char hear(int fd)
{
    char byte = 0;
    assert_int_equal(read(fd, &byte, 1), 1);
    return byte;
}

/* In a process of its own: holds r, and whenever it is asked says whether it may believe that it does. */
static void hold_and_answer(int from, int to)
{
    char reason[256];
    const char *resource = "r";
    struct redlock_terms short_terms = quick_terms(4 * CLUSTER_TIMEOUT_MS, 3);
    struct redlock_request request = {.resources = &resource, .resource_count = 1};
    struct redlock_held *held = NULL;
    struct redlock_client *client = redlock_client_open(&cluster.options, reason, sizeof reason);
    if (client == NULL ||
        redlock_client_acquire(client, &short_terms, &request, &held, reason, sizeof reason) != REDLOCK_ACQUIRED)
        _exit(1);
    for (char asked = 0;;) {
        if (write(to, redlock_held_valid_for_ns(held) > 0 ? "y" : "n", 1) != 1 || read(from, &asked, 1) != 1)
            _exit(0);
    }
}

/* E35: a process that was stopped for longer than its ttl knows on waking that the lock is lost, before anything else
 * of it has run. */
static void a_process_that_was_stopped_for_too_long_wakes_without_its_lock(void **state)
{
    (void)state;
    int to_child[2], from_child[2];
    assert_int_equal(pipe(to_child), 0);
    assert_int_equal(pipe(from_child), 0);
    pid_t child = fork();
    if (child == 0) {
        close(to_child[1]);
        hold_and_answer(to_child[0], from_child[1]);
    }
    close(to_child[0]);
    close(from_child[1]);
    assert_int_equal(hear(from_child[0]), 'y');
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
    tell(to_child[1], '?'); /* the first thing that it will find */
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == 0);
    have("r"); /* by now somebody else has it */
    kill(child, SIGCONT);
    assert_int_equal(hear(from_child[0]), 'n');
    for (unsigned i = 0; i < 20; i++) { /* and it does not come back */
        tell(to_child[1], '?');
        assert_int_equal(hear(from_child[0]), 'n');
        loop_for(loop, REDLOCK_MS(10));
    }
    assert_int_equal(mine.losses, 0);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    close(to_child[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(from_child[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lock_test(a_node_that_fails_to_delete_keeps_no_other_from_it),
        lock_test(many_locks_are_extended_in_time_while_a_minority_hangs),
        lock_test(an_extension_sets_the_ttl_to_what_was_agreed),
        lock_test(a_hold_ends_at_its_maximum_however_often_it_was_extended),
        lock_test(a_release_that_is_repeated_deletes_no_newer_lock),
        lock_test(a_nested_acquire_of_the_same_owner_is_refused_as_anybody_elses),
        lock_test(a_process_that_was_stopped_for_too_long_wakes_without_its_lock),
    };
    return cmocka_run_group_tests(tests, one_cluster_set_up, one_cluster_tear_down);
}
