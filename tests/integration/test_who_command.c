/* holdfast who, over real lock nodes and a real worker: who holds a lock, and who waits for it. */
#include "tests/support/holding_fixture.h"

#include "base/buffer.h"

static int who(const char *resource)
{
    return run_command("who", resource, NULL);
}

static int who_json(const char *resource)
{
    return run_with("who", "--json", resource);
}

static void given_values(const char *value, unsigned nodes)
{
    for (unsigned i = 0; i < nodes; i++)
        lock_cluster_ask(&fleet.locks, i, "SET lock:r %s PX 50000", value);
}

/* Where the first comes before the second. */
static void assert_before(const char *first, const char *then)
{
    const char *one = strstr(result.out, first), *other = strstr(result.out, then);
    assert_non_null(one);
    assert_non_null(other);
    assert_true(one < other);
}

/* --- the holder --------------------------------------------------------------------------------------------------- */

TEST(a_lock_that_nobody_has_is_free)
{
    given_a_configuration();
    assert_int_equal(who("r"), 1);
    assert_string_equal(result.error, "");
    assert_contains(result.out, "\"r\" is free.");
    assert_contains(result.out, "No task waits for it.");
    assert_int_equal(who_json("r"), 1);
    assert_contains(result.out,
                    "{\"resource\":\"r\",\"prefix\":\"lock:\",\"state\":\"free\",\"quorum\":2,\"holders\":[]");
    assert_contains(result.out, "\"waiting\":0,\"waiters\":[],\"waiting_under_other_limit\":0}");
}

TEST(the_task_that_holds_is_named)
{
    char token[64], pid[64];
    unsigned worker = given_a_holder();
    snprintf(token, sizeof token, "\"token\":%s,\"owner\"", lock_cluster_fence(&fleet.locks, 0, "lock:r"));
    snprintf(pid, sizeof pid, "\"pid\":%ld,", (long)fleet.workers[worker].pid);
    assert_int_equal(who_json("r"), 0);
    assert_string_equal(result.error, "");
    assert_contains(result.out, "\"state\":\"held\"");
    assert_contains(result.out, "\"standing\":\"held\",\"nodes\":3,\"votes\":3,\"remaining\":");
    assert_contains(result.out, token);
    assert_contains(result.out, "\"host\":\"host0\"");
    assert_contains(result.out, pid);
    assert_contains(result.out, "\"jid\":\"first\",\"class\":\"hold\",\"queue\":\"jobs\",\"identity\":\"host0:");
    assert_contains(result.out, "\"process_alive\":true");
    assert_int_equal(who("r"), 0);
    assert_contains(result.out, "\"r\" is held.");
    assert_contains(result.out, "3 of 3, a majority: it is held");
    assert_contains(result.out, "task     first, class hold, queue jobs");
    /* with the next heartbeat */
    test_await(who_json("r") == 0 && strstr(result.out, "\"since\":null") == NULL);
    assert_contains(result.out, "\"since\":1");
    assert_int_equal(who("r"), 0);
    assert_lacks(result.out, "since    unknown");
}

TEST(a_seat_of_a_resource_is_shown)
{
    given_a_configuration();
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "SET lock:hf:seat:2:r theirs PX 600000");
    fleet_number(&fleet, "ZADD hf:2:waiting:seats:r 1 who-waits");
    assert_int_equal(run_with("who", "--seat=1", "r"), 1);
    assert_contains(result.out, "Seat 1 of \"r\" is free.");
    assert_contains(result.out, "who-waits");
    assert_int_equal(run_with("who", "--seat=2", "r"), 0);
    assert_contains(result.out, "Seat 2 of \"r\" is held.");
    assert_contains(result.out, "who-waits");
    assert_int_equal(who("r"), 0); /* it is the only one in use */
    assert_contains(result.out, "Seat 2 of \"r\" is held.");
    assert_contains(result.out, "who-waits");
    assert_int_equal(run_with("who", "--seat=65", "r"), 2);
}

TEST(all_seats_in_use_are_shown)
{
    given_a_configuration();
    for (unsigned i = 0; i < fleet.locks.count; i++) {
        lock_cluster_ask(&fleet.locks, i, "SET lock:r 0123456789abcdef0123456789abcdef:one PX 600000");
        lock_cluster_ask(&fleet.locks, i, "SET lock:hf:seat:64:r theirs PX 600000");
        lock_cluster_ask(&fleet.locks, i, "SET lock:hf:seat:2:rr other PX 600000");
    }
    lock_cluster_ask(&fleet.locks, 0, "SET lock:hf:seat:2:r left PX 600000");
    lock_cluster_fence_put(&fleet.locks, 0, "lock:r", "1700000000000017");
    lock_cluster_fence_put(&fleet.locks, 1, "lock:r", "1700000000000017");
    fleet_number(&fleet, "ZADD hf:2:waiting:seats:r 1 who-waits");
    fleet_number(&fleet, "ZADD hf:2:waiting:resource:r 1 who-waits-elsewhere");
    assert_int_equal(who("r"), 0);
    assert_string_equal(result.error, "");
    assert_contains(result.out, "\"r\" has 3 seats in use:");
    assert_contains(result.out, "   1  \"one\"            held      3 of 3  ");
    assert_contains(result.out, "  1700000000000017\n");
    assert_contains(result.out, "   2  another program  leftover  1 of 3  ");
    assert_contains(result.out, "  64  another program  held      3 of 3  ");
    assert_contains(result.out, " who-waits ");
    assert_contains(result.out, "And 1 in the waiting list of another limit");
    assert_int_equal(who_json("r"), 0);
    assert_contains(result.out, "\"owner\":\"one\"");
    assert_contains(result.out, "\"reader\":false,\"seat\":1},{\"value\":\"left\"");
    assert_contains(result.out, "\"reader\":false,\"seat\":64}],\"state\":\"held\"");
    assert_contains(result.out, "\"seat\":null,\"limit\":null,\"waiting\":1");
    assert_contains(result.out, "\"waiting_under_other_limit\":1");
    lock_cluster_take_away(&fleet.locks, "lock:r");
    lock_cluster_take_away(&fleet.locks, "lock:hf:seat:64:r");
    lock_cluster_ask(&fleet.locks, 1, "SET lock:r left PX 600000");
    assert_int_equal(who("r"), 1);
    assert_contains(result.out, "   1  another program  leftover  1 of 3  ");
}

TEST(a_seat_above_the_limit_is_told)
{
    fleet_work(&fleet, &(struct fleet_setup){.plugin = "holder",
                                             .lock = "ttl = \"30s\"; prefix = \"lock:\"; ",
                                             .classes = "{ class = \"hold\"; limit = 2; resource = \"r:{0}\"; }"});
    for (unsigned seat = 2; seat <= 3; seat++)
        for (unsigned i = 0; i < fleet.locks.count; i++)
            lock_cluster_ask(&fleet.locks, i, "SET lock:hf:seat:%u:r:1 theirs PX 600000", seat);
    assert_int_equal(who("r:1"), 0);
    assert_contains(result.out, "Seat 3 is in use, and the class hold has a limit of 2 here");
    assert_int_equal(who_json("r:1"), 0);
    assert_contains(result.out, "\"limit\":2,");
    lock_cluster_take_away(&fleet.locks, "lock:hf:seat:3:r:1");
    assert_int_equal(who("r:1"), 0);
    assert_lacks(result.out, "has a limit of");
}

TEST(a_value_of_another_program_is_shown_as_it_is)
{
    given_a_configuration();
    given_values("somebody", 3);
    assert_int_equal(who("r"), 0);
    assert_contains(result.out, "#1 another program");
    assert_contains(result.out, "value    \"somebody\"");
    assert_lacks(result.out, "process ");
    assert_int_equal(who_json("r"), 0);
    assert_contains(result.out, "\"value\":\"somebody\",\"value_hex\":\"736f6d65626f6479\"");
    assert_contains(result.out, "\"owner\":null,\"host\":null,\"pid\":null,\"slot\":null,\"jid\":null");
}

/* 20 random bytes are what other Redlock clients write. */
TEST(bytes_are_safe_for_a_terminal)
{
    given_a_configuration();
    for (unsigned i = 0; i < 3; i++)
        lock_cluster_ask(
            &fleet.locks, i,
            "EVAL \"return redis.call('SET', 'lock:r', string.char(0, 27, 91, 51, 49, 109, 255, 10, 155))\" 0");
    assert_int_equal(who("r"), 0);
    assert_contains(result.out, "value    \"\\x00\\x1b[31m\\xff\\x0a\\x9b\"");
    assert_contains(result.out, "expires  never");
    assert_null(strchr(result.out, 27));
    assert_int_equal(who_json("r"), 0);
    assert_contains(result.out, "\"value_hex\":\"001b5b33316dff0a9b\"");
    assert_null(strchr(result.out, 27));
}

TEST(a_minority_is_left_over)
{
    given_a_configuration();
    given_values("somebody", 1);
    assert_int_equal(who("r"), 1);
    assert_contains(result.out, "is held by nobody: what is left on a minority expires");
    assert_contains(result.out, "1 of 3, no majority: nobody holds it with this");
    assert_int_equal(who_json("r"), 1);
    assert_contains(result.out, "\"state\":\"leftover\"");
}

TEST(values_that_differ_are_told_apart)
{
    given_a_configuration();
    given_values("first", 3);
    lock_cluster_ask(&fleet.locks, 0, "SET lock:r other");
    assert_int_equal(who_json("r"), 0);
    assert_contains(result.out, "\"state\":\"held\"");
    assert_before("\"value\":\"first\"", "\"value\":\"other\"");
    assert_contains(result.out, "\"holder\":1");
}

TEST(a_node_that_is_down_is_told)
{
    given_a_holder();
    redis_server_kill(fleet.locks.servers[2]);
    assert_int_equal(who("r"), 0);
    assert_contains(result.out, "2 of 3, a majority: it is held");
    assert_contains(result.out, "no answer");
    assert_contains(result.out, "does not answer: ");
    redis_server_kill(fleet.locks.servers[1]);
    assert_int_equal(who("r"), 75);
    assert_contains(result.out, "may be held: too few lock nodes answer, or vote, to tell");
    lock_cluster_ask(&fleet.locks, 0, "DEL lock:r");
    assert_int_equal(who_json("r"), 75);
    assert_contains(result.out, "\"state\":\"unknown\"");
}

/* It may have forgotten other locks, and has been given this one without the right to count. */
TEST(a_node_without_a_vote_does_not_count)
{
    given_a_configuration();
    given_values("somebody", 2);
    lock_cluster_ask(&fleet.locks, 0, "DEL hf:lock:group");
    assert_int_equal(who_json("r"), 75);
    assert_contains(result.out, "\"standing\":\"unknown\",\"nodes\":2,\"votes\":1");
}

TEST(what_is_no_lock_is_told)
{
    given_a_configuration();
    lock_cluster_ask(&fleet.locks, 0, "LPUSH lock:r a");
    lock_cluster_ask(&fleet.locks, 1, "EVAL \"return redis.call('SET', 'lock:r', string.rep('x', 100000))\" 0");
    assert_int_equal(who("r"), 0);
    assert_contains(result.out, "\"r\" is blocked: nobody can lock it.");
    assert_contains(result.out, "something that is no string, and so no lock");
    assert_contains(result.out, "a value of 100000 bytes, which no lock client writes");
    assert_contains(result.out, "2 of 3 nodes have under its key what is no lock");
    assert_int_equal(who_json("r"), 0);
    assert_contains(result.out, "\"state\":\"blocked\"");
    assert_contains(result.out, "\"standing\":\"blocked\"");
    assert_lacks(result.out, "\"standing\":\"held\"");
    assert_contains(result.out, "\"value\":null,\"value_hex\":null");
    lock_cluster_ask(&fleet.locks, 0, "DEL lock:r");
    assert_int_equal(who("r"), 1);
    assert_contains(result.out, "\"r\" is held by nobody");
}

/* They are no holders, and they expire as little as each other. */
TEST(values_without_an_end_block)
{
    given_a_configuration();
    for (unsigned i = 0; i < 3; i++)
        lock_cluster_ask(&fleet.locks, i, "SET lock:r %u", i);
    assert_int_equal(who("r"), 0);
    assert_contains(result.out, "3 of 3 nodes have under its key what is no lock");
    assert_contains(result.out, "`holdfast unlock --force` deletes it");
    lock_cluster_ask(&fleet.locks, 0, "EXPIRE lock:r 100");
    lock_cluster_ask(&fleet.locks, 1, "EXPIRE lock:r 100");
    assert_int_equal(who("r"), 1);
    assert_contains(result.out, "\"r\" is held by nobody");
    for (unsigned i = 0; i < 3; i++)
        lock_cluster_ask(&fleet.locks, i, "SET lock:r same");
    assert_int_equal(who_json("r"), 0);
    assert_contains(result.out, "\"standing\":\"blocked\"");
    assert_contains(result.out, "\"state\":\"blocked\"");
    lock_cluster_ask(&fleet.locks, 0, "EXPIRE lock:r 100");
    lock_cluster_ask(&fleet.locks, 1, "EXPIRE lock:r 100");
    assert_int_equal(who_json("r"), 0);
    assert_contains(result.out, "\"standing\":\"held\"");
    assert_contains(result.out, "\"state\":\"held\"");
}

TEST(lock_nodes_will_do)
{
    struct buffer list = {0};
    given_a_configuration();
    for (unsigned i = 0; i < 3; i++) {
        lock_cluster_ask(&fleet.locks, i, "HSET r owner 1");
        buffer_format(&list, "%s127.0.0.1:%u", i > 0 ? "," : "", fleet.locks.nodes[i].port);
    }
    setenv("HOLDFAST_LOCK_NODES", buffer_text(&list), 1);
    program_result_free(&result);
    result = program_run("who r");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "  nodes    3 of 3, ");
    program_result_free(&result);
    result = program_run("unlock r --force");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, "lock3: not deleted");
    assert_lacks(result.out, "could not be told");
    unsetenv("HOLDFAST_LOCK_NODES");
    buffer_fini(&list);
    for (unsigned i = 0; i < 3; i++)
        lock_cluster_ask(&fleet.locks, i, "DEL r");
}

/* A jid may be longer than what a worker writes into the value. */
TEST(a_long_jid_is_found_in_the_claim)
{
    holder_start("\"jobs\"");
    holder_push("jobs", "0123456789012345678901234567890123456789-and-more", "r");
    test_await(is_noted("begin 0123456789"));
    assert_int_equal(who_json("r"), 0);
    assert_contains(result.out, "\"jid\":\"0123456789012345678901234567890123456789-and-more\"");
}

TEST(the_holder_is_known_without_the_queue_node)
{
    given_a_holder();
    redis_server_kill(fleet.queue);
    assert_int_equal(who("r"), 75);
    assert_contains(result.error, "holdfast who: ");
    assert_contains(result.out, "\"r\" is held.");
    assert_contains(result.out, "task     first");
    assert_int_equal(who_json("r"), 75);
    assert_contains(result.out, "\"waiting\":null,\"waiters\":null,\"waiting_under_other_limit\":null}");
    redis_server_restart(fleet.queue);
}

/* --- who waits ---------------------------------------------------------------------------------------------------- */

TEST(those_who_wait_come_in_their_order)
{
    given_a_configuration();
    given_a_waiter("r", 7, "c-parked", 3600, false, true);
    given_a_waiter("r", 3, "d-woken", -1, true, false);
    given_a_waiter("r", 5, "a-taken", -3600, false, false);
    given_a_waiter("r", 9, "b-vanished", 3000, false, false);
    free(fleet_ask(&fleet, "ZADD hf:2:waiting:resource:r 11 e-lost"));
    free(fleet_ask(&fleet, "ZADD hf:2:waiting:resource:other 1 elsewhere"));
    assert_int_equal(who_json("r"), 1);
    assert_contains(result.out,
                    "\"waiting\":5,\"waiters\":[{\"jid\":\"d-woken\",\"class\":\"hold\",\"queue\":\"parked\","
                    "\"state\":\"on its way\",\"at\":");
    assert_contains(result.out, "{\"jid\":\"a-taken\",\"class\":\"hold\",\"queue\":\"parked\",\"state\":\"vanished\"");
    assert_contains(result.out, "{\"jid\":\"c-parked\",\"class\":\"hold\",\"queue\":\"parked\",\"state\":\"parked\"");
    assert_contains(result.out,
                    "{\"jid\":\"b-vanished\",\"class\":\"hold\",\"queue\":\"parked\",\"state\":\"vanished\"");
    assert_contains(result.out, "{\"jid\":\"e-lost\",\"class\":null,\"queue\":null,\"state\":\"unknown\",\"at\":null}");
    assert_before("d-woken", "a-taken");
    assert_before("a-taken", "c-parked");
    assert_before("c-parked", "b-vanished");
    assert_before("b-vanished", "e-lost");
    assert_lacks(result.out, "elsewhere");
    who("r");
    assert_contains(result.out, "5 tasks wait for it:");
    assert_before("d-woken", "a-taken");
}

/* As workers write it: the oldest may be claimed already, to follow the holder. */
TEST(tasks_that_workers_parked_are_listed)
{
    char jid[16];
    given_a_holder();
    holder_start("\"jobs\"");
    for (unsigned i = 9; i > 0; i--) {
        snprintf(jid, sizeof jid, "waits%u", i);
        holder_push("jobs", jid, "r");
        test_await(fleet_number(&fleet, "ZCARD hf:2:waiting:resource:r") == 10 - i);
    }
    test_await(fleet_number(&fleet, "LLEN queue:jobs") == 0);
    test_await(who_json("r") == 0 && strstr(result.out, "\"state\":\"parked\"") != NULL);
    assert_contains(result.out, "\"waiting\":9,");
    assert_contains(result.out, "\"jid\":\"waits1\",\"class\":\"hold\",\"queue\":\"jobs\",\"state\":\"parked\"");
    for (unsigned i = 9; i > 1; i--) {
        char before[32], after[32];
        snprintf(before, sizeof before, "\"jid\":\"waits%u\"", i);
        snprintf(after, sizeof after, "\"jid\":\"waits%u\"", i - 1);
        assert_before(before, after);
    }
    assert_lacks(result.out, "vanished");
    assert_lacks(result.out, "unknown");
}

/* The task says in which waiting list it is: it leaves that, whoever holds the lock. */
TEST(a_waiting_task_that_is_deleted_leaves_its_list)
{
    char jid[16], path[128];
    config_path(path);
    given_a_holder();
    holder_start("\"jobs\"");
    for (unsigned i = 5; i > 0; i--) {
        snprintf(jid, sizeof jid, "waits%u", i);
        holder_push("jobs", jid, "r");
        test_await(fleet_number(&fleet, "ZCARD hf:2:waiting:resource:r") == 6 - i);
    }
    test_await(fleet_number(&fleet, "LLEN queue:jobs") == 0);
    result = program_run_arguments(
        (const char *const[]){"tasks", "-c", path, "delete", "--state", "schedule", "waits2", NULL}, -1);
    assert_int_equal(result.exit_code, 0);
    assert_int_equal(fleet_number(&fleet, "ZCARD hf:2:waiting:resource:r"), 4);
    assert_int_equal(fleet_number(&fleet, "HEXISTS hf:2:waiters:resource:r waits2"), 0);
}

TEST(a_queue_that_is_deleted_leaves_nobody_on_its_way)
{
    char path[128];
    config_path(path);
    given_a_configuration();
    given_a_waiter("r", 1, "one", -1, true, false);
    given_a_waiter("r", 2, "two", 3600, false, true);
    free(fleet_ask(&fleet, "RPUSH queue:gone '%s'",
                   "{\"class\":\"hold\",\"args\":[],\"jid\":\"one\",\"hf_list\":\"resource:r\"}"));
    result = program_run_arguments((const char *const[]){"queues", "-c", path, "delete", "gone", "--yes", NULL}, -1);
    assert_int_equal(result.exit_code, 0);
    assert_int_equal(fleet_number(&fleet, "ZCARD hf:2:waiting:resource:r"), 1);
    assert_int_equal(fleet_number(&fleet, "LLEN queue:parked"), 1); /* the next was woken */
}

TEST(of_thousands_some_are_shown)
{
    given_a_configuration();
    free(fleet_ask(&fleet, "EVAL \"for i = 1, 3000 do redis.call('ZADD', KEYS[1], i, 'j' .. i) "
                           "redis.call('HSET', KEYS[2], 'j' .. i, '1.0\\\\n\\\\nparked\\\\nset\\\\nhold') end\" 2 "
                           "hf:2:waiting:resource:r hf:2:waiters:resource:r"));
    who("r");
    assert_contains(result.out, "3,000 tasks wait for it:");
    assert_contains(result.out, " j50 ");
    assert_lacks(result.out, " j51 ");
    assert_contains(result.out, "and 2,950 more");
    run_with("who", "--limit=2999", "r");
    assert_contains(result.out, " j2999 ");
    assert_lacks(result.out, " j3000 ");
    run_with("who", "--limit=4000", "r");
    assert_contains(result.out, " j3000 ");
    assert_lacks(result.out, " more");
    assert_int_equal(run_with("who", "--limit=0", "r"), 2);
}

/* Whatever names it: it is shown, and does not steer the terminal. */
TEST(readers_are_shown_one_by_one)
{
    given_a_configuration();
    given_values("hf:shared", 3);
    for (unsigned i = 0; i < 3; i++) {
        lock_cluster_ask(&fleet.locks, i,
                         "EVAL \"local t = redis.call('TIME')[1] * 1000 return redis.call('ZADD', KEYS[1], t + 40000, "
                         "'0123456789abcdef0123456789abcdef:one', t + 50000, 'fedcba9876543210fedcba9876543210:other', "
                         "t - 50000, '00000000000000000000000000000000:over')\" 1 hf:readers:lock:r");
    }
    assert_int_equal(who("r"), 0);
    assert_contains(result.out, "\"r\" is held.");
    assert_contains(result.out, " reader \"one\"\n");
    assert_contains(result.out, " reader \"other\"\n");
    assert_null(strstr(result.out, "over"));
    assert_contains(result.out, "2 readers");
    assert_int_equal(who_json("r"), 0);
    assert_contains(result.out, "\"owner\":\"one\"");
    assert_contains(result.out, "\"since\":null,\"reader\":true");
    assert_contains(result.out, "\"readers\":2");
    assert_int_equal(run_with("unlock", "--force", "r"), 0);
    assert_int_equal(who("r"), 1);
    assert_contains(result.out, "\"r\" is free.");
}

TEST(names_are_safe_for_a_terminal)
{
    static const char resource[] = "\033[31mred\a";
    given_a_configuration();
    free(fleet_ask(&fleet, "EVAL \"local name = ARGV[1] redis.call('ZADD', 'hf:2:waiting:resource:' .. name, 1, "
                           "'j' .. name) redis.call('HSET', 'hf:2:waiters:resource:' .. name, 'j' .. name, "
                           "'1.0\\\\n\\\\nq' .. name .. '\\\\nset\\\\nc' .. name)\" 0 \"\\x1b[31mred\\a\""));
    assert_int_equal(who(resource), 1);
    assert_contains(result.out, "\"\\x1b[31mred\\x07\" is free.");
    assert_contains(result.out, "1 task waits for it:");
    assert_contains(result.out, "j?[31mred?");
    assert_null(strchr(result.out, 27));
    assert_null(strchr(result.out, 7));
    who_json(resource);
    assert_contains(result.out, "\"waiting\":1");
    assert_null(strchr(result.out, 27));
}

TEST(a_foreign_value_under_the_list_is_told)
{
    given_a_configuration();
    free(fleet_ask(&fleet, "SET hf:2:waiting:resource:r 1"));
    assert_int_equal(who("r"), 1);
    assert_contains(result.error, "WRONGTYPE");
}

/* --- how it is called --------------------------------------------------------------------------------------------- */

TEST(what_is_no_resource_is_refused)
{
    char path[128], long_name[514];
    given_a_configuration();
    config_path(path);
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(who(""), 2);
    assert_contains(result.error, "a resource has 1 to 512 bytes");
    assert_int_equal(who(long_name), 2);
    long_name[512] = '\0';
    assert_int_equal(who(long_name), 1);
    assert_string_equal(result.error, "");
    program_result_free(&result);
    result = program_run_arguments((const char *const[]){"who", "-c", path, NULL}, -1);
    assert_int_equal(result.exit_code, 2);
    assert_contains(result.error, "name the resource");
    assert_int_equal(run_with("who", "--lock-user=x", "r"), 2);
    assert_contains(result.error, "--lock-user needs --lock-password-file");
}

RUN_GROUP(one_fleet_set_up, one_fleet_tear_down, NULL, holding_clean)
