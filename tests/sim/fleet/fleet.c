#include "tests/sim/fleet/fleet.h"

#include <signal.h>
#include <stdio.h>

#include "tests/sim/world/trouble.h"

#define MAKE_NS    (5 * NS_PER_S)
#define TROUBLE_NS (20 * NS_PER_S)
#define STEP_NS    (500 * NS_PER_MS)
#define CALM_NS    (400 * NS_PER_S)
#define HEAL_NS    (100 * NS_PER_S)
#define STOP_NS    (32 * NS_PER_S)
#define QUIET_NS   (2 * NS_PER_S)
#define END_NS     (6 * NS_PER_S)
#define DRIFT_PPB  INT64_C(5000000) /* half of drift_factor */

struct fleet fleet;

static struct trouble_scene scene;

/* --- trouble ------------------------------------------------------------------------------------------------------ */

static struct process *process_of(unsigned number)
{
    return fleet.workers[number].process;
}

static struct host *host_of(unsigned number)
{
    return number < fleet.worker_count ? fleet.workers[number].host : fleet.producers[number - fleet.worker_count];
}

static void worker_restart(unsigned number)
{
    fleet_worker_start(&fleet.workers[number]);
}

static void worker_stop_gently(unsigned number, bool is_quiet)
{
    if (is_quiet)
        fleet_signal(fleet.workers[number].process, SIGTSTP);
    fleet_stop(&fleet.workers[number]);
}

static void queue_fell_back(void)
{
    fleet_states_rolled_back();
}

/* The queue node is gone for good, and its replica, which lags, takes its place. */
static bool fail_over(bool is_silent)
{
    struct node *replica = fleet.replica;
    if (replica == NULL)
        return false;
    play_count("failover", 1);
    world_tell("the queue node fails over to its replica");
    node_stop(fleet.queue, is_silent);
    fleet.vanished_at = fleet.queue->vanished_at;
    server_promote(replica->server, node_now_us(replica));
    network_name("queue", replica->host);
    fleet.queue = scene.queue = replica;
    fleet.replica = NULL;
    fleet_states_rolled_back();
    return true;
}

static int64_t trouble_ns(void)
{
    return fleet.peace == PEACE_LEASES ? 3 * TROUBLE_NS : TROUBLE_NS;
}

static void trouble_begin(void)
{
    scene = (struct trouble_scene){.nodes = fleet.nodes,
                                   .node_count = fleet.node_count,
                                   .queue = fleet.queue,
                                   .process_count = fleet.worker_count,
                                   .guest_count = fleet.producer_count,
                                   .process = process_of,
                                   .host = host_of,
                                   .restart = worker_restart,
                                   .stop = worker_stop_gently,
                                   .operate = fleet_operate,
                                   .fell_back = queue_fell_back,
                                   .fail_over = fail_over,
                                   .longest_ns = chance_scale(&fleet.chance, 100 * NS_PER_MS, 20 * NS_PER_S),
                                   .lease_ns = fleet.lease_ms * NS_PER_MS,
                                   .ttl_ns = fleet.ttl_ms * NS_PER_MS,
                                   .drift_ppb = DRIFT_PPB,
                                   .is_wild = fleet.is_wild,
                                   .takes_majorities = fleet.loses_locks,
                                   /* Else programs would go on while their host stands still. */
                                   .freezes = fleet.isolation == CONFIG_ISOLATION_THREAD,
                                   .is_minor = fleet.is_minor,
                                   .kinds = fleet.peace == PEACE_OF_MIND  ? TROUBLE_OF_OPERATORS
                                            : fleet.peace == PEACE_KILLS  ? TROUBLE_OF_KILLS
                                            : fleet.peace == PEACE_LEASES ? TROUBLE_OF_LEASES
                                                                          : TROUBLE_OF_ALL_KINDS};
    trouble_draw(&scene, &fleet.chance, trouble_ns());
}

/* --- now and then ------------------------------------------------------------------------------------------------- */

/* Since when the worker has been well that has been for longest. */
static struct instant well_since(void)
{
    struct instant since = world_time();
    for (unsigned i = 0; i < fleet.worker_count; i++) {
        const struct fleet_worker *worker = &fleet.workers[i];
        bool is_well = worker->process->is_alive && !worker->process->is_paused;
        if (is_well && instant_before(worker->since, since))
            since = worker->since;
    }
    return since;
}

/* Whatever handlers and nodes do (worker/stop.c). */
static void stop_check(struct fleet_worker *worker)
{
    const struct process *process = worker->process;
    bool stands_still = process->is_paused || instant_before(world_time(), process->free_at);
    if (!worker->is_told_to_stop || !process->is_alive || stands_still)
        return;
    worker->ending_ns += FLEET_TICK_NS;
    worker->idle_ns = fleet_judge_runs_for(process->pid) ? 0 : worker->idle_ns + FLEET_TICK_NS;
    if (worker->ending_ns > fleet.stop_timeout_ms * NS_PER_MS + END_NS || worker->idle_ns > END_NS)
        play_violated("stopped", "%s was told to stop, and has not for %.1f s, of which %.1f without a handler",
                      process->name, (double)worker->ending_ns / 1e9, (double)worker->idle_ns / 1e9);
}

static void workers_look(void)
{
    bool may_be_well = fleet.peace == PEACE_KILLS || fleet.peace == PEACE_OF_MIND || fleet.is_calm;
    for (unsigned i = 0; i < fleet.worker_count; i++) {
        const struct process *process = fleet.workers[i].process;
        fleet.was_killed |= !process->is_alive && !process->has_ended;
        stop_check(&fleet.workers[i]);
    }
    fleet.healthy_since = may_be_well ? well_since() : world_time();
    if (fleet.is_calm && instant_before(fleet.healthy_since, fleet.calm_at))
        fleet.healthy_since = fleet.calm_at;
}

static void tick_fire(struct world_event *event)
{
    workers_look();
    fleet_states_tick();
    fleet_judge_tick();
    fleet_line_tick();
    world_at(event, instant_after(world_time(), FLEET_TICK_NS));
}

static struct world_event tick = {.fire = tick_fire};

/* --- its course --------------------------------------------------------------------------------------------------- */

static void run_for(int64_t ns)
{
    if (!play_is_violated())
        world_run(instant_after(world_time(), ns));
}

static void ended_await(const struct fleet_worker *worker)
{
    const struct process *process = worker->process;
    for (int64_t ns = 0; ns < STOP_NS && process->is_alive && !play_is_violated(); ns += STEP_NS)
        run_for(STEP_NS);
    if (process->is_alive && !play_is_violated())
        play_violated("stopped", "%s does not stop", process->name);
    if (process->has_ended && !play_is_violated())
        fleet_states_ended(process);
}

static void worker_end(struct fleet_worker *worker)
{
    fleet_stop(worker);
    ended_await(worker);
}

/* Quiet first, or quiet until it has nothing to do. */
static void worker_end_slowly(struct fleet_worker *worker)
{
    bool drains = chance_pick(&fleet.chance, 2) == 0;
    play_count(drains ? "drained" : "quiet", 1);
    fleet_quiet(worker, drains);
    run_for(QUIET_NS);
    if (drains)
        ended_await(worker);
    else
        worker_end(worker);
}

/* With nothing to do. */
static void worker_drain_one(struct fleet_worker *worker)
{
    play_count("ended because there was nothing to do", 1);
    fleet_worker_start_to_drain(worker);
    ended_await(worker);
}

/* Each is stopped in order, and another takes its place. */
static void workers_replace(void)
{
    for (unsigned i = 0; i < fleet.worker_count && !play_is_violated(); i++) {
        if (chance_pick(&fleet.chance, 2) == 0)
            worker_end(&fleet.workers[i]);
        else
            worker_end_slowly(&fleet.workers[i]);
        fleet_worker_start(&fleet.workers[i]);
    }
}

static void workers_start(void)
{
    for (unsigned i = 0; i < fleet.worker_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "host%u", i);
        fleet.workers[i] = (struct fleet_worker){.number = i, .host = host_create(name)};
        fleet_worker_start(&fleet.workers[i]);
    }
}

static void trouble_pass(void)
{
    if (play_is_violated())
        return;
    trouble_begin();
    run_for(trouble_ns());
    trouble_end();
}

/* Those that an operator asked to end, or made quiet, end and begin anew; what he paused goes on. */
static void calm_begin(bool is_again)
{
    for (unsigned i = 0; i < fleet.worker_count; i++)
        if ((is_again || fleet.max_tasks > 0) && !fleet.workers[i].process->is_alive)
            fleet_worker_start(&fleet.workers[i]);
    if (fleet.has_operators)
        fleet_resume();
}

static bool others_have_ended(void)
{
    return fleet_producers_have_ended() && fleet_programs_have_ended();
}

static void calm_pass(void)
{
    bool rolls = chance_pick(&fleet.chance, 4) == 0;
    fleet.is_calm = true;
    fleet.calm_at = world_time();
    calm_begin(false);
    run_for(STEP_NS);
    if (rolls || fleet.has_operators)
        workers_replace();
    for (int64_t ns = 0; ns < CALM_NS && !(others_have_ended() && fleet_is_idle()) && !play_is_violated();
         ns += STEP_NS) {
        if (ns % (10 * NS_PER_S) == 0)
            calm_begin(true);
        if (ns == HEAL_NS)
            fleet_group_heal();
        run_for(STEP_NS);
    }
    if (!play_is_violated())
        fleet_states_end();
    if (!play_is_violated())
        fleet_pushes_end();
    for (unsigned i = 0; i < fleet.worker_count && !play_is_violated(); i++)
        worker_end(&fleet.workers[i]);
    if (play_is_violated() || !fleet_is_idle()) /* what is excused waits on */
        return;
    if (chance_pick(&fleet.chance, 3) == 0 &&
        (fleet.has_no_locks || fleet_group_is_known())) /* else it begins nothing */
        worker_drain_one(&fleet.workers[0]);
    if (!play_is_violated())
        fleet_remains_end();
}

void fleet_play(uint64_t seed)
{
    struct instant begun = world_time();
    if (!world_is_told()) /* what commands print is of no interest */
        stderr = fopen("/dev/null", "w");
    stdout = fopen("/dev/null", "w");
    fleet_plan(seed);
    fleet_group_make();
    for (int64_t ns = 0; ns < MAKE_NS && !fleet.is_made; ns += STEP_NS)
        run_for(STEP_NS);
    workers_start();
    for (unsigned i = 0; i < fleet.producer_count; i++)
        fleet.producers[i] = fleet_producer_start(i);
    fleet_foreigner_start();
    if (fleet.terms == TERMS_ARE_THE_SAME) /* these announce none */
        fleet_programs_start(seed);
    world_at(&tick, instant_after(world_time(), FLEET_TICK_NS));
    trouble_pass();
    calm_pass();
    play_lasted(instant_since(begun, world_time()));
}
