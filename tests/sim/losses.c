/* What goes wrong with the memory and the clock of a node, and the operator who helps where no client can. */
#include "tests/sim/world.h"

#include <stdio.h>
#include <string.h>

#include "base/invariant.h"

/* About when all schedules begin, by the wall clock. */
#define NOBODYS_TIME_NS (INT64_C(1790000000) * NS_PER_S)

#define FORGIVEN_NS (5 * NS_PER_MS)

/* --- markers ---------------------------------------------------------------------------------------------------- */

#define FIRST_GROUP  "5f2a90c41b7d3e88"
#define SECOND_GROUP "5f2a90c41b7d3e99"

/* As if drawn: no two groups have one in common. */
static void place_name(const char *group, unsigned index, char id[MARKER_ID_DIGITS + 1])
{
    snprintf(id, MARKER_ID_DIGITS + 1, "%08x", (strcmp(group, FIRST_GROUP) == 0 ? 0xa0000000u : 0xb0000000u) + index);
}

/* As `holdfast nodes init` would have written it; run 0 is nobody's. */
static uint16_t marker_of(const struct sim_node *node, const char *group, uint32_t run)
{
    struct world *world = node->world;
    struct marker marker = {.generation = 1,
                            .max_ttl_ms = world->parameters.max_ttl_ns / NS_PER_MS,
                            .place_count = world->parameters.nodes};
    for (unsigned i = 0; i < marker.place_count; i++)
        place_name(group, i, marker.places[i]);
    place_name(group, node->index, marker.self);
    snprintf(marker.group, sizeof marker.group, "%s", group);
    if (run != 0)
        run_tell(run, marker.run);
    char text[MARKER_TEXT_MAX];
    marker_write(&marker, text);
    return world_marker_number(world, text, 0);
}

struct marker marker_read(const struct sim_node *node)
{
    struct marker marker = {.generation = 0};
    const char *text = node->world->markers[node->model.marker];
    bool is_sound = marker_parse(&marker, text, strlen(text), NULL);
    invariant(is_sound || node->model.marker == MODEL_NO_MARKER);
    return marker;
}

/* Of the highest generation that any of them knows. */
static struct marker newest_membership(const struct world *world)
{
    struct marker newest = {.generation = 0};
    for (unsigned i = 0; i < world->parameters.nodes; i++) {
        struct marker marker = marker_read(&world->nodes[i]);
        if (marker.generation > newest.generation)
            newest = marker;
    }
    return newest;
}

/* Too few remember the group, or what they remember may be of long ago: it ends, and another one begins. */
static bool is_group_lost(const struct world *world)
{
    unsigned remember = 0;
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        remember += world->nodes[i].model.marker != MODEL_NO_MARKER;
    return remember < quorum_of(world) || world->parameters.profile == PROFILE_RUIN;
}

static void found_group(struct world *world)
{
    world_trace(world, "an operator makes a new group of all nodes");
    world->counters->founded++;
    for (unsigned i = 0; i < world->parameters.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        node->model.marker = marker_of(node, SECOND_GROUP, 0);
        node->lost_at = node->forgot_at = world->now;
    }
}

/* Whether the group needs an operator: a node has no place, or no membership has a quorum. */
static bool needs_operator(const struct world *world, const struct marker *newest)
{
    unsigned agree = 0;
    for (unsigned i = 0; i < world->parameters.nodes; i++) {
        struct marker marker = marker_read(&world->nodes[i]);
        if (marker_place_of(newest, marker.self) < 0)
            return true;
        agree += marker_same_membership(&marker, newest);
    }
    return agree < quorum_of(world);
}

static void node_admit(struct sim_node *node, struct marker *group)
{
    struct world *world = node->world;
    unsigned place = 0;
    for (unsigned i = 0; i < world->parameters.nodes; i++) /* find a place that nobody has */
        for (unsigned k = 0; k < world->parameters.nodes; k++)
            if (strcmp(marker_read(&world->nodes[k]).self, group->places[place]) == 0) {
                place++;
                break;
            }
    invariant(place < group->place_count);
    world_trace(world, "node %u: an operator gives it a place, to be trusted by nobody yet", node->index);
    world->counters->healed_by_hand++;
    snprintf(group->places[place], sizeof group->places[place], "%08x", 0xb0000000u + ++world->runs);
    struct marker marker = *group;
    memcpy(marker.self, group->places[place], sizeof marker.self);
    marker.run[0] = '\0';
    char text[MARKER_TEXT_MAX];
    marker_write(&marker, text);
    node->model.marker = world_marker_number(world, text, 0);
    node->lost_at = node->forgot_at = world->now;
}

/* All at once what `holdfast nodes heal` does one by one. */
void nodes_heal(struct world *world)
{
    if (!parameters_grouped(&world->parameters))
        return;
    struct marker group = newest_membership(world);
    if (is_group_lost(world)) {
        found_group(world);
        return;
    }
    if (!needs_operator(world, &group))
        return;
    group.generation++;
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        if (marker_place_of(&group, marker_read(&world->nodes[i]).self) < 0)
            node_admit(&world->nodes[i], &group);
    for (unsigned i = 0; i < world->parameters.nodes; i++) {
        struct marker marker = marker_read(&world->nodes[i]), given = group;
        char text[MARKER_TEXT_MAX];
        memcpy(given.self, marker.self, sizeof given.self);
        memcpy(given.run, marker.run, sizeof given.run);
        marker_write(&given, text);
        world->nodes[i].model.marker = world_marker_number(world, text, 0);
    }
}

/* --- the beginning ---------------------------------------------------------------------------------------------- */

void node_init(struct sim_node *node, struct world *world, unsigned index, enum model_bug bug)
{
    const struct parameters *parameters = &world->parameters;
    int64_t most = parameters->node_offset_ns;
    *node = (struct sim_node){.world = world, .index = index};
    world->former[index] = (struct sim_node){.world = world, .index = index};
    event_init(&node->restart, EVENT_RESTART);
    node->model.bug = bug;
    node->model.clock_start_ns = NOBODYS_TIME_NS + chance_between(&world->chance, -most, most);
    node->model.clock_rate = parameters_node_rate(parameters, &world->chance);
    node->model.run = ++world->runs;
    if (parameters_grouped(parameters))
        node->model.marker = marker_of(node, FIRST_GROUP, node->model.run);
    node->saved = node->model;
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

/* What a node writes down lags behind by up to `save_ns` (appendfsync everysec). */
void node_written(struct sim_node *node)
{
    struct world *world = node->world;
    if (world->parameters.save_ns == 0 || instant_since(node->saved_at, world->now) < world->parameters.save_ns)
        return;
    node->saved = node->model;
    node->saved_at = world->now;
}

static void locks_are_looked_at(struct sim_node *node, const struct node_model *before)
{
    for (unsigned key = 0; key < SIM_RESOURCES_MAX; key++)
        oracle_node_changed(node, before->keys[key].value);
}

static void memory_lost(struct sim_node *node)
{
    node->lost_at = node->forgot_at = node->world->now;
    if (node->index == 0)
        memset(node->world->single_counters, 0, sizeof node->world->single_counters);
}

static void connections_break(struct sim_node *node)
{
    for (unsigned i = 0; i < node->world->parameters.clients; i++)
        connection_break(&node->world->clients[i].connections[node->index], false);
}

/* Nobody reaches it any more: it is as good as gone. */
static void former_end(struct sim_node *former)
{
    if (!former->lives_on)
        return;
    former->lives_on = false;
    for (unsigned i = 0; i < former->world->parameters.clients; i++) {
        struct connection *connection = &former->world->clients[i].connections[former->index];
        if (connection->node == former)
            connection_break(connection, false);
    }
}

/* Keys and fences as they were when they were written down; clock, run and bugs as they are. */
static void memory_from(struct sim_node *node)
{
    struct node_model *model = &node->model;
    const struct node_model *saved = &node->saved;
    node->excused = (uint16_t)((1u << SIM_RESOURCES_MAX) - 1u); /* what was released since comes back, until its ttl */
    memcpy(model->keys, saved->keys, sizeof model->keys);
    memcpy(model->fences, saved->fences, sizeof model->fences);
    model->marker = saved->marker;
}

/* How many nodes, this one among them, may be doubted by somebody for what happened of late, or show a wrong time since
 * they stood still: those may agree with the next wrong one. */
static unsigned doubted(const struct sim_node *node)
{
    const struct world *world = node->world;
    const struct parameters *parameters = &world->parameters;
    int64_t span = lease_wait_ns(parameters->max_ttl_ns, parameters->terms[0].drift_factor, 0) +
                   parameters->max_ttl_ns / 100 + 3 * parameters->pulse_ns + 5 * parameters->longest_timeout_ns;
    unsigned count = 1;
    for (unsigned i = 0; i < parameters->nodes; i++)
        count +=
            i != node->index &&
            (world->nodes[i].stood || world->former[i].lives_on || world->nodes[i].model.marker == MODEL_NO_MARKER ||
             (world->nodes[i].lost_at.ns != 0 && instant_since(world->nodes[i].lost_at, world->now) < span));
    return count;
}

static bool may_forget(const struct sim_node *node)
{
    const struct parameters *parameters = &node->world->parameters;
    if (parameters->profile == PROFILE_RUIN)
        return true;
    if (parameters->profile != PROFILE_LOSS && parameters->profile != PROFILE_STEPS)
        return false;
    return !parameters_grouped(parameters) || doubted(node) < parameters->nodes / 2 + 1;
}

/* Without a group, and with nobody to keep a quarantine, every lock that was on it must have expired when it comes back
 * empty. */
static void crash_forgets(struct sim_node *node)
{
    struct world *world = node->world;
    memory_lost(node);
    if (chance_pick(&world->chance, 3) == 0 && parameters_grouped(&world->parameters)) {
        world_trace(world, "node %u: crashes, and loses its newest memory", node->index);
        world->counters->lost_in_part++;
        memory_from(node);
    } else {
        world_trace(world, "node %u: crashes, and loses its memory", node->index);
        node_model_wipe(&node->model);
    }
}

void node_crash(struct sim_node *node)
{
    struct world *world = node->world;
    int64_t longest = world->parameters.longest_ttl_ns;
    if (node->down)
        return;
    world->counters->crashed++;
    struct node_model before = node->model;
    bool forgets = may_forget(node) && chance_pick(&world->chance, 4) != 0;
    node->down = true;
    node->model.run = ++world->runs;
    if (forgets)
        crash_forgets(node);
    else
        world_trace(world, "node %u: crashes", node->index);
    bool is_slow = !parameters_grouped(&world->parameters) && forgets;
    int64_t away = is_slow ? longest + chance_below(&world->chance, longest / 4)
                           : chance_scale(&world->chance, NS_PER_MS, longest);
    event_set(world, &node->restart, world_in(world, away));
    connections_break(node);
    locks_are_looked_at(node, &before);
}

void node_restart(struct sim_node *node)
{
    world_trace(node->world, "node %u: is back", node->index);
    node->down = false;
}

void node_wipe(struct sim_node *node)
{
    struct world *world = node->world;
    if (node->down || !may_forget(node))
        return;
    world_trace(world, "node %u: is emptied", node->index);
    world->counters->wiped++;
    struct node_model before = node->model;
    node_model_wipe(&node->model);
    memory_lost(node);
    locks_are_looked_at(node, &before);
}

void node_replace(struct sim_node *node)
{
    struct world *world = node->world;
    if (node->down || !may_forget(node))
        return;
    world_trace(world, "node %u: an empty server has its address now", node->index);
    world->counters->replaced++;
    struct node_model before = node->model;
    node->model.run = ++world->runs;
    node_model_wipe(&node->model);
    memory_lost(node);
    connections_break(node);
    locks_are_looked_at(node, &before);
}

/* From here on the address leads to an empty server for some clients, while the others stay with the old one: a name
 * with two addresses, a route that changed for one network, a migration that was forgotten halfway. */
void node_move(struct sim_node *node)
{
    struct world *world = node->world;
    struct sim_node *former = &world->former[node->index];
    if (node->down || !parameters_grouped(&world->parameters) || !may_forget(node))
        return;
    world_trace(world, "node %u: its address moves to an empty server, the old one lives on", node->index);
    world->counters->moved++;
    struct node_model before = node->model;
    former_end(former);
    *former = *node;
    event_init(&former->restart, EVENT_RESTART);
    former->lives_on = true;
    node->model.run = ++world->runs;
    node_model_wipe(&node->model);
    node->saved = node->model;
    memory_lost(node);
    for (unsigned i = 0; i < world->parameters.clients; i++) {
        struct connection *connection = &world->clients[i].connections[node->index];
        if (chance_pick(&world->chance, 2) == 0)
            connection->node = former;
        else
            connection_break(connection, false);
    }
    locks_are_looked_at(node, &before);
}

/* What is to be released on the one may be asked of the other then, and stays until its ttl. */
struct sim_node *node_reached(struct world *world, const struct sim_node *before)
{
    struct sim_node *node = &world->nodes[before->index], *former = &world->former[before->index];
    if (former->lives_on && chance_pick(&world->chance, 2) == 0)
        node = former;
    if (node != before)
        world->nodes[before->index].excused = (uint16_t)((1u << SIM_RESOURCES_MAX) - 1u);
    return node;
}

void former_nodes_end(struct world *world)
{
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        former_end(&world->former[i]);
}

/* A machine that goes back to a snapshot: nobody can see it. */
void node_roll_back(struct sim_node *node)
{
    struct world *world = node->world;
    if (node->down || world->parameters.profile != PROFILE_RUIN)
        return;
    world_trace(world, "node %u: its memory goes back in time", node->index);
    world->counters->rolled_back++;
    memory_from(node);
    memory_lost(node);
}

/* --- clocks ----------------------------------------------------------------------------------------------------- */

/* A server deletes what has expired, so that setting the clock back does not bring it back. */
static void expired_delete(struct sim_node *node)
{
    int64_t clock_ms = node_model_clock_ms(&node->model, node->world->now);
    for (unsigned key = 0; key < MODEL_KEYS_MAX; key++)
        if (node_model_get(&node->model, key, clock_ms) == MODEL_NO_VALUE)
            node_model_put(&node->model, key, MODEL_NO_VALUE, 0);
}

/* Where exclusion is promised, the clocks of a minority jump within the time that everybody waits for one jump. */
static bool may_step(const struct sim_node *node)
{
    const struct parameters *parameters = &node->world->parameters;
    return parameters->profile == PROFILE_WILD || doubted(node) < parameters->nodes / 2 + 1;
}

/* There, further, and back: a clock is right again, or so far off that everybody can see it. */
static int64_t step_draw(const struct sim_node *node)
{
    struct world *world = node->world;
    const struct parameters *parameters = &world->parameters;
    int64_t size = chance_scale(&world->chance, parameters->step_least_ns, parameters->step_most_ns);
    unsigned way = chance_pick(&world->chance, 3);
    if (way == 0 && node->stepped_ns != 0)
        return -node->stepped_ns;
    if (way == 1)
        size = -size;
    int64_t total = node->stepped_ns + size;
    bool is_visible = total <= -parameters->step_least_ns || total >= parameters->step_least_ns;
    return is_visible || parameters->profile == PROFILE_WILD ? size : -size;
}

void node_step(struct sim_node *node)
{
    struct world *world = node->world;
    if (!may_step(node))
        return;
    int64_t size = step_draw(node);
    world_trace(world, "node %u: its clock jumps by %.3f ms", node->index, (double)size / 1e6);
    world->counters->stepped++;
    struct node_model before = node->model;
    expired_delete(node);
    node->model.clock_start_ns += size;
    expired_delete(node);
    node->stepped = true;
    node->stepped_ns += size;
    node->lost_at = world->now;
    locks_are_looked_at(node, &before);
}

/* Its keys live longer, so nothing is forgotten by it. Whoever did not stand still with it sees its clock go back. */
void node_stand(struct sim_node *node, int64_t ns)
{
    if (!may_step(node))
        return;
    world_trace(node->world, "node %u: its clock stands still for %.3f ms", node->index, (double)ns / 1e6);
    expired_delete(node);
    node->model.clock_start_ns -= ns;
    node->stepped = node->stood = true;
    node->stepped_ns -= ns;
}

/* Within what is promised: another rate, and 5 ms in one go, once in a max_ttl. */
void node_slew(struct sim_node *node)
{
    struct world *world = node->world;
    struct node_model *model = &node->model;
    struct node_model before = *model;
    int64_t shown = node_model_clock_ns(model, world->now), moved = 0;
    bool may_move = node->moved_at.ns == 0 || instant_since(node->moved_at, world->now) > world->parameters.max_ttl_ns;
    if (may_move) {
        moved = chance_between(&world->chance, -FORGIVEN_NS, FORGIVEN_NS);
        node->moved_at = world->now;
    }
    expired_delete(node);
    model->clock_rate = parameters_node_rate(&world->parameters, &world->chance);
    model->clock_start_ns += shown + moved - node_model_clock_ns(model, world->now);
    expired_delete(node);
    world->counters->slewed++;
    world_trace(world, "node %u: its clock runs at %.6f from here, moved by %.3f ms", node->index,
                (double)model->clock_rate / (double)MODEL_NORMAL_RATE, (double)moved / 1e6);
    locks_are_looked_at(node, &before);
}
