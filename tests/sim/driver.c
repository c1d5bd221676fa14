/* The driver of one lock: what lib/redlock/lock.c does with the steps of a lease, in the same order. Releases that
 * gathered in a turn leave before extensions, and those before grants; a grant that cannot be sent is counted after all
 * grants were written; a pass that ends before its grants left has nothing to undo.
 *
 * Where the real driver filters (replies of cancelled calls, votes of older rounds), this one does not: the lease has
 * to be right without that help. */
#include "tests/sim/world.h"

/* --- steps ----------------------------------------------------------------------------------------------------- */

static void pass_abandon(struct sim_lock *lock, node_set reached)
{
    if (lock->granting) {
        lock->granting = false;
        return;
    }
    oracle_cleans_up(lock, reached);
    batch_add(lock->client, REQUEST_RELEASE, lock, NO_VOTE, reached);
}

static void pass_forget(struct sim_lock *lock, unsigned node)
{
    lock->granted_at[node] = lock->extended_at[node] = (struct instant){0};
    lock->token_at[node] = 0;
}

static void pass_begin(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    lock->value = ++world->values * (SIM_CLIENTS_MAX * SIM_LOCKS_MAX) + lock->number;
    lock->tampered = false;
    lock->denied = lock->deleted = lock->unsent = lock->voided = 0;
    lock->round_started = client_now(lock->client);
    lock->pass_began = world->now;
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        pass_forget(lock, i);
    lock->granting = true;
    lock->client->gathered = true;
}

static void raise_begin(struct sim_lock *lock, node_set nodes)
{
    struct sim_client *client = lock->client;
    client->world->counters->raised++;
    batch_add(client, REQUEST_RAISE, lock, lock->lease.round, nodes & client_voters(client));
}

static void extension_begin(struct sim_lock *lock, const struct lease_step *step)
{
    struct sim_client *client = lock->client;
    client->world->counters->extension_retried += lock->extension_open;
    client->world->counters->replants += step->replant != 0;
    lock->extension_open = true;
    lock->round_started = client_now(client);
    lock->round_sent = client->world->now;
    lock->voided = 0;
    batch_add(client, REQUEST_EXTEND, lock, lock->lease.round, step->extend & client_members(client));
    batch_add(client, REQUEST_REPLANT, lock, lock->lease.round, step->replant & client_members(client));
}

static void timer_follow(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    struct instant next = lease_next(&lock->lease, lock->client->terms);
    if (next.ns == INSTANT_NEVER.ns)
        event_clear(world, &lock->timer);
    else if (!heap_holds(&lock->timer.item) || lock->timer.item.at.ns != client_to_world(lock->client, next).ns)
        event_set(world, &lock->timer, client_to_world(lock->client, next));
}

static void step_trace(const struct sim_lock *lock, const struct lease_step *step)
{
    static const char *const news[] = {"", " ACQUIRED", " REFUSED", " EXTENDED", " DANGER", " LOST", " RELEASED"};
    static const char *const refusals[] = {" busy", " split", " no quorum", " too slow", " cancelled"};
    world_trace(lock->client->world,
                "lock %u round %u: abandon %#x grant %#x raise %#x extend %#x replant %#x release %#x%s%s, token %llu",
                lock->number, lock->lease.round, step->abandon, step->grant, step->raise, step->extend, step->replant,
                step->release, news[step->news], step->news == LEASE_NEWS_REFUSED ? refusals[step->refusal] : "",
                (unsigned long long)lock->lease.token);
}

/* The same order as lock_take_step. */
static void lock_take_step(struct sim_lock *lock, const struct lease_step *step)
{
    node_set nodes = step->abandon | step->grant | step->raise | step->extend | step->replant | step->release;
    bool empty = nodes == 0 && step->news == LEASE_NEWS_NONE;
    if (!empty && lock->client->world->tracing)
        step_trace(lock, step);
    if (step->abandon)
        pass_abandon(lock, step->abandon);
    swap_follow(lock);
    if (step->grant)
        pass_begin(lock);
    if (step->raise)
        raise_begin(lock, step->raise);
    if (step->extend | step->replant)
        extension_begin(lock, step);
    bool is_held_back = step->release != 0 && swap_holds_back(lock, step->release);
    if (step->release && !is_held_back)
        oracle_cleans_up(lock, step->release);
    if (step->release && !is_held_back)
        batch_add(lock->client, REQUEST_RELEASE, lock, lock->lease.round, step->release);
    lock->published = lease_believed_until(&lock->lease, lock->client->terms);
    timer_follow(lock);
    if (empty)
        return;
    world_note(lock->client->world, (uint64_t)lock->number << 32 ^ (uint64_t)step->news << 16 ^ lock->lease.round);
    if (step->news == LEASE_NEWS_ACQUIRED || step->news == LEASE_NEWS_EXTENDED)
        lock->extension_open = false;
    oracle_step(lock, step);
    if (step->news != LEASE_NEWS_NONE)
        user_news(lock, step);
}

/* --- inputs of the lease ------------------------------------------------------------------------------------- */

void lock_init(struct sim_lock *lock, struct sim_client *client, unsigned number)
{
    *lock = (struct sim_lock){.client = client, .number = number};
    event_init(&lock->timer, EVENT_LEASE);
    event_init(&lock->user, EVENT_USER);
    event_init(&lock->watch, EVENT_WATCH);
    event_init(&lock->write, EVENT_WRITE);
    lease_init(&lock->lease, (uint32_t)chance_next(&client->world->chance));
}

/* In a successor. What was written to the resource arrives there nevertheless. */
void lock_renew(struct sim_lock *lock)
{
    lock->orphans_below = lock->value;
    lock->granting = lock->extension_open = false;
    lock->swaps_in = lock->swapped_out = NULL;
    lock->hold = (struct hold){.active = false};
    lease_init(&lock->lease, (uint32_t)chance_next(&lock->client->world->chance));
}

void lock_acquire(struct sim_lock *lock, unsigned resources)
{
    lock->resources = (uint16_t)resources;
    struct lease_step step = lease_acquire(&lock->lease, lock->client->terms, client_now(lock->client));
    lock_take_step(lock, &step);
}

void lock_release(struct sim_lock *lock)
{
    struct lease_step step = lease_release(&lock->lease, lock->client->terms, client_now(lock->client));
    oracle_released(lock);
    lock_take_step(lock, &step);
}

/* The next one asks before the lease of this one knows, as in the release of the driver. */
void lock_hand_over(struct sim_lock *lock, struct sim_lock *next)
{
    unsigned resources = lock->resources;
    (void)swap_start(lock, next);
    lock_acquire(next, resources);
    lock_release(lock);
}

void lock_verify(struct sim_lock *lock)
{
    struct lease_step step = lease_verify(&lock->lease, lock->client->terms, client_now(lock->client));
    lock->client->world->counters->verified++;
    lock_take_step(lock, &step);
}

void lock_timer(struct sim_lock *lock)
{
    struct lease_step step = lease_tick(&lock->lease, lock->client->terms, client_now(lock->client));
    lock_take_step(lock, &step);
}

void lock_voted(struct sim_lock *lock, unsigned node, uint32_t round, enum lease_vote vote, uint64_t detail)
{
    struct sim_client *client = lock->client;
    if (round != lock->lease.round)
        client->world->counters->stale_vote++;
    struct lease_step step = lease_vote(&lock->lease, client->terms, node, round, vote, detail, client_now(client));
    lock_take_step(lock, &step);
    oracle_voted(lock);
}

void lock_forgot(struct sim_lock *lock, unsigned node)
{
    lock->voided |= (node_set)(1u << node);
    struct lease_step step = lease_forgot(&lock->lease, lock->client->terms, node, client_now(lock->client));
    lock_take_step(lock, &step);
}

void lock_suspect(struct sim_lock *lock, int64_t stood_ns)
{
    enum lease_state state = lock->lease.state;
    if (state == LEASE_ACQUIRING || state == LEASE_FENCING)
        lock->round_started = instant_after(lock->round_started, -stood_ns);
    lease_suspect(&lock->lease, lock->client->terms, stood_ns, client_now(lock->client));
    oracle_suspected(lock, stood_ns);
    lock_take_step(lock, &(struct lease_step){0});
}

void lock_doubt(struct sim_lock *lock)
{
    struct lease_step step = lease_doubt(&lock->lease, lock->client->terms, client_now(lock->client));
    lock_take_step(lock, &step);
    oracle_doubted(lock);
}

/* --- grants ------------------------------------------------------------------------------------------------------ */

static void swap_not_sent(struct sim_swap *swap, node_set unsent)
{
    for (unsigned i = 0; swap != NULL && i < SIM_NODES_MAX; i++)
        if (set_has(unsent, i))
            swap_conclude(swap, i, SWAP_NOT, swap_heard(swap, i, SWAP_NOT));
}

/* All are written before "could not be sent" is counted, as in batch_send. */
void lock_send_grants(struct sim_lock *lock)
{
    struct sim_client *client = lock->client;
    struct world *world = client->world;
    unsigned nodes = world->parameters.nodes;
    uint32_t round = lock->lease.round;
    node_set unsent = (node_set)(all_nodes(world) & ~client_voters(client));
    struct request request = {.kind = REQUEST_GRANT, .count = 1};
    request.entries[0] = (struct entry){.lock = lock,
                                        .round = round,
                                        .value = lock->value,
                                        .resources = lock->resources,
                                        .nodes = all_nodes(world),
                                        .swap = lock->swaps_in};
    struct instant deadline = client_to_world(client, instant_after(lock->lease.pass_started, client->timeout_ns));
    lock->granting = false;
    if (lock->swaps_in != NULL)
        lock->swaps_in->is_sent = true;
    for (unsigned i = 0; i < nodes; i++) {
        struct connection *connection = &client->connections[i];
        if (set_has(unsent, i))
            continue;
        request_address(&request, connection, lock);
        if (connection_is_behind(connection) || !connection_send(connection, &request, deadline, INSTANT_NEVER, NULL))
            unsent |= (node_set)(1u << i);
    }
    if (unsent == 0)
        return;
    world->counters->unsent += (unsigned)__builtin_popcount(unsent);
    lock->unsent = unsent;
    struct lease_step step = lease_unsent(&lock->lease, client->terms, unsent, round, client_now(client));
    lock_take_step(lock, &step);
    oracle_sent(lock, round);
    swap_not_sent(request.entries[0].swap, unsent);
}
