/* holdfast status over real lock nodes and real workers: what its first line answers. */
#include "tests/support/holding_fixture.h"

/* What `status OPTION` prints, with the configuration of host0. */
static const char *status_of(const char *option)
{
    char path[128];
    config_path(path);
    program_result_free(&result);
    result = program_run_arguments((const char *const[]){"status", "-c", path, option, NULL}, -1);
    assert_string_equal(result.error, "");
    return result.out;
}

static bool status_has(const char *text)
{
    return strstr(status_of(NULL), text) != NULL;
}

/* Sooner or later: a lock node that was not heard in time does not vote in what one run says. */
static void assert_checked(const char *text)
{
    test_await(strstr(status_of("--check"), text) != NULL);
}

TEST(a_fleet_in_which_all_is_well_says_so_in_one_line)
{
    holder_start("\"jobs\"");
    test_await(strcmp(status_of("--check"),
                      "well: 1 worker, 5 of 5 lock nodes vote, 0 tasks in queues, 0 waiting for locks\n") == 0);
    assert_int_equal(result.exit_code, 0);
}

/* The holder keeps the place that it had, its successor too: they are the two that wait no more. */
TEST(those_who_wait_for_a_lock_are_told_and_not_as_scheduled)
{
    given_a_holder();
    for (unsigned i = 1; i <= 3; i++) {
        char jid[16];
        snprintf(jid, sizeof jid, "waits%u", i);
        holder_push("jobs", jid, "r");
        test_await(fleet_number(&fleet, "ZCARD hf:2:waiting:resource:r") == i);
    }
    given_a_waiter("other", 1, "runs", -1, true, false);
    given_a_waiter("other", 2, "parked", 3600, false, true);
    given_a_waiter("other", 3, "behind", 3601, false, true);
    free(fleet_ask(&fleet, "ZADD hf:2:contended 9000000000 resource:other"));
    free(fleet_ask(&fleet, "ZADD schedule 9000000000 '{\"class\":\"hold\",\"args\":[],\"jid\":\"later\"}'"));
    test_await(status_has(" 0 tasks in queues, 4 waiting for locks (2 for other, 2 for r)\n"));
    assert_contains(result.out, "\nscheduled 1   waiting for locks 4   retry 0   dead 0\n");
    assert_int_equal(fleet_number(&fleet, "ZCARD schedule"), 5);
    status_of("--json");
    assert_contains(result.out, "\"waiting\":{\"tasks\":4,\"hottest\":[{\"for\":\"resource\",\"name\":\"other\","
                                "\"tasks\":2},{\"for\":\"resource\",\"name\":\"r\",\"tasks\":2}]},");
    assert_contains(result.out, ",\"schedule\":1,");
}

TEST(lost_lock_nodes_are_told_with_what_that_means)
{
    holder_start("\"jobs\"");
    test_await(status_has("well: 1 worker, 5 of 5 lock nodes vote, "));
    redis_server_kill(fleet.locks.servers[0]);
    redis_server_kill(fleet.locks.servers[3]);
    assert_checked("well: 1 worker, 3 of 5 lock nodes vote (0 more may fail: lock1: connect to ");
    assert_contains(result.out, "; lock4: connect to ");
    assert_int_equal(result.exit_code, 0);
    redis_server_kill(fleet.locks.servers[4]);
    assert_checked("not well: 2 of 5 lock nodes vote: tasks with locks are not started (lock1: connect to ");
    assert_int_equal(result.exit_code, 1);
    status_of("--json");
    assert_contains(result.out, "\"findings\":[\"2 of 5 lock nodes vote: tasks with locks are not started (lock1: ");
    assert_contains(result.out, "\"lock_nodes\":{\"nodes\":5,\"vote\":2,\"reason\":\"lock1: connect to ");
    assert_contains(result.out, "; lock5: connect to ");
}

/* A node that is there and hangs, and one that refuses to write, vote for nothing. */
TEST(lock_nodes_that_hang_or_refuse_do_not_vote)
{
    given_a_configuration();
    redis_server_pause(fleet.locks.servers[0]);
    lock_cluster_ask(&fleet.locks, 1, "CONFIG SET maxmemory 1");
    assert_checked("; 3 of 5 lock nodes vote (0 more may fail: lock1: ");
    assert_contains(result.out, "; lock2: OOM "); /* its own reason, not that of the first */
    redis_server_resume(fleet.locks.servers[0]);
    redis_server_pause(fleet.locks.servers[2]);
    test_await(status_has("; 3 of 5 lock nodes vote (0 more may fail: lock2: OOM "));
    assert_contains(result.out, "; lock3: ");
    redis_server_resume(fleet.locks.servers[2]);
    lock_cluster_ask(&fleet.locks, 1, "CONFIG SET maxmemory 0");
    lock_cluster_ask(&fleet.locks, 3, "FLUSHALL");
    test_await(status_has("; 4 of 5 lock nodes vote (1 more may fail: lock4: excluded, no_marker), "));
}

TEST(a_class_that_no_worker_serves_is_told)
{
    holder_start("\"jobs\"");
    fleet_push(&fleet, "{\"class\":\"tomorrow\",\"args\":[],\"jid\":\"t1\"}");
    test_await(status_has("not well: no worker serves the class tomorrow: 1 task waits; 1 worker, 5 of 5 "));
    status_of("--check");
    assert_int_equal(result.exit_code, 1);
    assert_int_equal(run_command("tasks", "delete", "t1"), 0);
    assert_checked("well: 1 worker, 5 of 5 ");
    assert_int_equal(result.exit_code, 0);
}

TEST(without_a_configuration_lock_nodes_are_not_known)
{
    char port[16];
    snprintf(port, sizeof port, "%u", redis_server_port(fleet.queue));
    result = program_run_arguments((const char *const[]){"status", "--check", "--port", port, NULL}, -1);
    assert_string_equal(result.out, "not well: no worker takes tasks; lock nodes not known (no configuration), 0 tasks "
                                    "in queues, 0 waiting for locks\n");
}

static int five_lock_nodes_set_up(void **state)
{
    (void)state;
    fleet_start(&fleet, NULL, 5);
    return 0;
}

RUN_GROUP(five_lock_nodes_set_up, one_fleet_tear_down, NULL, holding_clean)
