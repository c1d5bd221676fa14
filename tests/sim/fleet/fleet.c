#include "tests/sim/fleet/fleet.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "redlock/redlock_nodes.h"
#include "tests/sim/world/trouble.h"

#define MAKE_NS    (5 * NS_PER_S)
#define TROUBLE_NS (20 * NS_PER_S)
#define STEP_NS    (500 * NS_PER_MS)
#define CALM_NS    (900 * NS_PER_S)
#define HEAL_NS    (100 * NS_PER_S)
#define STOP_NS    (60 * NS_PER_S)
#define DRIFT_PPB  INT64_C(5000000) /* half of drift_factor */

struct fleet fleet;

/* --- what it is like ---------------------------------------------------------------------------------------------- */

static void nodes_make(void)
{
    static char names[FLEET_NODES_MAX][16];
    fleet.queue = node_create("queue");
    fleet.node_count = chance_pick(&fleet.chance, 2) == 0 ? 3 : 5;
    for (unsigned i = 0; i < fleet.node_count; i++) {
        snprintf(names[i], sizeof names[i], "lock%u", i + 1);
        fleet.nodes[i] = node_create(names[i]);
        fleet.lock_nodes[i] = (struct redlock_node){.name = names[i], .host = names[i], .port = 6379};
    }
    fleet.lock_options = (struct redlock_options){.nodes = fleet.lock_nodes, .node_count = fleet.node_count};
}

static void config_write(void)
{
    int length = snprintf(fleet.config, sizeof fleet.config,
                          "worker = { threads = %u; queues = [\"default\"]; log_level = \"%s\"; allow_root = true; };\n"
                          "queue_node = { host = \"queue\"; port = 6379; };\n"
                          "lock = { ttl = \"%lldms\"; };\nlock_nodes = (",
                          fleet.threads, world_is_told() ? "debug" : "error",
                          (long long)chance_scale(&fleet.chance, 1000, 5000));
    for (unsigned i = 0; i < fleet.node_count; i++)
        length += snprintf(fleet.config + length, sizeof fleet.config - (size_t)length,
                           "%s{ host = \"lock%u\"; port = 6379; }", i > 0 ? ", " : " ", i + 1);
    snprintf(fleet.config + length, sizeof fleet.config - (size_t)length, " );\n");
}

static void draw(uint64_t seed)
{
    fleet.chance = (struct chance){.state = chance_mix(seed * 2 + 1)};
    fleet.worker_count = 1 + chance_pick(&fleet.chance, FLEET_WORKERS_MAX);
    fleet.producer_count = 1 + chance_pick(&fleet.chance, FLEET_PRODUCERS_MAX);
    fleet.task_count = (unsigned)chance_scale(&fleet.chance, 8, 80);
    fleet.resource_count = 1 + chance_pick(&fleet.chance, FLEET_RESOURCES_MAX);
    fleet.threads = 1 + chance_pick(&fleet.chance, 8);
    fleet.push_gap_ns = chance_scale(&fleet.chance, NS_PER_MS, 500 * NS_PER_MS);
    fleet.hold_ns = chance_scale(&fleet.chance, NS_PER_MS, 2 * NS_PER_S);
    for (unsigned i = 0; i < fleet.task_count; i++) {
        unsigned resource = chance_pick(&fleet.chance, fleet.resource_count + 1);
        fleet.tasks[i].number = i;
        fleet.tasks[i].resource = resource == fleet.resource_count ? FLEET_RESOURCES_MAX : resource;
    }
    fleet.is_minor = chance_pick(&fleet.chance, 5) == 0;
    fleet.is_wild = !fleet.is_minor && chance_pick(&fleet.chance, 8) == 0;
    fleet.isolation = chance_pick(&fleet.chance, 2) == 0 ? HF_ISOLATION_THREAD : HF_ISOLATION_PROCESS;
    fleet.is_refusing = true; /* it may be out of memory */
    nodes_make();
    config_write();
    fleet_judge_watch();
}

/* --- the operator ------------------------------------------------------------------------------------------------- */

static void operator_main(void *argument)
{
    char reason[256] = "";
    (void)argument;
    struct redlock_nodes *nodes = redlock_nodes_open(&fleet.lock_options, reason, sizeof reason);
    struct redlock_group_terms terms = {.max_ttl_ns = 5 * NS_PER_S};
    fleet.is_made = redlock_nodes_init(nodes, &terms) == REDLOCK_NODES_DONE;
    if (!fleet.is_made)
        play_violated("group", "%s", redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
}

static void heal_main(void *argument)
{
    char reason[256] = "";
    (void)argument;
    struct redlock_nodes *nodes = redlock_nodes_open(&fleet.lock_options, reason, sizeof reason);
    enum redlock_nodes_end end = redlock_nodes_heal(nodes, NULL, true);
    world_tell("healed: %d %s", (int)end, redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

static struct process *process_of(unsigned number)
{
    return fleet.workers[number].process;
}

static struct host *host_of(unsigned number)
{
    return fleet.workers[number].host;
}

static void worker_restart(unsigned number)
{
    fleet_worker_start(&fleet.workers[number]);
}

static void worker_stop_gently(unsigned number, bool is_quiet)
{
    if (is_quiet)
        fleet_signal(fleet.workers[number].process, SIGTSTP);
    fleet_signal(fleet.workers[number].process, SIGTERM);
}

static void trouble_begin(void)
{
    static struct trouble_scene scene;
    scene = (struct trouble_scene){.nodes = fleet.nodes,
                                   .node_count = fleet.node_count,
                                   .queue = fleet.queue,
                                   .process_count = fleet.worker_count,
                                   .process = process_of,
                                   .host = host_of,
                                   .restart = worker_restart,
                                   .stop = worker_stop_gently,
                                   .longest_ns = chance_scale(&fleet.chance, 100 * NS_PER_MS, 20 * NS_PER_S),
                                   .drift_ppb = DRIFT_PPB,
                                   .is_wild = fleet.is_wild,
                                   .is_minor = fleet.is_minor};
    trouble_draw(&scene, &fleet.chance, TROUBLE_NS);
}

/* --- its course --------------------------------------------------------------------------------------------------- */

static void run_for(int64_t ns)
{
    if (!play_is_violated())
        world_run(instant_after(world_time(), ns));
}

static bool producers_have_ended(void)
{
    for (unsigned i = 0; i < fleet.producer_count; i++)
        if (fleet.producers[i]->is_alive)
            return false;
    return true;
}

static bool workers_have_ended(void)
{
    for (unsigned i = 0; i < fleet.worker_count; i++)
        if (fleet.workers[i].process->is_alive)
            return false;
    return true;
}

static void workers_stop(void)
{
    for (unsigned i = 0; i < fleet.worker_count; i++)
        fleet_signal(fleet.workers[i].process, SIGTERM);
    for (int64_t ns = 0; ns < STOP_NS && !workers_have_ended() && !play_is_violated(); ns += STEP_NS)
        run_for(STEP_NS);
    if (!play_is_violated() && !workers_have_ended())
        play_violated("liveness", "a worker does not stop");
}

void fleet_play(uint64_t seed)
{
    struct instant begun = world_time();
    draw(seed);
    process_start(host_create("operator"), "operator", operator_main, NULL);
    for (int64_t ns = 0; ns < MAKE_NS && !fleet.is_made; ns += STEP_NS)
        run_for(STEP_NS);
    for (unsigned i = 0; i < fleet.worker_count; i++) {
        char name[24];
        snprintf(name, sizeof name, "host%u", i);
        fleet.workers[i] = (struct fleet_worker){.number = i, .host = host_create(name)};
        fleet_worker_start(&fleet.workers[i]);
    }
    for (unsigned i = 0; i < fleet.producer_count; i++)
        fleet_producer_start(i);
    if (!play_is_violated()) {
        trouble_begin();
        run_for(TROUBLE_NS);
        trouble_end();
    }
    fleet.is_calm = true;
    for (int64_t ns = 0; ns < CALM_NS && !(producers_have_ended() && fleet_is_idle()) && !play_is_violated();
         ns += STEP_NS) {
        run_for(STEP_NS);
        if (ns != HEAL_NS)
            continue;
        /* Where no membership has a majority any more, nobody gets locks before an operator helps. */
        play_count("helped by an operator", 1);
        process_start(host_create("operator"), "operator", heal_main, NULL);
    }
    if (!play_is_violated())
        fleet_judge_end();
    workers_stop();
    play_lasted(instant_since(begun, world_time()));
}
