/* What the tests of membership.h share: servers with markers, and the plan that is made for what they hold. */
#ifndef UNIT_MEMBERSHIP_FIXTURE_H
#define UNIT_MEMBERSHIP_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "redlock/membership.h"

enum { NODES_MAX = 5, SERVERS_MAX = NODES_MAX + 1, STATES_MAX = 1 << 13, EDGES_MAX = 1 << 20 };

/* What the servers hold: the configured ones, and behind them the one that is to come. A marker of generation 0 is
 * none. `waited` is what only the running process knows. */
struct world {
    struct marker marker[SERVERS_MAX];
    uint32_t waited;
};

struct history {
    unsigned nodes;
    int leaving;
    bool newcomer_is_outside;
    bool heals; /* brings members up to date before anything else; the server outside is the former one of the number */
    unsigned count, edges;
    struct world states[STATES_MAX];
    unsigned from[EDGES_MAX], to[EDGES_MAX];
    bool is_wait[EDGES_MAX];
};

static const char group_id[] = "00112233445566aa", new_id[] = "ffff0001";

static inline void id_set(char to[MARKER_ID_DIGITS + 1], const char *id)
{
    memset(to, 0, MARKER_ID_DIGITS + 1);
    memcpy(to, id, strlen(id));
}

static inline void run_of(unsigned server, char run[MARKER_RUN_DIGITS + 1])
{
    snprintf(run, MARKER_RUN_DIGITS + 1, "%040x", server + 1);
}

static inline struct marker founding(unsigned nodes)
{
    struct marker group = {.generation = 7, .max_ttl_ms = 2000, .member_count = nodes};
    memcpy(group.group, group_id, sizeof group_id);
    for (unsigned i = 0; i < nodes; i++)
        snprintf(group.members[i], sizeof group.members[i], "%08x", i + 1);
    return group;
}

static inline struct world world_begin(unsigned nodes)
{
    struct world world;
    memset(&world, 0, sizeof world); /* also what is between the members: worlds are compared byte for byte */
    for (unsigned i = 0; i < nodes; i++) {
        struct marker marker = founding(nodes);
        memcpy(world.marker[i].group, marker.group, sizeof marker.group);
        world.marker[i].generation = marker.generation;
        world.marker[i].max_ttl_ms = marker.max_ttl_ms;
        world.marker[i].member_count = marker.member_count;
        memcpy(world.marker[i].members, marker.members, sizeof marker.members);
        memcpy(world.marker[i].self, marker.members[i], sizeof world.marker[i].self);
        run_of(i, world.marker[i].run);
    }
    return world;
}

static inline void node_read(struct membership_node *node, const struct world *world, unsigned server, bool is_reached)
{
    static const char *const names[] = {"n1", "n2", "n3", "n4", "n5", "n6"};
    *node = (struct membership_node){.name = names[server], .is_reached = is_reached};
    run_of(server, node->run_id);
    if (!is_reached || world->marker[server].generation == 0)
        return;
    node->has_marker = true;
    node->marker = world->marker[server];
    marker_write(&node->marker, node->text);
}

/* `reached` has a bit for each server. */
static inline struct membership_step plan(const struct history *history, const struct world *world, unsigned reached)
{
    struct membership membership = {
        .nodes = history->nodes, .leaving = history->leaving, .new_id = new_id, .waited_for = world->waited};
    struct membership_node outside;
    for (unsigned i = 0; i < history->nodes; i++)
        node_read(&membership.node[i], world, i, (reached >> i & 1) != 0);
    node_read(&outside, world, history->nodes, (reached >> history->nodes & 1) != 0);
    if (history->newcomer_is_outside)
        membership.newcomer = &outside;
    else if (history->leaving != MEMBERSHIP_NOBODY)
        membership.newcomer = &membership.node[history->leaving];
    return membership_next(&membership);
}

/* What healing begins with. The time that it gives to others may have passed. */
static inline struct membership_step plan_of_members(const struct history *history, const struct world *world,
                                                     unsigned reached)
{
    static struct history nobody_leaves;
    struct world later = *world;
    nobody_leaves.nodes = history->nodes;
    nobody_leaves.leaving = MEMBERSHIP_NOBODY;
    struct membership_step step = plan(&nobody_leaves, &later, reached);
    later.waited = step.group.generation;
    return step.verdict == MEMBERSHIP_WAIT ? plan(&nobody_leaves, &later, reached) : step;
}

/* As mark.lua does it: what is expected must be there. */
static inline void perform(const struct history *history, struct world *world, const struct membership_step *step)
{
    struct marker marker;
    unsigned server = step->server == MEMBERSHIP_NEWCOMER ? history->nodes : step->server;
    char found[MARKER_TEXT_MAX] = "";
    if (world->marker[server].generation != 0)
        marker_write(&world->marker[server], found);
    assert_string_equal(found, step->expected);
    assert_true(marker_parse(&marker, step->text, strlen(step->text)));
    memset(&world->marker[server], 0, sizeof world->marker[server]);
    memcpy(world->marker[server].group, marker.group, sizeof marker.group);
    world->marker[server].generation = marker.generation;
    world->marker[server].max_ttl_ms = marker.max_ttl_ms;
    world->marker[server].member_count = marker.member_count;
    for (unsigned i = 0; i < marker.member_count; i++)
        id_set(world->marker[server].members[i], marker.members[i]);
    id_set(world->marker[server].self, marker.self);
    memcpy(world->marker[server].run, marker.run, sizeof marker.run);
}

static inline struct history *history_of(unsigned nodes, int leaving, bool newcomer_is_outside)
{
    struct history *history = memory_new(struct history);
    history->nodes = nodes;
    history->leaving = leaving;
    history->newcomer_is_outside = newcomer_is_outside;
    return history;
}

#endif
