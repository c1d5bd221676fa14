/* The parameters of a schedule, drawn before it begins. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/invariant.h"
#include "tests/sim/fleet/fleet.h"

const char *const fleet_queues[FLEET_QUEUES] = {"high", "default", "low"};
const char *const fleet_class_names[CLASSES] = {
    [CLASS_WORK] = "work",   [CLASS_SERIAL] = "serial", [CLASS_ONCE] = "once",    [CLASS_CACHE] = "cache",
    [CLASS_LATER] = "later", [CLASS_STRICT] = "strict", [CLASS_BRIEF] = "brief",  [CLASS_HELD] = "held",
    [CLASS_FRAIL] = "frail", [CLASS_GONE] = "gone",     [CLASS_NOBODY] = "nobody"};

enum { LEASE_MS = 15000, LEASE_MIN_MS = 1000 };

#define TERMS_SEED UINT64_C(0x7465726d73)

static unsigned pick(unsigned count)
{
    return chance_pick(&fleet.chance, count);
}

/* --- nodes and configuration -------------------------------------------------------------------------------------- */

static void nodes_make(void)
{
    static char names[FLEET_NODES_MAX][16];
    fleet.queue = node_create("queue");
    fleet_states_watch(fleet.queue);
    fleet.node_count = pick(2) == 0 ? 3 : 5;
    if (fleet.terms == TERMS_OF_ANOTHER_NODE) {
        fleet.node_count = 1;
        node_create("lock21");
    }
    for (unsigned i = 0; i < fleet.node_count; i++) {
        snprintf(names[i], sizeof names[i], "lock%u", i + 1);
        fleet.nodes[i] = node_create(names[i]);
        fleet_judge_watch(fleet.nodes[i]);
        fleet.lock_nodes[i] = (struct redlock_node){.name = names[i], .host = names[i], .port = 6379};
    }
    fleet.lock_options = (struct redlock_options){.nodes = fleet.lock_nodes, .node_count = fleet.node_count};
    if (fleet.peace != PEACE_NONE || fleet.is_minor || pick(2) == 0)
        return;
    fleet.replica = node_create("replica");
    fleet_states_watch(fleet.replica);
    server_follow(fleet.replica->server, fleet.queue->server, chance_scale(&fleet.chance, 1000, 2 * US_PER_S),
                  node_now_us(fleet.queue));
}

static void config_add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void config_add(const char *format, ...)
{
    size_t length = strlen(fleet.config);
    va_list values;
    va_start(values, format);
    vsnprintf(fleet.config + length, sizeof fleet.config - length, format, values);
    va_end(values);
}

static void lock_nodes_write(void)
{
    config_add("lock_nodes = (");
    for (unsigned i = 0; i < fleet.node_count; i++)
        config_add("%s{ host = \"lock%u\"; port = 6379; }", i > 0 ? ", " : " ", i + 1);
    config_add(" );\n");
}

static void config_write(void)
{
    config_add("worker = { threads = %u; queues = [\"high\", \"default\", \"low\"]; queue_order = \"%s\"; "
               "log_level = \"%s\"; allow_root = true; unknown_class_grace = \"30s\"; "
               "stop_timeout = \"%lldms\"; lease = \"%lldms\"; };\n",
               fleet.threads, pick(2) == 0 ? "strict" : "weighted", world_is_told() ? "debug" : "error",
               (long long)fleet.stop_timeout_ms, (long long)fleet.lease_ms);
    config_add("queue_node = { host = \"queue\"; port = 6379; };\nlock = { ttl = \"%lldms\"; };\n",
               (long long)fleet.ttl_ms);
    if (!fleet.has_no_locks)
        lock_nodes_write();
    config_add("queue_settings = ( { queue = \"high\"; weight = 5; } );\nclasses = (");
    for (unsigned i = 0; i < CLASS_NOBODY; i++)
        config_add("%s { class = \"%s\"; limit = %u; %s}", i > 0 ? "," : "", fleet_class_names[i], fleet.limit,
                   i == CLASS_LATER                     ? "conflict_delay = \"300ms\"; "
                   : i == CLASS_WORK && fleet.share > 0 ? "share = 50; "
                                                        : "");
    config_add(" );\n");
    if (fleet.has_ticks)
        config_add("periodic = ( { name = \"tick\"; cron = \"* * * * *\"; class = \"work\"; } );\n");
    /* For the operators' commands. */
    int fd = memfd_create("holdfast.conf", 0);
    invariant(fd >= 0 && write(fd, fleet.config, strlen(fleet.config)) > 0);
    snprintf(fleet.config_path, sizeof fleet.config_path, "/proc/self/fd/%d", fd);
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

static void resources_draw(struct fleet_task *task)
{
    if (pick(fleet.resource_count + 1) == fleet.resource_count)
        return;
    task->resources[task->resource_count++] = pick(fleet.resource_count);
    unsigned other = pick(fleet.resource_count);
    if (pick(10) == 0 && other != task->resources[0] && fleet.limit == 1)
        task->resources[task->resource_count++] = other;
}

static void habit_draw(struct fleet_task *task)
{
    static const enum fleet_habit habits[] = {HABIT_FAILS, HABIT_FAILS, HABIT_SNOOZES, HABIT_DISCARDS, HABIT_BURIES};
    if (pick(6) == 0)
        task->habit = habits[pick(5)];
    task->is_slow = pick(10) == 0;
}

static void task_draw(unsigned number, bool is_plain)
{
    struct fleet_task *task = &fleet.tasks[number];
    *task = (struct fleet_task){.number = number, .queue = 1, .key = number};
    snprintf(task->jid, sizeof task->jid, "t%u", number);
    resources_draw(task);
    task->queue = pick(FLEET_QUEUES);
    if (is_plain)
        return;
    if (pick(3) == 0)
        task->kind = pick(CLASSES - 1);
    habit_draw(task);
    if (pick(8) == 0)
        task->in_ms = chance_scale(&fleet.chance, 1, 8000);
    if (pick(16) == 0)
        task->expires_ms = chance_scale(&fleet.chance, 100, 20000);
    if (pick(12) == 0) {
        task->is_unique = true;
        task->key = pick(3);
    }
    if (pick(10) == 0)
        task->origin = OF_FOREIGN;
    if (task->origin == OF_FOREIGN && pick(6) == 0)
        task->kind = CLASS_NOBODY;
    if (task->origin == OF_FOREIGN) { /* by LPUSH, which knows none of these */
        task->is_unique = false;
        task->in_ms = 0;
    }
}

/* Some are pushed by the handler of another one. */
static void children_draw(void)
{
    for (unsigned i = 1; i < fleet.task_count; i++) {
        struct fleet_task *child = &fleet.tasks[i], *parent = &fleet.tasks[pick(i)];
        bool may_push = parent->kind == CLASS_WORK && parent->habit == HABIT_DOES && parent->child == 0;
        if (pick(10) != 0 || child->origin != OF_PRODUCER || child->is_unique || !may_push)
            continue;
        child->origin = OF_HANDLER;
        child->in_ms = 0; /* its handler sets no such limit */
        parent->child = i;
    }
}

static enum fleet_peace peace_draw(void)
{
    static const char *const names[] = {"all", "kills", "leases", "operators"};
    enum fleet_peace peace = pick(4) == 0   ? PEACE_OF_MIND
                             : pick(6) == 0 ? PEACE_KILLS
                             : pick(5) == 0 ? PEACE_LEASES
                                            : PEACE_NONE;
    const char *wanted = getenv("HF_PROFILE");
    for (unsigned i = 0; wanted != NULL && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(wanted, names[i]) == 0)
            peace = (enum fleet_peace)i;
    return peace;
}

/* Random numbers of its own: all else is drawn as before. */
static void terms_draw(uint64_t seed)
{
    static const int64_t timeouts_ms[] = {0, 500, 2000, 25000, 25000, 25000};
    struct chance chance = {.state = chance_mix(seed ^ TERMS_SEED)};
    unsigned half = fleet.threads > 1 ? fleet.threads / 2 : 1;
    fleet.share = chance_pick(&chance, 4) == 0 ? half : 0;
    fleet.stop_timeout_ms = timeouts_ms[chance_pick(&chance, 6)];
    fleet.has_no_locks = chance_pick(&chance, 16) == 0 && !fleet.has_operators;
    fleet.lease_ms = LEASE_MS;
    if (chance_pick(&chance, 4) == 0)
        fleet.lease_ms = chance_between(&chance, LEASE_MIN_MS, fleet.ttl_ms);
    fleet.max_tasks = chance_pick(&chance, 8) == 0 ? 1 + chance_pick(&chance, 20) : 0;
    if (fleet.has_no_locks)
        fleet.resource_count = 0;
    if (!fleet.has_no_locks && !fleet.has_operators && fleet.limit == 1 && chance_pick(&chance, 4) == 0)
        fleet.terms = 1 + chance_pick(&chance, TERMS_OF_ANOTHER_TEMPLATE);
    /* A single node that forgets lets two hold one lock. */
    bool keep_nodes = fleet.peace == PEACE_KILLS || fleet.peace == PEACE_OF_MIND;
    if (fleet.terms != TERMS_ARE_THE_SAME && keep_nodes && chance_pick(&chance, 4) != 0)
        fleet.terms = TERMS_OF_ANOTHER_NODE;
    fleet.loses_locks = !fleet.has_no_locks && fleet.peace == PEACE_NONE && !fleet.is_minor && !fleet.is_wild &&
                        chance_pick(&chance, 2) == 0;
    if (fleet.loses_locks) { /* short locks, and handlers that outlive them */
        fleet.ttl_ms = chance_between(&chance, 1000, 1500);
        fleet.hold_ns = chance_between(&chance, 3, 8) * fleet.ttl_ms * NS_PER_MS;
    }
}

void fleet_plan(uint64_t seed)
{
    static const enum config_isolation isolations[] = {CONFIG_ISOLATION_THREAD, CONFIG_ISOLATION_PROCESS,
                                                       CONFIG_ISOLATION_EXEC};
    fleet.chance = (struct chance){.state = chance_mix(seed * 2 + 1)};
    fleet.limit = chance_mix(~seed) % 4 == 0 ? 2 + (unsigned)(chance_mix(~seed) / 4 % (FLEET_LIMIT_MAX - 1)) : 1;
    fleet.peace = peace_draw();
    fleet.is_minor = fleet.peace == PEACE_NONE && pick(5) == 0;
    fleet.is_wild = fleet.peace == PEACE_NONE && !fleet.is_minor && pick(8) == 0;
    fleet.isolation = isolations[pick(3)];
    fleet.has_operators = pick(2) == 0;
    fleet.has_ticks = pick(4) == 0;
    fleet.worker_count = 1 + pick(FLEET_WORKERS_MAX);
    fleet.producer_count = 1 + pick(FLEET_PRODUCERS_MAX);
    fleet.task_count = (unsigned)chance_scale(&fleet.chance, 8, 80);
    fleet.resource_count = 1 + pick(FLEET_RESOURCES_MAX);
    fleet.threads = 1 + pick(8);
    fleet.ttl_ms = chance_scale(&fleet.chance, 1000, 5000);
    fleet.push_gap_ns = chance_scale(&fleet.chance, NS_PER_MS, 500 * NS_PER_MS);
    fleet.hold_ns = chance_scale(&fleet.chance, NS_PER_MS, 8 * NS_PER_S);
    if (fleet.peace == PEACE_LEASES) { /* so that there is something to do all the time */
        fleet.push_gap_ns = chance_scale(&fleet.chance, 500 * NS_PER_MS, 3 * NS_PER_S);
        fleet.hold_ns = chance_scale(&fleet.chance, 500 * NS_PER_MS, 4 * NS_PER_S);
    }
    terms_draw(seed);
    bool is_plain = pick(4) == 0; /* only what waits for locks */
    for (unsigned i = 0; i < fleet.task_count; i++)
        task_draw(i, is_plain);
    children_draw();
    nodes_make();
    config_write();
}

/* --- a task as text ----------------------------------------------------------------------------------------------- */

void fleet_task_write(const struct fleet_task *task, struct buffer *out)
{
    buffer_format(out, "{\"class\":\"%s\",\"args\":[%u],\"jid\":\"%s\",\"queue\":\"%s\",\"retry\":%s",
                  fleet_class_names[task->kind], task->key, task->jid, fleet_queues[task->queue],
                  task->kind == CLASS_NOBODY ? "0" : "true");
    if (task->resource_count == 1)
        buffer_format(out, ",\"resource\":\"r%u\"", task->resources[0]);
    if (task->resource_count == 2)
        buffer_format(out, ",\"resource\":[\"r%u\",\"r%u\"]", task->resources[0], task->resources[1]);
    if (task->expires_ms > 0)
        buffer_format(out, ",\"expires_in\":%.3f", (double)task->expires_ms / 1000);
    buffer_append_text(out, "}");
}

struct fleet_task *fleet_task_of(const char *jid)
{
    char *end;
    unsigned long number = jid[0] == 't' ? strtoul(jid + 1, &end, 10) : ULONG_MAX;
    return number < fleet.task_count && *end == '\0' ? &fleet.tasks[number] : NULL;
}
