/* Whatever the nodes say, and in whatever order: what must always hold does. The servers behave as badly as they can:
 * they restart, lose or change their markers, copy those of others, evict, and set their clocks. */
#include "tests/unit/trust_fixture.h"

#include "tests/sim/world/chance.h"

enum { WORLDS = 1500, STEPS = 400 };

static void change_marker(unsigned node, struct chance *chance)
{
    unsigned nodes = world.trust.nodes;
    struct marker marker = group_marker(nodes, 1 + chance_pick(chance, 3), chance_pick(chance, nodes));
    if (chance_per_mille(chance, 700))
        snprintf(marker.self, sizeof marker.self, "%08x", node + 1);
    if (chance_per_mille(chance, 100))
        marker.group[3] = 'e';
    if (chance_per_mille(chance, 50))
        marker.max_ttl_ms = 500;
    unsigned vacant = chance_pick(chance, nodes);
    if (chance_per_mille(chance, 200) && strcmp(marker.members[vacant], marker.self) != 0)
        marker.members[vacant][0] = '\0';
    mark(node, marker, chance_per_mille(chance, 200) ? "" : world.servers[node].run_id);
}

static void misbehave(struct chance *chance)
{
    unsigned node = chance_pick(chance, world.trust.nodes);
    struct server *server = &world.servers[node];
    switch (chance_pick(chance, 9)) {
    case 0:
        restart(node, (unsigned)chance_below(chance, 1 << 30));
        break;
    case 1:
        server->text[0] = '\0';
        break;
    case 2:
        change_marker(node, chance);
        break;
    case 3:
        mark(node, group_marker(world.trust.nodes, 1, node), server->run_id); /* an operator heals */
        break;
    case 4:
        server->evicts = !server->evicts;
        break;
    case 5:
        server->offset_ns += chance_between(chance, -3 * NS_PER_S, 3 * NS_PER_S);
        break;
    case 6:
        snprintf(server->text, sizeof server->text, "junk");
        break;
    case 7:
        world.servers[node] = world.servers[chance_pick(chance, world.trust.nodes)]; /* a second address */
        break;
    default:
        for (unsigned i = 0; i < world.trust.nodes; i++)
            world.servers[i].offset_ns += chance_below(chance, 2 * NS_PER_S);
    }
}

/* Returns the node of the event. */
static unsigned happen(struct chance *chance)
{
    unsigned node = chance_pick(chance, world.trust.nodes);
    switch (chance_pick(chance, 8)) {
    case 0:
        world.step = trust_unseen(&world.trust, node, world.now);
        break;
    case 1:
        world.step = trust_unreadable(&world.trust, node, world.now);
        break;
    case 2:
    case 3:
        sample(node);
        break;
    case 4:
        if (trust_next(&world.trust).ns != INSTANT_NEVER.ns && trust_next(&world.trust).ns > world.now.ns)
            world.now = trust_next(&world.trust);
        world.step = trust_tick(&world.trust, world.now);
        break;
    default:
        look(node);
    }
    return node;
}

static bool says_good_run(const struct trust_node *node)
{
    return node->has_marker && node->marker.run[0] != '\0' && strcmp(node->marker.run, node->run_id) == 0;
}

static void check_voter(unsigned node)
{
    const struct trust *trust = &world.trust;
    const struct trust_node *about = &trust->node[node];
    assert_true(about->seen && !about->evicts && !about->is_unreadable);
    if (trust->nodes == 1)
        return;
    assert_true(trust->has_group && says_good_run(about));
    assert_int_equal(about->quarantine, TRUST_FINE);
    assert_true(marker_same_membership(&about->marker, &trust->group));
    assert_string_not_equal(trust_marker_expected(trust, node), "");
    for (unsigned other = 0; other < node; other++)
        if ((unsigned)trust_voters(trust) >> other & 1u) {
            assert_string_not_equal(trust->node[other].marker.self, about->marker.self);
            assert_string_not_equal(trust->node[other].run_id, about->run_id);
        }
}

/* What is written is for a node that is there, not before its time (or to doubt it), and of the adopted group. */
static void check_write(unsigned node, const struct instant *written_at)
{
    const struct trust_node *about = &world.trust.node[node];
    assert_true(instant_since(written_at[node], world.now) >= NS_PER_S || written_at[node].ns == 0);
    char text[MARKER_TEXT_MAX];
    struct marker marker;
    trust_marker_to_write(&world.trust, node, text);
    assert_true(marker_parse(&marker, text, strlen(text)));
    if (about->records) {
        assert_true(marker.generation >= about->marker.generation && marker.generation >= world.trust.group.generation);
        assert_string_equal(marker.self, about->marker.self);
        assert_string_equal(marker.run, about->marker.run);
        return;
    }
    assert_int_equal(about->state, TRUST_QUARANTINED);
    assert_true(marker_same_membership(&marker, &world.trust.group));
    if (about->doubts) {
        assert_memory_equal(marker.run, "ffffffffffffffffffffffff", 24);
        assert_true(about->has_marker || about->known_id[0] != '\0');
    } else {
        assert_string_equal(marker.run, about->run_id);
        assert_true(instant_since(about->quarantined_at, world.now) >=
                    world.trust.group.max_ttl_ms * NS_PER_MS + TIMEOUT_NS);
        assert_false(says_good_run(about));
    }
    for (unsigned other = 0; other < world.trust.nodes; other++)
        if (other != node && world.trust.node[other].state == TRUST_VOTES)
            assert_string_not_equal(world.trust.node[other].marker.self, marker.self);
}

static void check(const struct trust *before, unsigned node, const struct instant *written)
{
    const struct trust *trust = &world.trust;
    node_set voters = trust_voters(trust);
    assert_int_equal(voters & ~trust_members(trust), 0);
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_node *now = &trust->node[i], *then = &before->node[i];
        bool changed = now->state != then->state || now->reason != then->reason;
        assert_int_equal(((unsigned)world.step.changed >> i & 1u), changed);
        bool forgot = (unsigned)world.step.forgot >> i & 1u;
        assert_true(i == node || !forgot);
        assert_int_equal(now->state == TRUST_VOTES, now->reason == TRUST_FINE);
        if ((unsigned)voters >> i & 1u)
            check_voter(i);
        if ((unsigned)world.step.write >> i & 1u)
            check_write(i, written);
    }
    if (before->has_group) {
        assert_true(trust->has_group);
        if (strcmp(trust->group.group, before->group.group) == 0)
            assert_true(trust->group.generation >= before->group.generation);
    }
    struct trust after = *trust;
    trust_tick(&after, world.now);
    assert_true(instant_before(world.now, trust_next(&after))); /* or a loop would spin */
}

static void live(unsigned nodes, uint64_t seed)
{
    struct chance chance = {.state = seed};
    struct instant written[SERVERS_MAX] = {{0}};
    world_make(nodes);
    for (int i = 0; i < STEPS; i++) {
        pass(chance_scale(&chance, NS_PER_MS, i % 50 == 0 ? 2 * QUARANTINE_NS : 2 * NS_PER_S));
        if (chance_per_mille(&chance, 150))
            misbehave(&chance);
        struct trust before = world.trust;
        unsigned node = happen(&chance);
        check(&before, node, written);
        for (unsigned j = 0; j < nodes; j++)
            if ((unsigned)world.step.write >> j & 1u) {
                written[j] = world.now;
                if (chance_per_mille(&chance, 800))
                    perform_write(j);
            }
    }
}

TEST(what_must_always_hold_does)
{
    static const unsigned sizes[] = {1, 3, 5, 7};
    for (unsigned i = 0; i < WORLDS; i++)
        live(sizes[i % 4], i);
}

RUN_TESTS
