/* What becomes of a task whose lock is held, or whose lock nodes are away, by the mode of its class and what else the
 * configuration says about it. (test_modes.c: what contradicts itself, and what is locked.) */
#include "tests/support/test.h"

#include <stdio.h>

#include "redlock/scripts.h"
#include "tests/support/contended.h"

static unsigned start(const char *classes)
{
    return contended_start(&(struct fleet_setup){.plugin = "witness", .classes = classes});
}

#define NOTE(more) "{ class = \"note\"; mode = \"efficiency\"; resource = \"key:{1}\"; " more " }"

static void push_note(const char *jid)
{
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[0,\"k\"],\"jid\":\"%s\"}", jid);
}

/* A count of what became of locks today, or of the last test's yesterday. */
static long long counted(const char *field)
{
    return fleet_number(&fleet,
                        "EVAL \"local sum = 0 for _, key in ipairs(redis.call('KEYS', 'hf:2:locks:*')) do "
                        "sum = sum + (tonumber(redis.call('HGET', key, ARGV[1])) or 0) end return sum\" 0 %s",
                        field);
}

/* --- on_conflict -------------------------------------------------------------------------------------------------- */

TEST(a_task_that_is_done_elsewhere_is_skipped_and_counted)
{
    resource_hold("key:k");
    unsigned worker = start(NOTE("on_conflict = \"skip\";"));
    push_note("late");
    test_await(fleet_logged(&fleet, worker, "info task_ended ending=skipped jid=late class=note queue=jobs"));
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 0);
    assert_int_equal(counted("note|key:|skipped"), 1);
    assert_int_equal(counted("note|key:|parked"), 0);
}

TEST(a_delayed_task_comes_again_and_waits_in_no_line)
{
    resource_hold("key:k");
    unsigned worker = start(NOTE("on_conflict = \"delay\"; conflict_delay = \"300ms\";"));
    push_note("again");
    test_await(fleet_number(&fleet, "ZCARD schedule") == 1);
    assert_int_equal(waiting_count("resource:key:k"), 0);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "DEL lock:key:k");
    test_await(fleet_noted(&fleet, "end again") == 1);
    one_fleet_stop(worker);
    assert_int_equal(fleet_left(&fleet), 0);
}

/* By up to half as long again, at random. */
TEST(a_delayed_task_comes_again_when_its_class_says)
{
    resource_hold("key:k");
    start(NOTE("on_conflict = \"delay\"; conflict_delay = \"1h\";"));
    struct wall_time pushed = wall_now();
    push_note("again");
    test_await(fleet_number(&fleet, "ZCARD schedule") == 1);
    fleet_assert_due(&fleet, "schedule", pushed, 3600, 5400);
}

static void assert_entry(const char *set, const char *jid, const char *part)
{
    char *entries = fleet_ask(&fleet, "ZRANGE %s 0 -1", set);
    assert_contains(entries, jid);
    assert_contains(entries, part);
    free(entries);
}

/* Elsewhere, and in its own process, where no lock node is asked. */
TEST(a_conflict_that_is_a_failure_uses_a_retry)
{
    resource_hold("r");
    start("{ class = \"guarded\"; on_conflict = \"fail\"; }");
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[0],\"jid\":\"first\",\"resource\":\"r\"}");
    test_await(fleet_number(&fleet, "ZCARD retry") == 1);
    assert_entry("retry", "\"jid\":\"first\"", "\"retry_count\":0");
    assert_entry("retry", "\"jid\":\"first\"", "\"error_class\":\"HF::LockRefused\"");
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"holder\",\"resource\":\"s\"}");
    test_await(fleet_noted(&fleet, "begin holder") == 1);
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[0],\"jid\":\"last\",\"resource\":\"s\",\"retry\":0}");
    test_await(fleet_number(&fleet, "ZCARD dead") == 1);
    assert_entry("dead", "\"jid\":\"last\"", "\"error_class\":\"HF::LockRefused\"");
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 1);
}

/* Others would wait for it. It waited because its class did that then, or for a quorum. */
static void place_given_up(const char *on_conflict, const char *set)
{
    char classes[64];
    snprintf(classes, sizeof classes, "{ class = \"guarded\"; on_conflict = \"%s\"; }", on_conflict);
    resource_hold("r");
    unsigned former = start("{ class = \"guarded\"; }");
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[0],\"jid\":\"first\",\"resource\":\"r\"}");
    test_await(waiting_count("resource:r") == 1);
    one_fleet_stop(former);
    unsigned worker = start(classes);
    free(fleet_ask(&fleet,
                   "EVAL \"return redis.call('ZADD', 'schedule', 0, redis.call('ZRANGE', 'schedule', 0, 0)[1])\" 0"));
    test_await(fleet_number(&fleet, "ZCOUNT %s 1 +inf", set) == 1);
    one_fleet_stop(worker);
    assert_int_equal(waiting_count("resource:r"), 0);
}

TEST(a_task_that_waited_and_fails_gives_up_its_place)
{
    place_given_up("fail", "retry");
}

TEST(a_task_that_waited_and_is_put_off_gives_up_its_place)
{
    place_given_up("delay", "schedule");
}

/* --- hold_at_least ------------------------------------------------------------------------------------------------ */

TEST(a_lock_stays_behind_what_went_well_and_not_behind_a_failure)
{
    unsigned worker =
        start(NOTE("hold_at_least = \"30s\"; on_conflict = \"skip\";") ", "
                                                                       "{ class = \"fail\"; mode = \"efficiency\"; "
                                                                       "resource = \"key:{1}\"; "
                                                                       "hold_at_least = \"30s\"; }");
    push_note("good");
    test_await(fleet_logged(&fleet, worker, "task_ended ending=done jid=good"));
    push_note("repeated");
    test_await(fleet_logged(&fleet, worker, "task_ended ending=skipped jid=repeated"));
    for (unsigned i = 0; i < fleet.locks.count; i++) {
        long left_ms = strtol(lock_cluster_ask(&fleet.locks, i, "PTTL lock:key:k"), NULL, 10);
        assert_in_range(left_ms, 1, 30000);
    }
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"bad\"],\"jid\":\"bad\"}");
    test_await(fleet_logged(&fleet, worker, "task_ended ending=failed jid=bad"));
    test_await(lock_cluster_holders(&fleet.locks, "lock:key:bad") == 0);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:key:k"), 3);
}

/* What the worker has told a lock node to keep the key for; 0 = nothing yet. */
static long stay_told_ms(unsigned node)
{
    return strtol(
        lock_cluster_ask(&fleet.locks, node,
                         "EVAL \"for _, entry in ipairs(redis.call('SLOWLOG', 'GET', -1)) do "
                         "if entry[4][2] == ARGV[1] then return tonumber(entry[4][6]) end end return 0\" 0 %s",
                         redlock_script_linger.sha1),
        NULL, 10);
}

/* A second of it is over when the task ends. */
TEST(a_lock_stays_from_its_beginning_on)
{
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 1000");
    start(NOTE("hold_at_least = \"30s\";"));
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[1000,\"k\"],\"jid\":\"long\"}");
    for (unsigned i = 0; i < fleet.locks.count; i++) {
        test_await(stay_told_ms(i) > 0);
        assert_in_range(stay_told_ms(i), 1, 29000);
        lock_cluster_ask(&fleet.locks, i, "CONFIG SET slowlog-log-slower-than 10000");
    }
}

/* --- lock nodes --------------------------------------------------------------------------------------------------- */

TEST(without_a_majority_what_is_open_runs_and_what_is_closed_waits)
{
    redis_server_kill(fleet.locks.servers[0]);
    redis_server_kill(fleet.locks.servers[1]);
    unsigned worker = start(NOTE("on_no_quorum = \"open\";"));
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[0],\"jid\":\"closed\",\"resource\":\"r\"}");
    test_await(fleet_logged(&fleet, worker, "task_ended ending=put_off jid=closed"));
    test_await(fleet_logged(&fleet, worker, "lock_no_quorum"));
    push_note("open");
    test_await(fleet_noted(&fleet, "end open") == 1);
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted_all(&fleet, "begin closed"), 0);
    assert_int_equal(fleet_left(&fleet), 1);
    assert_int_equal(fleet_number(&fleet, "EXISTS retry dead"), 0);
}

/* That is a lock, only not a Redlock. */
TEST(one_lock_node_is_enough_for_efficiency)
{
    char node[128];
    struct redis_server *server = redis_server_start(NULL); /* those of the fleet are of a group */
    snprintf(node, sizeof node, "{ host = \"127.0.0.1\"; port = %u; }", redis_server_port(server));
    unsigned worker = contended_start(&(struct fleet_setup){
        .plugin = "witness",
        .lock_nodes = node,
        .classes = "{ class = \"careful\"; mode = \"efficiency\"; resource = \"key:{1}\"; on_conflict = \"skip\"; }"});
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000,\"k\"],\"jid\":\"first\"}");
    test_await(fleet_noted(&fleet, "begin first") == 1);
    char *held = redis_server_command(server, "EXISTS lock:key:k");
    assert_string_equal(held, "1");
    free(held);
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000,\"k\"],\"jid\":\"second\"}");
    test_await(fleet_logged(&fleet, worker, "ending=skipped jid=second"));
    assert_false(fleet_logged(&fleet, worker, " warn "));
    redis_server_destroy(server);
}

TEST(what_needs_no_lock_runs_side_by_side)
{
    start("{ class = \"careful\"; mode = \"none\"; resource = \"key:{1}\"; }");
    statistics_reset();
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000,\"k\"],\"jid\":\"first\"}");
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000,\"k\"],\"jid\":\"second\",\"resource\":\"r\"}");
    test_await(fleet_noted_all(&fleet, "begin ") == 2);
    assert_int_equal(lock_cluster_keys(&fleet.locks), 0);
}

/* --- crowds ------------------------------------------------------------------------------------------------------- */

static unsigned given_a_crowd(const char *classes)
{
    resource_hold("r1");
    unsigned worker = start(classes);
    fleet_push_many(&fleet, "guarded", 5, 0, 1);
    test_await(fleet_number(&fleet, "LLEN queue:jobs") == 0);
    test_await(waiting_count("resource:r1") == 2);
    return worker;
}

TEST(a_crowd_goes_to_the_dead_and_says_why)
{
    given_a_crowd("{ class = \"guarded\"; max_waiters = 2; }");
    test_await(fleet_number(&fleet, "ZCARD dead") == 3);
    assert_entry("dead", "\"jid\":\"t", "\"error_class\":\"HF::TooManyWaiters\"");
    assert_entry("dead", "r1: 2 tasks wait for it already", "");
    resource_free("r1");
    test_await(fleet_noted_all(&fleet, "end ") == 2);
}

TEST(a_crowd_is_dropped_where_its_class_says_so)
{
    unsigned worker = given_a_crowd("{ class = \"guarded\"; max_waiters = 2; on_crowd = \"drop\"; }");
    test_await(fleet_left(&fleet) == 2);
    test_await(fleet_logged(&fleet, worker, "ending=dropped"));
    assert_int_equal(fleet_number(&fleet, "EXISTS retry dead"), 0);
}

/* Those who come again find room when the others have run. */
TEST(a_crowd_comes_again_where_its_class_says_so)
{
    given_a_crowd("{ class = \"guarded\"; max_waiters = 2; on_crowd = \"delay\"; conflict_delay = \"200ms\"; }");
    resource_free("r1");
    test_await(fleet_noted_all(&fleet, "end ") == 5);
    test_await(fleet_left(&fleet) == 0);
}

RUN_FLEET_TESTS
