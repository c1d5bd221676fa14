#include "tests/support/contended.h"

#include <stdio.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "tests/support/program_run.h"
#include "tests/support/test.h"

#define LOCK "ttl = \"10s\"; tries = 2; retry_delay = \"2ms\"; retry_jitter = \"4ms\"; prefix = \"lock:\"; "

unsigned contended_start(const struct fleet_setup *setup)
{
    struct fleet_setup all = setup != NULL ? *setup : (struct fleet_setup){.threads = 0};
    struct buffer worker = {0};
    buffer_format(&worker, "log_level = \"debug\"; %s", all.worker != NULL ? all.worker : "");
    all.worker = buffer_text(&worker);
    all.plugin = all.plugin != NULL ? all.plugin : "holder";
    all.lock = all.lock != NULL ? all.lock : LOCK;
    unsigned number = fleet_work(&fleet, &all);
    buffer_fini(&worker);
    return number;
}

void contended_push_to(const char *queue, const char *class_name, const char *jid, const char *args,
                       const char *resource)
{
    free(fleet_ask(&fleet, "LPUSH queue:%s '{\"class\":\"%s\",\"args\":%s,\"jid\":\"%s\",\"resource\":%s%s%s}'", queue,
                   class_name, args, jid, resource[0] == '[' ? "" : "\"", resource, resource[0] == '[' ? "" : "\""));
}

void contended_push(const char *jid, const char *args, const char *resource)
{
    contended_push_to("jobs", "hold", jid, args, resource);
}

/* --- what others do ----------------------------------------------------------------------------------------------- */

/* As a task of another worker has it: no process listens for its release at the lock nodes. */
#define HELD_BY "0123456789abcdef0123456789abcdef:other:1:0:"

void resource_hold(const char *resource)
{
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_string_equal(lock_cluster_ask(&fleet.locks, i, "SET lock:%s " HELD_BY "somebody NX PX 600000", resource),
                            "OK");
}

void operator_runs(const char *command, const char *arguments)
{
    struct buffer line = {0};
    buffer_format(&line, "%s -c %s/%s.conf %s", command, fleet.directory, fleet.workers[0].name, arguments);
    struct program_result result = program_run(buffer_text(&line));
    if (result.exit_code != 0)
        fail_msg("%s: exit code %d: %s%s", buffer_text(&line), result.exit_code, result.out, result.error);
    program_result_free(&result);
    buffer_fini(&line);
}

void resource_free(const char *resource)
{
    struct buffer arguments = {0};
    buffer_format(&arguments, "%s --force", resource);
    operator_runs("unlock", buffer_text(&arguments));
    buffer_fini(&arguments);
}

/* --- who waits ---------------------------------------------------------------------------------------------------- */

unsigned waiting_count(const char *list)
{
    return (unsigned)fleet_number(&fleet, "ZCARD hf:2:waiting:%s", list);
}

char *waiting_order(const char *list)
{
    return fleet_ask(&fleet,
                     "EVAL \"local out = '' for _, jid in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
                     "out = out .. jid .. ' ' end return out\" 1 hf:2:waiting:%s",
                     list);
}

void statistics_reset(void)
{
    free(fleet_ask(&fleet, "CONFIG RESETSTAT"));
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "CONFIG RESETSTAT");
}

unsigned lock_node_scripts(void)
{
    return lock_cluster_calls(&fleet.locks, "evalsha") + lock_cluster_calls(&fleet.locks, "eval");
}

/* --- who ran ------------------------------------------------------------------------------------------------------ */

struct run *runs_read(unsigned *count)
{
    char *journal = fleet_journal(&fleet), *rest = journal, *line;
    struct run *runs = memory_zeroed(strlen(journal) / 8 + 1, sizeof *runs); /* no line is shorter */
    *count = 0;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (sscanf(line, "begin %31s %15s %llu", runs[*count].jid, runs[*count].host, &runs[*count].token) >= 1)
            ++*count;
    free(journal);
    return runs;
}

struct run run_of(const char *jid)
{
    struct run found = {.token = 0};
    unsigned count, times = 0;
    struct run *runs = runs_read(&count);
    for (unsigned i = 0; i < count; i++)
        if (strcmp(runs[i].jid, jid) == 0) {
            found = runs[i];
            times++;
        }
    free(runs);
    if (times != 1)
        fail_msg("%s began %u times", jid, times);
    return found;
}

char *runs_order(void)
{
    unsigned count;
    struct run *runs = runs_read(&count);
    struct buffer order = {0};
    for (unsigned i = 0; i < count; i++)
        buffer_format(&order, "%s ", runs[i].jid);
    char *text = memory_text(buffer_text(&order));
    buffer_fini(&order);
    free(runs);
    return text;
}

void assert_runs_alone(void)
{
    char *journal = fleet_journal(&fleet), *rest = journal, *line;
    char jid[32], running[32] = "";
    unsigned long long token, before = 0;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (sscanf(line, "begin %31s %*s %llu", jid, &token) == 2) {
            if (running[0] != '\0')
                fail_msg("%s began before %s ended", jid, running);
            if (token <= before)
                fail_msg("%s has the token %llu, and the one before had %llu", jid, token, before);
            memcpy(running, jid, sizeof jid);
            before = token;
        } else if (sscanf(line, "end %31s", jid) == 1) {
            assert_string_equal(jid, running);
            running[0] = '\0';
        }
    }
    free(journal);
}
