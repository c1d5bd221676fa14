/* Which servers behind a running group may vote: not those without a marker or with another one, nor those that
 * evict. No grant of theirs is counted, and the reason is told. The wrong nodes are in test_redlock_members.c, the
 * rules as such in the unit tests of trust; nodes that forget, that are replaced and whose clocks are stepped (E36), at
 * any moment, in simulated locks. */
#include "tests/support/test.h"

#include <string.h>

#include "redlock/group_private.h"
#include "redlock/scripts.h"
#include "redlock/trust.h"
#include "tests/support/lock_fixture.h"
#include "tests/support/lock_group.h"

enum { MAX_TTL_MS = 2500, TTL_MS = 4 * CLUSTER_TIMEOUT_MS };

static int all_set_up(void **state)
{
    (void)state;
    lock_cluster_start_group(&cluster, NODES, MAX_TTL_MS);
    return 0;
}

static void terms_change(int64_t ttl_ms, unsigned tries)
{
    locks_destroy();
    terms = quick_terms(ttl_ms, tries);
    lock_probe_create(&mine, loop, group, &terms);
    lock_probe_create(&theirs, loop, other_group, &terms);
}

static int set_up(void **state)
{
    cluster.max_ttl_ms = MAX_TTL_MS;
    (void)lock_set_up(state);
    terms_change(TTL_MS, 1);
    return 0;
}

static unsigned voters(void)
{
    return redlock_group_voters(group);
}

static void marker_text_of(unsigned node, char text[MARKER_TEXT_MAX])
{
    struct marker marker = lock_group_marker(cluster.servers[node], node, NODES, cluster.max_ttl_ms);
    marker_write(&marker, text);
}

static bool is_marked_as_before(unsigned node)
{
    char text[MARKER_TEXT_MAX];
    marker_text_of(node, text);
    return strcmp(lock_cluster_ask(&cluster, node, "GET " MARKER_KEY), text) == 0;
}

static bool is_marked(unsigned node)
{
    return strcmp(lock_cluster_ask(&cluster, node, "EXISTS " MARKER_KEY), "1") == 0;
}

/* The group reconnects to it, and so inspects it now. */
static void look_at(unsigned node)
{
    lock_cluster_ask(&cluster, node, "CLIENT KILL TYPE normal SKIPME yes");
}

/* Asks again when it was refused although enough nodes may vote. */
static enum redlock_answer acquire(struct lock_probe *probe, const char *resource)
{
    for (;;) {
        enum redlock_answer answer = lock_probe_acquire(probe, resource);
        if (answer != REDLOCK_NO_QUORUM || voters() < QUORUM)
            return answer;
    }
}

static void cycles_go_on(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        /* While a server is being recorded too few may vote for a moment. */
        loop_await(loop, acquire(&mine, "r") == REDLOCK_ACQUIRED);
        assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    }
    loop_await(loop, redlock_group_busy(group) == 0);
}

/* Nothing is granted, nothing stays, and the words tell why. */
static void no_quorum_for(const char *why)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
    assert_contains(mine.reason, why);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

/* --- nodes that forget ------------------------------------------------------------------------------------------ */

TEST(who_never_saw_the_node_with_a_marker_heals_nothing)
{
    group_end();
    redis_server_restart(cluster.servers[0]);
    group_start();
    terms_change(TTL_MS, 1);
    struct instant end = instant_after(instant_now(), REDLOCK_MS(3 * MAX_TTL_MS));
    while (instant_before(instant_now(), end)) {
        cycles_go_on(10);
        loop_for(loop, REDLOCK_MS(50));
        assert_int_equal(voters(), NODES - 1);
    }
    assert_false(is_marked(0));
}

/* A dry run beside a live fleet is a guest: neither a doubt nor the end of its quarantine is written by it, however
 * long there is nobody else; and it trusts the node again when somebody has healed it. */
TEST(a_guest_heals_nothing_and_goes_on_when_others_did)
{
    group_end();
    cluster.options.is_guest = true;
    group_start();
    cluster.options.is_guest = false;
    terms_change(TTL_MS, 1);
    cycles_go_on(1);
    lock_cluster_ask(&cluster, 0, "FLUSHALL");
    struct instant end = instant_after(instant_now(), REDLOCK_MS(3 * MAX_TTL_MS));
    while (instant_before(instant_now(), end)) {
        cycles_go_on(10);
        loop_for(loop, REDLOCK_MS(50));
        assert_false(is_marked(0));
    }
    assert_int_equal(voters(), NODES - 1);
    lock_cluster_mark(&cluster, 0);
    look_at(0);
    loop_await(loop, voters() == NODES);
}

/* A majority forgot: nothing can be locked for one quarantine, and then again. */
TEST(a_flushed_majority_is_no_quorum_and_comes_back)
{
    cycles_go_on(1);
    ask_first(QUORUM, "FLUSHALL");
    struct instant empty_since = instant_now();
    unsigned refused = 0;
    while (acquire(&mine, "r") == REDLOCK_NO_QUORUM) {
        refused++;
        loop_for(loop, REDLOCK_MS(2));
    }
    assert_int_equal(mine.answer, REDLOCK_ACQUIRED);
    assert_true(refused > 0);
    assert_true(instant_since(empty_since, instant_now()) >= REDLOCK_MS(MAX_TTL_MS));
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

/* --- the marker and the vote are one step (H3) ------------------------------------------------------------------ */

static void marker_change(unsigned node, void (*change)(struct marker *marker))
{
    struct marker marker = lock_group_marker(cluster.servers[node], node, NODES, MAX_TTL_MS);
    change(&marker);
    lock_group_mark(cluster.servers[node], &marker);
}

static void group_changes(struct marker *marker)
{
    marker->group[0] = 'f';
}

static void run_changes(struct marker *marker)
{
    marker->run[0] = marker->run[0] == '0' ? '1' : '0';
}

static void run_is_nobodys(struct marker *marker)
{
    marker->run[0] = '\0';
}

static void ttl_changes(struct marker *marker)
{
    marker->max_ttl_ms = 60000;
}

TEST(a_marker_that_changes_between_two_acquires_takes_the_vote_with_it)
{
    static void (*const changes[])(struct marker *) = {group_changes, run_changes, run_is_nobodys, ttl_changes};
    for (size_t change = 0; change < sizeof changes / sizeof changes[0]; change++) {
        group_end();
        lock_cluster_heal(&cluster);
        group_start();
        terms_change(TTL_MS, 1);
        cycles_go_on(1);
        for (unsigned i = 0; i < QUORUM; i++)
            marker_change(i, changes[change]);
        no_quorum_for("too few lock nodes may vote");
    }
}

TEST(what_is_no_marker_excludes_and_is_told)
{
    static const char *const others[] = {"RPUSH " MARKER_KEY " 1", "SET " MARKER_KEY " hello",
                                         "SET " MARKER_KEY " \"\""};
    char text[MARKER_TEXT_MAX];
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ask_first(QUORUM, "DEL " MARKER_KEY);
        ask_first(QUORUM, others[i]);
        assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
        loop_await(loop, voters() == MINORITY);
        if (i < 2)
            no_quorum_for("bad_marker");
    }
    for (unsigned i = 0; i < QUORUM; i++) {
        marker_text_of(i, text);
        lock_cluster_ask(&cluster, i, "SET " MARKER_KEY " \"%s\\x00\"", text); /* one byte more, which C does not see */
        look_at(i);
    }
    loop_await(loop, lock_probe_acquire(&mine, "r") == REDLOCK_NO_QUORUM && strstr(mine.reason, "bad_marker") != NULL);
    loop_await(loop, redlock_group_nodes_up(group) == NODES);
    no_quorum_for("bad_marker");
    assert_int_equal(voters(), MINORITY);
}

/* --- nodes that evict (E21) ------------------------------------------------------------------------------------- */

static void configure(unsigned node, const char *maxmemory, const char *policy)
{
    assert_string_equal(lock_cluster_ask(&cluster, node, "CONFIG SET maxmemory-policy %s", policy), "OK");
    assert_string_equal(lock_cluster_ask(&cluster, node, "CONFIG SET maxmemory %s", maxmemory), "OK");
    look_at(node);
}

static void expect_stands(unsigned node, bool votes, const char *state, const char *reason, int64_t left_most_ms)
{
    struct redlock_node_status status;
    assert_true(redlock_group_node_status_read(group, node, &status));
    assert_true(status.is_up && status.is_clock_known);
    assert_int_equal(status.votes, votes);
    assert_string_equal(status.state, state);
    assert_string_equal(status.reason, reason);
    assert_true(status.quarantine_left_ns <= left_most_ms * NS_PER_MS);
    assert_int_equal(status.quarantine_left_ns > 0, left_most_ms > 0);
    assert_in_range(status.clock_ahead_ns + NS_PER_S, 0, 2 * NS_PER_S);
    assert_in_range(status.silence_ns, 0, 6 * NS_PER_S);
    assert_false(redlock_group_node_status_read(group, NODES, &status));
    assert_string_equal(status.state, "");
}

TEST(a_node_that_may_evict_has_no_vote_while_it_does_and_for_one_quarantine)
{
    cycles_go_on(1);
    configure(0, "100000000", "allkeys-lru");
    loop_await(loop, voters() == NODES - 1 && redlock_group_nodes_up(group) == NODES);
    cycles_go_on(3);
    for (unsigned i = 1; i < QUORUM; i++)
        configure(i, "100000000", i == 1 ? "volatile-ttl" : "allkeys-random");
    loop_await(loop, voters() == MINORITY && redlock_group_nodes_up(group) == NODES);
    no_quorum_for("(evicts)");
    expect_stands(0, false, "excluded", "evicts", 0);
    expect_stands(NODES - 1, true, "votes", "fine", 0);
    struct instant safe_since = instant_now();
    for (unsigned i = 0; i < QUORUM; i++)
        configure(i, "100000000", "noeviction");
    loop_await(loop, group->trust.node[0].state == TRUST_QUARANTINED);
    expect_stands(0, false, "quarantined", "had_evicted", 4 * MAX_TTL_MS);
    loop_await(loop, voters() == NODES);
    assert_true(instant_since(safe_since, instant_now()) >= REDLOCK_MS(MAX_TTL_MS));
    cycles_go_on(3);
    for (unsigned i = 0; i < QUORUM; i++)
        assert_true(is_marked_as_before(i));
}

/* A server that was a replica for a moment may have an older memory, though it runs all the time. */
TEST(a_node_that_was_a_replica_has_no_vote_until_its_locks_have_expired)
{
    cycles_go_on(1);
    struct instant forgot = instant_now();
    lock_cluster_ask(&cluster, 0, "REPLICAOF 127.0.0.1 1");
    loop_await(loop, voters() == NODES - 1);
    expect_stands(0, false, "excluded", "replica", 4 * MAX_TTL_MS);
    cycles_go_on(1);
    lock_cluster_ask(&cluster, 0, "REPLICAOF NO ONE");
    loop_await(loop, group->trust.node[0].state == TRUST_QUARANTINED);
    expect_stands(0, false, "quarantined", "new_run", 4 * MAX_TTL_MS);
    loop_await(loop, voters() == NODES);
    assert_true(instant_since(forgot, instant_now()) >= REDLOCK_MS(MAX_TTL_MS));
    assert_false(is_marked_as_before(0));
}

/* Between two looks: who comes later knows it by the marker. */
TEST(a_node_that_was_a_replica_between_two_looks_has_no_vote)
{
    cycles_go_on(1);
    lock_cluster_ask(&cluster, 0, "REPLICAOF 127.0.0.1 1");
    lock_cluster_ask(&cluster, 0, "REPLICAOF NO ONE");
    group_end();
    group_start();
    terms_change(TTL_MS, 1);
    expect_stands(0, false, "quarantined", "new_run", 4 * MAX_TTL_MS);
    loop_await(loop, voters() == NODES);
}

/* What an inspection says of eviction, in the fourth of its lines. */
static bool is_said_to_evict(unsigned node)
{
    const char *reply = lock_cluster_ask(&cluster, node, "EVALSHA %s 1 " MARKER_KEY, redlock_script_inspect.sha1);
    for (unsigned line = 0; line < 3; line++) {
        assert_non_null(reply);
        reply = strchr(reply + (line > 0), '\n');
    }
    assert_true(reply != NULL && (reply[1] == '0' || reply[1] == '1'));
    return reply[1] == '1';
}

TEST(a_node_evicts_when_it_has_both_a_limit_and_a_policy)
{
    configure(0, "0", "allkeys-lru");
    assert_false(is_said_to_evict(0));
    configure(0, "100000000", "volatile-lru");
    assert_true(is_said_to_evict(0));
    configure(0, "100000000", "noeviction");
    assert_false(is_said_to_evict(0));
}

/* --- limits and clocks ------------------------------------------------------------------------------------------ */

TEST(who_waits_is_woken_under_the_name_of_the_group)
{
    struct marker marker = lock_group_marker(cluster.servers[0], 0, NODES, MAX_TTL_MS);
    char channel[NOTIFICATIONS_CHANNEL_MAX];
    cycles_go_on(1);
    notifications_channel(group->notifications, "lock:r", 6, channel);
    assert_contains(channel, marker.group);
}

TEST(a_ttl_above_the_groups_longest_is_invalid_and_sends_nothing)
{
    char reason[256];
    struct redlock_held *held = NULL;
    const char *resource = "r";
    struct redlock_request request = {.resources = &resource, .resource_count = 1};
    terms_change(MAX_TTL_MS + 1, 1);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_INVALID);
    assert_contains(mine.reason, "its ttl of 2501 ms is above the max_ttl of the lock group, 2500 ms");
    assert_true(redlock_lock_is_free(mine.lock));
    assert_int_equal(redlock_group_counters(group)->invalid, 1);
    lock_probe_ask(&mine, "r"); /* and given up before the answer */
    redlock_lock_release(mine.lock);
    assert_int_equal(mine.answer, REDLOCK_CANCELLED);
    struct redlock_client *client = redlock_client_open(&cluster.options, reason, sizeof reason);
    assert_non_null(client);
    assert_int_equal(redlock_client_acquire(client, &terms, &request, &held, reason, sizeof reason), REDLOCK_INVALID);
    assert_contains(reason, "its ttl of 2501 ms is above the max_ttl of the lock group, 2500 ms");
    redlock_client_close(client);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
    terms_change(MAX_TTL_MS, 1);
    cycles_go_on(1);
}

/* What the group allows is known only when its nodes have been inspected. */
TEST(a_ttl_above_the_groups_longest_is_invalid_when_it_was_asked_for_before_any_node_was_seen)
{
    char reason[256];
    struct lock_probe early;
    struct redlock_terms longer = quick_terms(MAX_TTL_MS + 1, 1000);
    struct redlock_group *fresh = redlock_group_create(loop, &cluster.options, reason, sizeof reason);
    assert_non_null(fresh);
    lock_probe_create(&early, loop, fresh, &longer);
    assert_int_equal(lock_probe_acquire(&early, "r"), REDLOCK_INVALID);
    assert_contains(early.reason, "its ttl of 2501 ms is above the max_ttl of the lock group, 2500 ms");
    assert_true(redlock_group_voters(fresh) > 0);
    lock_probe_destroy(&early);
    redlock_group_destroy(fresh);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

RUN_GROUP(all_set_up, one_cluster_tear_down, set_up, lock_tear_down)
