/* Lock nodes as a client's inspections find them, on a clock that the test moves. */
#ifndef TESTS_TRUST_FIXTURE_H
#define TESTS_TRUST_FIXTURE_H

#include "redlock/trust.h"

#include "tests/support/test.h"

#include <stdio.h>

enum { MAX_TTL_MS = 60000, SERVERS_MAX = 16 };
#define TIMEOUT_NS    (50 * NS_PER_MS)
#define QUARANTINE_NS (60007 * NS_PER_MS * 100 / 99 + TIMEOUT_NS) /* on a clock that is slow by 1 % */
#define TRIP_NS       (200 * NS_PER_US)
#define WALL_NS       (INT64_C(1790000000) * NS_PER_S)

struct server {
    char text[MARKER_TEXT_MAX]; /* "" = no marker */
    char run_id[MARKER_RUN_DIGITS + 1];
    char plain_run_id[MARKER_RUN_DIGITS + 1]; /* "" = the same */
    bool evicts, is_replica, has_bad_fences;
    int64_t highest_token, floor;
    int64_t offset_ns; /* of its clock to WALL_NS + ours */
};

struct world {
    struct trust trust;
    struct instant now;
    struct server servers[SERVERS_MAX]; /* node i of the client is server i */
    struct trust_step step;             /* what the last event asked for */
    unsigned forgot[SERVERS_MAX];       /* how often each node was said to have forgotten locks */
};
static struct world world;

static inline const char *run_of(unsigned number)
{
    static char runs[4][MARKER_RUN_DIGITS + 1];
    static unsigned next;
    next = (next + 1) % 4;
    snprintf(runs[next], sizeof runs[next], "%08x%032x", 0xe0000000u + number + 1,
             0u); /* its beginning names numbers */
    return runs[next];
}

/* Number i has the id 0000000<i + 1>. */
static inline struct marker group_marker(unsigned numbers, uint32_t generation, unsigned self)
{
    struct marker marker = {
        .group = "00000000000000aa", .generation = generation, .max_ttl_ms = MAX_TTL_MS, .member_count = numbers};
    for (unsigned i = 0; i < numbers; i++)
        snprintf(marker.members[i], sizeof marker.members[i], "%08x", i + 1);
    snprintf(marker.self, sizeof marker.self, "%08x", self + 1);
    return marker;
}

static inline void mark(unsigned server, struct marker marker, const char *run)
{
    snprintf(marker.run, sizeof marker.run, "%s", run);
    marker_write(&marker, world.servers[server].text);
}

/* A healthy group of which nothing was seen yet. */
static inline void world_make(unsigned nodes)
{
    world = (struct world){.now = {1000 * NS_PER_S}};
    trust_init(&world.trust, nodes, TIMEOUT_NS, 0.01);
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        snprintf(world.servers[i].run_id, sizeof world.servers[i].run_id, "%s", run_of(i));
    for (unsigned i = 0; i < nodes && nodes > 1; i++)
        mark(i, group_marker(nodes, 1, i), run_of(i));
}

static inline void pass(int64_t ns)
{
    world.now.ns += ns;
}

static inline int64_t node_us(unsigned node, struct instant at)
{
    return (WALL_NS + at.ns + world.servers[node].offset_ns) / NS_PER_US;
}

static inline struct trust_step took(struct world *around, struct trust_step step)
{
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        around->forgot[i] += (unsigned)step.forgot >> i & 1u;
    return around->step = step;
}

/* Inspects the node; the answer arrives now. */
static inline struct trust_step look_in(struct world *around, unsigned node)
{
    const struct server *server = &around->servers[node];
    struct instant asked = instant_after(around->now, -TRIP_NS), read = instant_after(asked, TRIP_NS / 2);
    struct trust_inspection inspection = {.reading.asked = asked,
                                          .reading.answered = around->now,
                                          .evicts = server->evicts,
                                          .is_replica = server->is_replica,
                                          .highest_token = server->highest_token,
                                          .has_bad_fences = server->has_bad_fences,
                                          .reading.node_us = (WALL_NS + read.ns + server->offset_ns) / NS_PER_US};
    memcpy(inspection.marker_text, server->text, sizeof inspection.marker_text);
    memcpy(inspection.run_id, server->run_id, sizeof inspection.run_id);
    const char *plain = server->plain_run_id[0] != '\0' ? server->plain_run_id : server->run_id;
    memcpy(inspection.plain_run_id, plain, sizeof inspection.plain_run_id);
    return took(around, trust_saw(&around->trust, node, &inspection, around->now));
}

static inline struct trust_step look(unsigned node)
{
    return look_in(&world, node);
}

static inline struct trust_step sample(unsigned node)
{
    struct instant asked = instant_after(world.now, -TRIP_NS);
    return took(&world, trust_sampled(&world.trust, node, asked, world.now,
                                      node_us(node, instant_after(asked, TRIP_NS / 2)), world.now));
}

/* And inspects what is to be inspected now. */
static inline struct trust_step tick(void)
{
    struct trust_step step = trust_tick(&world.trust, world.now);
    if (step.look != 0)
        pass(TRIP_NS);
    for (unsigned i = 0; i < world.trust.nodes; i++) {
        if (!((unsigned)step.look >> i & 1u))
            continue;
        struct trust_step then = look(i);
        step.forgot |= then.forgot;
        step.write |= then.write;
        step.changed |= then.changed;
    }
    return world.step = step;
}

static inline void look_at_all(void)
{
    for (unsigned i = 0; i < world.trust.nodes; i++)
        look(i);
}

/* They are seen since the node was. */
static inline void look_at_others(unsigned node)
{
    pass(TRIP_NS);
    for (unsigned i = 0; i < world.trust.nodes; i++)
        if (i != node)
            look(i);
}

static inline void restart(unsigned node, unsigned number)
{
    snprintf(world.servers[node].run_id, sizeof world.servers[node].run_id, "%s", run_of(number));
}

/* Performs the write that the trust asks for; false when the marker is not what it was seen to be. */
static inline bool perform_write(unsigned node)
{
    char text[MARKER_TEXT_MAX];
    int64_t highest = trust_marker_to_write(&world.trust, node, text);
    const char *expected = trust_marker_expected(&world.trust, node);
    if (strcmp(world.servers[node].text, strcmp(expected, MARKER_NONE) == 0 ? "" : expected) != 0)
        return false;
    memcpy(world.servers[node].text, text, sizeof text);
    if (highest != TRUST_KEEPS_FENCES)
        world.servers[node].floor = highest;
    return true;
}

static inline void expect_at(unsigned node, enum trust_state state, enum trust_reason reason, const char *file,
                             int line)
{
    const struct trust_node *about = &world.trust.node[node];
    if (about->state != state || about->reason != reason)
        fail_msg("%s:%d: node %u is %s (%s), not %s (%s)", file, line, node, trust_state_name(about->state),
                 trust_reason_name(about->reason), trust_state_name(state), trust_reason_name(reason));
}

/* A group that was seen, and all of it votes. */
static inline void start(unsigned nodes)
{
    world_make(nodes);
    look_at_all();
    assert_int_equal(trust_voters(&world.trust), (1u << nodes) - 1);
}

/* What tests begin with that make no other. */
static inline void start_three(void)
{
    start(3);
}

#define expect(node, state, reason) expect_at(node, state, reason, __FILE__, __LINE__)
#define expect_votes(node)          expect(node, TRUST_VOTES, TRUST_FINE)

static inline void expect_step(node_set forgot, node_set write, node_set changed)
{
    assert_int_equal(world.step.forgot, forgot);
    assert_int_equal(world.step.write, write);
    assert_int_equal(world.step.changed, changed);
}

/* The event asked for this. */
static inline void expect_after(struct trust_step step, node_set forgot, node_set write, node_set changed)
{
    world.step = step;
    expect_step(forgot, write, changed);
}

static inline void expect_voters(unsigned voters)
{
    assert_int_equal(trust_voters(&world.trust), voters);
}

static inline struct instant until_of(unsigned node)
{
    return trust_node_until(&world.trust, node);
}

/* It begins now. */
static inline void expect_quarantine(unsigned node)
{
    assert_int_equal(until_of(node).ns, world.now.ns + QUARANTINE_NS);
}

static inline struct trust_step look_after(int64_t ns, unsigned node)
{
    pass(ns);
    return look(node);
}

static inline struct trust_step sample_after(int64_t ns, unsigned node)
{
    pass(ns);
    return sample(node);
}

static inline struct trust_step tick_after(int64_t ns)
{
    pass(ns);
    return tick();
}

static inline struct trust_step tick_at(struct instant now)
{
    world.now = now;
    return tick();
}

static inline struct trust_step write_and_look(unsigned node)
{
    assert_true(perform_write(node));
    return look(node);
}

/* Its marker is gone, and that is seen. */
static inline struct trust_step empty(unsigned node)
{
    world.servers[node].text[0] = '\0';
    return look(node);
}

/* It begins to evict, or ends it, and that is seen. */
static inline struct trust_step evicts(unsigned node, bool does)
{
    world.servers[node].evicts = does;
    return look(node);
}

/* All nodes are sampled once a second. */
static inline void go_on(unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++) {
        pass(NS_PER_S);
        for (unsigned node = 0; node < world.trust.nodes; node++) {
            expect_after(sample(node), 0, 0, 0);
        }
    }
}

#endif
