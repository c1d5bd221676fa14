/* What a node does with a request that arrives: the scripts, by way of the node model, and the notes that the oracles
 * need. */
#include "tests/sim/world.h"

static struct world *world_of(const struct message *message)
{
    return message->connection->node->world;
}

static bool is_late_grant(const struct message *message, const struct entry *entry)
{
    const struct sim_lock *lock = entry->lock;
    return message->dead &&
           (lock->value != entry->value || (lock->lease.state != LEASE_ACQUIRING &&
                                            lock->lease.state != LEASE_FENCING && lock->lease.state != LEASE_HELD));
}

static struct model_request model_request(const struct message *message, const struct entry *entry)
{
    const struct request *request = &message->request;
    return (struct model_request){.marker = request->marker,
                                  .deadline_us = request->deadline_us,
                                  .ttl_ms = entry->lock->client->terms->ttl_ns / NS_PER_MS,
                                  .fence_ttl_ms = world_of(message)->parameters.fence_ttl_ms,
                                  .token = request->token,
                                  .keys = entry->resources,
                                  .value = entry->value,
                                  .old = entry->swap != NULL ? entry->swap->old : MODEL_NO_VALUE};
}

/* A key that a late request planted may have had its release before, or nobody owes it any more. */
static void excuse(const struct message *message, unsigned keys)
{
    struct sim_node *node = message->connection->node;
    node->excused = (uint16_t)(node->excused & ~keys);
    int64_t age_ns = instant_since(message->sent, node->world->now);
    if (message->dead || age_ns > message->connection->client->terms->ttl_ns)
        node->excused |= (uint16_t)keys;
}

/* A grant that is of no use any more would be an orphan until its ttl is over, and a replant no longer what would be
 * there if the node had not forgotten. */
static void late_check(const struct message *message, const struct entry *entry)
{
    const struct sim_node *node = message->connection->node;
    int64_t late_us = node_model_clock_us(&node->model, node->world->now) - message->request.deadline_us;
    if (late_us > 0)
        world_violated(node->world, "O4", "node %u plants a key of lock %u %lld us after the deadline", node->index,
                       entry->lock->number, (long long)late_us);
}

/* A fence is never behind what was given out, nor driven ahead of the clock by who asks. */
static void fences_check(const struct message *message, const struct entry *entry, uint64_t token)
{
    const struct sim_node *node = message->connection->node;
    uint64_t most = (uint64_t)node_model_clock_us(&node->model, node->world->now) + 60 * US_PER_S;
    for (unsigned key = 0; key < SIM_RESOURCES_MAX; key++)
        if (set_has(entry->resources, key) && node->model.fences[key].token < token)
            world_violated(node->world, "O7", "node %u holds key %u without its token", node->index, key);
    bool is_driven = token > most && token == message->request.token;
    if (message->request.kind == REQUEST_GRANT && is_driven)
        world_violated(node->world, "O7", "node %u takes a token that is far ahead of its clock", node->index);
}

static void execute_grant(struct message *message, struct entry *entry)
{
    struct sim_node *node = message->connection->node;
    struct counters *counters = node->world->counters;
    struct model_request request = model_request(message, entry);
    struct model_answer answer = node_model_grant(&node->model, &request, node->world->now);
    message->answer.code = answer.code;
    entry->vote = answer.done ? LEASE_YES : LEASE_NO;
    entry->detail = answer.done ? answer.token : answer.held;
    entry->replaced = answer.replaced;
    if (answer.replaced && entry->swap->before->value == entry->swap->old)
        entry->swap->before->deleted |= (node_set)(1u << node->index);
    if (answer.done) {
        excuse(message, entry->resources);
        counters->late_grant += is_late_grant(message, entry);
        late_check(message, entry);
        fences_check(message, entry, answer.token);
        if (entry->lock->value == entry->value) {
            entry->lock->granted_at[node->index] = node->world->now;
            entry->lock->lost_before[node->index] = node->lost_at;
            entry->lock->forgot_before[node->index] = node->forgot_at;
            entry->lock->token_at[node->index] = answer.token;
        }
    } else if (answer.code == MODEL_DONE) {
        unsigned first = (unsigned)__builtin_ctz(entry->resources);
        int64_t clock_ms = node_model_clock_ms(&node->model, node->world->now);
        counters->partly_taken += node_model_get(&node->model, first, clock_ms) == MODEL_NO_VALUE;
    }
}

static void execute_raise(struct message *message, struct entry *entry)
{
    struct sim_node *node = message->connection->node;
    struct model_request request = model_request(message, entry);
    struct model_answer answer = node_model_raise(&node->model, &request, node->world->now);
    for (unsigned key = 0; key < SIM_RESOURCES_MAX && answer.done; key++)
        if (set_has(entry->resources, key) && node->model.keys[key].value != entry->value)
            world_violated(node->world, "O3", "lock %u raises the fence of a key that is not its own",
                           entry->lock->number);
    message->answer.code = answer.code;
    entry->vote = answer.done ? LEASE_YES : LEASE_NO;
    entry->detail = answer.token;
    if (answer.done && entry->lock->value == entry->value)
        entry->lock->token_at[node->index] = answer.token;
}

static void extension_note(const struct entry *entry, const struct sim_node *node)
{
    if (entry->lock->value == entry->value)
        entry->lock->extended_at[node->index] = node->world->now;
}

/* While a node remembers, its fences never go back. */
static void fences_stay_check(const struct sim_node *node, const struct node_model *before)
{
    int64_t clock_ms = node_model_clock_ms(&node->model, node->world->now);
    for (unsigned key = 0; key < SIM_RESOURCES_MAX; key++)
        if (node->model.fences[key].token < node_model_fence(before, key, clock_ms))
            world_violated(node->world, "O7", "node %u sets the fence of key %u back", node->index, key);
}

static void execute_replant(struct message *message, struct entry *entry)
{
    struct sim_node *node = message->connection->node;
    struct model_request request = model_request(message, entry);
    if (request.token == 0)
        world_violated(node->world, "O3", "lock %u has no token and plants its key again", entry->lock->number);
    struct node_model before = node->model;
    struct model_answer answer = node_model_replant(&node->model, &request, node->world->now);
    message->answer.code = answer.code;
    entry->vote = answer.done ? LEASE_YES : LEASE_NO;
    node->world->counters->replanted += answer.done;
    if (answer.done) {
        late_check(message, entry);
        fences_check(message, entry, request.token);
        fences_stay_check(node, &before);
        excuse(message, entry->resources);
        extension_note(entry, node);
    }
}

static void execute_extension(struct message *message, struct entry *entry, int64_t clock_ms)
{
    struct sim_node *node = message->connection->node;
    int64_t ttl_ms = entry->lock->client->terms->ttl_ns / NS_PER_MS;
    entry->vote = LEASE_YES;
    for (unsigned key = 0; key < SIM_RESOURCES_MAX; key++) {
        if (!set_has(entry->resources, key))
            continue;
        if (node_model_extend(&node->model, key, entry->value, ttl_ms, clock_ms) != '1')
            entry->vote = LEASE_NO;
        else if (message->dead)
            node->excused |= (uint16_t)(1u << key);
    }
    if (entry->vote == LEASE_YES)
        extension_note(entry, node);
}

static void execute_release(struct message *message, struct entry *entry, int64_t clock_ms)
{
    struct sim_node *node = message->connection->node;
    bool foreign = false;
    entry->vote = LEASE_YES;
    for (unsigned key = 0; key < SIM_RESOURCES_MAX; key++) {
        if (!set_has(entry->resources, key))
            continue;
        char answer = node_model_release(&node->model, key, entry->value, clock_ms);
        foreign = foreign || answer == '2';
        if (answer != '1')
            entry->vote = LEASE_NO;
    }
    if (entry->vote == LEASE_YES && entry->lock->value == entry->value)
        entry->lock->deleted |= (node_set)(1u << node->index);
    if (foreign)
        entry->vote = LEASE_FOREIGN;
    oracle_node_changed(node, entry->value);
}

static void execute_entry(struct message *message, struct entry *entry, int64_t clock_ms)
{
    static const char *const names[] = {"release", "extension", "replant", "raise", "grant"};
    struct sim_node *node = message->connection->node;
    switch (message->request.kind) {
    case REQUEST_RELEASE:
        execute_release(message, entry, clock_ms);
        break;
    case REQUEST_EXTEND:
        if (message->answer.code == MODEL_DONE)
            execute_extension(message, entry, clock_ms);
        break;
    case REQUEST_REPLANT:
        execute_replant(message, entry);
        break;
    case REQUEST_RAISE:
        execute_raise(message, entry);
        break;
    case REQUEST_GRANT:
        execute_grant(message, entry);
        break;
    case REQUEST_INSPECT:
    case REQUEST_MARK:
        return;
    }
    world_trace(node->world, "node %u executes %s of lock %u value %u keys %#x: %s %llu%s", node->index,
                names[message->request.kind], entry->lock->number, entry->value, entry->resources,
                message->answer.code == MODEL_OTHER_MARKER ? "other marker"
                : message->answer.code == MODEL_TOO_LATE   ? "too late"
                : entry->vote == LEASE_YES                 ? "yes"
                                                           : "no",
                (unsigned long long)entry->detail, message->dead ? ", late" : "");
    world_note(node->world, (uint64_t)entry->value << 8 ^ (uint64_t)entry->vote ^ entry->detail << 32);
}

static void inspect_or_mark(struct message *message)
{
    struct sim_node *node = message->connection->node;
    const struct request *request = &message->request;
    if (request->kind == REQUEST_MARK) {
        bool was_bare = node->model.marker == MODEL_NO_MARKER;
        bool done = node_model_mark(&node->model, request->marker, request->mark_as);
        if (done && was_bare)
            node->lost_at = node->forgot_at =
                node->world->now; /* from here on holders may give their keys back, and lose them again */
        node->world->counters->marked += done;
        world_trace(node->world, "node %u is marked: %s", node->index, done ? "yes" : "no");
        return;
    }
    message->answer.marker = node->model.marker;
    message->answer.run = node->model.run;
}

void message_execute(struct message *message)
{
    struct sim_node *node = message->connection->node;
    struct world *world = node->world;
    enum request_kind kind = message->request.kind;
    message->refused = instant_before(world->now, node->refuses_until);
    world->counters->late_request += message->dead;
    if (message->refused) {
        world_trace(world, "node %u refuses", node->index);
        world_note(world, node->index);
        return;
    }
    node_written(node);
    if (kind != REQUEST_RELEASE && kind != REQUEST_MARK)
        message->answer.node_us = node_model_clock_us(&node->model, world->now);
    message->answer.stepped_ns = node->stepped_ns;
    if (kind == REQUEST_EXTEND && !node_model_has_marker(&node->model, message->request.marker))
        message->answer.code = MODEL_OTHER_MARKER;
    int64_t clock_ms = node_model_clock_ms(&node->model, world->now);
    for (unsigned i = 0; i < message->request.count; i++)
        execute_entry(message, &message->request.entries[i], clock_ms);
    if (kind == REQUEST_INSPECT || kind == REQUEST_MARK)
        inspect_or_mark(message);
    oracle_executed(node);
}
