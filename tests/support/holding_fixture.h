/* For tests of the commands about one lock: a fleet whose workers hold locks below "lock:" for long, commands run with
 * their configuration, and waiting lists as the queue node has them. Its state is in the header, because a test program
 * is one file. */
#ifndef SUPPORT_HOLDING_FIXTURE_H
#define SUPPORT_HOLDING_FIXTURE_H

#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/one_fleet.h"
#include "tests/support/program_run.h"

static struct program_result result;

/* The longest ttl here: what is deleted does not come back, and nothing expires meanwhile. Each node has a lock, though
 * it may be late. */
static inline unsigned holder_start(const char *queues)
{
    return fleet_work(&fleet, &(struct fleet_setup){
                                  .plugin = "holder",
                                  .queues = queues,
                                  .lock = "ttl = \"30s\"; prefix = \"lock:\"; tries = 3; park_delay = \"100ms\"; ",
                                  .lock_node = "timeout = \"5s\";",
                              });
}

/* It runs until it is cancelled. */
static inline void holder_push(const char *queue, const char *jid, const char *resource)
{
    free(fleet_ask(&fleet,
                   "LPUSH queue:%s '{\"class\":\"hold\",\"args\":[600000,1,0],\"jid\":\"%s\",\"resource\":\"%s\"}'",
                   queue, jid, resource));
}

static inline bool is_noted(const char *start_of_line)
{
    return fleet_noted_all(&fleet, start_of_line) > 0;
}

/* A worker of the queue `jobs`, host0, that runs the task `first` under the lock lock:r. */
static inline unsigned given_a_holder(void)
{
    unsigned worker = holder_start("\"jobs\"");
    holder_push("jobs", "first", "r");
    test_await(is_noted("begin first host0"));
    return worker;
}

/* The configuration of a worker that was not started: for commands in a fleet of tests' own making. */
static inline void given_a_configuration(void)
{
    unsigned worker = holder_start("\"jobs\"");
    fleet_signal(&fleet, worker, SIGKILL);
    assert_int_equal(fleet_wait(&fleet, worker), -SIGKILL);
}

static inline void config_path(char path[128])
{
    snprintf(path, 128, "%s/host0.conf", fleet.directory);
}

/* Runs "COMMAND -c CONFIG RESOURCE [OPTION]"; returns the exit code. */
static inline int run_command(const char *command, const char *resource, const char *option)
{
    char path[128];
    config_path(path);
    program_result_free(&result);
    result = program_run_arguments((const char *const[]){command, "-c", path, "--", resource, option, NULL}, -1);
    return result.exit_code;
}

static inline int run_with(const char *command, const char *option, const char *resource)
{
    char path[128];
    config_path(path);
    program_result_free(&result);
    result = program_run_arguments((const char *const[]){command, "-c", path, option, resource, NULL}, -1);
    return result.exit_code;
}

/* One that waits: in the order of `place`; `parked`: `schedule` has it. Seconds from now. */
static inline void given_a_waiter(const char *resource, unsigned place, const char *jid, int due_in_s, bool is_out,
                                  bool is_scheduled)
{
    free(fleet_ask(
        &fleet,
        "EVAL \"local due = string.format('%%.6f', redis.call('TIME')[1] + ARGV[4] + ARGV[3] / 1000000) "
        "local task = '{\\\"class\\\":\\\"hold\\\",\\\"args\\\":[600000,1,0],\\\"jid\\\":\\\"' .. ARGV[2] .. "
        "'\\\",\\\"queue\\\":\\\"parked\\\",\\\"resource\\\":\\\"' .. ARGV[1] .. '\\\"}' "
        "local digest = ARGV[5] == '1' and '' or redis.sha1hex(task) "
        "redis.call('ZADD', 'hf:2:waiting:resource:' .. ARGV[1], ARGV[3], ARGV[2]) "
        "redis.call('HSET', 'hf:2:waiters:resource:' .. ARGV[1], ARGV[2], due .. '\\\\n' .. digest .. "
        "'\\\\nparked\\\\nset\\\\nhold') "
        "if ARGV[6] == '1' then redis.call('ZADD', 'schedule', due, task) end return due\" 0 \"%s\" \"%s\" %u %d %d %d",
        resource, jid, place, due_in_s, is_out, is_scheduled));
}

static inline int holding_clean(void **state)
{
    program_result_free(&result);
    result = (struct program_result){.out = NULL};
    return one_fleet_clean(state);
}

#endif
