/* What goes wrong, and when. Each schedule has its own kinds of faults and its own distance between them. */
#include "tests/sim/world.h"

static void next_fault(struct world *world)
{
    event_set(world, &world->fault, world_in(world, chance_below(&world->chance, 2 * world->parameters.fault_gap_ns)));
}

void faults_begin(struct world *world)
{
    next_fault(world);
}

static struct sim_node *any_node(struct world *world)
{
    return &world->nodes[chance_pick(&world->chance, world->parameters.nodes)];
}

static struct sim_client *any_client(struct world *world)
{
    return &world->clients[chance_pick(&world->chance, world->parameters.clients)];
}

static int64_t any_duration(struct world *world)
{
    return chance_scale(&world->chance, world->parameters.longest_ttl_ns / 100, 2 * world->parameters.longest_ttl_ns);
}

/* A node that stands still, a client that is cut off from some or all nodes, or one connection. */
static void some_stall(struct world *world)
{
    int64_t ns = any_duration(world);
    bool breaks = chance_pick(&world->chance, 2) == 0;
    enum stall stall = chance_pick(&world->chance, 2) == 0 ? STALL_REQUESTS : STALL_REPLIES;
    unsigned node = chance_pick(&world->chance, world->parameters.nodes);
    struct sim_client *client = any_client(world);
    switch (chance_pick(&world->chance, 3)) {
    case 0:
        for (unsigned i = 0; i < world->parameters.clients; i++)
            connection_stall(&world->clients[i].connections[node], STALL_REQUESTS, ns, breaks);
        return;
    case 1:
        for (unsigned i = 0; i < world->parameters.nodes; i++)
            if (chance_pick(&world->chance, 2) == 0)
                connection_stall(&client->connections[i], stall, ns, breaks);
        return;
    default:
        connection_stall(&client->connections[node], stall, ns, breaks);
        return;
    }
}

static void key_delete(struct sim_node *node, unsigned key)
{
    struct world *world = node->world;
    uint32_t value = node->model.keys[key].value;
    struct sim_lock *owner = value == MODEL_NO_VALUE ? NULL : lock_of_value(world, value);
    node_model_put(&node->model, key, MODEL_NO_VALUE, 0);
    if (owner == NULL)
        return;
    owner->tampered = true;
    world->counters->deleted_by_hand++;
}

static void some_delete(struct world *world)
{
    unsigned key = chance_pick(&world->chance, world->parameters.resources);
    bool everywhere = chance_pick(&world->chance, 2) == 0;
    world_trace(world, "key %u is deleted by hand", key);
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        if (everywhere || chance_pick(&world->chance, 2) == 0)
            key_delete(&world->nodes[i], key);
}

static void some_refuse(struct world *world)
{
    struct sim_node *node = any_node(world);
    node->refuses_until = world_in(world, any_duration(world) / 2);
    world_trace(world, "node %u: refuses everything for a while", node->index);
}

static void some_loss(struct world *world)
{
    struct sim_node *node = any_node(world);
    switch (chance_pick(&world->chance, 6)) {
    case 0:
        node_replace(node);
        return;
    case 1:
        node_crash(node);
        return;
    case 2:
        node_roll_back(node);
        return;
    case 3:
    case 4:
        node_move(node);
        return;
    default:
        node_wipe(node);
        return;
    }
}

static void some_leave(struct world *world)
{
    struct sim_client *client = any_client(world);
    client_leave(client, chance_scale(&world->chance, NS_PER_MS, client->terms->ttl_ns / 2));
}

/* Where clocks jump, a node may stand still with the client, or jump at the same moment. */
static void some_freeze(struct world *world)
{
    struct sim_client *client = any_client(world);
    int64_t ns = any_duration(world);
    if (client->paused)
        return;
    client_pause(client, ns, true);
    unsigned with = set_has(world->parameters.faults, FAULT_STEP) ? chance_pick(&world->chance, 3) : 0;
    if (with == 1)
        node_step(any_node(world));
    else if (with == 2)
        node_stand(any_node(world), ns);
}

/* One of those that the schedule has. */
static enum fault fault_pick(struct world *world)
{
    unsigned faults = world->parameters.faults;
    unsigned skipped = chance_pick(&world->chance, (unsigned)__builtin_popcount(faults));
    for (; skipped > 0; skipped--)
        faults &= faults - 1;
    return (enum fault)__builtin_ctz(faults);
}

void fault_happens(struct world *world)
{
    next_fault(world);
    if (chance_pick(&world->chance, 2) == 0)
        node_slew(any_node(world));
    switch (fault_pick(world)) {
    case FAULT_BREAK:
        connection_break(&any_client(world)->connections[any_node(world)->index], chance_pick(&world->chance, 2) == 0);
        return;
    case FAULT_STALL:
        some_stall(world);
        return;
    case FAULT_CRASH:
        node_crash(any_node(world));
        return;
    case FAULT_PAUSE:
        client_pause(any_client(world), any_duration(world), false);
        return;
    case FAULT_DELETE:
        some_delete(world);
        return;
    case FAULT_REFUSE:
        some_refuse(world);
        return;
    case FAULT_LEAVE:
        some_leave(world);
        return;
    case FAULT_LOSS:
        some_loss(world);
        return;
    case FAULT_STEP:
        node_step(any_node(world));
        return;
    case FAULT_FREEZE:
        some_freeze(world);
        return;
    case FAULT_KINDS:
        return;
    }
}

/* Everything heals now, except that a node which crashed, and has no group to be quarantined in, stays away until its
 * time has come. */
void faults_end(struct world *world)
{
    event_clear(world, &world->fault);
    for (unsigned i = 0; i < world->parameters.nodes; i++) {
        world->nodes[i].refuses_until = world->now;
        if (world->nodes[i].down && parameters_grouped(&world->parameters))
            event_set(world, &world->nodes[i].restart, world->now);
    }
    former_nodes_end(world);
    nodes_heal(world);
    for (unsigned i = 0; i < world->parameters.clients; i++) {
        struct sim_client *client = &world->clients[i];
        for (unsigned k = 0; k < world->parameters.nodes; k++) {
            struct connection *connection = &client->connections[k];
            event_clear(world, &connection->stall_end);
            connection_stall_ended(connection);
        }
        if (client->paused)
            event_set(world, &client->resume, world->now);
    }
}
