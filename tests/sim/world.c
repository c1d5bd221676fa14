/* One schedule. The events of a world sit in one heap, each inside the thing that it happens to; a turn takes the
 * first one, moves the clock there, lets it happen, and then lets the client that it happened to send what gathered,
 * as the loop does at the end of its turn.
 *
 * A schedule has three parts: faults; calm, in which the network is good, everything heals and somebody must acquire;
 * and the drain, in which everybody gives up what they have. It ends when no message is under way and every lock is
 * free, and then no key may be left that a lock should have cleaned up. */
#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"

/* Far above what any schedule needs; reaching it means that something goes round in circles. */
enum { EVENTS_MAX = 2000000 };

/* --- the clock ----------------------------------------------------------------------------------------------- */

void event_init(struct event *event, enum event_kind kind)
{
    *event = (struct event){.kind = kind};
}

void event_clear(struct world *world, struct event *event)
{
    heap_remove(&world->heap, &event->item);
}

uint16_t world_marker_number(struct world *world, const char *text, uint16_t guess)
{
    if (strcmp(world->markers[guess], text) == 0)
        return guess;
    for (unsigned i = 0; i < world->marker_count; i++)
        if (strcmp(world->markers[i], text) == 0)
            return (uint16_t)i;
    invariant(world->marker_count < MARKERS_MAX);
    snprintf(world->markers[world->marker_count], MARKER_TEXT_MAX, "%s", text);
    return (uint16_t)world->marker_count++;
}

void world_print(const struct world *world, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%14.6f ms  ", (double)instant_since(world->parameters.begin, world->now) / (double)NS_PER_MS);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

/* --- the beginning and the parts ------------------------------------------------------------------------------ */

static void parameters_print(const struct world *world, uint64_t seed)
{
    const struct parameters *p = &world->parameters;
    printf("seed %llu: %s, %u nodes, %u clients with %u locks, %u resources, %s\n", (unsigned long long)seed,
           profile_names[p->profile], p->nodes, p->clients, p->locks, p->resources,
           p->prompt ? "prompt"
           : p->calm ? "calm"
                     : "with faults");
    for (unsigned i = 0; i < p->clients; i++)
        printf("  client %u: ttl %lld ms, drift %.3f, timeout %.3f ms, %u tries%s, maximum hold %lld ms\n", i,
               (long long)(p->terms[i].ttl_ns / NS_PER_MS), p->terms[i].drift_factor, (double)p->timeout_ns[i] / 1e6,
               p->terms[i].tries, p->terms[i].fenced ? ", fenced" : "",
               (long long)(p->terms[i].max_hold_ns / NS_PER_MS));
    for (unsigned i = 0; i < p->nodes; i++)
        printf("  node %u: clock rate %.6f, shows %lld us\n", i,
               (double)world->nodes[i].model.clock_rate / (double)MODEL_NORMAL_RATE,
               (long long)node_model_clock_us(&world->nodes[i].model, world->now));
    printf("  delay %.3f + %.3f ms, spikes %u per mille, late requests within %.3f ms\n", (double)p->delay_ns / 1e6,
           (double)p->delay_jitter_ns / 1e6, p->spike_per_mille, (double)p->late_ns / 1e6);
    printf("  max ttl %lld ms, pulse %.3f ms, faults %#x\n", (long long)(p->max_ttl_ns / NS_PER_MS),
           (double)p->pulse_ns / 1e6, p->faults);
}

static void resource_forget(struct resource *resource)
{
    resource->count = 0;
    resource->accepted_token = 0;
    resource->accepted_began = resource->twin_began = (struct instant){0};
}

static void world_begin(struct world *world, uint64_t seed, enum model_bug bug)
{
    world->chance = (struct chance){chance_mix(seed + 1)};
    parameters_draw(&world->parameters, &world->chance, world->forced);
    const struct parameters *parameters = &world->parameters;
    world->now = parameters->begin;
    world->is_calm = parameters->calm;
    world->is_draining = false;
    world->values = world->runs = 0;
    world->marker_count = 1; /* "" */
    world->markers[0][0] = '\0';
    for (unsigned i = 0; i < SIM_RESOURCES_MAX; i++)
        resource_forget(&world->resources[i]);
    memset(world->single_counters, 0, sizeof world->single_counters);
    world->messages = 0;
    world->acquired_in_calm = 0;
    world->events = 0;
    world->digest = seed;
    world->violation = (struct violation){.oracle = NULL};
    event_init(&world->fault, EVENT_FAULT);
    event_init(&world->calm, EVENT_CALM);
    event_init(&world->drain, EVENT_DRAIN);
    for (unsigned i = 0; i < parameters->nodes; i++)
        node_init(&world->nodes[i], world, i, bug);
    if (world->tracing)
        parameters_print(world, seed);
    for (unsigned i = 0; i < parameters->clients; i++) {
        client_init(&world->clients[i], world, i);
        client_start(&world->clients[i]);
    }
    if (!parameters->calm) {
        faults_begin(world);
        event_set(world, &world->calm, parameters->calm_from);
    }
    event_set(world, &world->drain, parameters->drain_from);
}

/* From here on messages are quick, so that whoever tries can succeed. */
static void calm_begins(struct world *world)
{
    struct parameters *parameters = &world->parameters;
    world_trace(world, "---- calm");
    world->is_calm = true;
    parameters->delay_ns = parameters->delay_jitter_ns = parameters->shortest_ttl_ns / 2000;
    for (unsigned i = 0; i < parameters->clients; i++)
        if (parameters->delay_ns > parameters->timeout_ns[i] / 5)
            parameters->delay_ns = parameters->delay_jitter_ns = parameters->timeout_ns[i] / 5;
    parameters->spike_per_mille = 0;
    parameters->pause_per_mille = 0;
    faults_end(world);
    for (unsigned i = 0; i < parameters->clients; i++)
        for (unsigned k = 0; k < parameters->locks; k++)
            user_calm(&world->clients[i].locks[k]);
}

static void drain_begins(struct world *world)
{
    world_trace(world, "---- drain");
    world->is_draining = true;
    if (!world->parameters.calm && !world->parameters.abrupt)
        oracle_calm_over(world);
    for (unsigned i = 0; i < world->parameters.clients; i++) {
        struct sim_client *client = &world->clients[i];
        client->quitting = true;
        for (unsigned k = 0; k < world->parameters.locks; k++)
            event_set(world, &client->locks[k].user, world->now);
    }
}

/* --- turns ---------------------------------------------------------------------------------------------------- */

/* What happens inside a client waits while it is paused, until just after it has resumed. */
static void in_client(struct sim_client *client, struct event *event)
{
    if (client->paused) {
        event_set(client->world, event, instant_after(client->resume.item.at, 1));
        return;
    }
    switch (event->kind) {
    case EVENT_LEASE:
        lock_timer(list_owner(event, struct sim_lock, timer));
        break;
    case EVENT_USER:
        user_act(list_owner(event, struct sim_lock, user));
        break;
    case EVENT_OWED:
        owed_fire(client);
        break;
    case EVENT_TRUST:
        inspections_fire(client);
        break;
    default:
        connection_reconnect(list_owner(event, struct connection, reconnect));
        break;
    }
    client_turn_end(client);
}

static void message_turn(struct message *message)
{
    struct sim_client *client = message->connection->client;
    message_happens(message);
    if (!client->paused)
        client_turn_end(client);
}

static void event_happens(struct world *world, struct event *event)
{
    switch (event->kind) {
    case EVENT_MESSAGE:
        message_turn(list_owner(event, struct message, event));
        return;
    case EVENT_LEASE:
        in_client(list_owner(event, struct sim_lock, timer)->client, event);
        return;
    case EVENT_USER:
        in_client(list_owner(event, struct sim_lock, user)->client, event);
        return;
    case EVENT_OWED:
        in_client(list_owner(event, struct sim_client, owed_timer), event);
        return;
    case EVENT_TRUST:
        in_client(list_owner(event, struct sim_client, trust_timer), event);
        return;
    case EVENT_WRITE:
        oracle_written(list_owner(event, struct sim_lock, write));
        return;
    case EVENT_RECONNECT:
        in_client(list_owner(event, struct connection, reconnect)->client, event);
        return;
    case EVENT_WATCH:
        oracle_watch(list_owner(event, struct sim_lock, watch));
        return;
    case EVENT_STALL_END:
        connection_stall_ended(list_owner(event, struct connection, stall_end));
        return;
    case EVENT_RESUME:
        client_resume(list_owner(event, struct sim_client, resume));
        return;
    case EVENT_RESTART:
        node_restart(list_owner(event, struct sim_node, restart));
        return;
    case EVENT_FAULT:
        fault_happens(world);
        return;
    case EVENT_CALM:
        calm_begins(world);
        return;
    case EVENT_DRAIN:
        drain_begins(world);
        return;
    }
}

/* Nothing is left that would be cleaned up in a moment. */
static bool connection_is_settled(const struct connection *connection)
{
    for (const struct list *link = connection->owed.next; link != &connection->owed; link = link->next)
        if (list_owner(link, const struct owed_release, link)->soon)
            return false;
    return connection->up || connection->node->down;
}

static bool client_is_settled(const struct sim_client *client)
{
    for (unsigned i = 0; i < client->world->parameters.locks; i++)
        if (client->locks[i].lease.state != LEASE_FREE)
            return false;
    for (unsigned i = 0; i < client->world->parameters.nodes; i++)
        if (!connection_is_settled(&client->connections[i]))
            return false;
    return !client->paused;
}

static bool world_is_drained(const struct world *world)
{
    if (!world->is_draining || !world->is_calm || world->messages > 0)
        return false;
    for (unsigned i = 0; i < world->parameters.clients; i++)
        if (!client_is_settled(&world->clients[i]))
            return false;
    return true;
}

static void world_turn(struct world *world)
{
    struct heap_item *first = heap_first(&world->heap);
    invariant(first != NULL);
    world->now = first->at;
    heap_remove(&world->heap, first);
    struct event *event = list_owner(first, struct event, item);
    world->events++;
    world_note(world, (uint64_t)world->now.ns ^ (uint64_t)event->kind << 56);
    event_happens(world, event);
    if (world->events > EVENTS_MAX)
        world_violated(world, "O4", "the schedule does not come to an end");
}

/* --- the end --------------------------------------------------------------------------------------------------- */

static void message_forget(struct world *world, struct message *message)
{
    heap_remove(&world->heap, &message->event.item);
    list_remove(&message->inbox);
    list_remove(&message->link);
    list_append(&world->idle_messages, &message->link);
}

/* Messages are taken from one pool and go back to it. Those whose connection broke are only in the heap. */
static void world_end(struct world *world)
{
    swaps_free(world);
    for (unsigned i = 0; i < world->parameters.clients; i++)
        for (unsigned k = 0; k < world->parameters.nodes; k++) {
            struct connection *connection = &world->clients[i].connections[k];
            while (!list_is_empty(&connection->under_way))
                message_forget(world, list_owner(connection->under_way.next, struct message, link));
            owed_forget_all(connection);
        }
    struct heap_item *item = NULL;
    while ((item = heap_first(&world->heap)) != NULL) {
        struct event *event = list_owner(item, struct event, item);
        if (event->kind == EVENT_MESSAGE)
            message_forget(world, list_owner(event, struct message, event));
        else
            heap_remove(&world->heap, item);
    }
}

void world_play(struct world *world, uint64_t seed, enum model_bug bug, struct counters *counters)
{
    world->counters = counters;
    world_begin(world, seed, bug);
    while (world->violation.oracle == NULL && !world_is_drained(world))
        world_turn(world);
    if (world->violation.oracle == NULL)
        oracle_end(world);
    counters->virtual_ms += (uint64_t)(instant_since(world->parameters.begin, world->now) / NS_PER_MS);
    world_note(world, world->events);
    world_end(world);
}

struct world *world_create(void)
{
    struct world *world = memory_new(struct world);
    list_init(&world->idle_messages);
    list_init(&world->swaps);
    world->forced = PROFILES;
    return world;
}

void world_destroy(struct world *world)
{
    struct list *link = NULL;
    while ((link = list_take_first(&world->idle_messages)) != NULL)
        free(list_owner(link, struct message, link));
    heap_fini(&world->heap);
    free(world);
}
