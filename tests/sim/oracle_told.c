/* What the holder must be told, and when (O5, O6 of oracle.c). All times are those of the client's clock. */
#include "tests/sim/world.h"

static int64_t drift_of(const struct lease_terms *terms)
{
    return (int64_t)((double)terms->ttl_ns * terms->drift_factor) + 7 * NS_PER_MS;
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
    event_set(lock->client->world, &lock->watch, client_to_world(lock->client, instant_after(next, 1)));
}

static void hold_confirm(struct sim_lock *lock)
{
    const struct lease_terms *terms = lock->client->terms;
    struct hold *hold = &lock->hold;
    hold->active = true;
    hold->confirmed = lock->round_started;
    hold->until = instant_after(hold->confirmed, terms->ttl_ns - drift_of(terms) - guard_of(terms));
    struct instant danger = instant_after(hold->confirmed, terms->ttl_ns / 3 * 2);
    lock->until_then = hold->until;
    hold->deadline = instant_earlier(hold->until, hold->limit);
    hold->danger = hold->limit.ns == INSTANT_NEVER.ns
                       ? danger
                       : instant_earlier(danger, instant_after(hold->limit, -terms->ttl_ns / 3));
    hold->in_danger = hold->in_danger && instant_reached(hold->confirmed, hold->danger);
    if (lock->lease.confirmed.ns != hold->confirmed.ns)
        world_violated(lock->client->world, "O5", "lock %u was confirmed, but not by its last round", lock->number);
    watch_arm(lock);
    oracle_lease_check(lock);
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
    if (instant_before(hold->deadline, client_now(lock->client)))
        world_violated(world, "O5", "lock %u was not told LOST at its deadline", lock->number);
    else if (!hold->in_danger && instant_before(hold->danger, client_now(lock->client)))
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

void oracle_process_died(struct sim_lock *lock)
{
    lock->published = (struct instant){0};
    hold_end(lock);
}

/* Not held beyond that moment. */
void oracle_doubted(struct sim_lock *lock)
{
    if (lock->hold.active)
        world_violated(lock->client->world, "O5", "lock %u is held over a time that nobody knows", lock->number);
}

/* Believed for so much less, and at least for as long as one more round takes. */
void oracle_suspected(struct sim_lock *lock, int64_t stood_ns)
{
    struct hold *hold = &lock->hold;
    if (!hold->active)
        return;
    struct instant less = instant_after(hold->until, -stood_ns);
    struct instant round = instant_after(client_now(lock->client), lock->client->terms->pass_limit_ns);
    hold->until = instant_earlier(hold->until, instant_before(less, round) ? round : less);
    hold->deadline = instant_earlier(hold->until, hold->limit);
    watch_arm(lock);
}

static void acquired(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    const struct lease_terms *terms = lock->client->terms;
    world->counters->acquired++;
    world->counters->acquired_several += count_of(lock->resources) > 1;
    world->acquired_in_calm += world->is_calm && instant_reached(world->now, world->parameters.progress_from);
    lock->hold.in_danger = false;
    lock->hold.limit = terms->max_hold_ns > 0 ? instant_after(lock->round_started, terms->max_hold_ns) : INSTANT_NEVER;
    hold_confirm(lock);
    int64_t used = instant_since(lock->round_started, client_now(lock->client));
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
    else if (instant_reached(client_now(lock->client), lock->hold.deadline))
        world_violated(world, "O5", "lock %u was extended after its deadline", lock->number);
    else
        hold_confirm(lock);
    unsigned nodes = 0;
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        nodes += instant_reached(lock->extended_at[i], lock->round_sent);
    if (nodes < quorum_of(world))
        world_violated(world, "O5", "lock %u was told EXTENDED, but only %u nodes did it since it was asked",
                       lock->number, nodes);
}

/* For the end that came first, however late it was seen. */
static void loss_check(struct sim_lock *lock, enum lease_loss loss)
{
    struct world *world = lock->client->world;
    bool is_limit = lock->hold.deadline.ns == lock->hold.limit.ns;
    if (loss == LEASE_LOSS_MAX_HOLD && !is_limit)
        world_violated(world, "O5", "lock %u was told LOST before its maximum hold was over", lock->number);
    if (loss == LEASE_LOSS_DEADLINE && is_limit)
        world_violated(world, "O5", "lock %u was told another reason than its maximum hold", lock->number);
}

static void lost(struct sim_lock *lock, enum lease_loss loss)
{
    struct world *world = lock->client->world;
    world->counters->lost_deadline += loss == LEASE_LOSS_DEADLINE;
    world->counters->lost_taken += loss == LEASE_LOSS_TAKEN;
    world->counters->lost_max_hold += loss == LEASE_LOSS_MAX_HOLD;
    world->counters->lost_clock += loss == LEASE_LOSS_CLOCK;
    loss_check(lock, loss);
    if (world->parameters.prompt)
        world_violated(world, "O6", "lock %u was lost", lock->number);
    hold_end(lock);
}

static void in_danger(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    world->counters->danger++;
    lock->hold.in_danger = true;
    if (instant_before(client_now(lock->client), lock->hold.danger))
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
    bool asked_all = lock->unsent == 0; /* else it does not know all nodes yet */
    if (world->parameters.prompt && asked_all && (refusal == LEASE_NO_QUORUM || refusal == LEASE_TOO_SLOW))
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

void oracle_told(struct sim_lock *lock, const struct lease_step *step)
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
}
