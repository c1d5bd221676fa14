/* How long a node that may have forgotten has no vote, how its marker is healed, and when it is not. */
#include "tests/unit/trust_fixture.h"

static void expect_quarantine_to_last(unsigned node, enum trust_reason reason)
{
    struct instant end = instant_after(world.now, QUARANTINE_NS);
    expect(node, TRUST_QUARANTINED, reason);
    assert_int_equal(until_of(node).ns, end.ns);
    assert_int_equal(trust_next(&world.trust).ns, end.ns);
    expect_after(tick_at(instant_after(end, -1)), 0, 0, 0);
    expect(node, TRUST_QUARANTINED, reason);
    world.now = end;
}

static void expect_healing(unsigned node)
{
    expect_after(tick(), 0, (node_set)(1u << node), 0);
    char text[MARKER_TEXT_MAX];
    struct marker wanted = group_marker(world.trust.nodes, 1, node);
    memcpy(wanted.run, world.servers[node].run_id, sizeof wanted.run);
    marker_write(&wanted, text);
    assert_true(perform_write(node));
    assert_string_equal(world.servers[node].text, text);
    assert_false(trust_voters(&world.trust) & 1u << node); /* not before it was seen */
    expect_after(look(node), 0, 0, (node_set)(1u << node));
    expect_votes(node);
    assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns);
    assert_int_equal(until_of(node).ns, 0);
}

TEST(a_restarted_node_is_quarantined_and_healed)
{
    restart(1, 21);
    trust_unseen(&world.trust, 1, world.now);
    expect_after(look_after(NS_PER_S, 1), 2, 0, 2);
    assert_int_equal(world.forgot[1], 1);
    assert_int_equal(trust_members(&world.trust), 7);
    look(1); /* once is enough */
    expect_step(0, 0, 0);
    assert_int_equal(world.forgot[1], 1);
    expect_quarantine_to_last(1, TRUST_NEW_RUN);
    expect_healing(1);
}

/* Another server there is another matter (test_trust_numbers.c). */
TEST(an_emptied_node_is_quarantined_and_healed)
{
    start(5);
    expect_after(empty(3), 8, 0, 8);
    assert_int_equal(world.step.look, 0x17);
    assert_int_equal(world.forgot[3], 1);
    expect(3, TRUST_QUARANTINED, TRUST_LOST_MARKER);
    assert_string_equal(trust_marker_expected(&world.trust, 3), MARKER_NONE);
    assert_int_equal(trust_members(&world.trust), 0x17);
    pass(TRIP_NS);
    for (unsigned i = 0; i < 3; i++) {
        expect_step(i == 0 ? 8 : 0, 0, i == 0 ? 8 : 0);
        look(i); /* none of them knows a newer generation */
    }
    expect_step(0, 8, 0);
    assert_true(perform_write(3)); /* a doubt at once */
    expect_after(look(3), 0, 0, 8);
    assert_int_equal(trust_members(&world.trust), 0x1f); /* a hold may get its key back there */
    expect_quarantine_to_last(3, TRUST_DOUBTED);
    expect_healing(3);
}

TEST(a_doubted_node_is_quarantined_and_healed)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        world_make(3);
        if (kind == 1)
            look_at_all();
        mark(0, group_marker(3, 1, 0), "");
        look_at_all();
        assert_int_equal(world.forgot[0], kind); /* who doubts may have seen it without its marker */
        expect_quarantine_to_last(0, TRUST_DOUBTED);
        expect_healing(0);
    }
}

TEST(a_new_run_at_first_sight)
{
    world_make(3);
    restart(2, 40);
    look_at_all();
    expect_step(0, 0, 4);
    assert_int_equal(world.forgot[2], 0);
    expect_quarantine_to_last(2, TRUST_NEW_RUN);
    expect_healing(2);
}

/* H6: all at once, and the group is still known by the markers. */
TEST(a_restart_of_all)
{
    world_make(3);
    for (unsigned i = 0; i < 3; i++)
        restart(i, 50 + i);
    look_at_all();
    for (unsigned i = 0; i < 3; i++)
        expect(i, TRUST_QUARANTINED, TRUST_NEW_RUN);
    assert_int_equal(trust_members(&world.trust), 7);
    expect_after(tick_after(QUARANTINE_NS), 0, 7, 0);
    for (unsigned i = 0; i < 3; i++) {
        write_and_look(i);
        expect_votes(i);
    }
}

TEST(eviction_excludes_and_its_end_quarantines)
{
    expect_after(evicts(1, true), 0, 0, 2);
    expect(1, TRUST_EXCLUDED, TRUST_EVICTS);
    assert_int_equal(trust_members(&world.trust), 5);
    tick_after(10 * QUARANTINE_NS);
    expect(1, TRUST_EXCLUDED, TRUST_EVICTS);
    expect_after(evicts(1, false), 0, 0, 2);
    expect_quarantine_to_last(1, TRUST_HAD_EVICTED);
    expect_after(tick(), 0, 0, 2); /* nothing is to be written */
    expect_votes(1);
}

/* What a failover and the way back do: its run is another one as soon as it is a replica, and again when it is none. */
TEST(a_replica_is_excluded_and_forgets)
{
    restart(1, 21);
    world.servers[1].is_replica = true;
    expect_after(look(1), 2, 0, 2);
    expect(1, TRUST_EXCLUDED, TRUST_REPLICA);
    assert_int_equal(trust_members(&world.trust), 5);
    tick_after(10 * QUARANTINE_NS);
    expect(1, TRUST_EXCLUDED, TRUST_REPLICA);
    restart(1, 22);
    world.servers[1].is_replica = false;
    sample(0); /* the clock of a new run is compared anew */
    expect_after(look(1), 2, 0, 2);
    expect_quarantine_to_last(1, TRUST_NEW_RUN);
    expect_healing(1);
}

/* Its marker is that of its master, which keeps its number. */
TEST(a_replica_of_another_node_takes_nothing_from_it)
{
    restart(0, 21);
    memcpy(world.servers[0].text, world.servers[1].text, sizeof world.servers[0].text);
    world.servers[0].is_replica = true;
    look_at_all();
    expect(0, TRUST_EXCLUDED, TRUST_REPLICA);
    expect_voters(6);
}

TEST(another_restart_starts_it_anew)
{
    restart(1, 21);
    look(1);
    sample_after(QUARANTINE_NS / 2, 0); /* the clock of a new run is compared anew */
    restart(1, 22);
    expect_after(look(1), 2, 0, 0);
    assert_int_equal(world.forgot[1], 2);
    expect_quarantine_to_last(1, TRUST_NEW_RUN);
    expect_healing(1);
}

/* Node 1 loaded a replication id from its dump, or was a replica before: its run is a digest. */
static void has_replication_ids(void)
{
    snprintf(world.servers[1].plain_run_id, sizeof world.servers[1].plain_run_id, "%s", run_of(30));
    restart(1, 31);
    mark(1, group_marker(3, 1, 1), run_of(31));
    look(1);
    expect_votes(1);
}

TEST(a_master_that_frees_its_backlog_needs_only_its_marker)
{
    has_replication_ids();
    pass(5 * NS_PER_S);
    look(0);
    look(2);
    restart(1, 30);
    expect_after(look(1), 0, 2, 2);
    write_and_look(1);
    expect_votes(1);
}

TEST(what_another_client_has_marked_meanwhile_votes_at_once)
{
    has_replication_ids();
    restart(1, 30);
    mark(1, group_marker(3, 1, 1), run_of(30));
    expect_after(look_after(5 * NS_PER_S, 1), 0, 0, 0);
    expect_votes(1);
}

/* It may have been a replica, and freed its backlog since. */
TEST(a_run_that_changed_long_after_the_last_look_begins_a_quarantine)
{
    has_replication_ids();
    pass(10 * NS_PER_S);
    restart(1, 30);
    expect_after(look(1), 2, 0, 2);
    expect_quarantine_to_last(1, TRUST_NEW_RUN);
}

TEST(a_master_that_was_a_replica_begins_a_quarantine)
{
    has_replication_ids();
    restart(1, 32); /* another digest */
    expect_after(look_after(NS_PER_S, 1), 2, 0, 2);
    expect(1, TRUST_QUARANTINED, TRUST_NEW_RUN);
    expect_quarantine(1);
    world.servers[1].is_replica = true;
    restart(1, 33);
    look(1);
    world.servers[1].is_replica = false;
    restart(1, 30); /* no server does that */
    look_after(NS_PER_S, 1);
    expect_quarantine_to_last(1, TRUST_NEW_RUN);
}

TEST(a_quarantine_goes_on_while_the_backlog_is_freed)
{
    has_replication_ids();
    restart(1, 32);
    look(1);
    struct instant until = until_of(1);
    restart(1, 30);
    expect_after(look_after(NS_PER_S, 1), 0, 0, 0);
    expect(1, TRUST_QUARANTINED, TRUST_NEW_RUN);
    assert_int_equal(until_of(1).ns, until.ns);
}

TEST(a_reconnect_does_not_start_it_anew)
{
    restart(1, 21);
    look(1);
    struct instant until = until_of(1);
    pass(QUARANTINE_NS / 2);
    trust_unseen(&world.trust, 1, world.now);
    assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns);
    look(1);
    assert_int_equal(until_of(1).ns, until.ns);
    trust_unseen(&world.trust, 1, world.now);
    expect_after(tick_at(until), 0, 0, 0); /* nothing is written to a node that is not there */
    look(1);                               /* was asked before the end */
    expect_step(0, 0, 2);
    assert_int_equal(world.step.look, 7);
    pass(TRIP_NS);
    look(0);
    look(2);
    expect_after(look(1), 0, 2, 0);
    expect(1, TRUST_QUARANTINED, TRUST_NEW_RUN);
}

/* --- what the node forgot bounds the tokens to come ---------------------------------------------------------- */

static void tokens(int64_t zero, int64_t one, int64_t two)
{
    world.servers[0].highest_token = zero;
    world.servers[1].highest_token = one;
    world.servers[2].highest_token = two;
}

/* Its own clock, and what it knows itself, are for mark.lua. */
TEST(its_tokens_begin_above_those_that_the_others_know_at_the_end)
{
    tokens(500, 900, 300);
    restart(1, 21);
    look_at_all();
    tokens(501, 901, 700);
    expect_after(tick_at(until_of(1)), 0, 2, 0);
    write_and_look(1);
    expect_votes(1);
    assert_int_equal(world.servers[1].floor, 700);
}

/* A quorum of the others, whose own memory is whole: of three nodes both. Where too few can be asked, its clock has to
 * do. */
TEST(others_that_are_silent_are_waited_for_but_not_for_long)
{
    restart(1, 21);
    look_at_all();
    tokens(501, 0, 700);
    trust_unseen(&world.trust, 2, world.now);
    world.now = until_of(1);
    struct trust_step step = trust_tick(&world.trust, world.now);
    assert_int_equal(step.look, 7);
    pass(TRIP_NS);
    look(0);
    expect_after(look(1), 0, 0, 0);
    world.now = instant_after(until_of(1), TIMEOUT_NS - 1);
    expect_after(tick(), 0, 0, 0);
    expect_after(tick_after(1), 0, 2, 0);
    write_and_look(1);
    expect_votes(1);
    assert_int_equal(world.servers[1].floor, 501);
}

/* Our process was away at the end of the quarantine, and again after it had asked. */
TEST(what_others_knew_before_a_pause_of_ours_is_not_enough)
{
    restart(1, 21);
    look_at_all();
    tokens(501, 0, 700);
    world.now = instant_after(until_of(1), NS_PER_S);
    assert_int_equal(trust_tick(&world.trust, world.now).look, 7);
    expect_after(look_after(TRIP_NS, 1), 0, 0, 0);
    assert_int_equal(trust_next(&world.trust).ns, world.now.ns - TRIP_NS + TIMEOUT_NS);
    pass(NS_PER_S);
    assert_int_equal(trust_tick(&world.trust, world.now).look, 5);
    expect_step(0, 0, 0);
    pass(TRIP_NS);
    look(0);
    expect_after(look(2), 0, 2, 0);
    write_and_look(1);
    expect_votes(1);
    assert_int_equal(world.servers[1].floor, 700);
}

TEST(others_that_forgot_as_well_tell_too_little)
{
    start(5);
    for (unsigned i = 0; i < 2; i++) {
        restart(i, 21 + i);
        look(i);
    }
    trust_unseen(&world.trust, 4, world.now);
    world.now = until_of(0);
    trust_tick(&world.trust, world.now);
    pass(TRIP_NS);
    for (unsigned i = 1; i < 4; i++)
        look(i);
    expect_after(look(0), 0, 0, 0); /* two know all that they knew */
    world.servers[4].highest_token = 900;
    expect_after(look(4), 0, 3, 16);
    write_and_look(0);
    assert_int_equal(world.servers[0].floor, 900);
}

TEST(a_doubt_leaves_the_fences_as_they_are)
{
    tokens(500, 0, 300);
    world.servers[1].floor = 7;
    empty(1);
    look_at_others(1);
    assert_true(perform_write(1));
    assert_int_equal(world.servers[1].floor, 7);
}

/* What we saw doubted long ago may have been healed, and doubted again for something newer, while we were away. */
TEST(nothing_is_healed_unseen)
{
    mark(1, group_marker(3, 1, 1), "");
    look(1);
    expect(1, TRUST_QUARANTINED, TRUST_DOUBTED);
    pass(2 * QUARANTINE_NS);
    world.servers[1].offset_ns += 60 * NS_PER_S; /* the newer reason */
    struct trust_step step = trust_tick(&world.trust, world.now);
    assert_int_equal(step.write, 0);
    assert_int_equal(step.look, 7);
    assert_int_equal(trust_next(&world.trust).ns, instant_after(world.now, NS_PER_S).ns);
    expect_after(look_after(TRIP_NS, 1), 2, 0, 2);
    expect_quarantine_to_last(1, TRUST_CLOCK_STEPPED);
}

/* What was given back to it would be forgotten without a trace, if its second doubt looked like the first. */
TEST(a_node_that_is_emptied_twice_is_quarantined_twice)
{
    char first[MARKER_TEXT_MAX];
    empty(1);
    look_at_others(1);
    assert_true(perform_write(1));
    memcpy(first, world.servers[1].text, sizeof first);
    look(1);
    pass(QUARANTINE_NS / 2);
    expect_after(empty(1), 2, 0, 2);
    look_at_others(1);
    assert_true(perform_write(1));
    assert_string_not_equal(world.servers[1].text, first);
    look(1);
    expect_quarantine_to_last(1, TRUST_DOUBTED);
}

/* A marker that is gone again looks as it did before: what happened while the node could not be asked is not known.
 * Here others healed it, it gave grants, and was emptied once more. */
TEST(a_marker_that_is_gone_is_doubted_and_waited_for_before_it_is_healed)
{
    expect_after(empty(1), 2, 0, 2);
    world.now = instant_after(world.now, NS_PER_MS);
    world.step = trust_unreadable(&world.trust, 1, world.now); /* the doubt could not be written either */
    world.now = instant_after(world.now, 3 * QUARANTINE_NS);
    expect_after(look(1), 0, 0, 2);
    look_at_others(1);
    expect_step(0, 2, 0);
    assert_true(perform_write(1));
    assert_contains(world.servers[1].text, "run=ffffffffffffffffffffffff");
    look(1);
    expect_quarantine_to_last(1, TRUST_DOUBTED);
    expect_healing(1);
}

/* Somebody else doubted it again: the marker says another doubt than the one that we wait for. */
TEST(a_newer_doubt_starts_it_anew)
{
    mark(1, group_marker(3, 1, 1), "ffffffffffffffffffffffff0000000000000001");
    look(1);
    expect(1, TRUST_QUARANTINED, TRUST_DOUBTED);
    pass(QUARANTINE_NS / 2);
    mark(1, group_marker(3, 1, 1), "ffffffffffffffffffffffff0000000000000002");
    look(1);
    expect_quarantine_to_last(1, TRUST_DOUBTED);
    expect_healing(1);
}

TEST(a_marker_that_others_healed_votes_at_once)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        start(3);
        if (kind == 0 || kind == 3)
            restart(1, 21);
        if (kind == 1)
            world.servers[1].text[0] = '\0';
        if (kind == 2)
            mark(1, group_marker(3, 1, 1), "");
        if (kind != 3) /* 3: it was healed before it was seen at all */
            look(1);
        assert_int_equal(trust_voters(&world.trust) & 2, kind == 3 ? 2 : 0);
        mark(1, group_marker(3, 1, 1), world.servers[1].run_id);
        look(1);
        expect_votes(1);
        assert_int_equal(world.forgot[1], 1);
    }
}

/* Somebody else's wait says nothing about an eviction that he may not have seen, whatever he waited for. */
TEST(healing_does_not_lift_what_it_does_not_cover)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        start(3);
        if (kind == 0)
            restart(1, 21);
        else
            mark(1, group_marker(3, 1, 1), "");
        evicts(1, true);
        evicts(1, false);
        expect(1, TRUST_QUARANTINED, TRUST_HAD_EVICTED);
        mark(1, group_marker(3, 1, 1), world.servers[1].run_id);
        look(1);
        expect(1, TRUST_QUARANTINED, TRUST_HAD_EVICTED);
        tick_after(QUARANTINE_NS);
        expect_votes(1);
    }
}

TEST(a_write_is_repeated_once_a_second)
{
    restart(1, 21);
    look(1);
    pass(QUARANTINE_NS);
    for (int i = 0; i < 5; i++) {
        expect_after(tick(), 0, 2, 0);
        struct instant again = instant_after(world.now, NS_PER_S);
        assert_int_equal(trust_next(&world.trust).ns, again.ns);
        expect_after(look(1), 0, 0, 0);
        expect_after(tick_at(instant_after(again, -1)), 0, 0, 0);
        world.now = again;
    }
}

TEST(a_lost_number_that_somebody_else_has_is_not_written)
{
    empty(1);
    expect(1, TRUST_QUARANTINED, TRUST_LOST_MARKER);
    world.servers[2] = world.servers[1]; /* the addresses were exchanged */
    restart(2, 60);
    empty(2);
    mark(2, group_marker(3, 1, 1), run_of(60));
    look(2);
    expect_votes(2);
    expect(1, TRUST_EXCLUDED, TRUST_NO_MARKER);
    empty(2); /* lost again: it is this one that was seen last with the number */
    expect_after(tick_after(QUARANTINE_NS), 0, 4, 0);
    expect(1, TRUST_EXCLUDED, TRUST_NO_MARKER);
}

TEST(a_lost_number_that_is_gone_is_not_written)
{
    empty(2);
    for (unsigned i = 0; i < 2; i++) {
        struct marker marker = group_marker(3, 2, i);
        marker.members[2][0] = '\0';
        mark(i, marker, run_of(i));
        look(i);
    }
    expect(2, TRUST_EXCLUDED, TRUST_NO_MARKER);
    expect_after(tick_after(QUARANTINE_NS), 0, 0, 0);
}

/* A dump of before a change of membership was loaded. */
TEST(an_untrusted_marker_is_not_healed_while_a_newer_generation_is_seen)
{
    for (unsigned old = 0; old < 2; old++) {
        world_make(3);
        struct marker newer = group_marker(3, 3, 1 - old);
        snprintf(newer.members[2], sizeof newer.members[2], "000000dd");
        mark(1 - old, newer, run_of(1 - old));
        restart(old, 70);
        look_at_all();
        expect(old, TRUST_EXCLUDED, TRUST_OTHER_GENERATION);
        expect_voters(4);
        expect_after(tick_after(QUARANTINE_NS), 0, 0, 0);
    }
}

RUN_TESTS_BETWEEN(start_three, NULL)
