/* When the clocks of a quorum seem to step together, it is our own that stood still. */
#include "tests/unit/trust_fixture.h"

#define HOUR_NS (3600 * NS_PER_S)

static void stand_still(int64_t ns)
{
    for (unsigned i = 0; i < world.trust.nodes; i++)
        world.servers[i].offset_ns += ns;
}

TEST(our_own_clock_stood_still)
{
    for (int64_t by_ns = -5 * NS_PER_S; by_ns <= 5 * NS_PER_S; by_ns += 10 * NS_PER_S) {
        start(5);
        go_on(3);
        stand_still(by_ns);
        for (unsigned i = 0; i < 5; i++) {
            sample_after(NS_PER_S / 2, i);
            assert_int_equal(world.step.forgot, 1u << i);
            assert_int_equal(world.step.own_clock_stood, i == 2);
            assert_int_equal(world.step.write, 0);
            assert_int_equal(world.step.changed, i < 2 ? 1u << i : i == 2 ? 3 : 0);
            assert_int_equal(world.forgot[i], 1);
        }
        expect_voters(31);
        go_on(20);
        stand_still(by_ns); /* and again */
        sample_after(NS_PER_S, 4);
        sample(3);
        assert_false(world.step.own_clock_stood);
        sample(2);
        assert_true(world.step.own_clock_stood);
    }
}

TEST(it_is_told_again_when_it_stands_again_at_once)
{
    go_on(3);
    for (int i = 0; i < 3; i++) {
        stand_still(NS_PER_S);
        sample_after(NS_PER_S / 10, 0);
        assert_false(world.step.own_clock_stood);
        sample(1);
        assert_true(world.step.own_clock_stood);
        sample(2);
        assert_false(world.step.own_clock_stood);
        expect_voters(7);
    }
}

TEST(steps_that_do_not_go_together_are_the_nodes)
{
    static const struct {
        int64_t second_ns, apart_ns;
        bool witness;
    } cases[] = {{-HOUR_NS, NS_PER_S, false}, {HOUR_NS, 4 * NS_PER_S, false}, {HOUR_NS, NS_PER_S, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(3);
        go_on(3);
        world.servers[0].offset_ns += HOUR_NS;
        world.servers[1].offset_ns += cases[i].second_ns;
        sample_after(NS_PER_S, 0);
        pass(cases[i].apart_ns);
        if (cases[i].witness)
            sample(2);
        sample(1);
        assert_false(world.step.own_clock_stood);
        expect_voters(4);
    }
}

/* Only this one quarantine is lifted. */
TEST(our_clock_excuses_nothing_else)
{
    go_on(1);
    restart(0, 30);
    look(0);
    evicts(1, true);
    evicts(1, false);
    go_on(1);
    stand_still(NS_PER_S);
    pass(NS_PER_S);
    for (unsigned i = 0; i < 3; i++)
        sample(i);
    expect(0, TRUST_QUARANTINED, TRUST_NEW_RUN);
    expect(1, TRUST_QUARANTINED, TRUST_HAD_EVICTED);
    expect_votes(2);
}

/* It jumped while our clock stood: the others show how much of it was ours. */
TEST(a_node_that_moved_further_than_the_others_is_blamed)
{
    static const unsigned orders[][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0}};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        bool stood = false;
        start(3);
        go_on(3);
        stand_still(NS_PER_S);
        world.servers[0].offset_ns += HOUR_NS;
        pass(NS_PER_S / 2);
        for (unsigned k = 0; k < 3; k++) {
            sample(orders[i][k]);
            stood = stood || world.step.own_clock_stood;
        }
        assert_true(stood);
        expect_voters(6);
        expect(0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    }
}

/* Its machine was suspended with ours, and its time service then sets a wrong time. */
TEST(a_jump_soon_after_we_stood_is_the_nodes)
{
    for (int heard_between = 0; heard_between < 2; heard_between++) {
        start(3);
        go_on(3);
        world.servers[1].offset_ns += NS_PER_S;
        world.servers[2].offset_ns += NS_PER_S;
        sample_after(NS_PER_S / 2, 1);
        sample(2);
        assert_true(world.step.own_clock_stood);
        if (heard_between)
            sample(0);
        expect_voters(7);
        world.servers[0].offset_ns += heard_between ? NS_PER_S : HOUR_NS;
        sample_after(NS_PER_S, 0);
        assert_false(world.step.own_clock_stood);
        expect_voters(6);
        expect(0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    }
}

TEST(of_two_that_differ_in_size_both_are_blamed)
{
    start(3); /* and node 2 is not reached any more */
    sample_after(NS_PER_S, 0);
    sample(1);
    stand_still(NS_PER_S);
    world.servers[0].offset_ns += HOUR_NS;
    sample_after(NS_PER_S, 1);
    sample(0);
    assert_false(world.step.own_clock_stood);
    expect(0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
}

TEST(a_node_that_is_heard_late_shows_our_step_then)
{
    go_on(3);
    for (unsigned times = 0; times < 2; times++) { /* it owes the sum of both */
        stand_still(NS_PER_S);
        for (unsigned seconds = 0; seconds < 5; seconds++) {
            sample_after(NS_PER_S, 0);
            sample(1);
            assert_int_equal(world.step.own_clock_stood, seconds == 0);
        }
    }
    expect_after(sample(2), 4, 0, 0);
    expect_voters(7);
    pass(NS_PER_S);
    world.servers[2].offset_ns += NS_PER_S;
    sample(2);
    expect_voters(3);
}

/* An answer that was read while we stood shows a part of it, the next one the rest. */
TEST(a_step_that_shows_in_two_parts_is_one)
{
    go_on(3);
    world.servers[0].offset_ns += NS_PER_S / 4;
    world.servers[1].offset_ns += NS_PER_S / 2;
    sample_after(NS_PER_S / 10, 0);
    sample(1);
    assert_false(world.step.own_clock_stood);
    world.servers[0].offset_ns += NS_PER_S - NS_PER_S / 4;
    world.servers[1].offset_ns += NS_PER_S / 2;
    world.servers[2].offset_ns += NS_PER_S;
    pass(NS_PER_S / 10);
    for (unsigned i = 0; i < 3; i++) {
        sample(i);
        assert_int_equal(world.step.own_clock_stood, i == 1);
    }
    expect_voters(7);
}

/* The moments of both are apart, whenever the second node has shown the whole of its step. */
TEST(a_step_in_two_parts_is_no_part_of_an_earlier_one)
{
    go_on(3);
    world.servers[1].offset_ns += NS_PER_S;
    sample_after(NS_PER_S / 10, 1);
    world.servers[0].offset_ns += NS_PER_S / 4;
    sample_after(NS_PER_S / 10, 0);
    world.servers[0].offset_ns += NS_PER_S - NS_PER_S / 4;
    sample_after(NS_PER_S / 10, 0);
    assert_false(world.step.own_clock_stood);
    expect(0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
}

TEST(our_step_excuses_no_earlier_one)
{
    go_on(3);
    for (int64_t by_ns = HOUR_NS; by_ns >= -HOUR_NS; by_ns -= 2 * HOUR_NS) { /* there and back */
        pass(NS_PER_S);
        world.servers[0].offset_ns += by_ns;
        sample(0);
    }
    struct instant end = until_of(0);
    pass(20 * NS_PER_S);
    for (unsigned i = 0; i < 3; i++)
        sample(i);
    stand_still(NS_PER_S);
    pass(NS_PER_S);
    for (unsigned i = 0; i < 3; i++)
        sample(i);
    expect_voters(6);
    expect(0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    assert_true(until_of(0).ns >= end.ns);
}

/* Until a quorum says so it may be either of us. */
TEST(one_node_that_moved_ahead_makes_us_suspect_ourselves)
{
    go_on(3);
    assert_int_equal(world.step.suspect_ns, 0);
    stand_still(NS_PER_S);
    sample_after(NS_PER_S, 1);
    assert_in_range(world.step.suspect_ns, NS_PER_S, NS_PER_S / 100 * 105);
    assert_int_equal(world.step.look, 7);
    sample(2);
    assert_true(world.step.own_clock_stood);
    assert_int_equal(world.step.suspect_ns, 0);
    world.servers[0].offset_ns -= HOUR_NS;
    sample_after(NS_PER_S, 0);
    expect(0, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    assert_int_equal(world.step.suspect_ns, 0); /* back: we did not stand */
    assert_int_equal(world.step.look, 7);
}

RUN_TESTS_BETWEEN(start_three, NULL)
