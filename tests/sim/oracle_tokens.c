/* Fencing (O7 of oracle.c): tokens in the order of acquisitions, and resources that check them.
 *
 * An acquisition that was completed before another one began has the smaller token, and overlapping ones differ,
 * whatever pauses, clocks and networks do, as long as no node forgets (G1), or a minority does and is quarantined (G2).
 * Where more is forgotten, tokens are in the order of time for acquisitions that are so far apart that right clocks can
 * tell them apart (G3). When it is told ACQUIRED, a majority holds exactly its token under its value (F1, F2).
 *
 * Each resource is written to by its holders, over a network of its own with delays of any length, and refuses a token
 * that is smaller than one that it has seen; a holder writes before it does anything else. A twin of each resource
 * takes every write: what reaches it out of order shows that the fence has something to do. For comparison, a counter
 * in the memory of one node gives each acquisition a number, as single-node fences do; and one that never forgets. */
#include "tests/sim/world.h"

#include <string.h>

/* --- the order of tokens ---------------------------------------------------------------------------------------- */

/* How many of those that are kept were completed long enough before it began. */
static unsigned count_before(const struct resource *resource, const struct acquisition *later, int64_t gap_ns)
{
    unsigned count = resource->count;
    while (count > 0 &&
           !instant_before(instant_after(resource->acquisitions[count - 1].completed, gap_ns), later->began))
        count--;
    return count;
}

static void order_check(struct sim_lock *lock, unsigned key)
{
    struct world *world = lock->client->world;
    const struct resource *resource = &world->resources[key];
    const struct acquisition *later = &lock->acquisition;
    unsigned before = count_before(resource, later, world->parameters.order_gap_ns);
    world->counters->ordered_pairs += before;
    if (before > 0 && resource->highest[before - 1] >= later->token)
        world_violated(world, "O7", "lock %u got token %llu for key %u, but %llu was given before it began",
                       lock->number, (unsigned long long)later->token, key,
                       (unsigned long long)resource->highest[before - 1]);
    for (unsigned i = before; world->parameters.order_gap_ns == 0 && i < resource->count; i++) {
        world->counters->overlapping_pairs++;
        if (resource->acquisitions[i].token == later->token)
            world_violated(world, "O7", "lock %u got token %llu for key %u, which another acquisition has",
                           lock->number, (unsigned long long)later->token, key);
    }
}

/* What a counter on node 0 gives, beside our own: out of order once it forgot, and nothing when it cannot be asked. */
static uint64_t single_number(struct sim_lock *lock, unsigned key)
{
    struct world *world = lock->client->world;
    if (!lock->client->connections[0].up || world->nodes[0].down) {
        world->counters->single_unavailable++;
        return 0;
    }
    const struct resource *resource = &world->resources[key];
    uint64_t number = ++world->single_counters[key];
    unsigned before = count_before(resource, &lock->acquisition, world->parameters.order_gap_ns);
    if (before > 0 && resource->single[before - 1] >= number)
        world->counters->single_out_of_order++;
    return number;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void acquisition_keep(struct resource *resource, const struct acquisition *acquisition, uint64_t single)
{
    enum { HALF = ACQUISITIONS_KEPT / 2 };
    if (resource->count == ACQUISITIONS_KEPT) {
        memmove(resource->acquisitions, &resource->acquisitions[HALF], HALF * sizeof resource->acquisitions[0]);
        memmove(resource->highest, &resource->highest[HALF], HALF * sizeof resource->highest[0]);
        memmove(resource->single, &resource->single[HALF], HALF * sizeof resource->single[0]);
        resource->count = HALF;
    }
    unsigned last = resource->count++;
    resource->acquisitions[last] = *acquisition;
    resource->highest[last] = last > 0 ? greater(resource->highest[last - 1], acquisition->token) : acquisition->token;
    resource->single[last] = last > 0 ? greater(resource->single[last - 1], single) : single;
}

static void established_check(const struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    unsigned holders = 0;
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        holders += lock->token_at[i] == lock->acquisition.token;
    if (holders < quorum_of(world))
        world_violated(world, "O7", "lock %u got token %llu, but only %u nodes were given it", lock->number,
                       (unsigned long long)lock->acquisition.token, holders);
}

void oracle_acquired(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    lock->acquisition = (struct acquisition){.began = lock->pass_began,
                                             .completed = world->now,
                                             .token = lock->lease.token,
                                             .fenced = lock->client->terms->fenced};
    if (!lock->acquisition.fenced)
        return;
    established_check(lock);
    for (unsigned key = 0; key < world->parameters.resources; key++) {
        if (!set_has(lock->resources, key))
            continue;
        order_check(lock, key);
        acquisition_keep(&world->resources[key], &lock->acquisition, single_number(lock, key));
    }
}

/* --- resources -------------------------------------------------------------------------------------------------- */

/* Some other acquisition, which began after this one had been completed, wrote before. */
static bool is_stale(const struct world *world, const struct acquisition *acquisition, struct instant latest_began)
{
    return instant_before(instant_after(acquisition->completed, world->parameters.order_gap_ns), latest_began);
}

static void resource_write(struct sim_lock *lock, unsigned key)
{
    struct world *world = lock->client->world;
    struct resource *resource = &world->resources[key];
    const struct acquisition *writer = &lock->written;
    world->counters->twin_stale += is_stale(world, writer, resource->twin_began);
    if (instant_before(resource->twin_began, writer->began))
        resource->twin_began = writer->began;
    if (writer->token < resource->accepted_token) {
        world->counters->fenced_off++;
        return;
    }
    if (is_stale(world, writer, resource->accepted_began))
        world_violated(world, "O7", "key %u accepts a stale write of lock %u, token %llu", key, lock->number,
                       (unsigned long long)writer->token);
    resource->accepted_token = writer->token;
    if (instant_before(resource->accepted_began, writer->began))
        resource->accepted_began = writer->began;
}

void oracle_written(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    for (unsigned key = 0; key < world->parameters.resources; key++)
        if (set_has(lock->written_to, key))
            resource_write(lock, key);
}
