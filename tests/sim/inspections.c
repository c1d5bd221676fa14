/* The driver of trust.c in one client: what lib/redlock/inspection.c does, in the same order. Every node is inspected
 * when its connection is up, whenever a script says that its marker is another one, and every pulse; every answer of a
 * script is a sample of its clock. An even number of nodes is no group and is refused by the real driver: there
 * everybody votes and nothing is compared, because the rules of the lease must hold for any N. */
#include "tests/sim/world.h"

#include <string.h>

#define RETRY_NS        (100 * NS_PER_MS)
#define HELD_PULSE_NS   (1 * NS_PER_S)
#define NO_DEADLINE_US  (INT64_C(1) << 53)
#define NOBODYS_TIME_US INT64_C(1790000000000000) /* about when all schedules begin, by the wall clock */

static void step_take(struct sim_client *client, struct trust_step step);

/* --- what trust says -------------------------------------------------------------------------------------------- */

node_set client_voters(const struct sim_client *client)
{
    return client->trusts ? trust_voters(&client->trust) : all_nodes(client->world);
}

node_set client_members(const struct sim_client *client)
{
    return client->trusts ? trust_members(&client->trust) : all_nodes(client->world);
}

static uint16_t marker_expected(struct connection *connection)
{
    struct sim_client *client = connection->client;
    const char *text = trust_marker_expected(&client->trust, connection->node->index);
    if (text[0] == '\0')
        return MODEL_ANY_MARKER;
    if (strcmp(text, MARKER_NONE) == 0)
        return MODEL_NO_MARKER;
    connection->marker_guess = world_marker_number(client->world, text, connection->marker_guess);
    return connection->marker_guess;
}

static int64_t grant_deadline_us(const struct connection *connection)
{
    struct sim_client *client = connection->client;
    struct instant limit = instant_after(client_now(client), client->terms->silence_limit_ns);
    int64_t latest =
        client->trusts ? trust_node_time_us(&client->trust, connection->node->index, limit) : NO_DEADLINE_US;
    return latest > 0 ? latest : NO_DEADLINE_US;
}

static uint64_t token_proposal(const struct sim_client *client)
{
    struct instant now = client_now(client);
    int64_t proposal = client->trusts ? trust_median_us(&client->trust, now) : 0;
    if (proposal <= 0)
        proposal = NOBODYS_TIME_US + (client->world->now.ns + client->wall_ns) / NS_PER_US;
    return (uint64_t)proposal;
}

void request_address(struct request *request, struct connection *connection, const struct sim_lock *lock)
{
    struct sim_client *client = connection->client;
    unsigned node = connection->node->index;
    request->marker =
        client->trusts && request->kind != REQUEST_RELEASE ? marker_expected(connection) : MODEL_ANY_MARKER;
    switch (request->kind) {
    case REQUEST_GRANT:
        request->deadline_us = grant_deadline_us(connection);
        request->token = client->terms->fenced ? token_proposal(client) : MODEL_UNFENCED;
        return;
    case REQUEST_REPLANT:
        request->token = lock->lease.token;
        request->deadline_us = client->trusts
                                   ? trust_node_time_low_us(&client->trust, node, lock->lease.kept_until[node])
                                   : NO_DEADLINE_US;
        return;
    case REQUEST_RAISE:
        request->token = lock->lease.token;
        return;
    case REQUEST_RELEASE:
    case REQUEST_EXTEND:
    case REQUEST_INSPECT:
    case REQUEST_MARK:
        return;
    }
}

/* --- calls ------------------------------------------------------------------------------------------------------ */

static void inspect(struct connection *connection)
{
    struct sim_client *client = connection->client;
    struct request request = {.kind = REQUEST_INSPECT};
    if (!client->trusts || connection->inspecting)
        return;
    connection->inspected_at = client_now(client);
    connection->inspecting =
        connection_send(connection, &request, world_in(client->world, client->timeout_ns), INSTANT_NEVER, NULL);
}

static void marker_write_to(struct connection *connection)
{
    struct sim_client *client = connection->client;
    struct world *world = client->world;
    char text[MARKER_TEXT_MAX];
    if (connection->marking)
        return;
    struct request request = {.kind = REQUEST_MARK, .marker = marker_expected(connection)};
    trust_marker_to_write(&client->trust, connection->node->index, text);
    request.mark_as = world_marker_number(world, text, connection->marker_guess);
    world_trace(world, "client %u to node %u: is to be marked %s", client->index, connection->node->index, text);
    connection->marking =
        connection_send(connection, &request, world_in(world, client->timeout_ns), INSTANT_NEVER, NULL);
}

static void verdicts_trace(const struct sim_client *client, node_set changed)
{
    for (unsigned i = 0; i < client->world->parameters.nodes; i++)
        if (set_has(changed, i))
            world_trace(client->world, "client %u: node %u %s, %s", client->index, i,
                        trust_state_name(client->trust.node[i].state), trust_reason_name(client->trust.node[i].reason));
}

static void locks_forget(struct sim_client *client, node_set nodes)
{
    world_trace(client->world, "client %u: nodes %#x forgot", client->index, nodes);
    client->world->counters->forgot++;
    for (unsigned k = 0; k < client->world->parameters.locks; k++)
        for (unsigned i = 0; i < client->world->parameters.nodes; i++)
            if (set_has(nodes, i))
                lock_forgot(&client->locks[k], i);
}

static void locks_doubt(struct sim_client *client)
{
    world_trace(client->world, "client %u: its own clock stood still", client->index);
    client->world->counters->own_clock_stood++;
    for (unsigned k = 0; k < client->world->parameters.locks; k++)
        lock_doubt(&client->locks[k]);
}

static void timer_follow(struct sim_client *client, struct instant at)
{
    struct instant when = client_to_world(client, at);
    if (at.ns == INSTANT_NEVER.ns)
        return;
    if (!heap_holds(&client->trust_timer.item) || instant_before(when, client->trust_timer.item.at))
        event_set(client->world, &client->trust_timer, when);
}

static void step_take(struct sim_client *client, struct trust_step step)
{
    if (step.forgot != 0)
        locks_forget(client, step.forgot);
    if (step.own_clock_stood)
        locks_doubt(client);
    for (unsigned k = 0; k < client->world->parameters.locks && step.suspect_ns > 0; k++)
        lock_suspect(&client->locks[k], step.suspect_ns);
    oracle_trust_judged(client, step.changed);
    if (client->world->tracing)
        verdicts_trace(client, step.changed);
    for (unsigned i = 0; i < client->world->parameters.nodes; i++) {
        if (set_has(step.write, i))
            marker_write_to(&client->connections[i]);
        if (set_has(step.look, i))
            inspect(&client->connections[i]);
    }
    timer_follow(client, trust_next(&client->trust));
}

/* --- what happens ----------------------------------------------------------------------------------------------- */

void inspections_start(struct sim_client *client)
{
    const struct parameters *parameters = &client->world->parameters;
    client->trusts = parameters->nodes % 2 == 1;
    client->outliers = 0;
    for (unsigned i = 0; i < parameters->nodes; i++)
        client->connections[i].clock_run = 0, client->connections[i].noticed_at = (struct instant){0};
    if (!client->trusts)
        return;
    trust_init(&client->trust, parameters->nodes, client->timeout_ns, client->terms->drift_factor);
    event_set(client->world, &client->trust_timer, world_in(client->world, parameters->pulse_ns));
}

static bool holds_something(const struct sim_client *client)
{
    for (unsigned k = 0; k < client->world->parameters.locks; k++)
        if (client->locks[k].lease.state == LEASE_HELD)
            return true;
    return false;
}

void inspections_fire(struct sim_client *client)
{
    struct instant now = client_now(client);
    int64_t pulse_ns = client->world->parameters.pulse_ns;
    for (unsigned i = 0; i < client->world->parameters.nodes; i++) {
        struct connection *connection = &client->connections[i];
        bool is_overdue = client->trust.node[i].state == TRUST_UNSEEN ||
                          instant_reached(now, instant_after(connection->inspected_at, pulse_ns));
        bool is_unheard = instant_reached(now, instant_after(client->trust.node[i].clock.heard, HELD_PULSE_NS)) &&
                          instant_reached(now, instant_after(connection->inspected_at, HELD_PULSE_NS));
        if (connection->up && (is_overdue || (is_unheard && holds_something(client))))
            inspect(connection);
    }
    event_set(client->world, &client->trust_timer,
              world_in(client->world, pulse_ns < HELD_PULSE_NS ? pulse_ns : HELD_PULSE_NS));
    step_take(client, trust_tick(&client->trust, now));
}

void inspection_node_up(struct connection *connection)
{
    inspect(connection);
}

void inspection_node_down(struct connection *connection)
{
    struct sim_client *client = connection->client;
    client->sharp &= (node_set) ~(1u << connection->node->index); /* it may come back as another run */
    if (client->trusts)
        step_take(client, trust_unseen(&client->trust, connection->node->index, client_now(client)));
}

void inspection_doubts(struct connection *connection)
{
    inspection_node_down(connection);
    inspect(connection);
}

void inspection_sampled(struct connection *connection, const struct message *message)
{
    struct sim_client *client = connection->client;
    if (!client->trusts)
        return;
    struct instant now = client_now(client);
    oracle_clock_told(connection, message);
    struct trust_step step =
        trust_sampled(&client->trust, connection->node->index, message->asked, now, message->answer.node_us, now);
    if ((step.forgot | step.write | step.look | step.changed) != 0 || step.own_clock_stood)
        step_take(client, step);
    oracle_time_heard(client, connection->node->index, message->asked);
}

/* 40 digits, as a server has them. */
void run_tell(uint32_t run, char text[MARKER_RUN_DIGITS + 1])
{
    memcpy(text, "f000000000000000000000000000000000000000", MARKER_RUN_DIGITS + 1);
    for (unsigned digit = 1; run > 0; digit++, run /= 10) /* the first ones tell servers apart: ids of places */
        text[digit] = (char)('0' + run % 10);
}

static struct trust_sight sight_of(const struct message *message)
{
    const struct world *world = message->connection->client->world;
    bool is_bad = message->answer.marker == MODEL_BAD_MARKER;
    const char *marker = is_bad ? "?" : world->markers[message->answer.marker];
    struct trust_sight sight = {.asked = message->asked,
                                .answered = client_now(message->connection->client),
                                .has_marker = message->answer.marker != MODEL_NO_MARKER,
                                .node_us = message->answer.node_us};
    memcpy(sight.marker_text, marker, strlen(marker) + 1);
    run_tell(message->answer.run, sight.run_id);
    return sight;
}

static void inspected(struct message *message, enum outcome outcome)
{
    struct connection *connection = message->connection;
    struct sim_client *client = connection->client;
    unsigned node = connection->node->index;
    connection->inspecting = false;
    if (outcome == CALL_ANSWERED) {
        struct trust_sight sight = sight_of(message);
        oracle_clock_told(connection, message);
        step_take(client, trust_saw(&client->trust, node, &sight, sight.answered));
        oracle_time_heard(client, node, message->asked);
    } else if (outcome == CALL_UNKNOWN) {
        timer_follow(client, instant_after(client_now(client), RETRY_NS));
    } else {
        step_take(client, trust_unreadable(&client->trust, node, client_now(client)));
        timer_follow(client, instant_after(client_now(client), client->world->parameters.pulse_ns));
    }
}

void inspection_over(struct message *message, enum outcome outcome)
{
    if (message->request.kind == REQUEST_INSPECT) {
        inspected(message, outcome);
        return;
    }
    message->connection->marking = false;
    inspect(message->connection);
}
