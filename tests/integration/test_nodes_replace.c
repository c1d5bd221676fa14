/* holdfast nodes replace over real servers: a new server takes a number, although a process is killed meanwhile; and
 * what is told. All other reasons why a server cannot take one are in tests/virtual/test_redlock_nodes.c; what can
 * happen to markers is tested to the last state in tests/unit/test_membership.c. */
#include "tests/support/nodes_fixture.h"

enum { OLD = 1, NEW = 3 };

static struct marker founding[MEMBERS];

static void three_members(void)
{
    group_begin();
    for (unsigned i = 0; i < MEMBERS; i++)
        founding[i] = marker_of(i);
}

static int replace_once(void)
{
    return nodes("replace lock2 127.0.0.1:%u", port_of(NEW));
}

/* Lock nodes have little time to answer: when this machine is busy, some seem to be away. Then it is said again. */
static int replace(void)
{
    int code = 0;
    test_await((code = replace_once(), code != 75 || strstr(result.error, "can be reached: 2 are needed") == NULL));
    return code;
}

/* The new server has the number, the others know of it, and nothing else changed. */
static void assert_replaced(void)
{
    struct marker new = marker_of(NEW), expected = lock_group_marker(servers[NEW], 0, 3, 1000);
    assert_string_equal(new.group, founding[0].group);
    assert_int_equal(new.generation, 3);
    assert_int_equal(marker_number_of(&new, new.self), 1);
    assert_string_equal(new.run, expected.run);
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct marker marker;
        if (i == OLD)
            continue;
        marker = marker_of(i);
        assert_true(marker_same_membership(&marker, &new));
        assert_string_equal(marker.self, founding[i].self);
        assert_string_equal(marker.run, founding[i].run);
    }
    config_members(port_of(0), port_of(NEW), port_of(2));
    assert_int_equal(nodes("%s", ""), 0);
    assert_contains(result.out, "generation 3, longest ttl 1.0 s: 3 of 3 nodes vote");
}

TEST(a_living_node_is_replaced)
{
    three_members();
    struct instant begin = instant_now();
    assert_int_equal(replace(), 0);
    assert_true(instant_since(begin, instant_now()) >= 1012 * NS_PER_MS);
    assert_contains(result.out, "lock2 is replaced by 127.0.0.1:");
    assert_contains(result.out, "Now put that address into the entry of lock2 in lock_nodes");
    assert_string_equal(result.error, "");
    assert_int_equal(nodes("%s", ""), 1); /* the configuration is the old one */
    assert_contains(result.out, "lock2 is excluded (not_a_member): The server was replaced by another one");
    assert_contains(result.out, "2 of 3 nodes vote");
    nodes("heal --wait");
    assert_refused(1, "lock2: lock2 is no member of the group any more: it was replaced");
    assert_int_equal(replace(), 0); /* and again, which changes nothing */
    assert_replaced();
}

TEST(a_dead_node_is_replaced)
{
    three_members();
    redis_server_kill(servers[OLD]);
    assert_int_equal(nodes("replace lock2 127.0.0.1:%u --json", port_of(NEW)), 0);
    assert_contains(result.out, "{\"replaced\":\"lock2\",\"by\":\"127.0.0.1:");
    assert_replaced();
}

TEST(a_socket_will_do)
{
    three_members();
    assert_int_equal(nodes("replace lock2 %s", redis_server_unix_path(servers[NEW])), 0);
    assert_replaced();
}

/* --- interruptions ------------------------------------------------------------------------------------------------ */

static bool is_vacant(unsigned server)
{
    struct marker marker = marker_of(server);
    return marker.members[1][0] == '\0';
}

TEST(a_killed_process_is_followed_by_another)
{
    char address[64];
    three_members();
    snprintf(address, sizeof address, "127.0.0.1:%u", port_of(NEW));
    const char *const arguments[] = {"nodes", "-c", nodes_config, "replace", "lock2", address, NULL};
    struct program program = program_start(arguments, -1);
    test_await(is_vacant(0) && is_vacant(2));
    kill(program.pid, SIGKILL);
    struct program_result killed = program_wait(&program);
    assert_int_equal(killed.exit_code, -1);
    program_result_free(&killed);
    assert_unmarked(NEW);
    assert_int_equal(nodes("%s", ""), 1);
    assert_contains(result.out, "A member of the group is vacant: a replacement was begun and not finished");
    assert_contains(result.out, "2 of 3 nodes vote");
    assert_int_equal(replace(), 0);
    assert_replaced();
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void assert_unchanged(void)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct marker marker = marker_of(i);
        assert_true(marker_same_membership(&marker, &founding[i]));
    }
}

TEST(a_node_cannot_stand_for_another)
{
    three_members();
    nodes("replace lock2 127.1:%u", port_of(2));
    assert_refused(1, "is the same server as lock3 (run id ");
    nodes("replace lock2 %s", redis_server_unix_path(servers[OLD]));
    assert_refused(1, "is the same server as lock2 (run id ");
    assert_unchanged();
}

TEST(strangers_cannot_be_replaced)
{
    replace();
    assert_refused(1, "these nodes are no lock group yet: run `nodes init`");
    nodes("replace lock9 127.0.0.1:%u", port_of(NEW));
    assert_refused(1, "there is no lock node lock9");
    nodes("replace lock2 nowhere");
    assert_refused(2, "nowhere is no address");
    nodes("replace lock2 redis://u:%s@127.0.0.1", "secret/");
    assert_refused(2, "is written %2F");
    assert_lacks(result.error, "secret");
}

/* A member that takes no writes is as good as away: with two of three nothing goes on. */
TEST(a_node_that_cannot_be_written_stops_it)
{
    three_members();
    ask(2, "ACL SETUSER default -set");
    replace_once();
    ask(2, "ACL SETUSER default +set");
    assert_int_equal(result.exit_code, 75);
    assert_unmarked(NEW);
    assert_int_equal(replace(), 0);
    assert_replaced();
}

RUN_GROUP(servers_start, servers_stop, nodes_begin, nodes_end)
