/* A dry run that plays a live fleet: it reads and takes nothing. Every key of the queue node and of the lock nodes is
 * the same before and after, and of the run nothing is left; while the fleet goes on, its own tasks end once each, and
 * what was copied ends too. */
#include "tests/support/test.h"

#include <stdio.h>
#include <time.h>

#include "base/memory.h"
#include "tests/support/fleet.h"
#include "tests/support/program_run.h"

enum { LOCK_NODES = 5, QUEUED = 250, DUE_SOON = 5 };

#define LONG_LOCK "ttl = \"1m\"; tries = 2; retry_delay = \"2ms\"; retry_jitter = \"4ms\"; prefix = \"lock:\";"

static struct fleet fleet;
static bool is_well; /* the test came to its end */

static int all_set_up(void **state)
{
    (void)state;
    fleet_start(&fleet, NULL, LOCK_NODES);
    return 0;
}

static int all_tear_down(void **state)
{
    (void)state;
    fleet_stop(&fleet);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (!is_well)
        fleet_tell(&fleet);
    is_well = false;
    fleet_clean(&fleet);
    return 0;
}

/* --- what is on the nodes ----------------------------------------------------------------------------------------- */

/* Of each key, in their order: its name, its type, whether it has an end, and its value as DUMP has it. */
#define SNAPSHOT                                                                                                       \
    "local keys, lines = redis.call('KEYS', '*'), {} "                                                                 \
    "table.sort(keys) "                                                                                                \
    "for i, key in ipairs(keys) do "                                                                                   \
    "  lines[i] = key .. ' ' .. redis.call('TYPE', key).ok .. ' ' .. (redis.call('PTTL', key) > 0 and 1 or 0) "        \
    "    .. ' ' .. redis.sha1hex(redis.call('DUMP', key)) "                                                            \
    "end "                                                                                                             \
    "return lines"

/* So that none ends while it is looked at. */
#define LENGTHEN                                                                                                       \
    "for _, key in ipairs(redis.call('KEYS', '*')) do "                                                                \
    "  if redis.call('PTTL', key) > 0 then redis.call('PEXPIRE', key, 3600000) end "                                   \
    "end"

static struct redis_server *node_at(unsigned number)
{
    return number == 0 ? fleet.queue : fleet.locks.servers[number - 1];
}

static void keys_lengthen(void)
{
    for (unsigned i = 0; i <= LOCK_NODES; i++)
        free(redis_server_command(node_at(i), "EVAL \"%s\" 0", LENGTHEN));
}

static char *snapshot_of(unsigned number)
{
    char *lines = redis_server_command(node_at(number), "EVAL \"%s\" 0", SNAPSHOT);
    assert_true(lines[0] != '-');
    return lines;
}

static unsigned keys_like(unsigned number, const char *pattern)
{
    char *reply = redis_server_command(node_at(number), "EVAL \"return #redis.call('KEYS', '%s')\" 0", pattern);
    unsigned count = (unsigned)strtoul(reply, NULL, 10);
    free(reply);
    return count;
}

static void nothing_of_runs_is_left(void)
{
    for (unsigned i = 0; i <= LOCK_NODES; i++) {
        char *keys = redis_server_command(node_at(i), "KEYS *dry:*");
        if (strcmp(keys, "") != 0)
            fail_msg("node %u still has %s", i, keys);
        free(keys);
    }
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static char path[96];

static struct program shadow_start(const char *duration)
{
    snprintf(path, sizeof path, "%s/host0.conf", fleet.directory);
    const char *const arguments[] = {"dry-run", "-c",        path,        "--shadow", "--json",       "--for", duration,
                                     "--hold",  "fixed:2ms", "--threads", "4",        "--node-share", "0.5",   NULL};
    return program_start(arguments, -1);
}

/* The number behind the member. */
static unsigned number_of(const char *json, const char *member)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", member);
    assert_contains(json, quoted);
    return (unsigned)strtoul(strstr(json, quoted) + strlen(quoted), NULL, 10);
}

/* What the shadow says of itself has this. */
static void assert_shadowed(const char *json, const char *part)
{
    const char *from = strstr(json, "\"shadowed\":");
    assert_non_null(from);
    char *said = memory_text_of(from, strcspn(from, "}"));
    char *end = strstr(said, "\",\"");
    if (end != NULL)
        *end = '\0';
    assert_contains(said, part);
    free(said);
}

static void assert_all_was_played(const char *json, unsigned count)
{
    assert_int_equal(number_of(json, "pushed"), count);
    assert_int_equal(number_of(json, "done"), count);
    assert_int_equal(number_of(json, "left"), 0);
    assert_contains(json, "\"wait\":{\"count\":"); /* what was there when it began is measured, too */
    assert_int_equal(number_of(strstr(json, "\"wait\":{"), "count"), count);
    assert_contains(json, "\"drained\":true");
}

static void assert_well(const struct program_result *result)
{
    if (result->exit_code != 0)
        fail_msg("it ended with %d: %s%s", result->exit_code, result->error, result->out);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void guarded_push(const char *jid, const char *resource, unsigned milliseconds)
{
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[%u],\"jid\":\"%s\",\"resource\":\"%s\"}", milliseconds, jid,
               resource);
}

static void schedule_add(const char *key, const char *jid, int64_t after_ns)
{
    char at[32];
    snprintf(at, sizeof at, "%.6f", (double)(wall_now().us + after_ns / NS_PER_US) / (double)US_PER_S);
    free(fleet_ask(&fleet,
                   "ZADD %s %s '{\"class\":\"guarded\",\"args\":[1],\"jid\":\"%s\",\"resource\":\"r9\","
                   "\"queue\":\"jobs\"}'",
                   key, at, jid));
}

/* What the worker has parked waits for as long as the lock lasts; now it is due while the run lasts. */
static void parked_is_due_soon(void)
{
    char at[32];
    snprintf(at, sizeof at, "%.6f", (double)(wall_now().us + US_PER_S) / (double)US_PER_S);
    free(fleet_ask(&fleet,
                   "EVAL \"return redis.call('ZADD', KEYS[1], 'XX', 'CH', ARGV[1], redis.call('ZRANGE', KEYS[1], 0, "
                   "0)[1])\" 1 schedule %s",
                   at));
}

/* A fleet that stands still: four tasks run in a process that is dead, with their locks; one waits for a lock, others
 * in the queue, in the schedule, for a retry, and one of each for later than the run lasts. */
static void fleet_stop_with_work(void)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 4, .lock = LONG_LOCK});
    for (unsigned i = 0; i < LOCK_NODES; i++) /* as a task of another worker */
        lock_cluster_ask(&fleet.locks, i, "SET lock:r1 %032d:other:1:0:a0 PX 3600000", 0);
    guarded_push("a1", "r1", 60000);
    test_await(fleet_number(&fleet, "ZCARD schedule") == 1);
    guarded_push("a2", "r5", 60000);
    guarded_push("a3", "r2", 60000);
    guarded_push("a4", "r3", 60000);
    guarded_push("a5", "r4", 60000);
    test_await(fleet_noted_all(&fleet, "begin ") == 4);
    fleet_push_many(&fleet, "guarded", QUEUED, 60000, 7);
    fleet_signal(&fleet, worker, SIGKILL);
    assert_int_equal(fleet_wait(&fleet, worker), -SIGKILL);
    parked_is_due_soon();
    for (unsigned i = 0; i < DUE_SOON; i++) {
        char jid[16];
        snprintf(jid, sizeof jid, "s%u", i);
        schedule_add("schedule", jid, NS_PER_S);
    }
    schedule_add("retry", "again", NS_PER_S);
    schedule_add("schedule", "later", 3600 * NS_PER_S);
    schedule_add("retry", "much later", 3600 * NS_PER_S);
    fleet_push(&fleet, "this is no task");
    fleet_push(&fleet, "{\"class\":\"unknown\",\"args\":[],\"jid\":\"u\"}");
    keys_lengthen();
}

TEST(a_run_leaves_every_key_of_the_live_fleet_as_it_is_and_none_of_its_own)
{
    char *before[LOCK_NODES + 1];
    fleet_stop_with_work();
    assert_true(lock_cluster_holders(&fleet.locks, "lock:r5") >= LOCK_NODES / 2 + 1);
    for (unsigned i = 0; i <= LOCK_NODES; i++)
        before[i] = snapshot_of(i);
    struct program program = shadow_start("4s");
    test_await(keys_like(1, "lock:dry:*") > 0 && keys_like(0, "hf:2:dry:*:queue:jobs") > 0);
    struct program_result result = program_wait(&program);
    assert_well(&result);
    for (unsigned i = 0; i <= LOCK_NODES; i++) {
        char *after = snapshot_of(i);
        assert_string_equal(after, before[i]);
        free(after);
        free(before[i]);
    }
    nothing_of_runs_is_left();
    /* the one that waits for its lock is in the schedule */
    assert_shadowed(result.out, "copied 4 running, 250 queued and 7 scheduled tasks, and 0 that came meanwhile");
    assert_shadowed(result.out, "2 texts were no tasks of a class and queue that are served here");
    assert_all_was_played(result.out, 4 + QUEUED + 7);
    program_result_free(&result);
    is_well = true;
}

static bool says_copied(const struct program *program)
{
    char *said = program_error_text(program);
    bool is_said = strstr(said, "what comes now is followed") != NULL;
    free(said);
    return is_said;
}

static void holder_cancel(void)
{
    struct program_result result =
        program_run_arguments((const char *const[]){"cancel", "-c", path, "holder", NULL}, -1);
    assert_int_equal(result.exit_code, 0);
    program_result_free(&result);
}

/* What comes between two looks waits for a lock, when the shadow looks again: one of the fleet's tasks has it all the
 * time. */
TEST(of_a_fleet_that_works_it_counts_and_plays_what_comes_and_the_fleet_runs_each_task_once)
{
    enum { BEFORE = 12, MEANWHILE = 30, ALL = BEFORE + MEANWHILE + 2 };
    fleet_work(&fleet, &(struct fleet_setup){.threads = 3, .lock = LONG_LOCK});
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"holder\",\"resource\":\"r0\"}");
    test_await(fleet_noted_all(&fleet, "begin holder") == 1);
    fleet_push_many(&fleet, "guarded", BEFORE, 300, BEFORE);
    schedule_add("schedule", "soon", 2 * NS_PER_S);
    unsigned ended_before = (unsigned)fleet_number(&fleet, "GET stat:processed");
    struct program program = shadow_start("4s");
    test_await(says_copied(&program));
    unsigned ended_after = fleet_noted_all(&fleet, "end ");
    kill(program.pid, SIGSTOP);
    for (unsigned i = 0; i < MEANWHILE; i++) {
        char jid[16];
        snprintf(jid, sizeof jid, "m%u", i);
        guarded_push(jid, "r0", 1);
    }
    test_await(fleet_number(&fleet, "LLEN queue:jobs") == 0 && fleet_number(&fleet, "ZCARD schedule") >= MEANWHILE);
    kill(program.pid, SIGCONT);
    struct program_result result = program_wait(&program);
    assert_well(&result);
    holder_cancel();
    test_await(fleet_noted_all(&fleet, "end ") == ALL - 1);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), ALL);
    test_await(fleet_left(&fleet) == 0);
    nothing_of_runs_is_left();
    assert_shadowed(result.out, " 30 that came meanwhile");
    unsigned pushed = number_of(result.out, "pushed");
    assert_in_range(pushed, ALL - ended_after, ALL - ended_before);
    assert_all_was_played(result.out, pushed);
    program_result_free(&result);
    is_well = true;
}

/* Its classes hold as long as the fleet has counted that their locks were held; others as --hold says. */
TEST(holds_are_as_long_as_those_of_the_fleet_were)
{
    enum { STEP = 55 }; /* of four in each octave: 229 to 262 ms */
    time_t now = time(NULL);
    struct tm day;
    fleet_stop_with_work();
    gmtime_r(&now, &day);
    free(fleet_ask(&fleet, "HSET hf:2:locks:%04d%02d%02d 'guarded|acct:|hold.%d' 1000", day.tm_year + 1900,
                   day.tm_mon + 1, day.tm_mday, STEP));
    struct program program = shadow_start("2s");
    struct program_result result = program_wait(&program);
    assert_well(&result);
    const char *hold = strstr(result.out, "\"hold\":{\"count\":");
    assert_non_null(hold);
    double mean = strtod(strstr(hold, "\"mean\":") + strlen("\"mean\":"), NULL);
    assert_true(mean >= 0.22);
    assert_contains(result.error, "their tasks hold as --hold says: careful, count");
    program_result_free(&result);
    is_well = true;
}

RUN_GROUP(all_set_up, all_tear_down, NULL, tear_down)
