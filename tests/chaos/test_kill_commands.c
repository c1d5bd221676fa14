/* A command is killed before its script is sent, and after it was answered: what it moves is then in one place, the old
 * one or the new one, and asking again ends where one call would have ended. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/one_fleet.h"

/* Leaves the configuration of a worker that has ended; its queue is "jobs". */
static void configure(void)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.arguments = "--drain"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
}

/* What waitpid says of it; no fault when `point` is "". */
static int run(const char *point, const char *side, const char *arguments)
{
    char line[8192], fault[128] = "";
    int status = 0;
    if (point[0] != '\0')
        snprintf(fault, sizeof fault, "%s:%s:kill", point, side);
    snprintf(line, sizeof line, "HOLDFAST_FAULT=%s exec %s/faults/holdfast %s >%s/said 2>&1 </dev/null", fault,
             test_build(), arguments, fleet.directory);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void assert_killed(const char *point, const char *side, const char *arguments)
{
    int status = run(point, side, arguments);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("%s %s: %s was not killed there", side, point, arguments);
}

/* Killed at both sides; `number`, a command, answers `before` and then `after`. */
static void assert_one_step(const char *point, const char *arguments, const char *number, long long before,
                            long long after)
{
    assert_killed(point, "before", arguments);
    assert_int_equal(fleet_number(&fleet, "%s", number), before);
    assert_killed(point, "after", arguments);
    assert_int_equal(fleet_number(&fleet, "%s", number), after);
}

TEST(a_push_is_there_or_not)
{
    char arguments[128];
    snprintf(arguments, sizeof arguments, "push -p %u -q jobs note []", redis_server_port(fleet.queue));
    assert_one_step("push", arguments, "LLEN queue:jobs", 0, 1);
}

TEST(a_unique_push_is_there_together_with_its_key)
{
    char arguments[128];
    snprintf(arguments, sizeof arguments, "push -p %u -q jobs note [] --unique", redis_server_port(fleet.queue));
    assert_killed("push_unique", "before", arguments);
    assert_int_equal(fleet_number(&fleet, "EVAL \"return #redis.call('KEYS', 'hf:2:unique:*')\" 0"), 0);
    assert_killed("push_unique", "after", arguments);
    assert_int_equal(fleet_number(&fleet, "EVAL \"return #redis.call('KEYS', 'hf:2:unique:*')\" 0"), 1);
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
    run("", "", arguments); /* refused: it waits */
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
}

static const char *with_config(const char *before, const char *after)
{
    static char arguments[512];
    snprintf(arguments, sizeof arguments, "%s -c %s/host0.conf %s", before, fleet.directory, after);
    return arguments;
}

TEST(a_moved_task_is_here_or_there)
{
    configure();
    free(fleet_ask(&fleet, "ZADD retry 9999999999 '{\"class\":\"note\",\"args\":[],\"jid\":\"j1\",\"queue\":\"jobs\","
                           "\"retry_count\":1}'"));
    const char *arguments = with_config("tasks", "retry j1 --state retry --yes");
    assert_one_step("operate_move", arguments, "LLEN queue:jobs", 0, 1);
    assert_int_equal(fleet_left(&fleet), 1);
    run("", "", arguments);
    assert_int_equal(fleet_left(&fleet), 1);
}

TEST(a_deleted_queue_is_there_or_not)
{
    configure();
    fleet_push_many(&fleet, "note", 3, 0, 0);
    free(fleet_ask(&fleet, "SADD queues jobs"));
    assert_one_step("operate_drop", with_config("queues", "delete jobs --yes"), "LLEN queue:jobs", 3, 0);
}

#define HELD "EVAL \"return #redis.call('KEYS', 'hf:2:unique:*')\" 0"

/* Killed in between, the key of a task that is gone stays until it expires. */
TEST(what_a_deleted_queue_held_is_free_behind_it)
{
    char push[128];
    configure();
    snprintf(push, sizeof push, "push -p %u -q jobs note [] --unique", redis_server_port(fleet.queue));
    run("", "", push);
    assert_killed("operate_free", "before", with_config("queues", "delete jobs --yes"));
    assert_int_equal(fleet_number(&fleet, "EXISTS queue:jobs"), 0);
    assert_int_equal(fleet_number(&fleet, HELD), 1);
    free(fleet_ask(&fleet, "EVAL \"return redis.call('DEL', unpack(redis.call('KEYS', 'hf:2:unique:*')))\" 0"));
    run("", "", push);
    assert_int_equal(fleet_number(&fleet, HELD), 1);
    assert_killed("operate_free", "after", with_config("queues", "delete jobs --yes"));
    assert_int_equal(fleet_number(&fleet, HELD), 0);
    run("", "", push);
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
}

TEST(a_queue_is_paused_or_not)
{
    configure();
    assert_one_step("operate_pause", with_config("pause", "jobs"), "SISMEMBER paused jobs", 0, 1);
}

RUN_FLEET_TESTS
