/* Releases and extensions of a client, gathered in a turn and sent together, and the releases it still owes: what
 * lib/redlock/batch.c and owed.c do. A batch goes to every node that one of its locks needs, so keys of the others
 * are compared there for nothing. A release of which nobody knows whether it was executed is kept until its keys
 * have expired, and sent again when the node has come back, or a moment after the node refused it. */
#include "tests/sim/world.h"

#include <stdlib.h>

#include "base/memory.h"

#define OWED_RETRY_NS (100 * NS_PER_MS)

/* --- owed ------------------------------------------------------------------------------------------------------- */

static void owed_timer_arm(struct sim_client *client)
{
    if (!heap_holds(&client->owed_timer.item))
        event_set(client->world, &client->owed_timer, world_in(client->world, OWED_RETRY_NS));
}

static void owed_add(struct connection *connection, const struct message *message, bool soon)
{
    struct owed_release *owed = memory_new(struct owed_release);
    owed->connection = connection;
    owed->until = message->gone_by;
    owed->soon = soon;
    owed->request = message->request;
    list_append(&connection->owed, &owed->link);
    owed_timer_arm(connection->client);
}

static void owed_forget(struct owed_release *owed)
{
    list_remove(&owed->link);
    free(owed);
}

/* Its keys have expired by now, unless a node that stood still planted them after the release had been asked for, and
 * broke the connection before it came to the release: those end with their ttl. */
static void owed_expire(struct owed_release *owed)
{
    struct sim_node *node = owed->connection->node;
    for (unsigned i = 0; i < owed->request.count; i++)
        for (unsigned key = 0; key < SIM_RESOURCES_MAX; key++)
            if (node->model.keys[key].value == owed->request.entries[i].value)
                node->excused |= (uint16_t)(1u << key);
    owed_forget(owed);
}

void owed_forget_all(struct connection *connection)
{
    while (!list_is_empty(&connection->owed))
        owed_forget(list_owner(connection->owed.next, struct owed_release, link));
}

static bool deleted_all(const struct request *request)
{
    for (unsigned i = 0; i < request->count; i++)
        if (request->entries[i].vote != LEASE_YES)
            return false;
    return true;
}

/* One that did not find everything is repeated once: what it undoes may still come from the old connection. */
static void owed_over(struct owed_release *owed, const struct message *message, enum outcome outcome)
{
    owed->under_way = false;
    if (outcome == CALL_ANSWERED && (owed->was_executed || deleted_all(&message->request))) {
        owed_forget(owed);
        return;
    }
    owed->was_executed = outcome == CALL_ANSWERED;
    owed->soon = outcome != CALL_UNKNOWN;
    owed_timer_arm(owed->connection->client);
}

static void owed_send(struct owed_release *owed, bool reconnected)
{
    struct sim_client *client = owed->connection->client;
    if (owed->under_way)
        return;
    struct counters *counters = client->world->counters;
    counters->owed_after_reconnect += reconnected;
    counters->owed_again += !reconnected && owed->was_executed;
    counters->owed_after_error += !reconnected && !owed->was_executed;
    struct instant deadline = world_in(client->world, client->timeout_ns);
    owed->under_way = connection_send(owed->connection, &owed->request, deadline, owed->until, owed);
    if (!owed->under_way)
        owed->soon = false;
}

static void owed_visit(struct connection *connection, bool reconnected)
{
    struct instant now = connection->client->world->now;
    for (struct list *link = connection->owed.next, *next = NULL; link != &connection->owed; link = next) {
        struct owed_release *owed = list_owner(link, struct owed_release, link);
        next = link->next;
        /* One whose call is under way stays until that is over; the driver cancels the call instead. */
        if (instant_reached(now, owed->until) && !owed->under_way)
            owed_expire(owed);
        else if (reconnected || owed->soon)
            owed_send(owed, reconnected);
    }
}

void owed_reconnected(struct connection *connection)
{
    owed_visit(connection, true);
}

void owed_fire(struct sim_client *client)
{
    bool any = false;
    for (unsigned i = 0; i < client->world->parameters.nodes; i++) {
        owed_visit(&client->connections[i], false);
        any = any || !list_is_empty(&client->connections[i].owed);
    }
    if (any)
        owed_timer_arm(client);
}

/* --- outcomes ---------------------------------------------------------------------------------------------------- */

static void vote_count(const struct entry *entry, enum request_kind kind, unsigned node, enum outcome outcome,
                       enum model_code code)
{
    struct sim_lock *lock = entry->lock;
    if (outcome != CALL_ANSWERED) {
        lock_voted(lock, node, entry->round, LEASE_UNKNOWN, 0);
    } else if (code != MODEL_DONE) {
        lock_voted(lock, node, entry->round, kind == REQUEST_GRANT ? LEASE_UNSENT : LEASE_UNKNOWN, 0);
    } else {
        bool is_void = set_has(lock->voided, node);
        if (entry->vote == LEASE_NO && kind != REQUEST_RELEASE && entry->round == lock->lease.round && !is_void)
            lock->denied |= (node_set)(1u << node);
        lock_voted(lock, node, entry->round, swap_release_vote(entry->vote, set_has(entry->unsure, node)),
                   entry->detail);
    }
}

/* Who takes over hears first that it has the lock, then the one before it that it is rid of it. */
static void swap_count(const struct entry *entry, unsigned node, enum outcome outcome, enum model_code code)
{
    bool done = outcome == CALL_ANSWERED && code == MODEL_DONE && entry->vote == LEASE_YES;
    enum swap_answer answer = outcome != CALL_ANSWERED ? SWAP_UNKNOWN
                              : !done                  ? SWAP_NOT
                              : entry->replaced        ? SWAP_TAKEN
                                                       : SWAP_FREE;
    node_set release = swap_heard(entry->swap, node, answer);
    vote_count(entry, REQUEST_GRANT, node, outcome, code);
    swap_conclude(entry->swap, node, answer, release);
}

static void votes_count(const struct request *request, unsigned node, enum outcome outcome, enum model_code code)
{
    for (unsigned i = 0; i < request->count; i++) {
        const struct entry *entry = &request->entries[i];
        if (entry->swap != NULL)
            swap_count(entry, node, outcome, code);
        else if (entry->round != NO_VOTE && set_has(entry->nodes, node))
            vote_count(entry, request->kind, node, outcome, code);
    }
}

/* Before the votes: they may come from a node that shows just now that it forgot. */
static void answer_weigh(struct message *message)
{
    struct counters *counters = message->connection->client->world->counters;
    counters->other_marker += message->answer.code == MODEL_OTHER_MARKER;
    counters->too_late += message->answer.code == MODEL_TOO_LATE;
    if (message->answer.node_us > 0)
        inspection_sampled(message->connection, message);
    if (message->answer.code == MODEL_OTHER_MARKER)
        inspection_doubts(message->connection);
}

void call_over(struct message *message, enum outcome outcome)
{
    struct connection *connection = message->connection;
    message->call_open = false;
    connection->client->world->counters->refused_with_error += outcome == CALL_REFUSED;
    if (message->owed != NULL) {
        owed_over(message->owed, message, outcome);
        message->owed = NULL;
        return;
    }
    if (message->request.kind == REQUEST_INSPECT || message->request.kind == REQUEST_MARK) {
        inspection_over(message, outcome);
        return;
    }
    if (message->request.kind == REQUEST_RELEASE && outcome != CALL_ANSWERED)
        owed_add(connection, message, outcome == CALL_REFUSED);
    if (outcome == CALL_ANSWERED)
        answer_weigh(message);
    votes_count(&message->request, connection->node->index, outcome, message->answer.code);
}

/* --- batches ----------------------------------------------------------------------------------------------------- */

static void batch_not_sent(struct sim_client *client, const struct batch *batch, unsigned node)
{
    if (batch->request.kind == REQUEST_RELEASE) {
        struct message message = {.gone_by = batch->gone_by, .request = batch->request};
        owed_add(&client->connections[node], &message, false);
    }
    client->world->counters->unsent++;
    votes_count(&batch->request, node, CALL_UNKNOWN, MODEL_DONE);
}

static void batch_send(struct sim_client *client, enum request_kind kind)
{
    struct batch batch = client->gathering[kind];
    client->gathering[kind] = (struct batch){.nodes = 0};
    batch.request.kind = kind;
    node_set unsent = 0;
    struct instant deadline = world_in(client->world, client->timeout_ns);
    for (unsigned i = 0; i < client->world->parameters.nodes; i++) {
        if (!set_has(batch.nodes, i))
            continue;
        request_address(&batch.request, &client->connections[i], batch.request.entries[0].lock);
        if (!connection_send(&client->connections[i], &batch.request, deadline, batch.gone_by, NULL))
            unsent |= (node_set)(1u << i);
    }
    for (unsigned i = 0; unsent != 0 && i < client->world->parameters.nodes; i++)
        if (set_has(unsent, i))
            batch_not_sent(client, &batch, i);
}

static void entry_add(struct sim_client *client, enum request_kind kind, struct entry entry)
{
    struct batch *batch = &client->gathering[kind];
    /* What is said about tokens leaves one lock a call. */
    unsigned most = kind == REQUEST_RAISE || kind == REQUEST_REPLANT ? 1 : ENTRIES_MAX;
    if (entry.nodes == 0)
        return;
    if (batch->request.count == most)
        batch_send(client, kind);
    batch->request.entries[batch->request.count++] = entry;
    batch->nodes |= entry.nodes;
    struct instant gone_by = world_in(client->world, client->terms->ttl_ns);
    if (instant_before(batch->gone_by, gone_by))
        batch->gone_by = gone_by;
    client->gathered = true;
}

void batch_add(struct sim_client *client, enum request_kind kind, struct sim_lock *lock, uint32_t round, node_set nodes)
{
    entry_add(client, kind,
              (struct entry){
                  .lock = lock, .round = round, .value = lock->value, .resources = lock->resources, .nodes = nodes});
}

void batch_add_swapped(struct sim_client *client, struct sim_swap *swap, node_set nodes, node_set unsure)
{
    struct batch *batch = &client->gathering[REQUEST_RELEASE];
    for (unsigned i = 0; i < batch->request.count; i++) {
        if (batch->request.entries[i].value == swap->old) { /* never twice in one call */
            batch->request.entries[i].nodes |= nodes;
            batch->request.entries[i].unsure |= unsure;
            batch->nodes |= nodes;
            return;
        }
    }
    entry_add(client, REQUEST_RELEASE,
              (struct entry){.lock = swap->before,
                             .round = swap->before_round,
                             .value = swap->old,
                             .resources = swap->resources,
                             .nodes = nodes,
                             .unsure = unsure});
}

void batches_flush(struct sim_client *client)
{
    for (int kind = REQUEST_RELEASE; kind < GATHERING_KINDS; kind++)
        if (client->gathering[kind].request.count > 0)
            batch_send(client, (enum request_kind)kind);
}
