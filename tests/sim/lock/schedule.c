#include "tests/sim/lock/schedule.h"

#include "tests/sim/world/trouble.h"

#include <stdio.h>
#include <string.h>

#include "base/invariant.h"

#define TROUBLE_NS (8 * NS_PER_S)
#define MAKE_NS    (5 * NS_PER_S)
#define CALM_NS    (40 * NS_PER_S)
#define STEP_NS    (200 * NS_PER_MS)
#define RECOVER_NS (15 * NS_PER_S)
#define DRIFT_PPB  INT64_C(5000000) /* half of drift_factor */

static struct lock_schedule schedule; /* of this process */

static void run_for(int64_t ns)
{
    if (!play_is_violated())
        world_run(instant_after(world_time(), ns));
}

/* --- what it is like ---------------------------------------------------------------------------------------------- */

static void nodes_make(void)
{
    schedule.node_count = (unsigned[]){1, 3, 3, 5, 5, 5, 7}[chance_pick(&schedule.chance, 7)];
    for (unsigned i = 0; i < schedule.node_count; i++) {
        snprintf(schedule.names[i], sizeof schedule.names[i], "lock%u", i + 1);
        schedule.nodes[i] = node_create(schedule.names[i]);
    }
}

static void client_make(struct lock_client *client, unsigned number)
{
    char name[24];
    snprintf(name, sizeof name, "client%u", number);
    client->schedule = &schedule;
    client->number = number;
    client->host = host_create(name);
    client->terms = (struct redlock_terms){
        .ttl_ns = chance_scale(&schedule.chance, 500 * NS_PER_MS, 4 * NS_PER_S),
        .tries = (unsigned)chance_between(&schedule.chance, 1, 6),
        .wait_ns = chance_pick(&schedule.chance, 2) == 0 ? 0 : chance_scale(&schedule.chance, NS_PER_MS, 3 * NS_PER_S)};
    for (unsigned i = 0; i < schedule.node_count; i++)
        client->nodes[i] = (struct redlock_node){.name = schedule.names[i], .host = schedule.names[i], .port = 6379};
    client->options = (struct redlock_options){
        .nodes = client->nodes, .node_count = schedule.node_count, .logs_to_stderr = world_is_told()};
    for (unsigned i = 0; i < schedule.user_count; i++)
        client->users[i] = (struct lock_user){.client = client, .number = i};
}

/* --- the operator ------------------------------------------------------------------------------------------------- */

static void heal_main(void *argument)
{
    char reason[256] = "";
    (void)argument;
    struct redlock_nodes *nodes = redlock_nodes_open(&schedule.clients[0].options, reason, sizeof reason);
    enum redlock_nodes_end end = redlock_nodes_heal(nodes, NULL, true);
    world_tell("healed: %d %s", (int)end, redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
}

static void operator_main(void *argument)
{
    char reason[256] = "";
    (void)argument;
    struct redlock_nodes *nodes = redlock_nodes_open(&schedule.clients[0].options, reason, sizeof reason);
    struct redlock_group_terms terms = {.max_ttl_ns = schedule.max_ttl_ns};
    schedule.is_made = redlock_nodes_init(nodes, &terms) == REDLOCK_NODES_DONE;
    if (!schedule.is_made)
        world_tell("no group: %s", redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
}

static void group_make(void)
{
    if (schedule.node_count == 1) {
        schedule.is_made = true;
        return;
    }
    process_start(host_create("operator"), "operator", operator_main, NULL);
    for (int64_t ns = 0; ns < MAKE_NS && !schedule.is_made; ns += STEP_NS)
        run_for(STEP_NS);
    if (!schedule.is_made)
        play_violated("group", "the operator could not make a group of healthy nodes");
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

static struct process *process_of(unsigned number)
{
    return schedule.clients[number].process;
}

static struct host *host_of(unsigned number)
{
    return schedule.clients[number].host;
}

static void client_restart(unsigned number)
{
    if (!schedule.is_quitting)
        lock_client_start(&schedule.clients[number]);
}

static void trouble_begin(void)
{
    static struct trouble_scene scene;
    scene = (struct trouble_scene){.nodes = schedule.nodes,
                                   .node_count = schedule.node_count,
                                   .process_count = schedule.client_count,
                                   .process = process_of,
                                   .host = host_of,
                                   .restart = client_restart,
                                   .longest_ns = chance_scale(&schedule.chance, 100 * NS_PER_MS, 8 * NS_PER_S),
                                   .drift_ppb = DRIFT_PPB,
                                   .is_wild = schedule.is_wild,
                                   .is_minor = schedule.is_minor};
    trouble_draw(&scene, &schedule.chance, TROUBLE_NS);
}

/* --- its course --------------------------------------------------------------------------------------------------- */

static bool all_have_ended(void)
{
    for (unsigned i = 0; i < schedule.client_count; i++)
        if (schedule.clients[i].process->is_alive)
            return false;
    return true;
}

static void draw(uint64_t seed)
{
    schedule.chance = (struct chance){.state = chance_mix(seed * 2 + 1)};
    schedule.client_count = 1 + chance_pick(&schedule.chance, LOCK_CLIENTS_MAX);
    schedule.user_count = 1 + chance_pick(&schedule.chance, LOCK_USERS_MAX);
    schedule.resource_count = 1 + chance_pick(&schedule.chance, LOCK_RESOURCES_MAX);
    schedule.max_ttl_ns = 5 * NS_PER_S;
    nodes_make();
    schedule.is_minor = schedule.node_count > 1 && chance_pick(&schedule.chance, 4) == 0;
    schedule.is_wild = !schedule.is_minor && chance_pick(&schedule.chance, 8) == 0;
    for (unsigned i = 0; i < schedule.client_count; i++)
        client_make(&schedule.clients[i], i);
}

static bool recovers_within(int64_t limit_ns, const struct lock_user **who)
{
    for (int64_t ns = 0; ns < limit_ns && !play_is_violated(); ns += STEP_NS) {
        run_for(STEP_NS);
        if (lock_judge_has_recovered(&schedule, who))
            return true;
    }
    return false;
}

/* Everybody has to get a lock once more; by an operator's help where no membership has a majority any more. */
static void recovery_await(void)
{
    const struct lock_user *who = NULL;
    for (unsigned i = 0; i < schedule.client_count; i++)
        for (unsigned k = 0; k < schedule.user_count; k++)
            schedule.clients[i].users[k].acquired_before = schedule.clients[i].users[k].acquired;
    if (recovers_within(2 * schedule.max_ttl_ns + RECOVER_NS, &who) || play_is_violated())
        return;
    play_count("helped by an operator", 1);
    process_start(host_create("operator"), "operator", heal_main, NULL);
    if (!recovers_within(2 * schedule.max_ttl_ns + RECOVER_NS, &who) && !play_is_violated() && !schedule.is_wild)
        play_violated("liveness", "user %u.%u has got no lock since the trouble ended", who->client->number,
                      who->number);
}

/* Until all have ended, and what killed ones left has expired. */
static void end_await(void)
{
    schedule.is_quitting = true;
    for (int64_t ns = 0; ns < CALM_NS && !all_have_ended() && !play_is_violated(); ns += STEP_NS)
        run_for(STEP_NS);
    if (!play_is_violated() && !all_have_ended())
        play_violated("liveness", "a client does not end");
    run_for(schedule.max_ttl_ns);
    if (!play_is_violated())
        lock_judge_left(&schedule);
}

void lock_schedule_play(uint64_t seed)
{
    struct instant begun = world_time();
    draw(seed);
    group_make();
    lock_judge_watch(&schedule);
    for (unsigned i = 0; i < schedule.client_count && !play_is_violated(); i++)
        lock_client_start(&schedule.clients[i]);
    if (!play_is_violated()) {
        trouble_begin();
        run_for(TROUBLE_NS);
        trouble_end();
        schedule.is_calm = true;
        recovery_await();
    }
    end_await();
    play_lasted(instant_since(begun, world_time()));
}
