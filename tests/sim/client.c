/* A client process: its turns, its clock, its pauses, its death, and the successor that starts in its place and knows
 * nothing.
 *
 * The clock of a client is the one that leases and trust see. It runs as everybody's time does, but may stand still
 * while the process does (a virtual machine that is stopped); what is planned by it then happens later by that much. */
#include "tests/sim/world.h"

/* --- its life --------------------------------------------------------------------------------------------------- */

static int64_t wall_draw(struct world *world)
{
    const struct parameters *parameters = &world->parameters;
    int64_t most = parameters->node_offset_ns;
    return chance_between(&world->chance, -most, most);
}

static void memory_forget(struct sim_client *client)
{
    for (int kind = 0; kind < GATHERING_KINDS; kind++)
        client->gathering[kind] = (struct batch){.nodes = 0};
    client->gathered = client->paused = client->clock_stands = client->is_gone = false;
    client->cut_node = SIM_NODES_MAX;
    list_init(&client->inbox);
}

void client_init(struct sim_client *client, struct world *world, unsigned index)
{
    const struct parameters *parameters = &world->parameters;
    client->world = world;
    client->index = index;
    client->terms = &parameters->terms[index];
    client->timeout_ns = parameters->timeout_ns[index];
    client->quitting = false;
    client->stood_ns = 0;
    client->went_on_at = (struct instant){0};
    client->wall_ns = wall_draw(world);
    memory_forget(client);
    event_init(&client->resume, EVENT_RESUME);
    event_init(&client->owed_timer, EVENT_OWED);
    event_init(&client->trust_timer, EVENT_TRUST);
    for (unsigned i = 0; i < SIM_LOCKS_MAX; i++)
        lock_init(&client->locks[i], client, index * SIM_LOCKS_MAX + i);
    for (unsigned i = 0; i < parameters->nodes; i++)
        connection_init(&client->connections[i], client, &world->nodes[i]);
}

void client_start(struct sim_client *client)
{
    inspections_start(client);
    for (unsigned i = 0; i < client->world->parameters.nodes; i++)
        if (client->connections[i].up)
            inspection_node_up(&client->connections[i]);
    for (unsigned i = 0; i < client->world->parameters.locks; i++)
        user_begin(&client->locks[i]);
}

static void events_clear(struct sim_client *client)
{
    event_clear(client->world, &client->resume);
    event_clear(client->world, &client->owed_timer);
    event_clear(client->world, &client->trust_timer);
    for (unsigned i = 0; i < client->world->parameters.locks; i++) {
        event_clear(client->world, &client->locks[i].timer);
        event_clear(client->world, &client->locks[i].user);
    }
}

/* Its sockets close with it; what was under way may still be executed. What it wrote to resources arrives. */
void client_leave(struct sim_client *client, int64_t ns)
{
    struct world *world = client->world;
    if (client->is_gone)
        return;
    world_trace(world, "client %u: dies", client->index);
    world->counters->died++;
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        connection_abandon(&client->connections[i]);
    for (unsigned i = 0; i < world->parameters.locks; i++)
        oracle_process_died(&client->locks[i]);
    events_clear(client);
    memory_forget(client);
    client->went_on_at = (struct instant){0};
    client->paused = client->is_gone = true;
    event_set(world, &client->resume, world_in(world, ns));
}

static void successor_start(struct sim_client *client)
{
    struct world *world = client->world;
    world_trace(world, "client %u: a successor starts", client->index);
    client->paused = client->is_gone = false;
    for (unsigned i = 0; i < world->parameters.locks; i++)
        lock_renew(&client->locks[i]);
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        event_set(world, &client->connections[i].reconnect, world->now);
    client_start(client);
}

/* --- turns and pauses -------------------------------------------------------------------------------------------- */

/* A client may stop between two writes: then the nodes from `cut_node` on get theirs when it goes on. */
static void perhaps_pause(struct sim_client *client)
{
    struct world *world = client->world;
    const struct parameters *parameters = &world->parameters;
    if (parameters->pause_per_mille == 0 || !chance_per_mille(&world->chance, parameters->pause_per_mille))
        return;
    client_pause(client, chance_below(&world->chance, 2 * client->terms->ttl_ns), false);
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
                lock_send_grants(&client->locks[i]);
    }
    client->cut_node = SIM_NODES_MAX;
}

struct instant client_writes_at(const struct sim_client *client, unsigned node)
{
    return node < client->cut_node ? client->world->now : client->resume.item.at;
}

void client_pause(struct sim_client *client, int64_t ns, bool clock_stands)
{
    struct world *world = client->world;
    if (client->paused)
        return;
    world_trace(world, "client %u: paused for %.3f ms%s", client->index, (double)ns / 1e6,
                clock_stands ? ", and its clock" : "");
    world->counters->paused++;
    world->counters->paused_beyond_ttl += ns > client->terms->ttl_ns;
    world->counters->frozen += clock_stands;
    client->paused = true;
    client->clock_stands = clock_stands;
    client->froze_at = world->now;
    for (unsigned i = 0; i < world->parameters.locks && clock_stands; i++)
        client->locks[i].tampered = true; /* until its next pass */
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
    if (client->is_gone) {
        successor_start(client);
        return;
    }
    world_trace(world, "client %u: goes on", client->index);
    client->paused = false;
    if (client->clock_stands)
        oracle_clock_stood(client, instant_since(client->froze_at, world->now));
    if (client->clock_stands)
        client->stood_ns += instant_since(client->froze_at, world->now);
    client->clock_stands = false;
    if (world->parameters.replies_first)
        replies_catch_up(client);
    deadlines_catch_up(client);
    replies_catch_up(client);
    calls_rearm(client);
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        if (client->connections[i].broke)
            connection_break_seen(&client->connections[i]);
    for (unsigned i = 0; i < world->parameters.locks; i++) /* once the timers that waited have fired */
        event_set(world, &client->locks[i].watch, world_in(world, 2));
    client_turn_end(client);
}
