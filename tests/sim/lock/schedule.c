#include "tests/sim/lock/schedule.h"

#include "base/invariant.h"
#include "tests/sim/world/trouble.h"

#define TROUBLE_NS  (8 * NS_PER_S)
#define PRESSURE_NS (16 * NS_PER_S)
#define MAKE_NS     (5 * NS_PER_S)
#define CALM_NS     (40 * NS_PER_S)
#define END_NS      (80 * NS_PER_S) /* three users of a process wait one behind the other, each for 20 s at most */
#define STEP_NS     (100 * NS_PER_MS)
#define RECOVER_NS  (15 * NS_PER_S)
#define VOTES_NS    (10 * NS_PER_S)
#define HEAL_NS     (40 * NS_PER_S)
#define LOOK_NS     (500 * NS_PER_MS)
#define BACK_MAX_NS (1000 * NS_PER_S)
#define DOUBT_NS    (1500 * NS_PER_MS) /* until all have seen what happened */
#define DRIFT_PPB   INT64_C(9900000)   /* hardly less than drift_factor */

struct lock_schedule lock_schedule;

#define schedule lock_schedule

static void run_for(int64_t ns)
{
    if (!play_is_violated())
        world_run(instant_after(world_time(), ns));
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
                                   .operate = lock_operate,
                                   .move = lock_node_move,
                                   .move_end = lock_node_move_end,
                                   .longest_ns = chance_scale(&schedule.chance, 100 * NS_PER_MS, TROUBLE_NS),
                                   .doubt_ns = schedule.max_ttl_ns + schedule.max_ttl_ns / 20 + DOUBT_NS,
                                   .drift_ppb = DRIFT_PPB,
                                   .is_wild = !schedule.is_exclusive,
                                   .is_minor = schedule.is_minor,
                                   .is_apart = schedule.is_apart,
                                   .freezes = true,
                                   .keeps_memory = schedule.keeps_memory,
                                   .keeps_clocks = schedule.keeps_clocks};
    trouble_draw(&scene, &schedule.chance, TROUBLE_NS);
}

/* --- its course --------------------------------------------------------------------------------------------------- */

static void group_make(void)
{
    schedule.is_made = schedule.node_count == 1;
    if (!schedule.is_made)
        lock_operator_start(lock_group_make, NULL);
    for (int64_t ns = 0; ns < MAKE_NS && !schedule.is_made; ns += STEP_NS)
        run_for(STEP_NS);
    if (!schedule.is_made)
        play_violated("group", "the operator could not make a group of healthy nodes");
}

static void path_cut(unsigned client, unsigned node, bool is_cut)
{
    struct host *here = schedule.clients[client].host, *there = schedule.nodes[node]->host;
    network_path(here, there)->is_cut = network_path(there, here)->is_cut = is_cut;
}

/* Each client has hardly a majority: what one of those forgets is missed at once. */
static void paths_cut(void)
{
    bool are_narrow = schedule.is_exclusive && !schedule.is_minor && !schedule.is_apart && schedule.node_count > 1 &&
                      chance_pick(&schedule.chance, 2) == 0;
    for (unsigned i = 0; are_narrow && i < schedule.client_count; i++) {
        unsigned first = chance_pick(&schedule.chance, schedule.node_count);
        if (!play_move("client%u is cut off from a minority of the nodes, from %u on", i, first))
            continue;
        play_count("cut off from a minority", 1);
        for (unsigned k = 0; k < schedule.node_count / 2; k++)
            path_cut(i, (first + k) % schedule.node_count, true);
    }
}

static void paths_heal(void)
{
    for (unsigned i = 0; i < schedule.client_count; i++)
        for (unsigned k = 0; k < schedule.node_count; k++)
            path_cut(i, k, false);
    network_heal();
}

static bool all_vote_within(int64_t limit_ns)
{
    unsigned all = (1u << schedule.node_count) - 1;
    schedule.voting = 0;
    for (int64_t ns = 0; ns < limit_ns && !play_is_violated(); ns += LOOK_NS) {
        lock_operator_start(lock_group_look, NULL);
        run_for(LOOK_NS);
        if (schedule.voting == all)
            return true;
    }
    return play_is_violated();
}

static bool helps(const char *how, int64_t limit_ns)
{
    play_count(how, 1);
    lock_heal();
    return all_vote_within(limit_ns);
}

/* So many of them that a majority has been away, each for longer than any ttl. */
static void nodes_roll(void)
{
    unsigned first = chance_pick(&schedule.chance, schedule.node_count);
    bool forgets = !schedule.keeps_memory && chance_pick(&schedule.chance, 2) == 0;
    run_for(2 * schedule.max_ttl_ns);
    for (unsigned i = 0; i <= schedule.node_count / 2 && !play_is_violated(); i++) {
        struct node *node = schedule.nodes[(first + i) % schedule.node_count];
        node_stop(node, chance_pick(&schedule.chance, 2) == 0);
        run_for(chance_between(&schedule.chance, schedule.max_ttl_ns, 2 * schedule.max_ttl_ns));
        if (forgets)
            node->lost_at = world_time();
        node_start(node, forgets ? SERVER_EMPTY : SERVER_KEEPS);
        if (!all_vote_within(schedule.max_ttl_ns + VOTES_NS) &&
            !helps("votes given back by an operator", 2 * schedule.max_ttl_ns + HEAL_NS))
            play_violated("liveness", "not all nodes have votes again");
        run_for(2 * schedule.max_ttl_ns);
    }
    schedule.is_calm = true;
}

static void pressure_play(void)
{
    for (int64_t ns = 0; ns < PRESSURE_NS && !play_is_violated(); ns += STEP_NS) {
        run_for(STEP_NS);
        lock_judge_patience();
    }
    schedule.is_calm = true;
}

static void trouble_play(void)
{
    if (schedule.is_rolling) {
        nodes_roll();
        return;
    }
    if (schedule.is_pressed) {
        pressure_play();
        return;
    }
    paths_cut();
    trouble_begin();
    run_for(TROUBLE_NS);
    trouble_end();
    paths_heal();
    for (unsigned i = 0; i < schedule.node_count; i++)
        if (!schedule.was_replaced || i != schedule.replaced)
            lock_node_move_end(i);
    schedule.is_calm = true;
}

static bool recovers_within(int64_t limit_ns, const struct lock_user **who)
{
    for (int64_t ns = 0; ns < limit_ns && !play_is_violated(); ns += STEP_NS) {
        run_for(STEP_NS);
        if (lock_judge_has_recovered(who))
            return true;
    }
    return false;
}

static void recovery_note(void)
{
    for (unsigned i = 0; i < schedule.client_count; i++)
        for (unsigned k = 0; k < schedule.user_count; k++)
            schedule.clients[i].users[k].acquired_before = schedule.clients[i].users[k].acquired;
}

/* A replacement that failed has left its place vacant: it is repeated until it is done. */
static void replacement_await(void)
{
    for (int64_t ns = 0; ns < 4 * schedule.max_ttl_ns + CALM_NS && !play_is_violated(); ns += STEP_NS) {
        if (schedule.replaced == schedule.node_count || schedule.was_replaced)
            return;
        if (!lock_is_operated()) {
            schedule.is_replacing = true;
            lock_operator_start(lock_group_replace, NULL);
        }
        run_for(STEP_NS);
    }
    if (schedule.is_exclusive)
        play_violated("liveness", "a node could not be replaced since the trouble ended");
}

/* Everybody has to get a lock once more; by an operator's help where no membership has a majority any more. */
static void recovery_await(void)
{
    const struct lock_user *who = NULL;
    replacement_await();
    recovery_note();
    if (recovers_within(2 * schedule.max_ttl_ns + RECOVER_NS, &who) || play_is_violated())
        return;
    play_count("helped by an operator", 1);
    lock_heal();
    if (!recovers_within(2 * schedule.max_ttl_ns + RECOVER_NS, &who) && !play_is_violated() && schedule.is_exclusive)
        play_violated("liveness", "user %u.%u has got no lock since the trouble ended", who->client->number,
                      who->number);
}

/* Those that were in quarantine have their votes back, as an operator sees. Where no client that is no guest knew a
 * node before it forgot, he has to help. A server that got its number back while somebody else, long cut off, recorded
 * another for it, is no member for anybody: he empties it first. To who looks for a moment only, a node whose clock
 * shows another time has no vote. */
static void votes_await(void)
{
    int64_t limit_ns = (1 + schedule.node_count / 2) * 2 * schedule.max_ttl_ns + HEAL_NS; /* one after the other */
    if (schedule.node_count == 1 || !schedule.is_exclusive || schedule.is_apart ||
        all_vote_within(schedule.max_ttl_ns + VOTES_NS) || helps("votes given back by an operator", limit_ns))
        return;
    for (unsigned i = 0; i < schedule.node_count; i++)
        if ((schedule.voting & 1u << i) == 0) {
            schedule.nodes[i]->lost_at = world_time();
            server_evict(schedule.nodes[i]->server, SIZE_MAX, 1);
        }
    if (!helps("servers emptied by an operator", limit_ns))
        play_violated("liveness", "not all nodes have votes again");
}

static bool all_have_ended(void)
{
    for (unsigned i = 0; i < schedule.client_count; i++)
        if (schedule.clients[i].process->is_alive)
            return false;
    return true;
}

/* Until all have ended, and what killed ones left has expired. */
static void end_await(void)
{
    schedule.is_quitting = true;
    for (int64_t ns = 0; ns < END_NS && !all_have_ended() && !play_is_violated(); ns += STEP_NS)
        run_for(STEP_NS);
    if (!play_is_violated() && !all_have_ended())
        play_violated("liveness", "a client does not end");
    run_for(schedule.max_ttl_ns + schedule.max_ttl_ns / 50);
    if (!play_is_violated())
        lock_judge_left();
}

void lock_schedule_play(uint64_t seed)
{
    struct instant begun = world_time();
    lock_draw(seed);
    group_make();
    lock_judge_tokens_begin();
    for (unsigned i = 0; i < schedule.node_count; i++)
        lock_judge_watch(schedule.nodes[i]);
    for (unsigned i = 0; i < schedule.client_count && !play_is_violated(); i++)
        lock_client_start(&schedule.clients[i]);
    if (!play_is_violated()) {
        trouble_play();
        recovery_await();
        votes_await();
    }
    end_await();
    play_lasted(instant_since(begun, world_time()));
}
