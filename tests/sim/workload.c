/* A piece of work in a world without trouble, the same instructions each time: what it asks of each server is written
 * down with HF_TRAFFIC, and a profiler counts what the worker does. For tests/bench/instructions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "queue/digest.h"
#include "redis/request.h"
#include "redlock/redlock_loop.h"
#include "redlock/redlock_nodes.h"
#include "tests/sim/fleet/fleet.h"
#include "tests/support/loop_until.h"
#include "worker/plugin/plugin.h"
#include "worker/task/job_host.h"
#include "worker/worker.h"
#include "worker/worker_state.h"

enum { NODES = 5, USERS_MAX = 64, THREADS = 50, TEXT_MAX = 400 };

static struct node *queue, *lock_nodes[NODES];
static struct redlock_node addresses[NODES];
static const struct redlock_options options = {
    .nodes = addresses, .node_count = NODES, .key_prefix = "lock:", .client_name = "workload"};
static unsigned wanted; /* cycles or tasks in all */
static unsigned at_once;

/* --- saying something without the library ------------------------------------------------------------------------- */

static unsigned replies;

/* A line of a text begins otherwise: it is a number of hexadecimal digits, or a task. */
static void replied(void *context, const char *bytes, size_t length)
{
    static char before = '\n';
    (void)context;
    for (size_t i = 0; i < length; before = bytes[i++])
        replies += before == '\n' && strchr("+:$", bytes[i]) != NULL;
}

static void hung_up(void *context)
{
    (void)context;
    invariant_unreachable("the server hangs up");
}

/* --- locks -------------------------------------------------------------------------------------------------------- */

struct user {
    struct redlock_lock *lock;
    bool is_held, is_free;
};

static void lock_told(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct user *user = context;
    (void)lock;
    invariant(event->kind != REDLOCK_EVENT_LOST);
    invariant(event->kind != REDLOCK_EVENT_ANSWER || event->answer == REDLOCK_ACQUIRED);
    user->is_held |= event->kind == REDLOCK_EVENT_ANSWER;
    user->is_free |= event->kind == REDLOCK_EVENT_RELEASED;
}

static struct loop *loop;
static struct redlock_group *group;

static void turn_until(bool (*is_so)(void))
{
    while (!is_so())
        loop_for(loop, NS_PER_MS / 10);
}

static struct user users[USERS_MAX];

static bool is_settled(void)
{
    return redlock_group_is_settled(group) && redlock_group_voters(group) == NODES;
}

static bool all_are_held(void)
{
    unsigned held = 0;
    for (unsigned i = 0; i < at_once; i++)
        held += users[i].is_held;
    return held == at_once && redlock_group_busy(group) == at_once;
}

static bool all_are_free(void)
{
    return redlock_group_busy(group) == 0;
}

/* Each of them under a resource that nobody had before; the next ones once all nodes have answered. */
static void round_play(unsigned round)
{
    for (unsigned i = 0; i < at_once; i++) {
        char resource[32], owner[64];
        snprintf(resource, sizeof resource, "resource:%u", round * at_once + i);
        snprintf(owner, sizeof owner, "host-1.example/1234/%u", i);
        users[i].is_held = users[i].is_free = false;
        struct redlock_request request = {.resources = (const char *[]){resource}, .resource_count = 1, .owner = owner};
        invariant(redlock_lock_acquire(users[i].lock, &request));
    }
    turn_until(all_are_held);
    for (unsigned i = 0; i < at_once; i++)
        redlock_lock_release(users[i].lock);
    turn_until(all_are_free);
}

/* What the server did before this does not count: tests/bench/instructions begins anew when it hears DBSIZE. */
static void measuring_begins(void)
{
    struct node_caller *caller = node_call(lock_nodes[0], replied, hung_up, NULL);
    struct buffer bytes = {0};
    replies = 0;
    redis_request_command(&bytes, "DBSIZE");
    node_say(caller, bytes.bytes, bytes.length);
    buffer_fini(&bytes);
    while (replies == 0)
        process_sleep(NS_PER_MS);
}

static void locks_main(void *argument)
{
    struct redlock_terms terms = {.ttl_ms = 30000, .tries = 1};
    struct error error;
    char reason[256];
    (void)argument;
    loop = loop_create(&error);
    group = redlock_group_create(loop, &options, reason, sizeof reason);
    invariant(group != NULL);
    turn_until(is_settled);
    for (unsigned i = 0; i < at_once; i++)
        users[i].lock = redlock_lock_create(group, &terms, lock_told, &users[i]);
    for (unsigned round = 0; round < 2 * (wanted / at_once); round++) {
        if (round == wanted / at_once)
            measuring_begins();
        round_play(round);
    }
    exit(0);
}

/* --- without the library ------------------------------------------------------------------------------------------ */

/* A lock as SET and a script that compares and deletes. */
static void plain_lock_add(struct buffer *bytes, unsigned number, bool is_release)
{
    static const char script[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end "
                                 "return 0";
    static char sha1[DIGEST_TEXT_SIZE];
    char key[48], value[80];
    snprintf(key, sizeof key, "lock:resource:%u", number);
    snprintf(value, sizeof value, "%032x:host-1.example/1234/%u", number, number % at_once);
    if (sha1[0] == '\0') {
        digest_text(script, strlen(script), sha1);
        redis_request_command(bytes, "SCRIPT", "LOAD", script);
        replies--;
    }
    if (is_release)
        redis_request_command(bytes, "EVALSHA", sha1, "1", key, value);
    else
        redis_request_command(bytes, "SET", key, value, "NX", "PX", "30000");
}

/* A task as it is fetched and acknowledged. */
static void plain_task_add(struct buffer *bytes, bool is_end)
{
    if (is_end)
        redis_request_command(bytes, "RPOP", "claims");
    else
        redis_request_command(bytes, "LMOVE", "queue:default", "claims", "RIGHT", "LEFT");
}

/* `at_once` commands in one piece; the next ones once all are answered. */
static void plain_main(void *argument)
{
    bool locks = argument != NULL;
    struct node_caller *caller = node_call(locks ? lock_nodes[0] : queue, replied, hung_up, NULL);
    for (unsigned step = 0; step < (locks ? 4 : 2) * (wanted / at_once); step++) {
        struct buffer bytes = {0};
        if (locks && step == 2 * (wanted / at_once))
            measuring_begins();
        replies = 0;
        for (unsigned i = 0; i < at_once; i++)
            if (locks)
                plain_lock_add(&bytes, step / 2 * at_once + i, step % 2 == 1);
            else
                plain_task_add(&bytes, step % 2 == 1);
        node_say(caller, bytes.bytes, bytes.length);
        buffer_fini(&bytes);
        while (replies != at_once)
            process_sleep(NS_PER_MS);
    }
    exit(0);
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

static unsigned begun;

static int nothing_run(hf_job *job, void *state)
{
    (void)job, (void)state;
    begun++;
    return HF_OK;
}

/* As anybody pushes them: without lib/redis, whose work would count as the worker's. */
static void tasks_push(bool are_locked)
{
    struct node_caller *caller = node_call(queue, replied, hung_up, NULL);
    for (unsigned i = 0; i < wanted; i++) {
        char task[TEXT_MAX], resource[64] = "";
        struct buffer bytes = {0};
        if (are_locked)
            snprintf(resource, sizeof resource, ",\"resource\":\"account:%u\"", i);
        snprintf(task, sizeof task,
                 "{\"class\":\"nothing\",\"args\":[%u,\"customer-%u\"],\"jid\":\"%016x\",\"queue\":\"default\","
                 "\"created_at\":1700000000.25,\"enqueued_at\":1700000000.25,\"retry\":true%s}",
                 i, i, i, resource);
        buffer_format(&bytes, "*3\r\n$5\r\nLPUSH\r\n$13\r\nqueue:default\r\n$%zu\r\n%s\r\n", strlen(task), task);
        node_say(caller, bytes.bytes, bytes.length);
        buffer_fini(&bytes);
    }
    world_run(instant_after(world_time(), NS_PER_S));
}

static void worker_main(void *argument)
{
    static const struct plugin_handler nothing = {
        .class_name = "nothing", .run = nothing_run, .isolation = HF_ISOLATION_THREAD, .origin = "workload"};
    struct findings findings = {0};
    struct buffer text = {0};
    struct zygote zygote;
    bool abandoned = false;
    (void)argument;
    buffer_format(&text,
                  "worker = { threads = %d; queues = [\"default\"]; log_level = \"error\"; allow_root = true; };\n"
                  "queue_node = { host = \"queue\"; port = 6379; };\nlock_nodes = (",
                  THREADS);
    for (unsigned i = 0; i < NODES; i++)
        buffer_format(&text, "%s{ host = \"%s\"; port = 6379; }", i > 0 ? ", " : " ", addresses[i].name);
    buffer_append_text(&text, " );\nlock = { prefix = \"lock:\"; };\n");
    struct config *config = config_read_written(&text, &findings);
    invariant(config != NULL && findings.errors == 0);
    struct worker_options worker = {.config = config,
                                    .plugins = plugins_create_built_in("workload", NULL),
                                    .hosts = job_hosts_create(config),
                                    .run_table = run_table_create(WORKER_SLOTS(config->worker.threads)),
                                    .zygote = &zygote};
    invariant(plugins_add_built_in(worker.plugins, &nothing));
    fleet_zygote_start(&zygote, worker.run_table);
    (void)worker_run(&worker, &abandoned);
}

/* --- the world ---------------------------------------------------------------------------------------------------- */

static bool is_made;

static void group_main(void *argument)
{
    char reason[256] = "";
    struct redlock_group_terms terms = {.max_ttl_ms = 60000};
    (void)argument;
    struct redlock_nodes *nodes = redlock_nodes_open(&options, reason, sizeof reason);
    is_made = redlock_nodes_init(nodes, &terms) == REDLOCK_NODES_DONE;
    redlock_nodes_close(nodes);
}

static void nodes_make(void)
{
    static char names[NODES][8];
    queue = node_create("queue");
    for (unsigned i = 0; i < NODES; i++) {
        snprintf(names[i], sizeof names[i], "lock%u", i + 1);
        lock_nodes[i] = node_create(names[i]);
        addresses[i] = (struct redlock_node){.name = names[i], .host = names[i], .port = 6379};
    }
    process_start(host_create("operator"), "operator", group_main, NULL);
    world_run(instant_after(world_time(), 2 * NS_PER_S));
    invariant(is_made);
}

/* A lock node that keeps as many fences as it does by default, all of them old. */
static void fences_fill(void)
{
    static const char script[] = "local add = {'ZADD', 'hf:fences'} "
                                 "for i = ARGV[1] + 1, ARGV[1] + ARGV[2] do "
                                 "add[#add + 1] = i add[#add + 1] = 'lock:some:resource:' .. i end "
                                 "return redis.call(unpack(add))";
    enum { FENCES = 381300, ONE_CALL = 3813 };
    struct node_caller *caller = node_call(lock_nodes[0], replied, hung_up, NULL);
    for (unsigned from = 0; from < FENCES; from += ONE_CALL) {
        char first[16], count[16];
        struct buffer bytes = {0};
        snprintf(first, sizeof first, "%u", from);
        snprintf(count, sizeof count, "%u", ONE_CALL);
        redis_request_command(&bytes, "EVAL", script, "0", first, count);
        node_say(caller, bytes.bytes, bytes.length);
        buffer_fini(&bytes);
    }
    world_run(instant_after(world_time(), NS_PER_S));
}

int main(int count, char **arguments)
{
    static const char *const kinds[] = {"locks", "plain-locks", "tasks", "locked-tasks", "pushes", "plain-tasks"};
    enum { LOCKS, PLAIN_LOCKS, TASKS, LOCKED_TASKS, PUSHES, PLAIN_TASKS, KINDS } kind = LOCKS;
    while (count == 4 && kind < KINDS && strcmp(arguments[1], kinds[kind]) != 0)
        kind++;
    at_once = count == 4 ? (unsigned)strtoul(arguments[2], NULL, 10) : 0;
    wanted = count == 4 ? (unsigned)strtoul(arguments[3], NULL, 10) : 0;
    if (count != 4 || kind == KINDS || at_once == 0 || at_once > USERS_MAX || wanted % at_once != 0) {
        fputs("usage: workload locks|plain-locks|tasks|locked-tasks|pushes|plain-tasks AT_ONCE COUNT\n", stderr);
        return 2;
    }
    world_begin(1);
    network_begin();
    hosts_set_apart(0);
    log_set_level(LOG_NOTHING);
    nodes_make();
    if (kind == LOCKS)
        fences_fill();
    if (kind >= TASKS)
        tasks_push(kind == LOCKED_TASKS);
    if (kind == PUSHES)
        return 0;
    process_start(host_create("host-1"), arguments[1],
                  kind == LOCKS                                ? locks_main
                  : kind == PLAIN_LOCKS || kind == PLAIN_TASKS ? plain_main
                                                               : worker_main,
                  kind == PLAIN_LOCKS ? &kind : NULL);
    while (begun < wanted)
        world_run(instant_after(world_time(), 100 * NS_PER_MS));
    world_run(instant_after(world_time(), NS_PER_S));
    return 0;
}
