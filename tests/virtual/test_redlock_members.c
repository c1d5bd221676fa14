/* The wrong nodes: one server under several addresses, lists that differ from client to client, foreign and replaced
 * nodes. Whatever the list, no two majorities are possible that do not meet, and the reason is told. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/lock_fixture.h"
#include "tests/support/lock_group.h"

static void one_try(void)
{
    lock_probe_destroy(&mine);
    terms = quick_terms(10000, 1);
    lock_probe_create(&mine, loop, group, &terms);
}

static int set_up(void **state)
{
    (void)lock_set_up(state);
    one_try();
    return 0;
}

static unsigned voters(void)
{
    return redlock_group_voters(group);
}

/* Nothing is granted, nothing stays, and the words tell why. */
static void no_quorum_for(const char *why)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
    assert_contains(mine.reason, why);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

/* --- lists of nodes --------------------------------------------------------------------------------------------- */

static struct redlock_node list[NODES];

/* The same locks over another list of nodes. */
static void group_of(unsigned count)
{
    struct lock_cluster other = cluster;
    other.options.nodes = list;
    other.options.node_count = count;
    group_end();
    loop = loop_create(NULL);
    group = lock_cluster_group(&other, loop);
    other_group = lock_cluster_group(&other, loop);
    locks_create(10000);
    one_try();
}

/* E19: however many addresses a server has, it counts once. */
TEST(a_server_with_three_addresses_has_one_vote)
{
    list[0] = cluster.nodes[0];
    list[1] = (struct redlock_node){.host = "127.1", .port = cluster.nodes[0].port};
    list[2] = (struct redlock_node){.host = "127.0.1", .port = cluster.nodes[0].port};
    list[3] = cluster.nodes[1];
    list[4] = cluster.nodes[2];
    group_of(NODES);
    assert_int_equal(redlock_group_nodes_up(group), NODES);
    assert_int_equal(voters(), 3);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), 3);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, redlock_group_busy(group) == 0);
    redis_server_pause(cluster.servers[2]); /* four of five addresses answer, but only two servers */
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
    assert_contains(mine.reason, "(duplicate)");
    redis_server_resume(cluster.servers[2]);
    loop_await(loop, redlock_group_busy(group) == 0);
}

TEST(one_server_alone_is_no_majority_of_itself)
{
    list[0] = cluster.nodes[0];
    list[1] = (struct redlock_node){.host = "127.1", .port = cluster.nodes[0].port};
    list[2] = (struct redlock_node){.host = "127.0.1", .port = cluster.nodes[0].port};
    struct marker marker =
        lock_group_marker(cluster.servers[0], 0, 3, CLUSTER_MAX_TTL_MS); /* of three, as many as are listed */
    lock_group_mark(cluster.servers[0], &marker);
    group_of(3);
    assert_int_equal(voters(), 0);
    no_quorum_for("too few lock nodes may vote");
}

/* E20: different lists of nodes are never two majorities that do not meet. */
TEST(a_list_of_three_of_the_five_is_refused)
{
    memcpy(list, cluster.nodes, sizeof list);
    group_of(3);
    assert_int_equal(voters(), 0);
    no_quorum_for("another number of nodes than are configured");
}

TEST(a_list_of_one_of_the_five_is_refused)
{
    memcpy(list, cluster.nodes, sizeof list);
    group_of(1);
    assert_int_equal(voters(), 0);
    no_quorum_for("another number of nodes than are configured");
}

/* A server that was used alone becomes one of a group: from that moment on it is no majority any more. */
TEST(one_node_alone_that_gets_a_marker_is_refused)
{
    free(redis_server_command(cluster.servers[0], "DEL %s", MARKER_KEY));
    memcpy(list, cluster.nodes, sizeof list);
    group_of(1);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    struct marker back = lock_group_marker(cluster.servers[0], 0, NODES, CLUSTER_MAX_TTL_MS);
    lock_group_mark(cluster.servers[0], &back);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), 0);
    while (strstr(mine.reason, "(not_inspected)") != NULL)
        assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
    no_quorum_for("another number of nodes than are configured");
}

TEST(a_foreign_node_in_the_number_of_one_has_no_vote)
{
    struct redis_server *foreign = redis_server_start(NULL);
    memcpy(list, cluster.nodes, sizeof list);
    list[4].port = redis_server_port(foreign);
    group_of(NODES);
    assert_int_equal(voters(), NODES - 1);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(redis_server_calls(foreign, "set"), 0);
    pause_first(MINORITY); /* three of the five would answer, one of them foreign */
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
    resume_first(MINORITY);
    loop_await(loop, redlock_group_busy(group) == 0);
    char *keys = redis_server_command(foreign, "DBSIZE");
    assert_string_equal(keys, "0");
    free(keys);
    group_end();
    redis_server_destroy(foreign);
    group_start();
}

TEST(nodes_of_other_groups_do_not_make_one)
{
    group_end();
    for (unsigned i = 0; i < QUORUM; i++) {
        struct marker marker = lock_group_marker(cluster.servers[i], i, NODES, CLUSTER_MAX_TTL_MS);
        marker.group[0] = (char)('a' + (int)i);
        lock_group_mark(cluster.servers[i], &marker);
    }
    group_start();
    one_try();
    assert_int_equal(voters(), 0);
    no_quorum_for("(no_group)");
}

/* In number of the fifth node there is a new one, and a majority knows it; the list is the old one. */
TEST(a_replaced_node_has_no_vote_and_a_node_that_missed_the_replacement_learns_of_it)
{
    group_end();
    for (unsigned i = 0; i < QUORUM; i++) {
        struct marker marker = lock_group_marker(cluster.servers[i], i, NODES, CLUSTER_MAX_TTL_MS);
        marker.generation = 3;
        snprintf(marker.members[4], sizeof marker.members[4], "00000006");
        lock_group_mark(cluster.servers[i], &marker);
    }
    group_start();
    loop_await(loop, voters() == QUORUM + 1);
    assert_non_null(strstr(lock_cluster_ask(&cluster, 3, "GET " MARKER_KEY), " generation=3 "));
    assert_non_null(strstr(lock_cluster_ask(&cluster, 4, "GET " MARKER_KEY), " generation=1 "));
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), QUORUM + 1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, redlock_group_busy(group) == 0);
    redis_server_kill(cluster.servers[0]);
    redis_server_kill(cluster.servers[1]);
    loop_await(loop, redlock_group_nodes_up(group) == NODES - 2);
    no_quorum_for("(not_a_member)");
    redis_server_kill(cluster.servers[2]);
    loop_await(loop, redlock_group_nodes_up(group) == MINORITY);
    no_quorum_for("a majority of the lock nodes cannot be reached");
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, set_up, lock_tear_down)
