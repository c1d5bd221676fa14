/* What must never happen. All judgements are made from outside the lease: from what it told, from what the nodes
 * hold, and from the oracle's own arithmetic over the terms.
 *
 *   O1 overlap     no two locks believe in the same resource at once. A belief is the span until the published
 *                  deadline, so a paused client counts as well: it would believe when it goes on.
 *   O2 lease       while a lock is valid, fewer than a quorum of nodes would grant its resource to another value.
 *                  Looked at whenever a validity begins or a key goes away, and from there ahead to the end of the
 *                  validity, so that a key which will expire too early is found although nobody asks for it.
 *   O3 trespass    no release or extension changes a key with another value
 *   O4 liveness    after the faults somebody acquires; nothing that a lock planted is left when all is given up, and
 *                  nothing is cleaned up where nothing was written
 *   O5 told        DANGER and LOST in time, nothing after LOST, half of the ttl left at ACQUIRED, a majority's "not
 *                  yours" is believed, a majority that is down is not waited for, a release's ending is what happened
 *   O6 prompt      without faults and with quick nodes nothing is lost, slow or unknown
 *
 * A lock whose key was deleted by hand is exempt from O1 and O2: others may rightly have the resource. */
#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>

void world_violated(struct world *world, const char *oracle, const char *format, ...)
{
    struct violation *violation = &world->violation;
    if (violation->oracle != NULL)
        return;
    violation->oracle = oracle;
    violation->at = world->now;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(violation->text, sizeof violation->text, format, arguments);
    va_end(arguments);
    world_trace(world, "VIOLATION of %s: %s", oracle, violation->text);
}

static unsigned quorum_of(const struct world *world)
{
    return world->parameters.nodes / 2 + 1;
}

static unsigned count_of(node_set set)
{
    return (unsigned)__builtin_popcount(set);
}

/* --- O1 ----------------------------------------------------------------------------------------------------------- */

static bool overlaps(const struct sim_lock *lock, const struct sim_lock *other)
{
    return other != lock && (other->resources & lock->resources) != 0 && !other->tampered &&
           instant_before(lock->client->world->now, other->published);
}

static void overlap_check(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    if (lock->tampered || !instant_before(world->now, lock->published))
        return;
    for (unsigned i = 0; i < world->parameters.clients; i++)
        for (unsigned k = 0; k < world->parameters.locks; k++)
            if (overlaps(lock, &world->clients[i].locks[k]))
                world_violated(world, "O1", "locks %u and %u both believe that they hold", lock->number,
                               world->clients[i].locks[k].number);
}

/* --- O2 ----------------------------------------------------------------------------------------------------------- */

static bool would_grant_to_another(const struct sim_node *node, unsigned key, const struct sim_lock *lock)
{
    struct instant end = lock->lease.valid_until;
    if (node->down)
        return instant_before(node->restart.item.at, end);
    const struct model_key *held = &node->model.keys[key];
    return held->value != lock->value || instant_before(node_model_when(&node->model, held->expires_ms), end);
}

static void lease_check(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    if (!lock->hold.active || lock->tampered || !instant_before(world->now, lock->lease.valid_until))
        return;
    for (unsigned key = 0; key < world->parameters.resources; key++) {
        unsigned count = 0;
        for (unsigned i = 0; i < world->parameters.nodes && set_has(lock->resources, key); i++)
            count += would_grant_to_another(&world->nodes[i], key, lock);
        if (count >= quorum_of(world))
            world_violated(world, "O2", "lock %u holds key %u for %.3f ms more, but %u of %u nodes do not keep it",
                           lock->number, key, (double)instant_since(world->now, lock->lease.valid_until) / 1e6, count,
                           world->parameters.nodes);
    }
}

void oracle_node_changed(struct sim_node *node, uint32_t value)
{
    struct sim_lock *lock = value == MODEL_NO_VALUE ? NULL : lock_of_value(node->world, value);
    if (lock != NULL)
        lease_check(lock);
}

/* --- O3 ----------------------------------------------------------------------------------------------------------- */

void oracle_executed(struct sim_node *node)
{
    if (node->model.trespasses > 0)
        world_violated(node->world, "O3", "node %u changed a key for a value that is not the key's", node->index);
}

/* --- O5: what the holder is told ---------------------------------------------------------------------------------- */

static int64_t drift_of(const struct lease_terms *terms)
{
    return (int64_t)((double)terms->ttl_ns * terms->drift_factor) + 2 * NS_PER_MS;
}

static int64_t guard_of(const struct lease_terms *terms)
{
    int64_t guard = terms->ttl_ns / 100 > 50 * NS_PER_MS ? terms->ttl_ns / 100 : 50 * NS_PER_MS;
    return guard < terms->ttl_ns / 10 ? guard : terms->ttl_ns / 10;
}

static void watch_arm(struct sim_lock *lock)
{
    struct hold *hold = &lock->hold;
    struct instant next = hold->in_danger ? hold->deadline : instant_earlier(hold->danger, hold->deadline);
    event_set(lock->client->world, &lock->watch, instant_after(next, 1));
}

static void hold_confirm(struct sim_lock *lock)
{
    const struct lease_terms *terms = lock->client->terms;
    struct hold *hold = &lock->hold;
    hold->active = true;
    hold->in_danger = false;
    hold->confirmed = lock->round_started;
    hold->deadline = instant_after(hold->confirmed, terms->ttl_ns - drift_of(terms) - guard_of(terms));
    hold->danger = instant_after(hold->confirmed, terms->ttl_ns / 3 * 2);
    watch_arm(lock);
    lease_check(lock);
}

static void hold_end(struct sim_lock *lock)
{
    lock->hold.active = false;
    event_clear(lock->client->world, &lock->watch);
}

void oracle_watch(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    struct hold *hold = &lock->hold;
    if (!hold->active || lock->client->paused)
        return;
    if (instant_before(hold->deadline, world->now))
        world_violated(world, "O5", "lock %u was not told LOST at its deadline", lock->number);
    else if (!hold->in_danger && instant_before(hold->danger, world->now))
        world_violated(world, "O5", "lock %u was not told DANGER", lock->number);
    watch_arm(lock);
}

void oracle_voted(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    if (lock->hold.active && count_of(lock->denied) > world->parameters.nodes - quorum_of(world))
        world_violated(world, "O5", "lock %u was not told LOST although %u nodes say that it is not ours", lock->number,
                       count_of(lock->denied));
}

/* A node that is down and decides is not waited for (E17). */
void oracle_sent(struct sim_lock *lock, uint32_t round)
{
    struct world *world = lock->client->world;
    bool hopeless = count_of(lock->unsent) > world->parameters.nodes - quorum_of(world);
    if (hopeless && lock->lease.state == LEASE_ACQUIRING && lock->lease.round == round)
        world_violated(world, "O5", "lock %u waits although %u nodes are down", lock->number, count_of(lock->unsent));
}

void oracle_released(struct sim_lock *lock)
{
    hold_end(lock);
}

static void acquired(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    const struct lease_terms *terms = lock->client->terms;
    world->counters->acquired++;
    world->counters->acquired_several += count_of(lock->resources) > 1;
    world->acquired_in_calm +=
        instant_reached(world->now, instant_after(world->parameters.calm_from, 2 * world->parameters.longest_ttl_ns));
    hold_confirm(lock);
    int64_t used = instant_since(lock->round_started, world->now);
    if (terms->ttl_ns - drift_of(terms) - used < terms->ttl_ns / 2)
        world_violated(world, "O5", "lock %u was acquired with less than half of its ttl left", lock->number);
}

static void extended(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    world->counters->extended++;
    world->counters->recovered += lock->hold.in_danger;
    if (!lock->hold.active)
        world_violated(world, "O5", "lock %u was extended although it was lost", lock->number);
    else if (instant_reached(world->now, lock->hold.deadline))
        world_violated(world, "O5", "lock %u was extended after its deadline", lock->number);
    else
        hold_confirm(lock);
}

static void lost(struct sim_lock *lock, enum lease_loss loss)
{
    struct world *world = lock->client->world;
    world->counters->lost_deadline += loss == LEASE_LOSS_DEADLINE;
    world->counters->lost_taken += loss == LEASE_LOSS_TAKEN;
    if (world->parameters.prompt)
        world_violated(world, "O6", "lock %u was lost", lock->number);
    hold_end(lock);
}

static void in_danger(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    world->counters->danger++;
    lock->hold.in_danger = true;
    if (instant_before(world->now, lock->hold.danger))
        world_violated(world, "O5", "lock %u was told DANGER too early", lock->number);
    if (world->parameters.prompt)
        world_violated(world, "O6", "lock %u was in danger", lock->number);
    if (lock->hold.active)
        watch_arm(lock);
}

static void refused(struct sim_lock *lock, enum lease_refusal refusal)
{
    struct world *world = lock->client->world;
    struct counters *counters = world->counters;
    counters->busy += refusal == LEASE_BUSY;
    counters->split += refusal == LEASE_SPLIT;
    counters->no_quorum += refusal == LEASE_NO_QUORUM;
    counters->too_slow += refusal == LEASE_TOO_SLOW;
    counters->cancelled += refusal == LEASE_CANCELLED;
    if (world->parameters.prompt && (refusal == LEASE_NO_QUORUM || refusal == LEASE_TOO_SLOW))
        world_violated(world, "O6", "lock %u was refused although all nodes are quick", lock->number);
}

static void released(struct sim_lock *lock, enum lease_ending ending)
{
    struct world *world = lock->client->world;
    struct counters *counters = world->counters;
    counters->released += ending == LEASE_ENDED_RELEASED;
    counters->expired += ending == LEASE_ENDED_EXPIRED;
    counters->foreign += ending == LEASE_ENDED_FOREIGN;
    counters->unknown += ending == LEASE_ENDED_UNKNOWN;
    bool deleted = count_of(lock->deleted) >= quorum_of(world);
    if (ending == LEASE_ENDED_RELEASED && !deleted)
        world_violated(world, "O5", "lock %u was told RELEASED, but no majority deleted it", lock->number);
    if ((ending == LEASE_ENDED_EXPIRED || ending == LEASE_ENDED_FOREIGN) && deleted)
        world_violated(world, "O5", "lock %u was told that it was gone, but a majority deleted it", lock->number);
    if (world->parameters.prompt && ending != LEASE_ENDED_RELEASED)
        world_violated(world, "O6", "lock %u was not released", lock->number);
}

void oracle_step(struct sim_lock *lock, const struct lease_step *step)
{
    switch (step->news) {
    case LEASE_NEWS_NONE:
        break;
    case LEASE_NEWS_ACQUIRED:
        acquired(lock);
        break;
    case LEASE_NEWS_EXTENDED:
        extended(lock);
        break;
    case LEASE_NEWS_DANGER:
        in_danger(lock);
        break;
    case LEASE_NEWS_LOST:
        lost(lock, step->loss);
        break;
    case LEASE_NEWS_REFUSED:
        refused(lock, step->refusal);
        break;
    case LEASE_NEWS_RELEASED:
        released(lock, step->ending);
        break;
    }
    overlap_check(lock);
}

/* --- O4 ----------------------------------------------------------------------------------------------------------- */

void oracle_calm_over(struct world *world)
{
    if (world->acquired_in_calm == 0)
        world_violated(world, "O4", "nobody acquired although all faults were over for %.3f ms",
                       (double)instant_since(world->parameters.calm_from, world->now) / 1e6);
}

/* An outage of many nodes would leave them much to do that nobody needs when they are back. */
void oracle_cleans_up(struct sim_lock *lock, node_set nodes)
{
    if (nodes & lock->unsent)
        world_violated(lock->client->world, "O4", "lock %u cleans up at nodes %#x, where nothing was written",
                       lock->number, nodes & lock->unsent);
}

static void leak_check(struct world *world, const struct sim_node *node, unsigned key)
{
    int64_t clock_ms = node_model_clock_ms(&node->model, world->now);
    uint32_t value = node_model_get(&node->model, key, clock_ms);
    if (value == MODEL_NO_VALUE)
        return;
    if (node->model.keys[key].expires_ms - clock_ms > world->parameters.longest_ttl_ns / NS_PER_MS)
        world_violated(world, "O4", "key %u of node %u lives longer than any ttl", key, node->index);
    if (set_has(node->excused, key))
        world->counters->orphans_excused++;
    else
        world_violated(world, "O4", "key %u of node %u still holds value %u after everything was given up", key,
                       node->index, value);
}

void oracle_end(struct world *world)
{
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        for (unsigned key = 0; key < world->parameters.resources; key++)
            if (!world->nodes[i].down)
                leak_check(world, &world->nodes[i], key);
}
