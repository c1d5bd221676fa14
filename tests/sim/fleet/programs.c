/* Programs that use the locks of tasks alone, as `holdfast lock` does: they know nothing of the queue node. Some read.
 * Who waits for what they had is judged by waiters.c.
 *
 *   beside  a program and a handler believe in their locks of one seat at once */
#include <stdio.h>

#include "base/invariant.h"
#include "tests/sim/fleet/fleet.h"

enum { PROGRAMS_MAX = 2, WAIT_MS = 2000, REST_MS = 1500 };

#define STEP_NS      (20 * NS_PER_MS)
#define PROGRAM_SEED UINT64_C(0x70726f6772616d73)

static struct program {
    struct host *host;
    struct process *process;
    struct chance chance;
    struct redlock_held *held; /* NULL = none */
    unsigned resource, seat;
} programs[PROGRAMS_MAX];
static unsigned program_count;

static bool believes(const struct program *program)
{
    struct process *before = process_lend(program->process);
    bool answer = program->held != NULL && redlock_held_valid_for_ms(program->held) > 0;
    process_lend(before);
    return answer;
}

bool fleet_program_holds(unsigned resource, unsigned seat)
{
    for (unsigned i = 0; i < program_count; i++)
        if (programs[i].resource == resource && programs[i].seat == seat && believes(&programs[i]))
            return true;
    return false;
}

static void hold(struct program *me)
{
    int64_t left_ns = chance_below(&me->chance, fleet.hold_ns);
    for (; left_ns > 0 && !fleet.is_calm && redlock_held_valid_for_ms(me->held) > 0; left_ns -= STEP_NS)
        process_sleep(left_ns < STEP_NS ? left_ns : STEP_NS);
}

static void take(struct program *me, struct redlock_client *client)
{
    char name[16], reason[256] = "";
    const char *resources[] = {name};
    bool waits = chance_pick(&me->chance, 2) == 0;
    struct redlock_terms terms = {.ttl_ms = fleet.ttl_ms, .wait_ms = waits ? WAIT_MS : 0};
    me->resource = chance_pick(&me->chance, fleet.resource_count);
    snprintf(name, sizeof name, "r%u", me->resource);
    enum redlock_answer answer = redlock_client_acquire(
        client, &terms,
        &(struct redlock_request){.resources = resources,
                                  .resource_count = 1,
                                  .owner = me->host->name,
                                  .limit = fleet.limit,
                                  .shared = fleet.limit == 1 && chance_pick(&me->chance, 3) == 0},
        &me->held, reason, sizeof reason);
    world_tell("%s wants %s: %s %s", me->host->name, name, redlock_answer_name(answer), reason);
    if (answer != REDLOCK_ACQUIRED)
        return;
    play_count("taken by a program", 1);
    me->seat = redlock_held_seat(me->held);
    if (believes(me))
        fleet_judge_taken(me->resource, me->seat);
    hold(me);
    struct redlock_held *held = me->held;
    me->held = NULL;
    (void)redlock_client_release(held, chance_pick(&me->chance, 2) == 0 ? REDLOCK_BACKGROUND : REDLOCK_AWAIT);
    world_tell("%s gave %s back", me->host->name, name);
}

static void program_main(void *argument)
{
    struct program *me = argument;
    char reason[256] = "";
    process_blocks_begin();
    struct redlock_client *client = redlock_client_open(&fleet.lock_options, reason, sizeof reason);
    invariant(client != NULL);
    while (!fleet.is_calm) {
        process_sleep(chance_below(&me->chance, REST_MS * NS_PER_MS));
        take(me, client);
    }
    redlock_client_close(client);
    play_freed();
}

void fleet_programs_start(uint64_t seed)
{
    struct chance chance = {.state = chance_mix(seed ^ PROGRAM_SEED)};
    if (chance_pick(&chance, fleet_is_quiet() ? 2 : 4) != 0 || fleet.has_no_locks)
        return;
    unsigned count = 1 + chance_pick(&chance, PROGRAMS_MAX);
    for (unsigned i = 0; i < count; i++) {
        char name[24];
        struct program *program = &programs[program_count];
        snprintf(name, sizeof name, "program%u", i);
        if (!play_move("%s takes locks", name))
            continue;
        *program = (struct program){.host = host_create(name), .chance = {.state = chance_next(&chance)}};
        program->process = process_start(program->host, name, program_main, program);
        program_count++;
    }
}

bool fleet_has_programs(void)
{
    return program_count > 0;
}

bool fleet_programs_have_ended(void)
{
    for (unsigned i = 0; i < program_count; i++)
        if (programs[i].process->is_alive)
            return false;
    return true;
}
