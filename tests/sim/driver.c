/* The driver of one client: what lib/redlock/lock.c and group.c do with the steps of a lease, in the same order.
 * Releases that gathered in a turn leave before extensions, and those before grants; a grant that cannot be sent is
 * counted after all grants were written; a pass that ends before its grants left has nothing to undo.
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

static void pass_begin(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    lock->value = ++world->values * (SIM_CLIENTS_MAX * SIM_LOCKS_MAX) + lock->number;
    lock->tampered = false;
    lock->denied = lock->deleted = lock->unsent = 0;
    lock->round_started = world->now;
    lock->granting = true;
    lock->client->gathered = true;
}

static void extension_begin(struct sim_lock *lock, node_set nodes)
{
    struct world *world = lock->client->world;
    world->counters->extension_retried += lock->extension_open;
    lock->extension_open = true;
    lock->round_started = world->now;
    batch_add(lock->client, REQUEST_EXTEND, lock, lock->lease.round, nodes);
}

static void timer_follow(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    struct instant next = lease_next(&lock->lease, lock->client->terms);
    if (next.ns == INSTANT_NEVER.ns)
        event_clear(world, &lock->timer);
    else if (!heap_holds(&lock->timer.item) || lock->timer.item.at.ns != next.ns)
        event_set(world, &lock->timer, next);
}

static void step_trace(const struct sim_lock *lock, const struct lease_step *step)
{
    static const char *const news[] = {"", " ACQUIRED", " REFUSED", " EXTENDED", " DANGER", " LOST", " RELEASED"};
    static const char *const refusals[] = {" busy", " split", " no quorum", " too slow", " cancelled"};
    world_trace(lock->client->world, "lock %u round %u: abandon %#x grant %#x extend %#x release %#x%s%s", lock->number,
                lock->lease.round, step->abandon, step->grant, step->extend, step->release, news[step->news],
                step->news == LEASE_NEWS_REFUSED ? refusals[step->refusal] : "");
}

/* The same order as lock_take_step. */
static void lock_take_step(struct sim_lock *lock, const struct lease_step *step)
{
    bool empty = (step->abandon | step->grant | step->extend | step->release) == 0 && step->news == LEASE_NEWS_NONE;
    if (!empty && lock->client->world->tracing)
        step_trace(lock, step);
    if (step->abandon)
        pass_abandon(lock, step->abandon);
    if (step->grant)
        pass_begin(lock);
    if (step->extend)
        extension_begin(lock, step->extend);
    if (step->release)
        oracle_cleans_up(lock, step->release);
    if (step->release)
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
    lease_init(&lock->lease, (uint32_t)chance_next(&client->world->chance));
}

void lock_acquire(struct sim_lock *lock, unsigned resources)
{
    lock->resources = (uint16_t)resources;
    struct lease_step step = lease_acquire(&lock->lease, lock->client->terms, lock->client->world->now);
    lock_take_step(lock, &step);
}

void lock_release(struct sim_lock *lock)
{
    struct lease_step step = lease_release(&lock->lease, lock->client->terms, lock->client->world->now);
    oracle_released(lock);
    lock_take_step(lock, &step);
}

void lock_timer(struct sim_lock *lock)
{
    struct lease_step step = lease_tick(&lock->lease, lock->client->terms, lock->client->world->now);
    lock_take_step(lock, &step);
}

void lock_voted(struct sim_lock *lock, unsigned node, uint32_t round, enum lease_vote vote, uint32_t owner)
{
    struct world *world = lock->client->world;
    if (round != lock->lease.round)
        world->counters->stale_vote++;
    struct lease_step step = lease_vote(&lock->lease, lock->client->terms, node, round, vote, owner, world->now);
    lock_take_step(lock, &step);
    oracle_voted(lock);
}

/* --- grants ------------------------------------------------------------------------------------------------------ */

/* All are written before "could not be sent" is counted, as in lock_send_grants. */
static void grants_send(struct sim_lock *lock)
{
    struct sim_client *client = lock->client;
    struct world *world = client->world;
    unsigned nodes = world->parameters.nodes;
    uint32_t round = lock->lease.round;
    node_set unsent = 0, all = (node_set)((1u << nodes) - 1);
    struct request request = {.kind = REQUEST_GRANT, .count = 1};
    request.entries[0] =
        (struct entry){.lock = lock, .round = round, .value = lock->value, .resources = lock->resources, .nodes = all};
    struct instant deadline = instant_after(lock->lease.pass_started, client->timeout_ns);
    lock->granting = false;
    for (unsigned i = 0; i < nodes; i++)
        if (connection_is_behind(&client->connections[i]) ||
            !connection_send(&client->connections[i], &request, deadline, INSTANT_NEVER, NULL))
            unsent |= (node_set)(1u << i);
    if (unsent == 0)
        return;
    world->counters->unsent += (unsigned)__builtin_popcount(unsent);
    lock->unsent = unsent;
    struct lease_step step = lease_unsent(&lock->lease, client->terms, unsent, round, world->now);
    lock_take_step(lock, &step);
    oracle_sent(lock, round);
}

/* --- turns and pauses -------------------------------------------------------------------------------------------- */

/* A client may stop between two writes: then the nodes from `cut_node` on get theirs when it goes on. */
static void perhaps_pause(struct sim_client *client)
{
    struct world *world = client->world;
    const struct parameters *parameters = &world->parameters;
    if (parameters->pause_per_mille == 0 || !chance_per_mille(&world->chance, parameters->pause_per_mille))
        return;
    client_pause(client, chance_below(&world->chance, 2 * client->terms->ttl_ns));
    client->cut_node = chance_pick(&world->chance, parameters->nodes + 1);
    world->counters->paused_while_sending++;
}

void client_turn_end(struct sim_client *client)
{
    if (!client->gathered)
        return;
    perhaps_pause(client);
    while (client->gathered) {
        client->gathered = false;
        batches_flush(client);
        for (unsigned i = 0; i < client->world->parameters.locks; i++)
            if (client->locks[i].granting)
                grants_send(&client->locks[i]);
    }
    client->cut_node = SIM_NODES_MAX;
}

struct instant client_writes_at(const struct sim_client *client, unsigned node)
{
    return node < client->cut_node ? client->world->now : client->resume.item.at;
}

void client_pause(struct sim_client *client, int64_t ns)
{
    struct world *world = client->world;
    if (client->paused)
        return;
    world_trace(world, "client %u: paused for %.3f ms", client->index, (double)ns / 1e6);
    world->counters->paused++;
    world->counters->paused_beyond_ttl += ns > client->terms->ttl_ns;
    client->paused = true;
    event_set(world, &client->resume, world_in(world, ns));
}

static void deadlines_catch_up(struct sim_client *client)
{
    struct world *world = client->world;
    for (unsigned i = 0; i < world->parameters.locks; i++)
        lock_timer(&client->locks[i]);
    for (unsigned i = 0; i < world->parameters.nodes; i++) {
        struct list *all = &client->connections[i].under_way;
        for (struct list *link = all->next, *next = NULL; link != all; link = next) {
            struct message *message = list_owner(link, struct message, link);
            next = link->next;
            if (message->call_open && instant_reached(world->now, message->deadline))
                message_time_out(message);
        }
    }
}

static void replies_catch_up(struct sim_client *client)
{
    struct list *link = NULL;
    while ((link = list_take_first(&client->inbox)) != NULL)
        message_deliver(list_owner(link, struct message, inbox));
}

static void calls_rearm(struct sim_client *client)
{
    for (unsigned i = 0; i < client->world->parameters.nodes; i++) {
        struct list *all = &client->connections[i].under_way;
        for (struct list *link = all->next; link != all; link = link->next)
            message_reschedule(list_owner(link, struct message, link));
    }
}

/* The loop fires deadlines before it reads replies. The lease must not depend on it. */
void client_resume(struct sim_client *client)
{
    struct world *world = client->world;
    world_trace(world, "client %u: goes on", client->index);
    client->paused = false;
    if (world->parameters.replies_first)
        replies_catch_up(client);
    deadlines_catch_up(client);
    replies_catch_up(client);
    calls_rearm(client);
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        if (client->connections[i].broke)
            connection_break_seen(&client->connections[i]);
    for (unsigned i = 0; i < world->parameters.locks; i++)
        oracle_watch(&client->locks[i]);
    client_turn_end(client);
}
