/* A worker is killed at every boundary between it and the nodes: before each request that it makes, by name, and after
 * the reply came but before it did anything with it. Others find its tasks, and every one is accounted for.
 *
 * Each point gets a queue of its own with tasks of every outcome, and a worker of the build with fault points that
 * serves it alone and dies there; so all can die at once, and none spoils the tasks of another. Then one worker without
 * faults serves all queues and cleans up. */
#include "tests/support/test.h"

#include <glob.h>
#include <stdio.h>

#include "base/buffer.h"
#include "tests/chaos/account.h"
#include "tests/support/one_fleet.h"

enum { TASKS = 40, PAIRS_MAX = 60 };

/* What it takes to come there. */
enum way {
    BY_WORK,
    BY_STOP,  /* the worker gets a signal to stop when its queue is empty */
    BY_DEATH, /* a process died before */
    BY_RINGS, /* two blocking claims of a worker with one thread end at once */
    BY_SLEEP, /* it is stopped for longer than its lease, and wakes */
};

struct point {
    const char *name;
    enum way way;
};

static const struct point points[] = {
    {"orphans", BY_DEATH},      {"recover", BY_DEATH},    {"enlist", BY_WORK},          {"renew_lease", BY_WORK},
    {"heartbeat", BY_WORK},     {"brpop", BY_WORK},       {"claim", BY_WORK},           {"claim_successor", BY_WORK},
    {"free", BY_WORK},          {"open", BY_WORK},        {"iteration_begin", BY_WORK}, {"iteration_flush", BY_WORK},
    {"finish", BY_WORK},        {"finish_with", BY_WORK}, {"postpone@retry", BY_WORK},  {"postpone@dead", BY_WORK},
    {"park", BY_WORK},          {"due", BY_WORK},         {"promote", BY_WORK},         {"blmove", BY_WORK},
    {"client", BY_WORK},        {"grant", BY_WORK},       {"grant_all", BY_WORK},       {"extend", BY_WORK},
    {"release_quiet", BY_WORK}, {"give_back", BY_STOP},   {"leave", BY_STOP},           {"unlink", BY_STOP},
    {"lmove", BY_RINGS},        {"hdel", BY_SLEEP},       {"confirm", BY_WORK},         {"unserved", BY_WORK},
};

enum { POINTS = sizeof points / sizeof points[0], OF_POINTS = POINTS * TASKS, ALL = OF_POINTS + 2 * PAIRS_MAX };

/* Scripts that write and are not called by a worker that works: where they are tested. */
static const struct {
    const char *script, *test;
} elsewhere[] = {
    {"push", "tests/chaos/test_kill_commands.c"},
    {"push_unique", "tests/chaos/test_kill_commands.c"},
    {"operate_move", "tests/chaos/test_kill_commands.c"},
    {"operate_drop", "tests/chaos/test_kill_commands.c"},
    {"operate_free", "tests/chaos/test_kill_commands.c"},
    {"operate_pause", "tests/chaos/test_kill_commands.c"},
    {"tick", "tests/virtual/test_periodic.c"},
    {"ticks", "tests/virtual/test_periodic.c"},
    {"call", "tests/virtual/test_control.c"},                /* moves no task */
    {"cancel", "tests/virtual/test_iteration.c"},            /* moves no task */
    {"crash_suspect", "tests/virtual/test_crash_suspect.c"}, /* moves no task */
    {"skip", "tests/virtual/test_waiting_trouble.c"},
    {"unlisted", "tests/virtual/test_recovery.c"}, /* moves no task */
    /* of dry runs, which move no task of anybody */
    {"dry_lease", "tests/virtual/test_name_space.c"},
    {"dry_take", "tests/virtual/test_name_space.c"},
    {"dry_forget", "tests/virtual/test_name_space.c"},
};

/* --- tasks -------------------------------------------------------------------------------------------------------- */

static struct account *account;
static unsigned first; /* of the numbers of this test */

static void task_push(unsigned point, unsigned number, const char *class_name, const char *args, const char *more)
{
    free(fleet_ask(&fleet, "LPUSH queue:q%u '{\"class\":\"%s\",\"args\":[%s],\"jid\":\"k%u\"%s}'", point, class_name,
                   args, number, more));
}

static void task_schedule(unsigned point, unsigned number)
{
    free(fleet_ask(&fleet, "ZADD schedule 1 '{\"class\":\"work\",\"args\":[1],\"jid\":\"k%u\",\"queue\":\"q%u\"}'",
                   number, point));
}

/* Finds what became of a unique task by the key that it holds. */
static void task_push_unique(unsigned point, unsigned number)
{
    char member[80];
    snprintf(member, sizeof member, ",\"hf_unique\":\"%040u\"", number);
    free(fleet_ask(&fleet, "SET hf:2:unique:%040u k%u", number, number));
    task_push(point, number, "work", "1,\"ok\"", member);
}

/* The next number is that of the task that follows from it, which is pushed by nobody else. */
static void task_push_parent(unsigned point, unsigned number)
{
    char args[160];
    snprintf(args, sizeof args,
             "1,\"parent\",\"{\\\"class\\\":\\\"work\\\",\\\"args\\\":[1],\\\"jid\\\":\\\"k%u\\\"}\"", number + 1);
    task_push(point, number, "work", args, "");
}

static void task_push_unserved(unsigned point, unsigned number)
{
    account_expect(account, number, ACCOUNT_DIES);
    task_push(point, number, "stranger", "", ",\"retry\":0");
}

/* One of every kind in turn. */
static void task_of_kind(unsigned point, unsigned number)
{
    switch (number % 10) {
    case 0:
        task_push(point, number, "work", "2,\"fail\"", "");
        break;
    case 1:
        account_expect(account, number, ACCOUNT_DIES);
        task_push(point, number, "work", "1,\"bury\"", "");
        break;
    case 2:
        account_expect(account, number, ACCOUNT_ONCE);
        task_push(point, number, "once", "3", "");
        break;
    case 3:
        task_push_unique(point, number);
        break;
    case 4:
        task_schedule(point, number);
        break;
    case 5:
        task_push(point, number, "work", "5", ",\"resource\":[\"one\",\"two\"]");
        break;
    case 6:
        task_push(point, number, "work", "1,\"discard\"", "");
        break;
    case 7:
        task_push(point, number, "steps", "5", "");
        break;
    default:
        task_push(point, number, "work", "10", "");
        break;
    }
}

static unsigned first_of(unsigned point)
{
    return first + point * TASKS;
}

/* One waits for a lock that somebody holds, one holds its lock long enough to extend it, one fails under a lock, some
 * want the same lock, so that its holder claims a successor, one follows from another, one is of a class that nobody
 * serves. */
static void tasks_push(unsigned point, unsigned from, unsigned to)
{
    char alone[64], same[64];
    snprintf(same, sizeof same, ",\"resource\":\"same%u\"", point);
    snprintf(alone, sizeof alone, ",\"resource\":\"alone%u\"", point);
    for (unsigned i = from; i < to; i++)
        if (i == 9)
            task_push(point, first_of(point) + i, "work", "1", ",\"resource\":\"held\"");
        else if (i == 8)
            task_push(point, first_of(point) + i, "work", "1500", alone);
        else if (i >= 10 && i < 15)
            task_push(point, first_of(point) + i, "work", "200", same);
        else if (i == 16)
            task_push_parent(point, first_of(point) + i);
        else if (i == 17)
            continue; /* follows from the one before */
        else if (i == 18)
            task_push_unserved(point, first_of(point) + i);
        else if (i == 15)
            task_push(point, first_of(point) + i, "work", "2,\"fail\"", same);
        else
            task_of_kind(point, first_of(point) + i);
}

/* Something for those that wait for a call. */
static void call_all(void)
{
    free(fleet_ask(&fleet, "EVAL \"for _, identity in ipairs(redis.call('ZRANGE', 'hf:2:processes', 0, -1)) do "
                           "redis.call('LPUSH', 'hf:2:calls:' .. identity, 'LOOK') end return 1\" 0"));
}

static void resource_hold(bool held)
{
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, held ? "SET lock:held somebody" : "DEL lock:held");
}

/* --- workers ------------------------------------------------------------------------------------------------------ */

#define LEASED "lease = \"1s\"; unknown_class_grace = \"1s\";"

static unsigned worker_of(unsigned point, const char *name, const char *side)
{
    char fault[64], queues[64];
    snprintf(fault, sizeof fault, "%s:%s:kill", name, side);
    snprintf(queues, sizeof queues, points[point].way == BY_RINGS ? "\"q%u\", \"q%ub\"" : "\"q%u\"", point, point);
    return fleet_work(
        &fleet, &(struct fleet_setup){
                    .plugin = "ledger",
                    .threads = points[point].way == BY_RINGS ? 1 : 4,
                    .worker = LEASED,
                    .queues = queues,
                    .fault = fault,
                    /* It is not parked, but goes on asking until the stop. */
                    .classes = points[point].way == BY_STOP ? "{ class = \"work\"; on_conflict = \"delay\"; }" : NULL,
                    .lock = points[point].way == BY_STOP
                                ? "ttl = \"2s\"; tries = 1000; retry_delay = \"20ms\"; prefix = \"lock:\";"
                                : "ttl = \"2s\"; tries = 20; retry_delay = \"2ms\"; retry_jitter = \"4ms\"; "
                                  "park_delay = \"100ms\"; prefix = \"lock:\";", /* so short that it is extended */
                });
}

static bool has_ended(unsigned worker)
{
    siginfo_t ended = {.si_pid = 0};
    waitid(P_PID, (id_t)fleet.workers[worker].pid, &ended, WEXITED | WNOHANG | WNOWAIT);
    return ended.si_pid != 0;
}

static void await_death(unsigned worker, unsigned point, const char *side)
{
    struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
    while (!has_ended(worker)) {
        if (instant_reached(instant_now(), patience))
            fail_msg("no worker came to the point: %s %s", side, points[point].name);
        account_hasten(&fleet);
        poll(NULL, 0, 20);
    }
    int end = fleet_wait(&fleet, worker);
    if (end != -SIGKILL)
        fail_msg("%s %s: it was not killed there, but ended with %d: %s", side, points[point].name, end,
                 fleet_log(&fleet, worker));
}

/* --- the ways ----------------------------------------------------------------------------------------------------- */

/* One dies with claims; then those die who want to recover it. */
static void die_recovering(const char *side)
{
    for (unsigned i = 0; i < POINTS; i++) {
        if (points[i].way != BY_DEATH)
            continue;
        tasks_push(i, 0, TASKS);
        await_death(worker_of(i, "claim", "after"), i, "after the claim for");
        await_death(worker_of(i, points[i].name, side), i, side);
    }
}

static void die_working(const char *side)
{
    unsigned workers[POINTS];
    resource_hold(true);
    for (unsigned i = 0; i < POINTS; i++)
        if (points[i].way == BY_WORK || points[i].way == BY_STOP) {
            tasks_push(i, 0, TASKS / 2);
            workers[i] = worker_of(i, points[i].name, side);
        }
    poll(NULL, 0, 300); /* so that some are idle when more comes; nothing depends on it */
    for (unsigned i = 0; i < POINTS; i++)
        if (points[i].way == BY_WORK || points[i].way == BY_STOP)
            tasks_push(i, TASKS / 2, TASKS);
    call_all();
    for (unsigned i = 0; i < POINTS; i++) {
        if (points[i].way == BY_STOP) {
            test_await(has_ended(workers[i]) || fleet_number(&fleet, "LLEN queue:q%u", i) == 0);
            if (!has_ended(workers[i]))
                fleet_signal(&fleet, workers[i], SIGTERM);
        }
        if (points[i].way == BY_WORK || points[i].way == BY_STOP)
            await_death(workers[i], i, side);
    }
}

/* Each blocking claim takes a task when both are there at once, and one thread can run but one. */
static void die_of_rings(unsigned point, const char *side)
{
    unsigned worker = worker_of(point, points[point].name, side), pair = 0;
    for (; !has_ended(worker) && pair < PAIRS_MAX; pair++) {
        unsigned number = first + OF_POINTS + 2 * pair;
        free(fleet_ask(
            &fleet,
            "EVAL \"for i = 0, 1 do redis.call('LPUSH', KEYS[i + 1], '{\\\"class\\\":\\\"work\\\",\\\"args\\\":[20],"
            "\\\"jid\\\":\\\"k' .. (ARGV[1] + i) .. '\\\"}') end return 1\" 2 queue:q%u queue:q%ub %u",
            point, point, number));
        poll(NULL, 0, 100);
    }
    await_death(worker, point, side);
    for (; pair < PAIRS_MAX; pair++)
        for (unsigned i = 0; i < 2; i++)
            task_push(point, first + OF_POINTS + 2 * pair + i, "work", "1", "");
    tasks_push(point, 0, TASKS);
}

/* Stopped while it runs a task. */
static unsigned fall_asleep(unsigned point, const char *side)
{
    char line[64];
    unsigned number = first_of(point), worker = worker_of(point, points[point].name, side);
    task_push(point, number, "work", "2000", "");
    snprintf(line, sizeof line, "begin k%u host%u", number, worker);
    test_await(fleet_noted(&fleet, line) == 1);
    fleet_signal(&fleet, worker, SIGSTOP);
    return worker;
}

/* It learns that another process has its task. */
static void die_waking(unsigned worker, unsigned point, const char *side)
{
    test_await(fleet_number(&fleet, "EXISTS hf:2:recovered:k%u", first_of(point)) == 1);
    fleet_signal(&fleet, worker, SIGCONT);
    await_death(worker, point, side);
    tasks_push(point, 1, TASKS);
}

static unsigned start_cleaner(void)
{
    struct buffer queues = {0};
    for (unsigned i = 0; i < POINTS; i++)
        buffer_format(&queues, "%s\"q%u\", \"q%ub\"", i > 0 ? ", " : "", i, i);
    unsigned worker = fleet_work(
        &fleet,
        &(struct fleet_setup){.plugin = "ledger", .threads = 16, .worker = LEASED, .queues = buffer_text(&queues)});
    buffer_fini(&queues);
    return worker;
}

#define WHAT_IS_LEFT                                                                                                   \
    "local left = {} "                                                                                                 \
    "for _, key in ipairs(redis.call('KEYS', '*')) do "                                                                \
    "  local kind = redis.call('TYPE', key).ok "                                                                       \
    "  if kind == 'list' then left[#left + 1] = key .. ' ' .. table.concat(redis.call('LRANGE', key, 0, 2), ' ') end " \
    "  if kind == 'zset' and key ~= 'dead' then "                                                                      \
    "    left[#left + 1] = key .. ' ' .. table.concat(redis.call('ZRANGE', key, 0, 5, 'WITHSCORES'), ' ') end "        \
    "end "                                                                                                             \
    "return left"

static bool only_the_dead_are_left(void)
{
    account_hasten(&fleet);
    return fleet_left(&fleet) == fleet_number(&fleet, "ZCARD dead");
}

static unsigned point_by(enum way way)
{
    unsigned point = 0;
    while (points[point].way != way)
        point++;
    return point;
}

static void kill_at_all(const char *side)
{
    account = account_create(first, ALL);
    die_recovering(side);
    die_working(side);
    resource_hold(false);
    die_of_rings(point_by(BY_RINGS), side);
    unsigned sleeper = fall_asleep(point_by(BY_SLEEP), side);
    unsigned cleaner = start_cleaner();
    die_waking(sleeper, point_by(BY_SLEEP), side);
    struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
    while (!only_the_dead_are_left()) {
        if (instant_reached(instant_now(), patience))
            fail_msg("not cleaned up: %s", fleet_ask(&fleet, "EVAL \"%s\" 0", WHAT_IS_LEFT));
        poll(NULL, 0, 20);
    }
    one_fleet_stop(cleaner);
    struct account_sums sums = account_settle(account, &fleet, stdout);
    account_free(account);
    print_message("%u points: %u tasks, %u ended, %u dead, %u ran again, %u recoveries, %u of at most one run gone\n",
                  (unsigned)POINTS, sums.tasks, sums.ended, sums.dead, sums.rerun, sums.recoveries, sums.once_lost);
    assert_true(account_is_settled(&sums));
    assert_int_equal(sums.tasks, ALL);
    char *unique = fleet_ask(&fleet, "KEYS hf:2:unique:*");
    assert_string_equal(unique, "");
    free(unique);
}

TEST_WITH(killed_before_each_request, NULL, one_fleet_clean)
{
    first = 0;
    kill_at_all("before");
}

TEST_WITH(killed_after_each_reply, NULL, one_fleet_clean)
{
    first = ALL;
    kill_at_all("after");
}

/* --- completeness ------------------------------------------------------------------------------------------------- */

static bool file_has(const char *path, const char *const *words)
{
    char text[64 * 1024];
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (; *words != NULL; words++)
        if (strstr(text, *words) != NULL)
            return true;
    return false;
}

static bool is_a_point(const char *script)
{
    size_t length = strlen(script);
    for (unsigned i = 0; i < POINTS; i++)
        if (strncmp(points[i].name, script, length) == 0 && (points[i].name[length] & ~'@') == 0)
            return true;
    return false;
}

static bool is_elsewhere(const char *script)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        const char *const name[] = {script, NULL};
        if (strcmp(elsewhere[i].script, script) == 0)
            return file_has(elsewhere[i].test, name);
    }
    return false;
}

TEST(every_script_that_writes_has_its_points)
{
    static const char *const writes[] = {"'HSET", "'HDEL", "'HINCR",  "'LPUSH", "'RPUSH",  "'LPOP",
                                         "'RPOP", "'LREM", "'ZADD",   "'ZREM",  "'SADD",   "'SREM",
                                         "'SET",  "'DEL'", "'UNLINK", "'INCR",  "'EXPIRE", NULL};
    glob_t found;
    unsigned writing = 0;
    assert_int_equal(glob("lib/queue/scripts/*.lua", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char script[64];
        if (!file_has(found.gl_pathv[i], writes))
            continue;
        writing++;
        assert_int_equal(sscanf(strrchr(found.gl_pathv[i], '/'), "/%63[a-z_]", script), 1);
        if (!is_a_point(script) && !is_elsewhere(script))
            fail_msg("%s writes, and no test kills a process before and after it", script);
    }
    assert_true(writing > 10);
    globfree(&found);
}

static int set_up(void **state)
{
    (void)state;
    fleet_start(&fleet, &(struct redis_server_options){.config = ACCOUNT_NODE}, 3);
    return 0;
}

RUN_GROUP(set_up, one_fleet_tear_down, NULL, NULL)
