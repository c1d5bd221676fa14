/* Operators, with the calls of redlock_nodes.h: they make the group, heal it, replace a node, look, and take a lock
 * away by hand. And the moves of an address. */
#include <stdio.h>

#include "base/memory.h"
#include "tests/sim/lock/schedule.h"
#include "tests/sim/world/trouble.h"

#define schedule lock_schedule

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
    struct redlock_group_terms terms = {.max_ttl_ms = schedule.max_ttl_ns / NS_PER_MS,
                                        .in_strings = schedule.in_strings};
    schedule.is_made = redlock_nodes_init(nodes, &terms) == REDLOCK_NODES_DONE;
    if (!schedule.is_made)
        world_tell("no group: %s", redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
}

/* Only one operator at a time may change the members. */
bool lock_is_operated(void)
{
    return schedule.is_replacing || schedule.is_upgrading || schedule.healed_at.ns == INSTANT_NEVER.ns;
}

static void heal_main(void *argument)
{
    (void)argument;
    struct redlock_nodes *nodes = nodes_open();
    enum redlock_nodes_end end = redlock_nodes_heal(nodes, NULL, true);
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

static void upgrade_main(void *argument)
{
    (void)argument;
    struct redlock_nodes *nodes = nodes_open();
    enum redlock_nodes_end end = redlock_nodes_upgrade(nodes, NULL);
    schedule.is_upgraded = end == REDLOCK_NODES_DONE;
    schedule.is_upgrading = false;
    world_tell("upgraded: %d %s", (int)end, redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
}

void lock_group_upgrade(void)
{
    if (lock_is_operated())
        return;
    schedule.is_upgrading = true;
    lock_operator_start(upgrade_main, NULL);
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

/* The configuration names the new one as soon as it has the place, and clients that start from then on read that. */
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
     * place. */
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

void lock_operate(struct chance *draw)
{
    unsigned resource = chance_pick(draw, schedule.resource_count);
    switch (chance_pick(draw, 6)) {
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
        if (schedule.in_strings)
            lock_group_upgrade();
        else
            lock_operator_start(lock_group_look, NULL);
        return;
    default:
        replace(chance_pick(draw, schedule.node_count));
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
    schedule.nodes[index]->lost_at = world_time();
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
