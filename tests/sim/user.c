/* The users of locks: they want something, hold it for a while, write to it, give it back; some lose patience while
 * they wait, some ask whether they still hold it.
 * Some act from inside the news, as callbacks of the driver do. */
#include "tests/sim/world.h"

static struct chance *chance_of(struct sim_lock *lock)
{
    return &lock->client->world->chance;
}

static void act_in(struct sim_lock *lock, int64_t ns)
{
    struct world *world = lock->client->world;
    event_set(world, &lock->user, world_in(world, ns));
}

static int64_t hold_draw(struct sim_lock *lock)
{
    int64_t ttl = lock->client->terms->ttl_ns;
    if (lock->client->world->is_calm && !lock->client->world->parameters.calm)
        return chance_below(chance_of(lock), ttl / 4);
    switch (chance_pick(chance_of(lock), 8)) {
    case 0:
        return chance_between(chance_of(lock), ttl, 3 * ttl);
    case 1:
    case 2:
    case 3:
        return chance_below(chance_of(lock), ttl);
    default:
        return chance_below(chance_of(lock), ttl / 5);
    }
}

static void perhaps_loses_patience(struct sim_lock *lock)
{
    if (chance_pick(chance_of(lock), 8) == 0)
        act_in(lock, chance_below(chance_of(lock), 2 * lock->client->timeout_ns));
    else
        event_clear(lock->client->world, &lock->user);
}

static void want(struct sim_lock *lock)
{
    unsigned count = lock->client->world->parameters.resources;
    unsigned resources = 1u << chance_pick(chance_of(lock), count);
    if (chance_pick(chance_of(lock), 4) == 0)
        resources |= 1u << chance_pick(chance_of(lock), count);
    perhaps_loses_patience(lock);
    lock_acquire(lock, resources);
}

static void rest(struct sim_lock *lock)
{
    if (!lock->client->quitting)
        act_in(lock, chance_below(chance_of(lock), lock->client->terms->ttl_ns / 4));
}

void user_begin(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    int64_t within = world->parameters.herd ? world->parameters.delay_ns : lock->client->terms->ttl_ns / 4;
    act_in(lock, chance_below(&world->chance, within));
}

/* Then it goes on holding. */
static void verify(struct sim_lock *lock)
{
    lock->verifies_left--;
    act_in(lock, chance_below(chance_of(lock), lock->client->terms->ttl_ns / 2));
    lock_verify(lock);
}

/* Over a network that delays some writes very long. */
static void write_send(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    int64_t most = chance_pick(chance_of(lock), 4) == 0 ? 2 * lock->client->terms->ttl_ns : world->parameters.delay_ns;
    if (!lock->acquisition.fenced || heap_holds(&lock->write.item))
        return;
    lock->written = lock->acquisition;
    lock->written_to = lock->resources;
    event_set(world, &lock->write, world_in(world, chance_below(chance_of(lock), most)));
}

/* The other lock of its client, if that wants nothing just now. */
static struct sim_lock *heir_of(struct sim_lock *lock)
{
    struct sim_client *client = lock->client;
    unsigned other = lock == &client->locks[0] ? 1 : 0;
    bool is_there = other < client->world->parameters.locks && !client->quitting;
    return is_there && client->locks[other].lease.state == LEASE_FREE ? &client->locks[other] : NULL;
}

static void give_up(struct sim_lock *lock)
{
    struct sim_lock *heir = heir_of(lock);
    if (heir == NULL || lock->lease.state != LEASE_HELD || chance_pick(chance_of(lock), 4) == 0) {
        lock_release(lock);
        return;
    }
    perhaps_loses_patience(heir);
    lock_hand_over(lock, heir);
}

void user_act(struct sim_lock *lock)
{
    switch (lock->lease.state) {
    case LEASE_FREE:
        if (!lock->client->quitting)
            want(lock);
        return;
    case LEASE_ACQUIRING:
    case LEASE_FENCING:
    case LEASE_WAITING:
        lock_release(lock);
        return;
    case LEASE_HELD:
    case LEASE_LOST:
        if (lock->verifies_left > 0)
            verify(lock);
        else
            give_up(lock);
        return;
    case LEASE_RELEASING:
        return;
    }
}

static void refused(struct sim_lock *lock)
{
    if (!lock->client->quitting && chance_pick(chance_of(lock), 8) == 0)
        want(lock);
    else
        rest(lock);
}

void user_news(struct sim_lock *lock, const struct lease_step *step)
{
    switch (step->news) {
    case LEASE_NEWS_ACQUIRED:
        lock->verifies_left = chance_pick(chance_of(lock), 8) == 0;
        write_send(lock);
        act_in(lock, lock->client->quitting ? 0 : hold_draw(lock));
        return;
    case LEASE_NEWS_LOST:
        if (chance_pick(chance_of(lock), 4) == 0)
            lock_release(lock);
        else
            act_in(lock, chance_below(chance_of(lock), lock->client->terms->ttl_ns / 10));
        return;
    case LEASE_NEWS_REFUSED:
        refused(lock);
        return;
    case LEASE_NEWS_RELEASED:
        rest(lock);
        return;
    case LEASE_NEWS_EXTENDED:
        write_send(lock);
        return;
    case LEASE_NEWS_NONE:
    case LEASE_NEWS_DANGER:
        return;
    }
}

/* Long holds end soon, so that others get a chance. */
void user_calm(struct sim_lock *lock)
{
    if (lock->lease.state == LEASE_HELD || lock->lease.state == LEASE_LOST)
        act_in(lock, chance_below(chance_of(lock), lock->client->terms->ttl_ns / 2));
}
