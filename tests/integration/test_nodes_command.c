/* holdfast nodes over real servers: making a lock group, what is shown, and healing. Every reason not to make one, and
 * the other ways of healing, are in tests/virtual/test_redlock_nodes.c. */
#include "tests/support/nodes_fixture.h"

/* --- init --------------------------------------------------------------------------------------------------------- */

TEST(a_group_is_made_of_strangers)
{
    assert_int_equal(nodes("%s", ""), 1);
    assert_contains(result.out, "no lock group: 0 of 3 nodes vote, 2 are needed");
    assert_contains(result.out, "lock1 is excluded (no_group): ");
    assert_int_equal(nodes("list --json"), 1);
    assert_contains(result.out, "{\"group\":null,\"generation\":null,\"max_ttl\":null,");
    assert_contains(result.out, "\"id\":null,\"generation\":null,");
    assert_int_equal(nodes("init"), 0);
    assert_contains(result.out, "generation 1, longest ttl 60 s: 3 of 3 nodes vote, 2 are needed");
    assert_string_equal(result.error, "");
    struct marker first = marker_of(0);
    assert_int_equal(first.max_ttl_ms, 60000);
    assert_int_equal(first.member_count, 3);
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct marker marker = marker_of(i), expected = lock_group_marker(servers[i], i, 3, 60000);
        assert_true(marker_same_membership(&marker, &first));
        assert_string_equal(marker.self, first.members[i]);
        assert_string_equal(marker.run, expected.run);
    }
    char *ttl = redis_server_command(servers[0], "TTL " MARKER_KEY);
    assert_string_equal(ttl, "-1");
    free(ttl);
    assert_int_equal(nodes("list"), 0);
}

/* While a majority is away nobody is told to make another group, and nobody who is there is blamed. */
TEST(a_group_whose_majority_is_away_is_named)
{
    char expected[200];
    group_begin();
    struct marker marker = marker_of(0);
    redis_server_pause(servers[1]);
    redis_server_pause(servers[2]);
    int code = nodes("%s", "");
    redis_server_resume(servers[1]);
    redis_server_resume(servers[2]);
    assert_int_equal(code, 75);
    snprintf(
        expected, sizeof expected,
        "lock group %s, generation 1, by the marker of 1 node, which cannot be confirmed without a majority (1 of 3 "
        "reached): 1 of 3 nodes would vote with a majority",
        marker.group);
    assert_contains(result.out, expected);
    assert_contains(result.out, "lock1 is excluded (no_group): Its marker names a lock group");
    assert_lacks(result.out, "init");
}

TEST(all_nodes_have_to_be_there)
{
    redis_server_kill(servers[2]);
    nodes("init");
    assert_refused(75, "lock3: cannot be asked: ");
    assert_unmarked(0);
    redis_server_restart(servers[2]);
    redis_server_pause(servers[2]);
    nodes("init");
    redis_server_resume(servers[2]);
    assert_refused(75, "lock3: cannot be asked: ");
}

/* E19: names, addresses and sockets may differ, the server is one. */
TEST(one_server_is_not_two_nodes)
{
    config_write("lock_nodes = ( " AT ", { host = \"127.1\"; port = %u; }, " AT " );\n", port_of(0), port_of(0),
                 port_of(1));
    nodes("init");
    assert_refused(1, "lock2: is the same server as lock1 (run id ");
    config_write("lock_nodes = ( " AT ", " AT ", { unix_path = \"%s\"; } );\n", port_of(0), port_of(1),
                 redis_server_unix_path(servers[1]));
    nodes("init");
    assert_refused(1, "lock3: is the same server as lock2 (run id ");
    assert_unmarked(0);
}

TEST(a_member_that_is_reached_twice_votes_once)
{
    group_begin();
    config_write("lock_nodes = ( " AT ", " AT ", { host = \"127.1\"; port = %u; } );\n", port_of(0), port_of(1),
                 port_of(0));
    assert_int_equal(nodes("%s", ""), 1);
    assert_contains(result.out, "lock3 is excluded (duplicate): ");
    assert_contains(result.out, "(it is the same server as lock1 (run id ");
    assert_contains(result.out, "2 of 3 nodes vote");
}

TEST(keys_are_in_the_way)
{
    ask(1, "SET lock:held 1");
    ask(1, "SET other 1");
    nodes("init");
    assert_refused(1, "lock2: there are keys already, such as lock:held: ");
    ask(1, "DEL lock:held");
    assert_int_equal(nodes("init --max-ttl 1s"), 0);
    for (unsigned i = 0; i < MEMBERS; i++)
        ask(i, "DEL " MARKER_KEY);
    config_write("lock_nodes = ( " AT ", " AT ", " AT " );\n", port_of(0), port_of(1), port_of(2));
    nodes("init");
    assert_refused(1, "lock2: there are keys already, such as other: ");
    assert_unmarked(0);
}

static bool is_cluster_up(struct redis_server *member)
{
    char *state = redis_server_command(member, "CLUSTER INFO");
    bool is_up = strstr(state, "cluster_state:ok") != NULL;
    free(state);
    return is_up;
}

TEST(members_of_a_cluster_are_refused)
{
    struct redis_server *member = redis_server_start(&(struct redis_server_options){.config = "cluster-enabled yes\n"});
    config_members(port_of(0), port_of(1), redis_server_port(member));
    /* one that has no slots refuses each key by itself */
    free(redis_server_command(member, "CLUSTER ADDSLOTSRANGE 0 16383"));
    test_await(is_cluster_up(member));
    nodes("init");
    assert_refused(1, "lock3: cannot be asked: it is part of a Redis Cluster; the nodes have to be single masters");
    assert_unmarked(0);
    redis_server_destroy(member);
}

TEST(what_is_no_marker_is_told)
{
    ask(0, "LPUSH " MARKER_KEY " x");
    nodes("init");
    assert_refused(1, "lock1: what is under its key hf:lock:group is no marker: remove it");
    ask(0, "DEL " MARKER_KEY);
    group_begin();
    ask(0, "SET " MARKER_KEY " x");
    assert_int_equal(nodes("%s", ""), 1);
    assert_contains(result.out, "lock1 is excluded (bad_marker): ");
    nodes("heal --wait");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "lock1: What is under the key hf:lock:group is no marker.");
    ask(0, "SET " MARKER_KEY " \"9 group=x\"");
    assert_int_equal(nodes("%s", ""), 1);
    assert_contains(result.out, "lock1 is excluded (other_scheme): ");
}

TEST(numbers_of_nodes_and_ttls_have_bounds)
{
    nodes("init --max-ttl 999ms");
    assert_refused(1, "the longest ttl must be from 1 s to 10 min");
    nodes("init --max-ttl 601s");
    assert_refused(1, "the longest ttl must be from 1 s to 10 min");
    nodes("init --max-ttl 5");
    assert_refused(2, "--max-ttl: ");
    config_write("lock_nodes = ( " AT ", " AT " );\n", port_of(0), port_of(1));
    nodes("init");
    assert_refused(1, "2 lock nodes tolerate no more failures than 1");
    config_write("lock_nodes = ( " AT " );\n", port_of(0));
    nodes("init");
    assert_refused(1, "one lock node alone needs no group");
    assert_int_equal(nodes("%s", ""), 0);
    assert_contains(result.out, "one lock node: this is no Redlock");
    assert_unmarked(0);
    config_write("%s", "classes = ();\n");
    nodes("%s", "");
    assert_refused(1, "names no lock nodes");
}

TEST(nodes_that_hold_locks_begin_in_quarantine)
{
    ask(0, "SET lock:held 1 PX 60000");
    assert_int_equal(nodes("init --keep-keys --max-ttl 1s"), 0);
    assert_contains(result.out, "0 of 3 nodes vote");
    struct marker marker = marker_of(0);
    assert_string_equal(marker.run, "");
    assert_int_equal(nodes("%s", ""), 75);
    assert_contains(result.out, "lock1 is quarantined for at most ");
    assert_contains(result.out, "(doubted): ");
    assert_int_equal(nodes("heal --wait"), 0);
    assert_contains(result.out, "3 of 3 nodes vote");
    marker = marker_of(0);
    struct marker expected = lock_group_marker(servers[0], 0, 3, 1000);
    assert_string_equal(marker.run, expected.run);
    assert_int_equal(marker.generation, 1);
}

/* --- healing ------------------------------------------------------------------------------------------------------ */

static long seconds_told(void)
{
    const char *about = strstr(result.error, "about ");
    assert_non_null(about);
    return strtol(about + strlen("about "), NULL, 10);
}

TEST(a_restarted_node_votes_after_its_quarantine)
{
    group_begin();
    struct marker before = marker_of(1);
    redis_server_restart(servers[1]);
    assert_int_equal(nodes("%s", ""), 75);
    assert_contains(result.out, "lock2 is quarantined for at most 1.");
    assert_contains(result.out, "(new_run): ");
    assert_contains(result.out, "2 of 3 nodes vote");
    assert_int_equal(nodes("heal"), 75);
    assert_contains(result.error, "1 node needs time before it can vote: about ");
    assert_true(seconds_told() <= 2);
    assert_contains(result.error, "say --wait");
    assert_int_equal(nodes("heal --wait=1ms lock2"), 75);
    assert_int_equal(nodes("heal lock1"), 0); /* about the others nobody asked */
    struct instant begin = instant_now();
    assert_int_equal(nodes("heal --wait lock2"), 0);
    assert_true(instant_since(begin, instant_now()) >= 1012 * NS_PER_MS);
    assert_string_equal(result.error, ""); /* no progress where nobody watches */
    struct marker after = marker_of(1);
    assert_true(marker_same_membership(&before, &after));
    assert_string_equal(after.self, before.self);
    assert_string_not_equal(after.run, before.run);
    assert_int_equal(nodes("%s", ""), 0);
}

TEST(too_few_nodes_may_come_back)
{
    group_begin();
    redis_server_kill(servers[0]);
    redis_server_kill(servers[1]);
    assert_int_equal(nodes("%s", ""), 75);
    assert_contains(result.out, "lock1 is unseen (connect to 127.0.0.1:");
    assert_contains(result.out, ": Connection refused): It is not connected");
    nodes("heal --wait");
    assert_refused(75, "can be reached: 2 are needed");
}

/* --- other lists of nodes ----------------------------------------------------------------------------------------- */

TEST(a_node_of_another_group_is_foreign)
{
    group_begin();
    struct marker foreign = lock_group_marker(servers[3], 2, 3, 1000);
    lock_group_mark(servers[3], &foreign);
    config_members(port_of(0), port_of(1), port_of(3));
    assert_int_equal(nodes("%s", ""), 1);
    assert_contains(result.out, "lock3 is excluded (other_group): ");
    assert_contains(result.out, "2 of 3 nodes vote");
    nodes("heal --wait lock3");
    assert_refused(1, "lock3: The server belongs to another lock group");
}

/* E20: who knows fewer nodes, or more, would count other majorities. */
TEST(the_number_of_nodes_is_that_of_the_group)
{
    group_begin();
    config_write("lock_nodes = ( " AT ", " AT ", " AT ", " AT ", { host = \"127.0.0.1\"; port = 1; } );\n", port_of(0),
                 port_of(1), port_of(2), port_of(3));
    assert_int_equal(nodes("%s", ""), 1);
    assert_contains(result.out, "lock1 is excluded (node_count): ");
    assert_contains(result.out, "0 of 5 nodes vote");
    nodes("heal --wait");
    assert_contains(result.error, "the group has 3 members, but 5 nodes are configured");
    assert_int_equal(result.exit_code, 1);
}

/* --- words -------------------------------------------------------------------------------------------------------- */

TEST(programs_are_told_the_same)
{
    assert_int_equal(nodes("init --max-ttl 1s --json"), 0);
    struct marker marker = marker_of(1);
    char part[200];
    snprintf(part, sizeof part, "{\"group\":\"%s\",\"generation\":1,\"max_ttl\":1.0,\"vacant\":0,\"voters\":3,",
             marker.group);
    assert_contains(result.out, part);
    snprintf(part, sizeof part, "\"id\":\"%s\",\"generation\":1,\"run_id\":\"%s\",\"eviction\":\"noeviction\",",
             marker.self, marker.run);
    assert_contains(result.out, part);
    assert_contains(result.out, "\"state\":\"votes\",\"reason\":\"fine\"");
    redis_server_restart(servers[1]);
    assert_int_equal(nodes("--json"), 75);
    assert_contains(result.out, "\"votes\":false,\"state\":\"quarantined\",\"reason\":\"new_run\"");
    assert_contains(result.out, "\"quarantine_left\":1.");
    redis_server_kill(servers[1]);
    assert_int_equal(nodes("--json"), 75);
    assert_contains(result.out, "\"reached\":false,\"votes\":false,\"state\":\"unseen\"");
    assert_contains(result.out, "\"latency\":null,\"clock_ahead\":null");
}

TEST(wrong_calls_are_explained)
{
    nodes("int");
    assert_refused(2, "there is no 'nodes int': it is list, init, heal or replace");
    nodes("init lock1");
    assert_refused(2, "init takes no names");
    nodes("heal --wait lokc1");
    assert_refused(1, "there is no lock node lokc1 (did you mean lock1?)");
    nodes("--wait");
    assert_refused(2, "--wait belongs to heal");
    nodes("heal --keep-keys");
    assert_refused(2, "belong to init");
    nodes("--lock-user somebody");
    assert_refused(2, "--lock-user needs --lock-password-file");
    nodes("replace lock1");
    assert_refused(2, "replace takes the name of a node, and the address of a new server");
}

RUN_GROUP(servers_start, servers_stop, nodes_begin, nodes_end)
