/* Who votes, for every reason, and how long one that may have forgotten does not. */
#include "tests/unit/trust_fixture.h"

static void start(struct world *world, unsigned nodes)
{
    world_make(world, nodes);
    look_at_all(world);
    assert_int_equal(trust_voters(&world->trust), (1u << nodes) - 1);
}

static void a_sound_group_votes_at_once(void **state)
{
    (void)state;
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

static void a_node_that_is_gone_votes_after_an_inspection(void **state)
{
    (void)state;
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
static void what_cannot_be_read_is_not_trusted(void **state)
{
    (void)state;
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
static void what_is_wrong_with_a_marker_excludes(void **state)
{
    (void)state;
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

static void other_things_under_the_key(void **state)
{
    (void)state;
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

static void a_node_that_was_replaced_is_no_place(void **state)
{
    (void)state;
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

static void no_majority_has_one_group(void **state)
{
    (void)state;
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
static void a_group_of_another_size(void **state)
{
    (void)state;
    for (unsigned nodes = 3; nodes <= 5; nodes += 2) {
        struct world world;
        world_make(&world, nodes);
        for (unsigned i = 0; i < nodes; i++)
            mark(&world, i, group_marker(8 - nodes, 1, i % 3), run_of(i));
        look_at_all(&world);
        assert_int_equal(trust_voters(&world.trust), 0);
        for (unsigned i = 0; i < nodes; i++)
            expect(&world, i, TRUST_EXCLUDED, TRUST_NODE_COUNT);
    }
}

/* E19: two addresses of one server; the marker may have changed between the two inspections. */
static void one_server_counts_once(void **state)
{
    (void)state;
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
static void one_place_votes_once(void **state)
{
    (void)state;
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

/* --- quarantines --------------------------------------------------------------------------------------------- */

static void expect_quarantine_to_last(struct world *world, unsigned node, enum trust_reason reason)
{
    struct instant end = instant_after(world->now, QUARANTINE_NS);
    expect(world, node, TRUST_QUARANTINED, reason);
    assert_int_equal(trust_node_until(&world->trust, node).ns, end.ns);
    assert_int_equal(trust_next(&world->trust).ns, end.ns);
    world->now = instant_after(end, -1);
    tick(world);
    expect_step(world, 0, 0, 0);
    expect(world, node, TRUST_QUARANTINED, reason);
    world->now = end;
}

static void expect_healing(struct world *world, unsigned node)
{
    tick(world);
    expect_step(world, 0, (node_set)(1u << node), 0);
    char text[MARKER_TEXT_MAX];
    struct marker wanted = group_marker(world->trust.nodes, 1, node);
    memcpy(wanted.run, world->servers[node].run_id, sizeof wanted.run);
    marker_write(&wanted, text);
    assert_true(perform_write(world, node));
    assert_string_equal(world->servers[node].text, text);
    assert_false(trust_voters(&world->trust) & 1u << node); /* not before it was seen */
    look(world, node);
    expect_step(world, 0, 0, (node_set)(1u << node));
    expect_votes(world, node);
    assert_int_equal(trust_next(&world->trust).ns, INSTANT_NEVER.ns);
    assert_int_equal(trust_node_until(&world->trust, node).ns, 0);
}

static void a_restarted_node_is_quarantined_and_healed(void **state)
{
    (void)state;
    struct world world;
    start(&world, 3);
    restart(&world, 1, 21);
    trust_unseen(&world.trust, 1, world.now);
    pass(&world, NS_PER_S);
    look(&world, 1);
    expect_step(&world, 2, 0, 2);
    assert_int_equal(world.trust.node[1].incarnation, 1);
    assert_int_equal(trust_members(&world.trust), 7);
    look(&world, 1); /* once is enough */
    expect_step(&world, 0, 0, 0);
    assert_int_equal(world.trust.node[1].incarnation, 1);
    expect_quarantine_to_last(&world, 1, TRUST_NEW_RUN);
    expect_healing(&world, 1);
}

/* H2: an empty server that has been running for long at the address. */
static void an_emptied_node_is_quarantined_and_healed(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        struct world world;
        start(&world, 5);
        world.servers[3].text[0] = '\0';
        if (kind == 1)
            restart(&world, 3, 33);
        look(&world, 3);
        expect_step(&world, 8, 0, 8);
        assert_int_equal(world.trust.node[3].incarnation, 1);
        assert_int_equal(trust_members(&world.trust), 0x1f); /* a hold may get its key back there */
        assert_string_equal(trust_marker_expected(&world.trust, 3), MARKER_NONE);
        expect_quarantine_to_last(&world, 3, TRUST_LOST_MARKER);
        expect_healing(&world, 3);
    }
}

static void a_doubted_node_is_quarantined_and_healed(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        struct world world;
        world_make(&world, 3);
        if (kind == 1)
            look_at_all(&world);
        mark(&world, 0, group_marker(3, 1, 0), "");
        look_at_all(&world);
        assert_int_equal(world.trust.node[0].incarnation, 0);
        expect_quarantine_to_last(&world, 0, TRUST_DOUBTED);
        expect_healing(&world, 0);
    }
}

static void a_new_run_at_first_sight(void **state)
{
    (void)state;
    struct world world;
    world_make(&world, 3);
    restart(&world, 2, 40);
    look_at_all(&world);
    expect_step(&world, 0, 0, 4);
    assert_int_equal(world.trust.node[2].incarnation, 0);
    expect_quarantine_to_last(&world, 2, TRUST_NEW_RUN);
    expect_healing(&world, 2);
}

/* H6: all at once, and the group is still known by the markers. */
static void a_restart_of_all(void **state)
{
    (void)state;
    struct world world;
    world_make(&world, 3);
    for (unsigned i = 0; i < 3; i++)
        restart(&world, i, 50 + i);
    look_at_all(&world);
    for (unsigned i = 0; i < 3; i++)
        expect(&world, i, TRUST_QUARANTINED, TRUST_NEW_RUN);
    assert_int_equal(trust_members(&world.trust), 7);
    pass(&world, QUARANTINE_NS);
    tick(&world);
    expect_step(&world, 0, 7, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(perform_write(&world, i));
        look(&world, i);
        expect_votes(&world, i);
    }
}

static void eviction_excludes_and_its_end_quarantines(void **state)
{
    (void)state;
    struct world world;
    start(&world, 3);
    world.servers[1].evicts = true;
    look(&world, 1);
    expect_step(&world, 0, 0, 2);
    expect(&world, 1, TRUST_EXCLUDED, TRUST_EVICTS);
    assert_int_equal(trust_members(&world.trust), 5);
    pass(&world, 10 * QUARANTINE_NS);
    tick(&world);
    expect(&world, 1, TRUST_EXCLUDED, TRUST_EVICTS);
    world.servers[1].evicts = false;
    look(&world, 1);
    expect_step(&world, 0, 0, 2);
    expect_quarantine_to_last(&world, 1, TRUST_HAD_EVICTED);
    tick(&world);
    expect_step(&world, 0, 0, 2); /* nothing is to be written */
    expect_votes(&world, 1);
}

static void another_restart_starts_it_anew(void **state)
{
    (void)state;
    struct world world;
    start(&world, 3);
    restart(&world, 1, 21);
    look(&world, 1);
    pass(&world, QUARANTINE_NS / 2);
    restart(&world, 1, 22);
    look(&world, 1);
    expect_step(&world, 2, 0, 0);
    assert_int_equal(world.trust.node[1].incarnation, 2);
    expect_quarantine_to_last(&world, 1, TRUST_NEW_RUN);
    expect_healing(&world, 1);
}

static void a_reconnect_does_not_start_it_anew(void **state)
{
    (void)state;
    struct world world;
    start(&world, 3);
    restart(&world, 1, 21);
    look(&world, 1);
    struct instant until = trust_node_until(&world.trust, 1);
    pass(&world, QUARANTINE_NS / 2);
    trust_unseen(&world.trust, 1, world.now);
    assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns);
    look(&world, 1);
    assert_int_equal(trust_node_until(&world.trust, 1).ns, until.ns);
    trust_unseen(&world.trust, 1, world.now);
    world.now = until;
    tick(&world);
    expect_step(&world, 0, 0, 0); /* nothing is written to a node that is not there */
    look(&world, 1);
    expect_step(&world, 0, 2, 2);
    expect(&world, 1, TRUST_QUARANTINED, TRUST_NEW_RUN);
}

static void a_marker_that_others_healed_votes_at_once(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        struct world world;
        start(&world, 3);
        if (kind == 0 || kind == 3)
            restart(&world, 1, 21);
        if (kind == 1)
            world.servers[1].text[0] = '\0';
        if (kind == 2)
            mark(&world, 1, group_marker(3, 1, 1), "");
        if (kind != 3) /* 3: it was healed before it was seen at all */
            look(&world, 1);
        assert_int_equal(trust_voters(&world.trust) & 2, kind == 3 ? 2 : 0);
        mark(&world, 1, group_marker(3, 1, 1), world.servers[1].run_id);
        look(&world, 1);
        expect_votes(&world, 1);
        assert_int_equal(world.trust.node[1].incarnation, kind == 2 ? 0 : 1);
    }
}

/* Somebody else's wait says nothing about an eviction that he may not have seen. */
static void healing_does_not_lift_what_it_does_not_cover(void **state)
{
    (void)state;
    struct world world;
    start(&world, 3);
    restart(&world, 1, 21);
    world.servers[1].evicts = true;
    look(&world, 1);
    world.servers[1].evicts = false;
    look(&world, 1);
    expect(&world, 1, TRUST_QUARANTINED, TRUST_HAD_EVICTED);
    mark(&world, 1, group_marker(3, 1, 1), run_of(21));
    look(&world, 1);
    expect(&world, 1, TRUST_QUARANTINED, TRUST_HAD_EVICTED);
    pass(&world, QUARANTINE_NS);
    tick(&world);
    expect_votes(&world, 1);
}

static void a_write_is_repeated_once_a_second(void **state)
{
    (void)state;
    struct world world;
    start(&world, 3);
    restart(&world, 1, 21);
    look(&world, 1);
    pass(&world, QUARANTINE_NS);
    for (int i = 0; i < 5; i++) {
        tick(&world);
        expect_step(&world, 0, 2, 0);
        struct instant again = instant_after(world.now, NS_PER_S);
        assert_int_equal(trust_next(&world.trust).ns, again.ns);
        look(&world, 1);
        expect_step(&world, 0, 0, 0);
        world.now = instant_after(again, -1);
        tick(&world);
        expect_step(&world, 0, 0, 0);
        world.now = again;
    }
}

static void a_lost_place_that_somebody_else_has_is_not_written(void **state)
{
    (void)state;
    struct world world;
    start(&world, 3);
    world.servers[1].text[0] = '\0';
    look(&world, 1);
    expect(&world, 1, TRUST_QUARANTINED, TRUST_LOST_MARKER);
    world.servers[2] = world.servers[1]; /* the addresses were exchanged */
    restart(&world, 2, 60);
    world.servers[2].text[0] = '\0';
    look(&world, 2);
    mark(&world, 2, group_marker(3, 1, 1), run_of(60));
    look(&world, 2);
    expect_votes(&world, 2);
    expect(&world, 1, TRUST_EXCLUDED, TRUST_NO_MARKER);
    world.servers[2].text[0] = '\0'; /* lost again: it is this one that was seen last with the place */
    look(&world, 2);
    pass(&world, QUARANTINE_NS);
    tick(&world);
    expect_step(&world, 0, 4, 0);
    expect(&world, 1, TRUST_EXCLUDED, TRUST_NO_MARKER);
}

static void a_lost_place_that_is_gone_is_not_written(void **state)
{
    (void)state;
    struct world world;
    start(&world, 3);
    world.servers[2].text[0] = '\0';
    look(&world, 2);
    for (unsigned i = 0; i < 2; i++) {
        struct marker marker = group_marker(3, 2, i);
        marker.places[2][0] = '\0';
        mark(&world, i, marker, run_of(i));
        look(&world, i);
    }
    expect(&world, 2, TRUST_EXCLUDED, TRUST_NO_MARKER);
    pass(&world, QUARANTINE_NS);
    tick(&world);
    expect_step(&world, 0, 0, 0);
}

/* A dump of before a change of membership was loaded. */
static void an_untrusted_marker_is_not_healed_while_a_newer_generation_is_seen(void **state)
{
    (void)state;
    struct world world;
    world_make(&world, 3);
    struct marker newer = group_marker(3, 3, 1);
    snprintf(newer.places[2], sizeof newer.places[2], "000000dd");
    mark(&world, 1, newer, run_of(1));
    restart(&world, 0, 70);
    look_at_all(&world);
    expect(&world, 0, TRUST_EXCLUDED, TRUST_OTHER_GENERATION);
    assert_int_equal(trust_voters(&world.trust), 4);
    pass(&world, QUARANTINE_NS);
    tick(&world);
    expect_step(&world, 0, 0, 0);
}

static void facts_that_get_fewer_keep_the_group(void **state)
{
    (void)state;
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

static void no_way_leads_back_to_an_older_generation(void **state)
{
    (void)state;
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

static void another_group_of_a_majority_is_taken(void **state)
{
    (void)state;
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

static void one_node_has_no_group_and_no_quarantine(void **state)
{
    (void)state;
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
    mark(&world, 0, group_marker(3, 1, 0), run_of(77)); /* what it has of others is not its business */
    look(&world, 0);
    expect_votes(&world, 0);
    assert_string_equal(trust_marker_expected(&world.trust, 0), "");
    world.servers[0].text[0] = '\0';
    look(&world, 0);
    expect_step(&world, 0, 0, 0);
    world.servers[0].evicts = true;
    look(&world, 0);
    expect(&world, 0, TRUST_EXCLUDED, TRUST_EVICTS);
    world.servers[0].evicts = false;
    look(&world, 0);
    expect_votes(&world, 0);
    assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns);
}

static void every_word_is_there_once(void **state)
{
    (void)state;
    for (int i = 0; i <= TRUST_HAD_EVICTED; i++) {
        assert_true(strlen(trust_reason_advice((enum trust_reason)i)) > 10);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(trust_reason_name((enum trust_reason)i), trust_reason_name((enum trust_reason)j));
    }
    for (int i = 0; i <= TRUST_EXCLUDED; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(trust_state_name((enum trust_state)i), trust_state_name((enum trust_state)j));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_group_votes_at_once),
        cmocka_unit_test(a_node_that_is_gone_votes_after_an_inspection),
        cmocka_unit_test(what_cannot_be_read_is_not_trusted),
        cmocka_unit_test(what_is_wrong_with_a_marker_excludes),
        cmocka_unit_test(other_things_under_the_key),
        cmocka_unit_test(a_node_that_was_replaced_is_no_place),
        cmocka_unit_test(no_majority_has_one_group),
        cmocka_unit_test(a_group_of_another_size),
        cmocka_unit_test(one_server_counts_once),
        cmocka_unit_test(one_place_votes_once),
        cmocka_unit_test(a_restarted_node_is_quarantined_and_healed),
        cmocka_unit_test(an_emptied_node_is_quarantined_and_healed),
        cmocka_unit_test(a_doubted_node_is_quarantined_and_healed),
        cmocka_unit_test(a_new_run_at_first_sight),
        cmocka_unit_test(a_restart_of_all),
        cmocka_unit_test(eviction_excludes_and_its_end_quarantines),
        cmocka_unit_test(another_restart_starts_it_anew),
        cmocka_unit_test(a_reconnect_does_not_start_it_anew),
        cmocka_unit_test(a_marker_that_others_healed_votes_at_once),
        cmocka_unit_test(healing_does_not_lift_what_it_does_not_cover),
        cmocka_unit_test(a_write_is_repeated_once_a_second),
        cmocka_unit_test(a_lost_place_that_somebody_else_has_is_not_written),
        cmocka_unit_test(a_lost_place_that_is_gone_is_not_written),
        cmocka_unit_test(an_untrusted_marker_is_not_healed_while_a_newer_generation_is_seen),
        cmocka_unit_test(facts_that_get_fewer_keep_the_group),
        cmocka_unit_test(no_way_leads_back_to_an_older_generation),
        cmocka_unit_test(another_group_of_a_majority_is_taken),
        cmocka_unit_test(one_node_has_no_group_and_no_quarantine),
        cmocka_unit_test(every_word_is_there_once),
    };
    return cmocka_run_group_tests_name("trust", tests, NULL, NULL);
}
