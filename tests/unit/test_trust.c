/* Who votes, for every reason but those that pass by themselves (test_trust_quarantine.c, test_trust_clock.c). */
#include "tests/unit/trust_fixture.h"

TEST(a_sound_group_votes_at_once)
{
    for (unsigned nodes = 3; nodes <= 15; nodes += 2) {
        struct world world;
        world_make(&world, nodes);
        assert_int_equal(trust_max_ttl_ns(&world.trust), 0);
        for (unsigned i = 0; i < nodes; i++) {
            expect(&world, i, TRUST_UNSEEN, TRUST_NOT_INSPECTED);
            look(&world, i);
            bool has_quorum = i + 1 > nodes / 2;
            assert_int_equal(trust_voters(&world.trust), has_quorum ? (1u << (i + 1)) - 1 : 0);
            assert_int_equal(trust_members(&world.trust), trust_voters(&world.trust));
            expect(&world, i, has_quorum ? TRUST_VOTES : TRUST_EXCLUDED, has_quorum ? TRUST_FINE : TRUST_NO_GROUP);
            node_set changed = (node_set)(i == nodes / 2 ? (1u << (i + 1)) - 1 : 1u << i);
            expect_step(&world, 0, 0, changed);
        }
        assert_int_equal(trust_max_ttl_ns(&world.trust), MAX_TTL_MS * NS_PER_MS);
        assert_string_equal(trust_marker_expected(&world.trust, 1), world.servers[1].text);
        assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns);
    }
}

TEST(a_node_that_is_gone_votes_after_an_inspection)
{
    struct world world;
    start(&world, 3);
    world.step = trust_unseen(&world.trust, 1, world.now);
    expect_step(&world, 0, 0, 2);
    expect(&world, 1, TRUST_UNSEEN, TRUST_NOT_INSPECTED);
    assert_int_equal(trust_members(&world.trust), 5);
    look(&world, 1);
    expect_step(&world, 0, 0, 2);
    expect_votes(&world, 1);
    assert_int_equal(world.trust.node[1].incarnation, 0);
}

/* H9 */
TEST(what_cannot_be_read_is_not_trusted)
{
    struct world world;
    start(&world, 3);
    world.step = trust_unreadable(&world.trust, 2, world.now);
    expect_step(&world, 0, 0, 4);
    expect(&world, 2, TRUST_EXCLUDED, TRUST_UNREADABLE);
    trust_unseen(&world.trust, 2, world.now);
    expect(&world, 2, TRUST_UNSEEN, TRUST_NOT_INSPECTED);
    static const char *const runs[] = {"", "-", "0123", "0123456789abcdef0123456789abcdef0123456G"};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        snprintf(world.servers[2].run_id, sizeof world.servers[2].run_id, "%s", runs[i]);
        look(&world, 2);
        expect(&world, 2, TRUST_EXCLUDED, TRUST_UNREADABLE);
    }
    restart(&world, 2, 2);
    look(&world, 2);
    expect_votes(&world, 2);
    assert_int_equal(world.trust.node[2].incarnation, 0);
}

static void change_group(struct marker *marker)
{
    marker->group[0] = 'f';
}

static void change_generation(struct marker *marker)
{
    marker->generation++;
}

static void change_ttl(struct marker *marker)
{
    marker->max_ttl_ms++;
}

static void change_count(struct marker *marker)
{
    marker->place_count += 2;
    snprintf(marker->places[3], sizeof marker->places[3], "0000000e");
}

static void change_self(struct marker *marker)
{
    memcpy(marker->self, marker->places[0], sizeof marker->self);
}

/* E19, E20, H2 and what else can be wrong with one of three from the start: the third node, the others are sound. */
TEST(what_is_wrong_with_a_marker_excludes)
{
    static const struct {
        void (*change)(struct marker *marker);
        enum trust_reason reason;
    } cases[] = {{change_group, TRUST_OTHER_GROUP},
                 {change_generation, TRUST_OTHER_GENERATION},
                 {change_ttl, TRUST_OTHER_GENERATION},
                 {change_count, TRUST_NODE_COUNT},
                 {change_self, TRUST_DUPLICATE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;
        world_make(&world, 3);
        struct marker marker = group_marker(3, 1, 2);
        cases[i].change(&marker);
        mark(&world, 2, marker, run_of(2));
        look_at_all(&world);
        expect(&world, 2, TRUST_EXCLUDED, cases[i].reason);
        assert_int_equal(trust_voters(&world.trust), 3);
        assert_int_equal(trust_members(&world.trust), 3);
        pass(&world, 10 * QUARANTINE_NS);
        tick(&world);
        expect_step(&world, 0, 0, 0);
    }
}

TEST(other_things_under_the_key)
{
    struct world world;
    world_make(&world, 3);
    snprintf(world.servers[2].text, MARKER_TEXT_MAX, "?");
    look_at_all(&world);
    expect(&world, 2, TRUST_EXCLUDED, TRUST_BAD_MARKER);
    world.servers[2].text[0] = '\0';
    look(&world, 2);
    expect(&world, 2, TRUST_EXCLUDED, TRUST_NO_MARKER);
    pass(&world, 10 * QUARANTINE_NS);
    tick(&world);
    expect(&world, 2, TRUST_EXCLUDED, TRUST_NO_MARKER);
    mark(&world, 2, group_marker(3, 1, 2), run_of(2)); /* an operator */
    look(&world, 2);
    expect_votes(&world, 2);
}

TEST(a_node_that_was_replaced_is_no_place)
{
    struct world world;
    start(&world, 3);
    for (unsigned i = 0; i < 2; i++) {
        struct marker marker = group_marker(3, 2, i);
        marker.places[2][0] = '\0';
        mark(&world, i, marker, run_of(i));
    }
    look(&world, 0);
    expect(&world, 0, TRUST_EXCLUDED, TRUST_OTHER_GENERATION); /* the majority is still behind */
    assert_int_equal(trust_voters(&world.trust), 6);
    look(&world, 1);
    expect(&world, 2, TRUST_EXCLUDED, TRUST_NOT_A_PLACE);
    assert_int_equal(trust_voters(&world.trust), 3);
}

TEST(no_majority_has_one_group)
{
    struct world world;
    world_make(&world, 5);
    for (unsigned i = 2; i < 5; i++)
        world.servers[i].text[0] = '\0';
    look_at_all(&world);
    for (unsigned i = 0; i < 5; i++)
        expect(&world, i, TRUST_EXCLUDED, TRUST_NO_GROUP);
    mark(&world, 2, group_marker(5, 1, 1), run_of(2)); /* a third marker, but of a place that is counted already */
    look(&world, 2);
    expect(&world, 2, TRUST_EXCLUDED, TRUST_NO_GROUP);
    mark(&world, 2, group_marker(5, 1, 2), run_of(2));
    look(&world, 2);
    assert_int_equal(trust_voters(&world.trust), 7);
    expect(&world, 3, TRUST_EXCLUDED, TRUST_NO_MARKER);
}

/* E20: five places, three nodes configured, and the other way round. */
TEST(a_group_of_another_size)
{
    for (unsigned nodes = 3; nodes <= 5; nodes += 2) {
        struct world world;
        world_make(&world, nodes);
        for (unsigned i = 0; i < nodes; i++)
            mark(&world, i, group_marker(8 - nodes, 1, i % 3), run_of(i));
        look_at_all(&world);
        assert_int_equal(trust_voters(&world.trust), 0);
        assert_int_equal(trust_max_ttl_ns(&world.trust), 0); /* it is not our group */
        for (unsigned i = 0; i < nodes; i++)
            expect(&world, i, TRUST_EXCLUDED, TRUST_NODE_COUNT);
    }
}

/* E19: two addresses of one server; the marker may have changed between the two inspections. */
TEST(one_server_counts_once)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        struct world world;
        world_make(&world, 3);
        restart(&world, 2, 0);
        if (kind == 0)
            mark(&world, 2, group_marker(3, 1, 0), run_of(0));
        else if (kind == 1)
            mark(&world, 2, group_marker(3, 1, 2), run_of(0));
        else
            world.servers[2].text[0] = '\0';
        look_at_all(&world);
        expect_votes(&world, 0);
        expect(&world, 2, TRUST_EXCLUDED, TRUST_DUPLICATE);
    }
}

/* A copied server: the same marker, another run. The trusted one keeps the place, wherever it is in the list. */
TEST(one_place_votes_once)
{
    struct world world;
    world_make(&world, 3);
    mark(&world, 0, group_marker(3, 1, 2), run_of(2)); /* a copy of server 2, with its own run id */
    look_at_all(&world);
    expect(&world, 0, TRUST_EXCLUDED, TRUST_DUPLICATE);
    assert_int_equal(trust_voters(&world.trust), 6);
    pass(&world, 2 * QUARANTINE_NS);
    tick(&world);
    expect_step(&world, 0, 0, 0);
    mark(&world, 0, group_marker(3, 1, 2), run_of(0)); /* both are trusted: the first */
    look(&world, 0);
    assert_int_equal(trust_voters(&world.trust), 3);
    expect(&world, 2, TRUST_EXCLUDED, TRUST_DUPLICATE);
}

TEST(facts_that_get_fewer_keep_the_group)
{
    struct world world;
    start(&world, 3);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(world.servers[i].text, MARKER_TEXT_MAX, "junk");
        look(&world, i);
        expect(&world, i, TRUST_EXCLUDED, TRUST_BAD_MARKER);
    }
    expect_votes(&world, 2);
    assert_int_equal(trust_max_ttl_ns(&world.trust), MAX_TTL_MS * NS_PER_MS);
}

TEST(no_way_leads_back_to_an_older_generation)
{
    struct world world;
    world_make(&world, 3);
    for (unsigned i = 0; i < 3; i++)
        mark(&world, i, group_marker(3, 2, i), run_of(i));
    look_at_all(&world);
    for (unsigned i = 0; i < 2; i++) {
        mark(&world, i, group_marker(3, 1, i), run_of(i));
        look(&world, i);
        expect(&world, i, TRUST_EXCLUDED, TRUST_OTHER_GENERATION);
    }
    expect_votes(&world, 2);
}

TEST(another_group_of_a_majority_is_taken)
{
    struct world world;
    start(&world, 3);
    for (unsigned i = 0; i < 2; i++) {
        struct marker marker = group_marker(3, 1, i);
        marker.group[0] = 'f';
        mark(&world, i, marker, run_of(i));
        look(&world, i);
    }
    assert_int_equal(trust_voters(&world.trust), 3);
    expect(&world, 2, TRUST_EXCLUDED, TRUST_OTHER_GROUP);
}

TEST(one_node_has_no_group_and_no_quarantine)
{
    struct world world;
    world_make(&world, 1);
    look(&world, 0);
    expect_votes(&world, 0);
    assert_int_equal(trust_members(&world.trust), 1);
    assert_int_equal(trust_max_ttl_ns(&world.trust), 0);
    restart(&world, 0, 5);
    look(&world, 0);
    expect_step(&world, 1, 0, 0);
    expect_votes(&world, 0);
    world.servers[0].offset_ns += 3600 * NS_PER_S;
    pass(&world, NS_PER_S);
    sample(&world, 0);
    expect_step(&world, 1, 0, 0);
    assert_false(world.step.own_clock_stood);
    expect_votes(&world, 0);
    assert_int_equal(world.trust.node[0].incarnation, 2);
    assert_string_equal(trust_marker_expected(&world.trust, 0), MARKER_NONE);
    world.servers[0].evicts = true;
    look(&world, 0);
    expect(&world, 0, TRUST_EXCLUDED, TRUST_EVICTS);
    world.servers[0].evicts = false;
    look(&world, 0);
    expect_votes(&world, 0);
    assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns);
}

/* E20: the others of its group are not known here, and one node of many is a majority of nobody. */
TEST(one_node_that_has_a_marker_has_others_beside_it)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        struct world world;
        world_make(&world, 1);
        look(&world, 0);
        expect_votes(&world, 0);
        if (kind < 2)
            mark(&world, 0, group_marker(3, 1, 0), kind == 0 ? run_of(0) : run_of(77));
        else
            snprintf(world.servers[0].text, sizeof world.servers[0].text, "something else");
        look(&world, 0);
        expect(&world, 0, TRUST_EXCLUDED, kind < 2 ? TRUST_NODE_COUNT : TRUST_BAD_MARKER);
        expect_step(&world, 0, 0, 1);
        assert_int_equal(trust_members(&world.trust), 0);
        assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns);
        world.servers[0].text[0] = '\0'; /* the group is given up */
        look(&world, 0);
        expect_votes(&world, 0);
    }
}

TEST(every_word_is_there_once)
{
    for (int i = 0; i <= TRUST_HAD_EVICTED; i++) {
        assert_true(strlen(trust_reason_advice((enum trust_reason)i)) > 10);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(trust_reason_name((enum trust_reason)i), trust_reason_name((enum trust_reason)j));
    }
    for (int i = 0; i <= TRUST_EXCLUDED; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(trust_state_name((enum trust_state)i), trust_state_name((enum trust_state)j));
}

RUN_TESTS
