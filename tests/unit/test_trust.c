/* Who votes, for every reason but those that pass by themselves (test_trust_quarantine.c, test_trust_clock.c). */
#include "tests/unit/trust_fixture.h"

TEST(a_sound_group_votes_at_once)
{
    for (unsigned nodes = 3; nodes <= 15; nodes += 2) {
        world_make(nodes);
        assert_int_equal(trust_max_ttl_ns(&world.trust), 0);
        for (unsigned i = 0; i < nodes; i++) {
            expect(i, TRUST_UNSEEN, TRUST_NOT_INSPECTED);
            look(i);
            bool has_quorum = i + 1 > nodes / 2;
            expect_voters(has_quorum ? (1u << (i + 1)) - 1 : 0);
            assert_int_equal(trust_members(&world.trust), trust_voters(&world.trust));
            expect(i, has_quorum ? TRUST_VOTES : TRUST_EXCLUDED, has_quorum ? TRUST_FINE : TRUST_NO_GROUP);
            node_set changed = (node_set)(i == nodes / 2 ? (1u << (i + 1)) - 1 : 1u << i);
            expect_step(0, 0, changed);
        }
        assert_int_equal(trust_max_ttl_ns(&world.trust), MAX_TTL_MS * NS_PER_MS);
        assert_string_equal(trust_marker_expected(&world.trust, 1), world.servers[1].text);
        assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns);
    }
}

TEST(a_node_that_is_gone_votes_after_an_inspection)
{
    expect_after(trust_unseen(&world.trust, 1, world.now), 0, 0, 2);
    expect(1, TRUST_UNSEEN, TRUST_NOT_INSPECTED);
    assert_int_equal(trust_members(&world.trust), 5);
    expect_after(look(1), 0, 0, 2);
    expect_votes(1);
    assert_int_equal(world.forgot[1], 0);
}

/* H9 */
TEST(what_cannot_be_read_is_not_trusted)
{
    expect_after(trust_unreadable(&world.trust, 2, world.now), 0, 0, 4);
    expect(2, TRUST_EXCLUDED, TRUST_UNREADABLE);
    trust_unseen(&world.trust, 2, world.now);
    expect(2, TRUST_UNSEEN, TRUST_NOT_INSPECTED);
    static const char *const runs[] = {"", "-", "0123", "0123456789abcdef0123456789abcdef0123456G"};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        snprintf(world.servers[2].run_id, sizeof world.servers[2].run_id, "%s", runs[i]);
        look(2);
        expect(2, TRUST_EXCLUDED, TRUST_UNREADABLE);
    }
    restart(2, 2);
    look(2);
    expect_votes(2);
    assert_int_equal(world.forgot[2], 0);
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
    marker->member_count += 2;
    snprintf(marker->members[3], sizeof marker->members[3], "0000000e");
}

static void change_self(struct marker *marker)
{
    memcpy(marker->self, marker->members[0], sizeof marker->self);
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
        world_make(3);
        struct marker marker = group_marker(3, 1, 2);
        cases[i].change(&marker);
        mark(2, marker, run_of(2));
        look_at_all();
        expect(2, TRUST_EXCLUDED, cases[i].reason);
        expect_voters(3);
        assert_int_equal(trust_members(&world.trust), 3);
        expect_after(tick_after(10 * QUARANTINE_NS), 0, 0, 0);
    }
}

TEST(other_things_under_the_key)
{
    world_make(3);
    snprintf(world.servers[2].text, MARKER_TEXT_MAX, "?");
    look_at_all();
    expect(2, TRUST_EXCLUDED, TRUST_BAD_MARKER);
    snprintf(world.servers[2].text, MARKER_TEXT_MAX, "%u group=0 of another meaning", MARKER_SCHEME + 1U);
    look(2);
    expect(2, TRUST_EXCLUDED, TRUST_OTHER_SCHEME);
    empty(2);
    expect(2, TRUST_EXCLUDED, TRUST_NO_MARKER);
    tick_after(10 * QUARANTINE_NS);
    expect(2, TRUST_EXCLUDED, TRUST_NO_MARKER);
    mark(2, group_marker(3, 1, 2), run_of(2)); /* an operator */
    look(2);
    expect_votes(2);
}

TEST(a_node_that_was_replaced_is_no_number)
{
    for (unsigned i = 0; i < 2; i++) {
        struct marker marker = group_marker(3, 2, i);
        marker.members[2][0] = '\0';
        mark(i, marker, run_of(i));
    }
    look(0);
    expect(0, TRUST_EXCLUDED, TRUST_OTHER_GENERATION); /* the majority is still behind */
    expect_voters(6);
    look(1);
    expect(2, TRUST_EXCLUDED, TRUST_NOT_A_MEMBER);
    expect_voters(3);
}

TEST(no_majority_has_one_group)
{
    world_make(5);
    for (unsigned i = 2; i < 5; i++)
        world.servers[i].text[0] = '\0';
    look_at_all();
    for (unsigned i = 0; i < 5; i++)
        expect(i, TRUST_EXCLUDED, TRUST_NO_GROUP);
    mark(2, group_marker(5, 1, 1), run_of(2)); /* a third marker, but of a number that is counted already */
    look(2);
    expect(2, TRUST_EXCLUDED, TRUST_NO_GROUP);
    mark(2, group_marker(5, 1, 2), run_of(2));
    look(2);
    expect_voters(7);
    expect(3, TRUST_EXCLUDED, TRUST_NO_MARKER);
}

/* E20: five numbers, three nodes configured, and the other way round. */
TEST(a_group_of_another_size)
{
    for (unsigned nodes = 3; nodes <= 5; nodes += 2) {
        world_make(nodes);
        for (unsigned i = 0; i < nodes; i++)
            mark(i, group_marker(8 - nodes, 1, i % 3), run_of(i));
        look_at_all();
        expect_voters(0);
        assert_int_equal(trust_max_ttl_ns(&world.trust), 0); /* it is not our group */
        for (unsigned i = 0; i < nodes; i++)
            expect(i, TRUST_EXCLUDED, TRUST_NODE_COUNT);
    }
}

/* E19: two addresses of one server; the marker may have changed between the two inspections. */
TEST(one_server_counts_once)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        world_make(3);
        restart(2, 0);
        if (kind == 0)
            mark(2, group_marker(3, 1, 0), run_of(0));
        else if (kind == 1)
            mark(2, group_marker(3, 1, 2), run_of(0));
        else
            world.servers[2].text[0] = '\0';
        look_at_all();
        expect_votes(0);
        expect(2, TRUST_EXCLUDED, TRUST_DUPLICATE);
    }
}

/* A copied server: the same marker, another run. The trusted one keeps the number, wherever it is in the list. */
TEST(one_number_votes_once)
{
    world_make(3);
    mark(0, group_marker(3, 1, 2), run_of(2)); /* a copy of server 2, with its own run id */
    look_at_all();
    expect(0, TRUST_EXCLUDED, TRUST_DUPLICATE);
    expect_voters(6);
    expect_after(tick_after(2 * QUARANTINE_NS), 0, 0, 0);
    mark(0, group_marker(3, 1, 2), run_of(0)); /* both are trusted: the first */
    look(0);
    expect_voters(3);
    expect(2, TRUST_EXCLUDED, TRUST_DUPLICATE);
}

TEST(facts_that_get_fewer_keep_the_group)
{
    for (unsigned i = 0; i < 2; i++) {
        snprintf(world.servers[i].text, MARKER_TEXT_MAX, "junk");
        look(i);
        expect(i, TRUST_EXCLUDED, TRUST_BAD_MARKER);
    }
    expect_votes(2);
    assert_int_equal(trust_max_ttl_ns(&world.trust), MAX_TTL_MS * NS_PER_MS);
}

TEST(no_way_leads_back_to_an_older_generation)
{
    world_make(3);
    for (unsigned i = 0; i < 3; i++)
        mark(i, group_marker(3, 2, i), run_of(i));
    look_at_all();
    for (unsigned i = 0; i < 2; i++) {
        mark(i, group_marker(3, 1, i), run_of(i));
        look(i);
        expect(i, TRUST_EXCLUDED, TRUST_OTHER_GENERATION);
    }
    expect_votes(2);
}

TEST(another_group_of_a_majority_is_taken)
{
    for (unsigned i = 0; i < 2; i++) {
        struct marker marker = group_marker(3, 1, i);
        marker.group[0] = 'f';
        mark(i, marker, run_of(i));
        look(i);
    }
    expect_voters(3);
    expect(2, TRUST_EXCLUDED, TRUST_OTHER_GROUP);
}

TEST(one_node_has_no_group_and_no_quarantine)
{
    world_make(1);
    look(0);
    expect_votes(0);
    assert_int_equal(trust_members(&world.trust), 1);
    assert_int_equal(trust_max_ttl_ns(&world.trust), 0);
    restart(0, 5);
    expect_after(look(0), 1, 0, 0);
    expect_votes(0);
    world.servers[0].offset_ns += 3600 * NS_PER_S;
    expect_after(sample_after(NS_PER_S, 0), 1, 0, 0);
    assert_false(world.step.own_clock_stood);
    expect_votes(0);
    assert_int_equal(world.forgot[0], 2);
    assert_string_equal(trust_marker_expected(&world.trust, 0), MARKER_NONE);
    evicts(0, true);
    expect(0, TRUST_EXCLUDED, TRUST_EVICTS);
    evicts(0, false);
    expect_votes(0);
    assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns);
}

/* E20: the others of its group are not known here, and one node of many is a majority of nobody. */
TEST(one_node_that_has_a_marker_has_others_beside_it)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        world_make(1);
        look(0);
        expect_votes(0);
        if (kind < 2)
            mark(0, group_marker(3, 1, 0), kind == 0 ? run_of(0) : run_of(77));
        else
            snprintf(world.servers[0].text, sizeof world.servers[0].text, "something else");
        look(0);
        expect(0, TRUST_EXCLUDED, kind < 2 ? TRUST_NODE_COUNT : TRUST_BAD_MARKER);
        expect_step(0, 0, 1);
        assert_int_equal(trust_members(&world.trust), 0);
        assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns);
        empty(0); /* the group is given up */
        expect_votes(0);
    }
}

TEST(every_word_is_there_once)
{
    for (int i = 0; i <= TRUST_HAD_EVICTED; i++) {
        world.trust.node[0].reason = (enum trust_reason)i;
        assert_true(strlen(trust_advice(&world.trust, 0)) > 10);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(trust_reason_name((enum trust_reason)i), trust_reason_name((enum trust_reason)j));
    }
    for (int i = 0; i <= TRUST_EXCLUDED; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(trust_state_name((enum trust_state)i), trust_state_name((enum trust_state)j));
}

RUN_TESTS_BETWEEN(start_three, NULL)
