/* How long a node that may have forgotten has no vote, how its marker is healed, and when it is not. */
#include "tests/unit/trust_fixture.h"

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

TEST(a_restarted_node_is_quarantined_and_healed)
{
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

/* Another server there is another matter (test_trust_places.c). */
TEST(an_emptied_node_is_quarantined_and_healed)
{
    struct world world;
    start(&world, 5);
    world.servers[3].text[0] = '\0';
    look(&world, 3);
    expect_step(&world, 8, 0, 8);
    assert_int_equal(world.step.look, 0x17);
    assert_int_equal(world.trust.node[3].incarnation, 1);
    expect(&world, 3, TRUST_QUARANTINED, TRUST_LOST_MARKER);
    assert_string_equal(trust_marker_expected(&world.trust, 3), MARKER_NONE);
    assert_int_equal(trust_members(&world.trust), 0x17);
    pass(&world, TRIP_NS);
    for (unsigned i = 0; i < 3; i++) {
        expect_step(&world, i == 0 ? 8 : 0, 0, i == 0 ? 8 : 0);
        look(&world, i); /* none of them knows a newer generation */
    }
    expect_step(&world, 0, 8, 0);
    assert_true(perform_write(&world, 3)); /* a doubt at once */
    look(&world, 3);
    expect_step(&world, 0, 0, 8);
    assert_int_equal(trust_members(&world.trust), 0x1f); /* a hold may get its key back there */
    expect_quarantine_to_last(&world, 3, TRUST_DOUBTED);
    expect_healing(&world, 3);
}

TEST(a_doubted_node_is_quarantined_and_healed)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        struct world world;
        world_make(&world, 3);
        if (kind == 1)
            look_at_all(&world);
        mark(&world, 0, group_marker(3, 1, 0), "");
        look_at_all(&world);
        assert_int_equal(world.trust.node[0].incarnation, kind); /* who doubts may have seen it without its marker */
        expect_quarantine_to_last(&world, 0, TRUST_DOUBTED);
        expect_healing(&world, 0);
    }
}

TEST(a_new_run_at_first_sight)
{
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
TEST(a_restart_of_all)
{
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

TEST(eviction_excludes_and_its_end_quarantines)
{
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

TEST(another_restart_starts_it_anew)
{
    struct world world;
    start(&world, 3);
    restart(&world, 1, 21);
    look(&world, 1);
    pass(&world, QUARANTINE_NS / 2);
    sample(&world, 0); /* the clock of a new run is compared anew */
    restart(&world, 1, 22);
    look(&world, 1);
    expect_step(&world, 2, 0, 0);
    assert_int_equal(world.trust.node[1].incarnation, 2);
    expect_quarantine_to_last(&world, 1, TRUST_NEW_RUN);
    expect_healing(&world, 1);
}

TEST(a_reconnect_does_not_start_it_anew)
{
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
    look(&world, 1);              /* was asked before the end */
    expect_step(&world, 0, 0, 2);
    assert_int_equal(world.step.look, 2);
    pass(&world, TRIP_NS);
    look(&world, 1);
    expect_step(&world, 0, 2, 0);
    expect(&world, 1, TRUST_QUARANTINED, TRUST_NEW_RUN);
}

/* What we saw doubted long ago may have been healed, and doubted again for something newer, while we were away. */
TEST(nothing_is_healed_unseen)
{
    struct world world;
    start(&world, 3);
    mark(&world, 1, group_marker(3, 1, 1), "");
    look(&world, 1);
    expect(&world, 1, TRUST_QUARANTINED, TRUST_DOUBTED);
    pass(&world, 2 * QUARANTINE_NS);
    world.servers[1].offset_ns += 60 * NS_PER_S; /* the newer reason */
    struct trust_step step = trust_tick(&world.trust, world.now);
    assert_int_equal(step.write, 0);
    assert_int_equal(step.look, 2);
    assert_int_equal(trust_next(&world.trust).ns, instant_after(world.now, NS_PER_S).ns);
    pass(&world, TRIP_NS);
    look(&world, 1);
    expect_step(&world, 2, 0, 2);
    expect_quarantine_to_last(&world, 1, TRUST_CLOCK_STEPPED);
}

/* What was given back to it would be forgotten without a trace, if its second doubt looked like the first. */
TEST(a_node_that_is_emptied_twice_is_quarantined_twice)
{
    struct world world;
    char first[MARKER_TEXT_MAX];
    start(&world, 3);
    world.servers[1].text[0] = '\0';
    look(&world, 1);
    look_at_others(&world, 1);
    assert_true(perform_write(&world, 1));
    memcpy(first, world.servers[1].text, sizeof first);
    look(&world, 1);
    pass(&world, QUARANTINE_NS / 2);
    world.servers[1].text[0] = '\0';
    look(&world, 1);
    expect_step(&world, 2, 0, 2);
    look_at_others(&world, 1);
    assert_true(perform_write(&world, 1));
    assert_string_not_equal(world.servers[1].text, first);
    look(&world, 1);
    expect_quarantine_to_last(&world, 1, TRUST_DOUBTED);
}

/* A marker that is gone again looks as it did before: what happened while the node could not be asked is not known.
 * Here others healed it, it gave grants, and was emptied once more. */
TEST(a_marker_that_is_gone_is_doubted_and_waited_for_before_it_is_healed)
{
    struct world world;
    start(&world, 3);
    world.servers[1].text[0] = '\0';
    look(&world, 1);
    expect_step(&world, 2, 0, 2);
    world.now = instant_after(world.now, NS_PER_MS);
    world.step = trust_unreadable(&world.trust, 1, world.now); /* the doubt could not be written either */
    world.now = instant_after(world.now, 3 * QUARANTINE_NS);
    look(&world, 1);
    expect_step(&world, 0, 0, 2);
    look_at_others(&world, 1);
    expect_step(&world, 0, 2, 0);
    assert_true(perform_write(&world, 1));
    assert_contains(world.servers[1].text, "run=ffffffffffffffffffffffff");
    look(&world, 1);
    expect_quarantine_to_last(&world, 1, TRUST_DOUBTED);
    expect_healing(&world, 1);
}

/* Somebody else doubted it again: the marker says another doubt than the one that we wait for. */
TEST(a_newer_doubt_starts_it_anew)
{
    struct world world;
    start(&world, 3);
    mark(&world, 1, group_marker(3, 1, 1), "ffffffffffffffffffffffff0000000000000001");
    look(&world, 1);
    expect(&world, 1, TRUST_QUARANTINED, TRUST_DOUBTED);
    pass(&world, QUARANTINE_NS / 2);
    mark(&world, 1, group_marker(3, 1, 1), "ffffffffffffffffffffffff0000000000000002");
    look(&world, 1);
    expect_quarantine_to_last(&world, 1, TRUST_DOUBTED);
    expect_healing(&world, 1);
}

TEST(a_marker_that_others_healed_votes_at_once)
{
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
        assert_int_equal(world.trust.node[1].incarnation, 1);
    }
}

/* Somebody else's wait says nothing about an eviction that he may not have seen, whatever he waited for. */
TEST(healing_does_not_lift_what_it_does_not_cover)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        struct world world;
        start(&world, 3);
        if (kind == 0)
            restart(&world, 1, 21);
        else
            mark(&world, 1, group_marker(3, 1, 1), "");
        world.servers[1].evicts = true;
        look(&world, 1);
        world.servers[1].evicts = false;
        look(&world, 1);
        expect(&world, 1, TRUST_QUARANTINED, TRUST_HAD_EVICTED);
        mark(&world, 1, group_marker(3, 1, 1), world.servers[1].run_id);
        look(&world, 1);
        expect(&world, 1, TRUST_QUARANTINED, TRUST_HAD_EVICTED);
        pass(&world, QUARANTINE_NS);
        tick(&world);
        expect_votes(&world, 1);
    }
}

TEST(a_write_is_repeated_once_a_second)
{
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

TEST(a_lost_place_that_somebody_else_has_is_not_written)
{
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

TEST(a_lost_place_that_is_gone_is_not_written)
{
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
TEST(an_untrusted_marker_is_not_healed_while_a_newer_generation_is_seen)
{
    for (unsigned old = 0; old < 2; old++) {
        struct world world;
        world_make(&world, 3);
        struct marker newer = group_marker(3, 3, 1 - old);
        snprintf(newer.places[2], sizeof newer.places[2], "000000dd");
        mark(&world, 1 - old, newer, run_of(1 - old));
        restart(&world, old, 70);
        look_at_all(&world);
        expect(&world, old, TRUST_EXCLUDED, TRUST_OTHER_GENERATION);
        assert_int_equal(trust_voters(&world.trust), 4);
        pass(&world, QUARANTINE_NS);
        tick(&world);
        expect_step(&world, 0, 0, 0);
    }
}

RUN_TESTS
