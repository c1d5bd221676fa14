/* When the clocks of a quorum seem to step together, it is our own that stood still. */
#include "tests/unit/trust_fixture.h"

#define HOUR_NS (3600 * NS_PER_S)

static void stand_still(struct world *world, int64_t ns)
{
    for (unsigned i = 0; i < world->trust.nodes; i++)
        world->servers[i].offset_ns += ns;
}

TEST(our_own_clock_stood_still)
{
    for (int64_t by_ns = -5 * NS_PER_S; by_ns <= 5 * NS_PER_S; by_ns += 10 * NS_PER_S) {
        struct world world;
        start(&world, 5);
        go_on(&world, 3);
        stand_still(&world, by_ns);
        for (unsigned i = 0; i < 5; i++) {
            pass(&world, NS_PER_S / 2);
            sample(&world, i);
            assert_int_equal(world.step.forgot, 1u << i);
            assert_int_equal(world.step.own_clock_stood, i == 2);
            assert_int_equal(world.step.write, 0);
            assert_int_equal(world.step.changed, i < 2 ? 1u << i : i == 2 ? 3 : 0);
            assert_int_equal(world.trust.node[i].incarnation, 1);
        }
        assert_int_equal(trust_voters(&world.trust), 31);
        go_on(&world, 20);
        stand_still(&world, by_ns); /* and again */
        pass(&world, NS_PER_S);
        sample(&world, 4);
        sample(&world, 3);
        assert_false(world.step.own_clock_stood);
        sample(&world, 2);
        assert_true(world.step.own_clock_stood);
    }
}

TEST(it_is_told_again_when_it_stands_again_at_once)
{
    struct world world;
    start(&world, 3);
    go_on(&world, 3);
    for (int i = 0; i < 3; i++) {
        stand_still(&world, NS_PER_S);
        pass(&world, NS_PER_S / 10);
        sample(&world, 0);
        assert_false(world.step.own_clock_stood);
        sample(&world, 1);
        assert_true(world.step.own_clock_stood);
        sample(&world, 2);
        assert_false(world.step.own_clock_stood);
        assert_int_equal(trust_voters(&world.trust), 7);
    }
}

TEST(steps_that_do_not_go_together_are_the_nodes)
{
    static const struct {
        int64_t second_ns, apart_ns;
        bool witness;
    } cases[] = {{-HOUR_NS, NS_PER_S, false}, {HOUR_NS, 4 * NS_PER_S, false}, {HOUR_NS, NS_PER_S, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;
        start(&world, 3);
        go_on(&world, 3);
        world.servers[0].offset_ns += HOUR_NS;
        world.servers[1].offset_ns += cases[i].second_ns;
        pass(&world, NS_PER_S);
        sample(&world, 0);
        pass(&world, cases[i].apart_ns);
        if (cases[i].witness)
            sample(&world, 2);
        sample(&world, 1);
        assert_false(world.step.own_clock_stood);
        assert_int_equal(trust_voters(&world.trust), 4);
    }
}

/* Only this one quarantine is lifted. */
TEST(our_clock_excuses_nothing_else)
{
    struct world world;
    start(&world, 3);
    go_on(&world, 1);
    restart(&world, 0, 30);
    look(&world, 0);
    world.servers[1].evicts = true;
    look(&world, 1);
    world.servers[1].evicts = false;
    look(&world, 1);
    go_on(&world, 1);
    stand_still(&world, NS_PER_S);
    pass(&world, NS_PER_S);
    for (unsigned i = 0; i < 3; i++)
        sample(&world, i);
    expect(&world, 0, TRUST_QUARANTINED, TRUST_NEW_RUN);
    expect(&world, 1, TRUST_QUARANTINED, TRUST_HAD_EVICTED);
    expect_votes(&world, 2);
}

/* It jumped while our clock stood: the others show how much of it was ours. */
TEST(a_node_that_moved_further_than_the_others_is_blamed)
{
    static const unsigned orders[][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0}};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        struct world world;
        bool stood = false;
        start(&world, 3);
        go_on(&world, 3);
        stand_still(&world, NS_PER_S);
        world.servers[0].offset_ns += HOUR_NS;
        pass(&world, NS_PER_S / 2);
        for (unsigned k = 0; k < 3; k++) {
            sample(&world, orders[i][k]);
            stood = stood || world.step.own_clock_stood;
        }
        assert_true(stood);
        assert_int_equal(trust_voters(&world.trust), 6);
        expect(&world, 0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    }
}

/* Its machine was suspended with ours, and its time service then sets a wrong time. */
TEST(a_jump_soon_after_we_stood_is_the_nodes)
{
    for (int heard_between = 0; heard_between < 2; heard_between++) {
        struct world world;
        start(&world, 3);
        go_on(&world, 3);
        world.servers[1].offset_ns += NS_PER_S;
        world.servers[2].offset_ns += NS_PER_S;
        pass(&world, NS_PER_S / 2);
        sample(&world, 1);
        sample(&world, 2);
        assert_true(world.step.own_clock_stood);
        if (heard_between)
            sample(&world, 0);
        assert_int_equal(trust_voters(&world.trust), 7);
        world.servers[0].offset_ns += heard_between ? NS_PER_S : HOUR_NS;
        pass(&world, NS_PER_S);
        sample(&world, 0);
        assert_false(world.step.own_clock_stood);
        assert_int_equal(trust_voters(&world.trust), 6);
        expect(&world, 0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    }
}

TEST(of_two_that_differ_in_size_both_are_blamed)
{
    struct world world;
    start(&world, 3); /* and node 2 is not reached any more */
    pass(&world, NS_PER_S);
    sample(&world, 0);
    sample(&world, 1);
    stand_still(&world, NS_PER_S);
    world.servers[0].offset_ns += HOUR_NS;
    pass(&world, NS_PER_S);
    sample(&world, 1);
    sample(&world, 0);
    assert_false(world.step.own_clock_stood);
    expect(&world, 0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    expect(&world, 1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
}

TEST(a_node_that_is_heard_late_shows_our_step_then)
{
    struct world world;
    start(&world, 3);
    go_on(&world, 3);
    for (unsigned times = 0; times < 2; times++) { /* it owes the sum of both */
        stand_still(&world, NS_PER_S);
        for (unsigned seconds = 0; seconds < 5; seconds++) {
            pass(&world, NS_PER_S);
            sample(&world, 0);
            sample(&world, 1);
            assert_int_equal(world.step.own_clock_stood, seconds == 0);
        }
    }
    sample(&world, 2);
    expect_step(&world, 4, 0, 0);
    assert_int_equal(trust_voters(&world.trust), 7);
    pass(&world, NS_PER_S);
    world.servers[2].offset_ns += NS_PER_S;
    sample(&world, 2);
    assert_int_equal(trust_voters(&world.trust), 3);
}

/* An answer that was read while we stood shows a part of it, the next one the rest. */
TEST(a_step_that_shows_in_two_parts_is_one)
{
    struct world world;
    start(&world, 3);
    go_on(&world, 3);
    world.servers[0].offset_ns += NS_PER_S / 4;
    world.servers[1].offset_ns += NS_PER_S / 2;
    pass(&world, NS_PER_S / 10);
    sample(&world, 0);
    sample(&world, 1);
    assert_false(world.step.own_clock_stood);
    world.servers[0].offset_ns += NS_PER_S - NS_PER_S / 4;
    world.servers[1].offset_ns += NS_PER_S / 2;
    world.servers[2].offset_ns += NS_PER_S;
    pass(&world, NS_PER_S / 10);
    for (unsigned i = 0; i < 3; i++) {
        sample(&world, i);
        assert_int_equal(world.step.own_clock_stood, i == 1);
    }
    assert_int_equal(trust_voters(&world.trust), 7);
}

TEST(our_step_excuses_no_earlier_one)
{
    struct world world;
    start(&world, 3);
    go_on(&world, 3);
    for (int64_t by_ns = HOUR_NS; by_ns >= -HOUR_NS; by_ns -= 2 * HOUR_NS) { /* there and back */
        pass(&world, NS_PER_S);
        world.servers[0].offset_ns += by_ns;
        sample(&world, 0);
    }
    struct instant end = trust_node_until(&world.trust, 0);
    pass(&world, 20 * NS_PER_S);
    for (unsigned i = 0; i < 3; i++)
        sample(&world, i);
    stand_still(&world, NS_PER_S);
    pass(&world, NS_PER_S);
    for (unsigned i = 0; i < 3; i++)
        sample(&world, i);
    assert_int_equal(trust_voters(&world.trust), 6);
    expect(&world, 0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    assert_true(trust_node_until(&world.trust, 0).ns >= end.ns);
}

/* Until a quorum says so it may be either of us. */
TEST(one_node_that_moved_ahead_makes_us_suspect_ourselves)
{
    struct world world;
    start(&world, 3);
    go_on(&world, 3);
    assert_int_equal(world.step.suspect_ns, 0);
    stand_still(&world, NS_PER_S);
    pass(&world, NS_PER_S);
    sample(&world, 1);
    assert_in_range(world.step.suspect_ns, NS_PER_S, NS_PER_S / 100 * 105);
    assert_int_equal(world.step.look, 7);
    sample(&world, 2);
    assert_true(world.step.own_clock_stood);
    assert_int_equal(world.step.suspect_ns, 0);
    world.servers[0].offset_ns -= HOUR_NS;
    pass(&world, NS_PER_S);
    sample(&world, 0);
    expect(&world, 0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    assert_int_equal(world.step.suspect_ns, 0); /* back: we did not stand */
    assert_int_equal(world.step.look, 7);
}

RUN_TESTS
