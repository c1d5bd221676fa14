/* A node that is used alone has no group by which clients could tell it from another one, so it gets an id. */
#include "tests/support/test.h"

#include <string.h>

#include "redlock/group_private.h"
#include "redlock/redlock_nodes.h"
#include "tests/support/lock_cluster.h"

static struct lock_cluster cluster; /* two nodes that know nothing of each other */
static struct loop *loop;
static struct redlock_group *one, *other; /* as two processes have them, each of one node */

static int all_set_up(void **state)
{
    (void)state;
    lock_cluster_start_group(&cluster, 2, 0);
    cluster.options.node_count = 1;
    return 0;
}

static int all_tear_down(void **state)
{
    (void)state;
    lock_cluster_stop(&cluster);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    lock_cluster_heal(&cluster);
    loop = loop_create(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redlock_group_destroy(one);
    redlock_group_destroy(other);
    one = other = NULL;
    loop_destroy(loop);
    return 0;
}

static struct redlock_group *group_of(unsigned node, bool is_guest)
{
    struct redlock_options options = cluster.options;
    char reason[256];
    options.nodes = &cluster.nodes[node];
    options.is_guest = is_guest;
    struct redlock_group *group = redlock_group_create(loop, &options, reason, sizeof reason);
    loop_await(loop, redlock_group_is_settled(group));
    return group;
}

static bool has_id(unsigned node)
{
    return strcmp(lock_cluster_ask(&cluster, node, "EXISTS " NODE_ID_KEY), "1") == 0;
}

static struct redlock_group_status status_of(const struct redlock_group *group)
{
    struct redlock_group_status status;
    redlock_group_status_read(group, &status);
    return status;
}

static bool knows(const struct redlock_group *group, unsigned node)
{
    struct redlock_group_status status = status_of(group);
    const char *id = lock_cluster_ask(&cluster, node, "GET " NODE_ID_KEY);
    return status.knows_group && strncmp(id, "4 ", 2) == 0 && strcmp(status.group, id + 2) == 0;
}

/* Its clients connect again, and so inspect it now. */
static void look_at(unsigned node)
{
    lock_cluster_ask(&cluster, node, "CLIENT KILL TYPE normal SKIPME yes");
}

TEST(clients_of_one_node_know_one_id_and_those_of_another_another)
{
    one = group_of(0, false);
    other = group_of(0, false);
    assert_true(knows(one, 0) && knows(other, 0));
    assert_true(marker_is_hex(status_of(one).group, MARKER_GROUP_DIGITS));
    redlock_group_destroy(other);
    other = group_of(1, false);
    assert_true(knows(other, 1));
    assert_string_not_equal(status_of(one).group, status_of(other).group);
}

TEST(it_stays_when_clients_connect_again_and_is_drawn_anew_when_the_node_forgot_it)
{
    one = group_of(0, false);
    other = group_of(0, false);
    struct redlock_group_status before = status_of(one);
    look_at(0);
    loop_await(loop, !status_of(one).knows_group);
    loop_await(loop, knows(one, 0));
    assert_string_equal(status_of(one).group, before.group);
    lock_cluster_ask(&cluster, 0, "FLUSHALL");
    loop_await(loop, has_id(0) && knows(one, 0) && knows(other, 0));
    assert_string_not_equal(status_of(one).group, before.group);
}

/* While it cannot be reached nobody knows which node is behind its address; but what is held there is held. */
TEST(it_is_known_while_the_node_is_reached_or_something_is_locked)
{
    struct redlock_terms terms = quick_terms(2000, 1);
    struct lock_probe probe;
    one = group_of(0, false);
    struct redlock_group_status before = status_of(one);
    lock_probe_create(&probe, loop, one, &terms);
    assert_int_equal(lock_probe_acquire(&probe, "r"), REDLOCK_ACQUIRED);
    redis_server_kill(cluster.servers[0]);
    loop_await(loop, redlock_group_nodes_up(one) == 0);
    assert_true(status_of(one).knows_group);
    assert_string_equal(status_of(one).group, before.group);
    loop_await(loop, probe.losses == 1);
    (void)lock_probe_release(&probe);
    loop_await(loop, !status_of(one).knows_group);
    assert_string_equal(status_of(one).group, "");
    lock_probe_destroy(&probe);
}

TEST(a_guest_and_an_operator_give_none)
{
    char reason[256];
    one = group_of(0, true);
    assert_true(status_of(one).knows_group);
    assert_string_equal(status_of(one).group, "");
    struct redlock_nodes *nodes = redlock_nodes_open(&cluster.options, reason, sizeof reason);
    assert_int_equal(redlock_nodes_look(nodes), REDLOCK_NODES_DONE);
    assert_string_equal(redlock_nodes_group(nodes).node_id, "");
    assert_false(has_id(0));
    other = group_of(0, false);
    assert_int_equal(redlock_nodes_look(nodes), REDLOCK_NODES_DONE);
    assert_string_equal(redlock_nodes_group(nodes).node_id, status_of(other).group);
    redlock_nodes_close(nodes);
    look_at(0);
    loop_await(loop, knows(one, 0));
}

static bool has_reason(const struct redlock_group *group, const char *reason)
{
    struct redlock_node_status status;
    return redlock_group_node_status_read(group, 0, &status) && strcmp(status.reason, reason) == 0;
}

/* Each of these has no vote. */
TEST(a_member_of_a_group_and_a_replica_get_none)
{
    lock_cluster_ask(&cluster, 0, "SET " MARKER_KEY " something");
    one = group_of(0, false);
    other = group_of(1, false);
    lock_cluster_ask(&cluster, 1, "DEL " NODE_ID_KEY);
    lock_cluster_ask(&cluster, 1, "REPLICAOF 127.0.0.1 1");
    loop_await(loop, has_reason(other, "replica"));
    assert_int_equal(redlock_group_voters(one) + redlock_group_voters(other), 0);
    assert_false(has_id(0) || has_id(1));
    lock_cluster_ask(&cluster, 0, "DEL " MARKER_KEY);
    lock_cluster_ask(&cluster, 1, "REPLICAOF NO ONE");
    loop_await(loop, has_id(0) && has_id(1));
}

/* Where it cannot be written nothing could be locked either. */
TEST(a_node_that_cannot_be_told_from_others_has_no_vote)
{
    lock_cluster_ask(&cluster, 0, "ACL SETUSER default -set");
    one = group_of(0, false);
    assert_int_equal(redlock_group_voters(one), 0);
    assert_false(status_of(one).knows_group);
    lock_cluster_ask(&cluster, 0, "ACL SETUSER default +set");
    lock_cluster_ask(&cluster, 0, "SET " NODE_ID_KEY " mine");
    other = group_of(0, false);
    assert_int_equal(redlock_group_voters(other), 0);
    lock_cluster_ask(&cluster, 0, "SET " NODE_ID_KEY " \"5 of another form\"");
    look_at(0);
    loop_await(loop, has_reason(one, "other_scheme"));
    lock_cluster_ask(&cluster, 0, "DEL " NODE_ID_KEY);
    look_at(0);
    loop_await(loop, redlock_group_voters(one) == 1 && redlock_group_voters(other) == 1);
}

RUN_GROUP(all_set_up, all_tear_down, set_up, tear_down)
