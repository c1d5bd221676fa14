/* Operators, with the calls of redlock_nodes.h: they make the group, heal it, replace a node, look, and take a lock
 * away by hand. And the moves of an address, and memberships that are torn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "redlock/marker.h"
#include "tests/sim/lock/schedule.h"
#include "tests/sim/world/trouble.h"

#define schedule lock_schedule

#define HEAL_MAX_NS (20 * NS_PER_S)

enum { MOVES_MAX = 8 }; /* each has its own host */

/* With the latest configuration. */
static struct redlock_nodes *nodes_open(void)
{
    struct redlock_node *list = memory_zeroed(LOCK_NODES_MAX, sizeof *list); /* they stay, as all of the schedule */
    struct redlock_options *options = memory_new(struct redlock_options);
    char reason[256] = "";
    for (unsigned i = 0; i < schedule.node_count; i++)
        list[i] = (struct redlock_node){.name = schedule.names[i], .host = schedule.names[i], .port = 6379};
    *options =
        (struct redlock_options){.nodes = list, .node_count = schedule.node_count, .logs_to_stderr = world_is_told()};
    return redlock_nodes_open(options, reason, sizeof reason);
}

void lock_operator_start(void (*main)(void *argument), void *argument)
{
    static struct host *host;
    if (host == NULL)
        host = host_create("operator");
    process_start(host, "operator", main, argument);
}

void lock_group_make(void *argument)
{
    (void)argument;
    struct redlock_nodes *nodes = nodes_open();
    struct redlock_group_terms terms = {.max_ttl_ms = schedule.max_ttl_ns / NS_PER_MS};
    schedule.is_made = redlock_nodes_init(nodes, &terms) == REDLOCK_NODES_DONE;
    if (!schedule.is_made)
        world_tell("no group: %s", redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
}

/* Only one operator at a time may change the members. */
bool lock_is_operated(void)
{
    return schedule.is_replacing || schedule.healed_at.ns == INSTANT_NEVER.ns;
}

struct healing {
    struct redlock_nodes *unsettled; /* NULL = a pause for that reason was seen */
    struct instant end;              /* the operator interrupts it */
};

static bool healing_goes_on(void *context, const char *what, int64_t left_ms)
{
    struct healing *healing = context;
    (void)what, (void)left_ms;
    bool settles = healing->unsettled != NULL &&
                   strstr(redlock_nodes_reason(healing->unsettled), "changes of the group met") != NULL;
    play_count("settled changes that met", settles);
    if (settles)
        healing->unsettled = NULL;
    return instant_before(world_time(), healing->end);
}

/* For as long as it says that it needs. Others may be in its way. */
static enum redlock_nodes_end heal_in_time(struct redlock_nodes *nodes)
{
    static const char naming[] = "does not add up: let one wait for ";
    enum redlock_nodes_end end = redlock_nodes_heal(nodes, NULL, 1);
    for (unsigned i = 0; i < schedule.node_count && end == REDLOCK_NODES_WAITING; i++) {
        const char *needed = strstr(redlock_nodes_reason(nodes), naming);
        if (needed == NULL)
            return redlock_nodes_heal(nodes, NULL, INT64_MAX);
        play_count("healed with a limit", 1);
        end = redlock_nodes_heal(nodes, NULL, MS_PER_S * strtol(needed + strlen(naming), NULL, 10));
    }
    return end;
}

static void heal_main(void *argument)
{
    (void)argument;
    struct redlock_nodes *nodes = nodes_open();
    struct healing healing = {.unsettled = nodes, .end = INSTANT_NEVER};
    struct chance *chance = world_chance();
    if (!schedule.is_calm && chance_pick(chance, 2) == 0)
        healing.end = instant_after(world_time(), chance_scale(chance, NS_PER_MS, HEAL_MAX_NS));
    redlock_nodes_watch(nodes, healing_goes_on, &healing);
    bool has_limit = chance_pick(chance, 2) == 0;
    enum redlock_nodes_end end = has_limit ? heal_in_time(nodes) : redlock_nodes_heal(nodes, NULL, INT64_MAX);
    schedule.healed_at = world_time();
    world_tell("healed: %d %s", (int)end, redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
}

void lock_heal(void)
{
    if (lock_is_operated())
        return;
    schedule.healed_at = INSTANT_NEVER;
    lock_operator_start(heal_main, NULL);
}

void lock_group_look(void *argument)
{
    (void)argument;
    struct redlock_nodes *nodes = nodes_open();
    unsigned voting = 0;
    redlock_nodes_look(nodes);
    for (unsigned i = 0; i < schedule.node_count; i++) {
        const struct redlock_node_view *view = redlock_nodes_view(nodes, i);
        voting |= (unsigned)view->votes << i;
        if (!view->votes)
            world_tell("%s %s: %s", view->name, view->state, view->reason);
    }
    schedule.voting = voting;
    redlock_nodes_close(nodes);
}

/* The configuration names the new one as soon as it has the number, and clients that start from then on read that. */
void lock_group_replace(void *argument)
{
    unsigned index = schedule.replaced;
    (void)argument;
    struct redlock_node successor = {.name = schedule.spare->name, .host = schedule.spare->name, .port = 6379};
    struct redlock_nodes *nodes = nodes_open();
    enum redlock_nodes_end end = redlock_nodes_replace(nodes, index, &successor);
    world_tell("%s replaced: %d %s", schedule.names[index], (int)end, redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
    schedule.is_replacing = false;
    /* An earlier attempt began it, and others finished it: the new node is configured, and healing gives it its
     * number. */
    bool is_left_to_healing = end == REDLOCK_NODES_REFUSED && schedule.is_calm;
    if (is_left_to_healing)
        server_evict(schedule.spare->server, SIZE_MAX, 1);
    if (end != REDLOCK_NODES_DONE && !is_left_to_healing)
        return;
    play_count(is_left_to_healing ? "replaced a node by healing" : "replaced a node", 1);
    schedule.was_replaced = true;
    schedule.former[index] = schedule.nodes[index];
    schedule.nodes[index] = schedule.spare;
    snprintf(schedule.names[index], sizeof schedule.names[index], "%s", schedule.spare->name);
    lock_judge_watch(schedule.nodes[index]);
}

/* --- in the midst of the trouble ---------------------------------------------------------------------------------- */

static void take_away(void *argument)
{
    unsigned resource = (unsigned)(size_t)argument;
    const char *name = lock_key_name(resource);
    struct redlock_nodes *nodes = nodes_open();
    lock_judge_deleted_by_hand(resource, false);
    redlock_nodes_find(nodes, name);
    enum redlock_nodes_end end = redlock_nodes_take(nodes, name);
    world_tell("%s taken away: %d %s", name, (int)end, redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
    lock_judge_deleted_by_hand(resource, true);
}

/* A raw DEL announces no release, so the holder must notice by itself. */
static void delete_keys(struct chance *draw, unsigned resource)
{
    lock_judge_deleted_by_hand(resource, false);
    for (unsigned i = 0; i < schedule.node_count; i++) {
        struct keyspace *space = server_keyspace(schedule.nodes[i]->server);
        struct value *value = keyspace_find(space, text_of(lock_key_name(resource)));
        if (value != NULL && chance_pick(draw, 2) == 0)
            keyspace_remove(space, value);
        lock_judge_forget_node(i);
    }
    lock_judge_deleted_by_hand(resource, true);
}

/* At most one of them in a schedule. */
static void replace(unsigned index)
{
    if (schedule.node_count == 1 || lock_is_operated() || schedule.keeps_memory ||
        schedule.replaced < schedule.node_count || schedule.former[index] != NULL ||
        (schedule.is_exclusive && !trouble_bears(schedule.nodes[index])))
        return;
    schedule.nodes[index]->weak++;
    schedule.replaced = index;
    schedule.is_replacing = true;
    lock_operator_start(lock_group_replace, NULL);
}

/* --- torn memberships --------------------------------------------------------------------------------------------- */

#define AWAY_LEAST_NS (50 * NS_PER_MS)
#define AWAY_MOST_NS  (5 * NS_PER_S)

static void clients_come_back(struct world_event *event)
{
    (void)event;
    for (unsigned i = 0; i < schedule.client_count; i++)
        if (!schedule.clients[i].process->is_alive && !schedule.is_quitting)
            lock_client_start(&schedule.clients[i]);
}

static void most_clients_lose_power(struct chance *draw)
{
    static struct world_event event = {.fire = clients_come_back};
    for (unsigned i = 0; i < schedule.client_count; i++) {
        if (chance_pick(draw, 8) == 0) /* it knows the membership before */
            continue;
        network_break(schedule.clients[i].host, NULL);
        process_kill(schedule.clients[i].process, true);
    }
    world_at(&event, instant_after(world_time(), chance_scale(draw, AWAY_LEAST_NS, AWAY_MOST_NS)));
}

static struct value *marker_of(unsigned index, struct marker *marker)
{
    struct value *value = keyspace_find(server_keyspace(schedule.nodes[index]->server), text_of("hf:lock:group"));
    bool is_read = value != NULL && marker_parse(marker, value->string.bytes, value->string.length);
    return is_read ? value : NULL;
}

/* All members are there and agree. */
static bool is_whole(void)
{
    struct marker first, marker;
    for (unsigned i = 0; i < schedule.node_count; i++)
        if (!schedule.nodes[i]->is_up || marker_of(i, i == 0 ? &first : &marker) == NULL ||
            (i > 0 && !marker_same_membership(&marker, &first)))
            return false;
    return true;
}

static void marker_change(unsigned index, int number, const char *id)
{
    struct marker marker;
    char text[MARKER_TEXT_MAX];
    struct value *value = marker_of(index, &marker);
    marker.generation++;
    snprintf(marker.members[number], sizeof marker.members[number], "%s", id);
    marker_write(&marker, text);
    buffer_clear(&value->string);
    buffer_append_text(&value->string, text);
}

/* A server comes back empty. Two clients record it, of which one saw another server there, or an operator makes its
 * number vacant, and they die when they have written to some members. */
static void tear(struct chance *draw)
{
    unsigned index = chance_pick(draw, schedule.node_count);
    struct node *node = schedule.nodes[index];
    struct marker marker;
    if (schedule.node_count == 1 || !schedule.is_exclusive || schedule.keeps_memory || lock_is_operated() ||
        !is_whole() || !trouble_bears(node))
        return;
    marker_of(index, &marker);
    most_clients_lose_power(draw);
    node_stop(node, true);
    node_resume(node);
    node_start(node, SERVER_EMPTY);
    node->lost_at = world_time();
    const char *run = server_run_id(node->server);
    char ids[3][MARKER_ID_DIGITS + 1] = {""};
    snprintf(ids[1], sizeof ids[1], "%s", run);
    snprintf(ids[2], sizeof ids[2], "%s", run + MARKER_ID_DIGITS);
    unsigned changes[2] = {chance_pick(draw, 3), chance_pick(draw, 3)};
    for (unsigned i = 0; i < schedule.node_count; i++) {
        unsigned change = chance_pick(draw, 3);
        if (i != index && change < 2)
            marker_change(i, marker_number_of(&marker, marker.self), ids[changes[change]]);
    }
    play_count("torn membership", 1);
}

void lock_operate(struct chance *draw)
{
    unsigned resource = chance_pick(draw, schedule.resource_count);
    switch (chance_pick(draw, 10)) {
    case 0:
    case 1:
        delete_keys(draw, resource);
        return;
    case 2:
        lock_operator_start(take_away, (void *)(size_t)resource);
        return;
    case 3:
        lock_heal();
        return;
    case 4:
        lock_operator_start(lock_group_look, NULL);
        return;
    case 5:
    case 6:
        replace(chance_pick(draw, schedule.node_count));
        return;
    default:
        tear(draw);
        return;
    }
}

/* --- moved addresses ---------------------------------------------------------------------------------------------- */

void lock_node_move_end(unsigned index)
{
    struct node *former = schedule.former[index];
    if (former == NULL)
        return;
    schedule.former[index] = NULL;
    schedule.nodes[index]->weak--;
    schedule.nodes[index]->lost_at = schedule.former_ended_at[index] = world_time();
    node_stop(former, false);
}

/* Those that are connected stay with the old one, or come to the new one. */
void lock_node_move(unsigned index)
{
    struct node *node = schedule.nodes[index];
    if (!node->is_up || schedule.moves == MOVES_MAX || (schedule.was_replaced && index == schedule.replaced) ||
        schedule.is_replacing)
        return;
    lock_node_move_end(index);
    schedule.moves++;
    schedule.former[index] = node;
    schedule.nodes[index] = node_create(node->name);
    schedule.nodes[index]->weak++;
    schedule.nodes[index]->lost_at = world_time();
    lock_judge_watch(schedule.nodes[index]);
    for (unsigned i = 0; i < schedule.client_count; i++)
        if (chance_pick(world_chance(), 2) == 0)
            network_break(schedule.clients[i].host, node->host);
}
