/* The network. A connection is TCP as a client meets it: what was sent on it arrives in order or not at all, and
 * replies come back in order. It can stall in one direction (a cut cable, a full queue, a server that stands still);
 * then it either goes on, and everything that was held arrives late, or it breaks. After a break nothing is answered,
 * but a beginning of what was under way may still be executed for a while (retransmission, a server that was
 * stopped), also behind the requests of the connection that replaced it: the only way in which a release can come
 * before the grant that it undoes. A single message is therefore never lost from the middle of a connection.
 *
 * A message is in the heap once, for whatever comes first: its arrival or the deadline of its call. */
#include "tests/sim/world.h"

#include <stddef.h>
#include <string.h>

#include "base/memory.h"

static struct world *world_of(const struct connection *connection)
{
    return connection->client->world;
}

static int64_t delay_draw(struct world *world)
{
    const struct parameters *parameters = &world->parameters;
    int64_t delay = parameters->delay_ns + chance_below(&world->chance, parameters->delay_jitter_ns + 1);
    if (parameters->spike_per_mille > 0 && chance_per_mille(&world->chance, parameters->spike_per_mille))
        delay += chance_below(&world->chance, parameters->spike_ns);
    return delay;
}

static struct instant later(struct instant a, struct instant b)
{
    return a.ns > b.ns ? a : b;
}

/* Behind everything that was promised before. */
static struct instant in_order(struct instant *last, struct instant wanted)
{
    *last = later(wanted, instant_after(*last, 1));
    return *last;
}

/* --- messages -------------------------------------------------------------------------------------------------- */

static struct message *message_new(struct world *world)
{
    struct list *idle = list_take_first(&world->idle_messages);
    struct message *message = idle != NULL ? list_owner(idle, struct message, link) : memory_new(struct message);
    event_init(&message->event, EVENT_MESSAGE);
    list_init(&message->link);
    list_init(&message->inbox);
    return message;
}

static void message_free(struct message *message)
{
    struct world *world = world_of(message->connection);
    event_clear(world, &message->event);
    list_remove(&message->inbox);
    list_remove(&message->link);
    list_prepend(&world->idle_messages, &message->link); /* the next one takes what is still in the cache */
    world->messages -= message->request.kind < REQUEST_INSPECT;
}

void message_reschedule(struct message *message)
{
    struct world *world = world_of(message->connection);
    struct instant at = message->due;
    if (message->call_open && !message->connection->client->paused)
        at = instant_earlier(at, message->deadline);
    if (at.ns == INSTANT_NEVER.ns)
        event_clear(world, &message->event);
    else
        event_set(world, &message->event, at);
}

bool connection_send(struct connection *connection, const struct request *request, struct instant deadline,
                     struct instant gone_by, struct owed_release *owed)
{
    struct world *world = world_of(connection);
    if (!connection->up)
        return false;
    struct message *message = message_new(world);
    message->connection = connection;
    message->phase = MESSAGE_REQUEST;
    message->sent = world->now;
    message->deadline = deadline;
    message->call_open = true;
    message->dead = message->refused = false;
    message->owed = owed;
    message->gone_by = gone_by;
    message->asked = client_now(connection->client);
    message->run = connection->node->model.run;
    message->answer = (struct answer){.code = MODEL_DONE};
    memcpy(&message->request, request, offsetof(struct request, entries) + request->count * sizeof request->entries[0]);
    struct instant written = client_writes_at(connection->client, connection->node->index);
    message->due = in_order(&connection->last_request, instant_after(written, delay_draw(world)));
    list_append(&connection->under_way, &message->link);
    world->messages += request->kind < REQUEST_INSPECT;
    message_reschedule(message);
    return true;
}

bool connection_is_behind(const struct connection *connection)
{
    const struct list *all = &connection->under_way;
    if (list_is_empty(all))
        return false;
    const struct message *oldest = list_owner(all->next, struct message, link);
    return instant_since(oldest->sent, world_of(connection)->now) >= connection->client->timeout_ns;
}

static void message_hold(struct message *message)
{
    message->due = INSTANT_NEVER;
    message_reschedule(message);
}

/* --- arrivals -------------------------------------------------------------------------------------------------- */

static void request_arrives(struct message *message)
{
    struct connection *connection = message->connection;
    struct world *world = world_of(connection);
    if (!message->dead && connection->stall == STALL_REQUESTS) {
        message_hold(message);
        return;
    }
    if (!connection->node->down && message->run == connection->node->model.run)
        message_execute(message);
    if (message->dead) {
        /* A client that has not seen the break yet still waits for it. */
        if (message->call_open) {
            message->phase = MESSAGE_DELIVERED;
            message_hold(message);
        } else {
            message_free(message);
        }
        return;
    }
    message->phase = MESSAGE_REPLY;
    message->due = in_order(&connection->last_reply, world_in(world, delay_draw(world)));
    message_reschedule(message);
}

static void reply_arrives(struct message *message)
{
    struct connection *connection = message->connection;
    if (connection->stall == STALL_REPLIES) {
        message_hold(message);
        return;
    }
    message->phase = MESSAGE_DELIVERED;
    if (connection->client->paused) {
        message_hold(message);
        list_append(&connection->client->inbox, &message->inbox);
        return;
    }
    message_deliver(message);
}

void message_happens(struct message *message)
{
    struct world *world = world_of(message->connection);
    if (instant_before(world->now, message->due)) {
        if (message->connection->client->paused)
            message_reschedule(message);
        else
            message_time_out(message);
        return;
    }
    if (message->phase == MESSAGE_REQUEST)
        request_arrives(message);
    else
        reply_arrives(message);
}

void message_time_out(struct message *message)
{
    world_of(message->connection)->counters->timed_out++;
    call_over(message, CALL_UNKNOWN);
    message_reschedule(message);
}

/* The driver drops what comes after the deadline; the lease must not care. */
static void late_reply_feed(struct message *message)
{
    struct world *world = world_of(message->connection);
    unsigned node = message->connection->node->index;
    if (message->refused) {
        /* A release that was given up and then refused: nobody knows, so nobody repeats it. */
        for (unsigned i = 0; message->request.kind == REQUEST_RELEASE && i < message->request.count; i++)
            message->connection->node->excused |= message->request.entries[i].resources;
        return;
    }
    world->counters->late_reply++;
    for (unsigned i = 0; world->parameters.late_votes && i < message->request.count; i++) {
        const struct entry *entry = &message->request.entries[i];
        if (entry->round != NO_VOTE && set_has(entry->nodes, node) && message->answer.code == MODEL_DONE)
            lock_voted(entry->lock, node, entry->round, entry->vote, entry->detail);
    }
}

void message_deliver(struct message *message)
{
    list_remove(&message->inbox);
    if (message->call_open)
        call_over(message, message->refused ? CALL_REFUSED : CALL_ANSWERED);
    else
        late_reply_feed(message);
    message_free(message);
}

/* --- connections ------------------------------------------------------------------------------------------------ */

void connection_init(struct connection *connection, struct sim_client *client, struct sim_node *node)
{
    *connection = (struct connection){.client = client, .node = node, .up = true};
    event_init(&connection->reconnect, EVENT_RECONNECT);
    event_init(&connection->stall_end, EVENT_STALL_END);
    list_init(&connection->under_way);
    list_init(&connection->owed);
}

void connection_stall(struct connection *connection, enum stall stall, int64_t ns, bool breaks)
{
    struct world *world = world_of(connection);
    if (heap_holds(&connection->stall_end.item))
        return;
    world->counters->stalled++;
    world_trace(world, "client %u to node %u: %s held", connection->client->index, connection->node->index,
                stall == STALL_REQUESTS ? "requests" : "replies");
    connection->stall = stall;
    connection->stall_breaks = breaks;
    event_set(world, &connection->stall_end, world_in(world, ns));
}

/* What was held arrives now, and what is behind it not before it. */
static void held_go_on(struct connection *connection)
{
    struct world *world = world_of(connection);
    struct instant request = world->now, reply = world->now;
    for (struct list *link = connection->under_way.next; link != &connection->under_way; link = link->next) {
        struct message *message = list_owner(link, struct message, link);
        if (message->phase == MESSAGE_DELIVERED)
            continue;
        struct instant due = message->due.ns == INSTANT_NEVER.ns ? world_in(world, delay_draw(world)) : message->due;
        message->due = in_order(message->phase == MESSAGE_REQUEST ? &request : &reply, due);
        message_reschedule(message);
    }
    connection->last_request = later(connection->last_request, request);
    connection->last_reply = later(connection->last_reply, reply);
}

void connection_stall_ended(struct connection *connection)
{
    bool stalled = connection->stall != STALL_NONE;
    connection->stall = STALL_NONE;
    if (!stalled || !connection->up || connection->broke)
        return;
    if (connection->stall_breaks)
        connection_break(connection, chance_pick(&world_of(connection)->chance, 2) == 0);
    else
        held_go_on(connection);
}

/* A beginning of the requests under way survives the connection; all replies are lost. */
static void under_way_cut(struct connection *connection, bool executes_late)
{
    struct world *world = world_of(connection);
    struct instant limit = world_in(world, world->parameters.late_ns), last = world->now;
    bool survives = executes_late;
    for (struct list *link = connection->under_way.next; link != &connection->under_way; link = link->next) {
        struct message *message = list_owner(link, struct message, link);
        if (message->phase == MESSAGE_DELIVERED)
            continue;
        if (message->phase == MESSAGE_REQUEST && survives) {
            bool held = message->due.ns == INSTANT_NEVER.ns;
            int64_t left = instant_since(last, limit);
            struct instant due = held ? instant_after(last, chance_below(&world->chance, left)) : message->due;
            message->due = in_order(&last, due);
            survives = instant_before(message->due, limit) && chance_pick(&world->chance, 4) != 0;
        }
        message->dead = message->phase == MESSAGE_REQUEST && survives;
        if (!message->dead) {
            message->phase = MESSAGE_DELIVERED;
            message->due = INSTANT_NEVER;
        }
        message_reschedule(message);
    }
}

void connection_break(struct connection *connection, bool executes_late)
{
    struct world *world = world_of(connection);
    if (!connection->up || connection->broke)
        return;
    world->counters->broken++;
    world_trace(world, "client %u to node %u: breaks", connection->client->index, connection->node->index);
    connection->stall = STALL_NONE;
    under_way_cut(connection, executes_late);
    if (connection->client->paused) {
        connection->broke = true;
        return;
    }
    connection_break_seen(connection);
    client_turn_end(connection->client);
}

static void reconnect_arm(struct connection *connection)
{
    struct world *world = world_of(connection);
    int64_t most = world->parameters.shortest_ttl_ns / 5;
    event_set(world, &connection->reconnect, world_in(world, chance_between(&world->chance, most / 20, most)));
}

/* Its connection is no more; it may still be executed. */
static void message_outlive(struct message *message)
{
    if (!message->dead || message->phase == MESSAGE_DELIVERED)
        message_free(message);
    else
        message_reschedule(message);
}

void connection_break_seen(struct connection *connection)
{
    connection->up = connection->broke = false;
    struct list *link = NULL;
    while ((link = list_take_first(&connection->under_way)) != NULL) {
        struct message *message = list_owner(link, struct message, link);
        if (message->call_open)
            call_over(message, CALL_UNKNOWN);
        message_outlive(message);
    }
    inspection_node_down(connection);
    reconnect_arm(connection);
}

void connection_abandon(struct connection *connection)
{
    struct world *world = world_of(connection);
    if (connection->up && !connection->broke)
        under_way_cut(connection, chance_pick(&world->chance, 2) == 0);
    connection->up = connection->broke = connection->inspecting = connection->marking = false;
    connection->stall = STALL_NONE;
    struct list *link = NULL;
    while ((link = list_take_first(&connection->under_way)) != NULL) {
        struct message *message = list_owner(link, struct message, link);
        message->call_open = false;
        message->owed = NULL;
        message_outlive(message);
    }
    owed_forget_all(connection);
    event_clear(world, &connection->reconnect);
}

void connection_reconnect(struct connection *connection)
{
    struct world *world = world_of(connection);
    connection->node = node_reached(world, connection->node);
    if (connection->node->down || heap_holds(&connection->stall_end.item)) {
        reconnect_arm(connection);
        return;
    }
    world_trace(world, "client %u to node %u: connected", connection->client->index, connection->node->index);
    connection->up = true;
    connection->last_request = connection->last_reply = world->now;
    inspection_node_up(connection);
    owed_reconnected(connection);
}
