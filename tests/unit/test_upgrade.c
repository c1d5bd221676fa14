/* Moving a group's fences from strings into sets, from every state that kills, restarts and lost nodes can leave. */
#include "redlock/upgrade.h"

#include "tests/support/test.h"

#include <stdio.h>

enum { NODES_MAX = 5 };

/* What a node is: its scheme, whether it can be reached, whether it votes when its fences are not moved. */
struct node_state {
    enum marker_scheme scheme;
    bool is_up, is_trusted;
};

struct world {
    unsigned nodes;
    struct node_state node[NODES_MAX];
    node_set wanted;
    bool is_settled;
};

static struct marker marker_of(const struct world *world, unsigned node)
{
    struct marker marker = {.scheme = world->node[node].scheme,
                            .group = "00000000000000aa",
                            .generation = 3,
                            .max_ttl_ms = 60000,
                            .place_count = world->nodes,
                            .run = "0123456789abcdef0123456789abcdef01234567"};
    for (unsigned i = 0; i < world->nodes; i++)
        snprintf(marker.places[i], sizeof marker.places[i], "%08x", i + 1);
    snprintf(marker.self, sizeof marker.self, "%08x", node + 1);
    return marker;
}

static node_set voters_of(const struct world *world)
{
    node_set voters = 0;
    for (unsigned i = 0; i < world->nodes; i++)
        if (world->node[i].is_up && world->node[i].is_trusted && world->node[i].scheme != MARKER_MOVING)
            voters |= set_of(i);
    return voters;
}

static struct upgrade_step next(const struct world *world)
{
    static const char *const names[NODES_MAX] = {"a", "b", "c", "d", "e"};
    struct upgrade upgrade = {
        .nodes = world->nodes, .voters = voters_of(world), .wanted = world->wanted, .is_settled = world->is_settled};
    for (unsigned i = 0; i < world->nodes; i++) {
        upgrade.node[i].name = names[i];
        if (!world->node[i].is_up)
            continue;
        upgrade.members |= set_of(i);
        upgrade.node[i].is_reached = upgrade.node[i].has_marker = true;
        upgrade.node[i].marker = marker_of(world, i);
        marker_write(&upgrade.node[i].marker, upgrade.node[i].text);
    }
    return upgrade_next(&upgrade);
}

/* What the step writes: from the marker that is there to the same with the next scheme. */
static void check_texts(const struct world *world, const struct upgrade_step *step, enum marker_scheme scheme)
{
    char text[MARKER_TEXT_MAX];
    struct marker marker = marker_of(world, step->node);
    marker_write(&marker, text);
    assert_string_equal(step->expected, text);
    marker.scheme = scheme;
    marker_write(&marker, text);
    assert_string_equal(step->text, text);
    assert_true((world->wanted & set_of(step->node)) != 0);
}

static bool has_set_anywhere(const struct world *world)
{
    for (unsigned i = 0; i < world->nodes; i++)
        if (world->node[i].is_up && world->node[i].scheme == MARKER_SET)
            return true;
    return false;
}

/* Checks the step, and returns the world behind it. */
static struct world perform(const struct world *world, const struct upgrade_step *step)
{
    struct world after = *world;
    node_set all = (node_set)((1u << world->nodes) - 1), others = (node_set)(all & ~set_of(step->node));
    switch (step->verdict) {
    case UPGRADE_WRITE:
        assert_int_equal(world->node[step->node].scheme, MARKER_STRINGS);
        check_texts(world, step, MARKER_MOVING);
        assert_int_equal(voters_of(world) & others, others);
        assert_true(world->is_settled || !has_set_anywhere(world));
        after.node[step->node].scheme = MARKER_MOVING;
        break;
    case UPGRADE_MOVE:
        assert_int_equal(world->node[step->node].scheme, MARKER_MOVING);
        check_texts(world, step, MARKER_SET);
        after.node[step->node].scheme = MARKER_SET;
        break;
    case UPGRADE_WAIT:
        assert_false(world->is_settled);
        after.is_settled = true;
        return after;
    case UPGRADE_TOO_FEW:
        assert_true(!world->node[step->node].is_up || (voters_of(world) & set_of(step->node)) == 0);
        assert_true(strlen(step->reason) > 0);
        return after;
    case UPGRADE_DONE:
        for (unsigned i = 0; i < world->nodes; i++)
            assert_true((world->wanted & set_of(i)) == 0 || world->node[i].scheme == MARKER_SET);
        return after;
    }
    after.is_settled = false;
    return after;
}

/* Once all is well again, the same command gets to the end, with no more than one node without a vote at a time. */
static void check_end(struct world world)
{
    unsigned moving = 0;
    bool is_blocked = false; /* by a node that is not wanted */
    for (unsigned i = 0; i < world.nodes; i++) {
        world.node[i].is_up = world.node[i].is_trusted = true;
        moving += world.node[i].scheme == MARKER_MOVING;
        is_blocked |= world.node[i].scheme == MARKER_MOVING && (world.wanted & set_of(i)) == 0;
    }
    if (is_blocked)
        return;
    for (unsigned steps = 0; steps < 4 * NODES_MAX; steps++) {
        struct upgrade_step step = next(&world);
        if (step.verdict == UPGRADE_DONE)
            return;
        assert_int_not_equal(step.verdict, UPGRADE_TOO_FEW);
        world = perform(&world, &step);
        unsigned voters = (unsigned)__builtin_popcount(voters_of(&world));
        assert_true(voters + (moving > 1 ? moving : 1) >= world.nodes);
    }
    fail_msg("it does not end");
}

/* Every mixture of schemes, nodes that are away and nodes that do not vote. */
static void check_all(unsigned nodes, node_set wanted)
{
    unsigned states = 1;
    for (unsigned i = 0; i < nodes; i++)
        states *= 9;
    for (unsigned state = 0; state < states; state++)
        for (unsigned is_settled = 0; is_settled < 2; is_settled++) {
            struct world world = {.nodes = nodes, .wanted = wanted, .is_settled = is_settled == 1};
            for (unsigned i = 0, rest = state; i < nodes; i++, rest /= 9)
                world.node[i] = (struct node_state){
                    .scheme = MARKER_STRINGS + rest % 3, .is_up = rest / 3 % 3 > 0, .is_trusted = rest / 3 % 3 > 1};
            struct upgrade_step step = next(&world);
            perform(&world, &step);
            check_end(world);
        }
}

TEST(every_interruption_can_be_gone_on_from)
{
    for (unsigned wanted = 0; wanted < 8; wanted++)
        check_all(3, (node_set)wanted);
    check_all(5, 31);
}

static struct world group(unsigned nodes)
{
    struct world world = {.nodes = nodes, .wanted = (node_set)((1u << nodes) - 1)};
    for (unsigned i = 0; i < nodes; i++)
        world.node[i] = (struct node_state){.scheme = MARKER_STRINGS, .is_up = true, .is_trusted = true};
    return world;
}

TEST(one_node_after_the_other_in_the_order_of_the_configuration)
{
    static const enum upgrade_verdict verdicts[] = {UPGRADE_WRITE, UPGRADE_MOVE, UPGRADE_WAIT,
                                                    UPGRADE_WRITE, UPGRADE_MOVE, UPGRADE_WAIT,
                                                    UPGRADE_WRITE, UPGRADE_MOVE, UPGRADE_DONE};
    struct world world = group(3);
    for (unsigned i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        struct upgrade_step step = next(&world);
        assert_int_equal(step.verdict, verdicts[i]);
        if (step.verdict == UPGRADE_WRITE || step.verdict == UPGRADE_MOVE)
            assert_int_equal(step.node, i / 3);
        world = perform(&world, &step);
    }
}

TEST(what_is_in_the_way_has_a_name)
{
    struct world world = group(3);
    world.node[1].is_trusted = false;
    struct upgrade_step step = next(&world);
    assert_int_equal(step.verdict, UPGRADE_TOO_FEW);
    assert_string_equal(step.reason, "b does not vote: while the fences of a node are moved, all others must");
    world.wanted = 2; /* but its own can be moved */
    assert_int_equal(next(&world).verdict, UPGRADE_WRITE);
    world.node[1].is_up = false;
    step = next(&world);
    assert_string_equal(step.reason, "b is no member of the group now, so its fences cannot be moved");
    world.node[0].scheme = MARKER_MOVING; /* begun: it goes on, whoever is away */
    world.wanted = 7;
    step = next(&world);
    assert_int_equal(step.verdict, UPGRADE_MOVE);
    assert_int_equal(step.node, 0);
}

RUN_TESTS
