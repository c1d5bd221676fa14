/* Clocks that step, drift, stand still or are far away, and what becomes of their nodes (E36, H10). */
#include "tests/unit/trust_fixture.h"

#include "redlock/trust_private.h"

#include "tests/sim/world/chance.h"

#define HOUR_NS (3600 * NS_PER_S)

TEST(a_clock_that_drifts_is_never_blamed)
{
    struct chance chance = {.state = 7};
    static const int64_t rates[] = {-10, -1, 0, 1, 10}; /* in a thousand */
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        start(3);
        int64_t begin = world.now.ns;
        while (world.now.ns - begin < 5 * HOUR_NS) {
            struct instant asked = instant_after(world.now, chance_scale(&chance, NS_PER_MS, 30 * NS_PER_S));
            struct instant read = instant_after(asked, chance_scale(&chance, 10 * NS_PER_US, 100 * NS_PER_MS));
            world.now = instant_after(read, chance_scale(&chance, 10 * NS_PER_US, 100 * NS_PER_MS));
            int64_t time_us = (WALL_NS + read.ns + (read.ns - begin) * rates[i] / 1000) / NS_PER_US;
            expect_after(trust_sampled(&world.trust, 1, asked, world.now, time_us, world.now), 0, 0, 0);
            int64_t now_us = (WALL_NS + world.now.ns + (world.now.ns - begin) * rates[i] / 1000) / NS_PER_US;
            assert_in_range(now_us, trust_node_time_low_us(&world.trust, 1, world.now),
                            trust_node_time_us(&world.trust, 1, world.now));
        }
        expect_votes(1);
    }
}

static void the_whole_time_of_a_step(int64_t by_ns)
{
    start(3);
    go_on(3);
    world.servers[1].offset_ns += by_ns;
    sample_after(NS_PER_S, 0);
    expect_after(sample(1), 2, 0, 2);
    assert_false(world.step.own_clock_stood);
    assert_int_equal(world.forgot[1], 1);
    struct instant end = instant_after(world.now, QUARANTINE_NS);
    assert_int_equal(until_of(1).ns, end.ns);
    assert_int_equal(trust_next(&world.trust).ns, end.ns);
    sample_after(NS_PER_S, 2); /* its clock went on as ours did: so it was the other's */
    expect_step(0, 2, 0);
    assert_int_equal(trust_next(&world.trust).ns, world.now.ns + NS_PER_S);
    assert_true(perform_write(1));
    struct marker marker, member = group_marker(3, 1, 1);
    assert_true(marker_parse(&marker, world.servers[1].text, strlen(world.servers[1].text)));
    assert_true(marker_same_membership(&marker, &member));
    assert_string_equal(marker.self, member.self);
    assert_memory_equal(marker.run, "ffffffffffffffffffffffff", 24);
    expect_after(look(1), 0, 0, 0);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    assert_int_equal(trust_members(&world.trust), 7);
    expect_after(tick_at(until_of(1)), 0, 2, 0);
    write_and_look(1);
    expect_votes(1);
    assert_int_equal(world.forgot[1], 1);
}

TEST(a_step_is_seen_and_told_to_all)
{
    the_whole_time_of_a_step(HOUR_NS);
    the_whole_time_of_a_step(-HOUR_NS);
    the_whole_time_of_a_step(100 * NS_PER_MS);
    the_whole_time_of_a_step(-100 * NS_PER_MS);
}

TEST(a_step_within_the_allowance_is_none)
{
    go_on(3);
    world.servers[1].offset_ns += 14 * NS_PER_MS; /* 5 ms, and 1 % of the second between two samples: 15 ms */
    go_on(3);
    expect_votes(1);
    pass(NS_PER_S);
    world.servers[1].offset_ns += 17 * NS_PER_MS;
    expect_after(sample(1), 2, 0, 2);
}

/* Whoever waits since the first step would heal the marker too early: the second doubt makes him begin again. */
TEST(a_step_inside_a_doubt_is_doubted_anew)
{
    char first[MARKER_TEXT_MAX];
    go_on(3);
    for (unsigned steps = 0; steps < 3; steps++) {
        memcpy(first, world.servers[1].text, sizeof first);
        world.servers[1].offset_ns += steps % 2 == 0 ? HOUR_NS : -HOUR_NS; /* there and back */
        expect_after(sample_after(NS_PER_S, 1), 2, 0, steps == 0 ? 2 : 0);
        expect_after(sample_after(NS_PER_S, 0), 0, 2, 0);
        write_and_look(1);
        expect_after(sample(2), 0, 0, 0); /* one doubt is enough for one step */
        assert_string_not_equal(first, world.servers[1].text);
        expect_quarantine(1);
        pass(QUARANTINE_NS / 2);
        go_on(3);
    }
}

/* --- creeping ------------------------------------------------------------------------------------------------- */

static struct trust_step blurred_sample(unsigned node, int64_t trip_ns)
{
    struct instant asked = instant_after(world.now, -trip_ns);
    return took(&world, trust_sampled(&world.trust, node, asked, world.now,
                                      node_us(node, instant_after(asked, trip_ns / 2)), world.now));
}

/* How long the node's clock ran at that rate until it was noticed; 0 = never. */
static int64_t creep(int64_t rate_ppm, int64_t every_ns, int64_t trip_ns, int64_t for_ns)
{
    start(3);
    for (int64_t passed = every_ns; passed <= for_ns; passed += every_ns) {
        pass(every_ns);
        world.servers[1].offset_ns = passed / 1000 * rate_ppm / 1000;
        blurred_sample(1, trip_ns);
        if (world.step.forgot)
            return passed;
    }
    return 0;
}

/* Each sample is close to the last one, and far from what was known a while ago. */
TEST(a_clock_that_creeps_is_noticed)
{
    static const int64_t rates[] = {83000, 27000, 11000, -83000, -27000, -11000};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        for (int64_t trip_ns = TRIP_NS; trip_ns <= 40 * NS_PER_MS; trip_ns *= 200) {
            int64_t beyond = (rates[i] < 0 ? -rates[i] : rates[i]) - 10000;
            int64_t soonest = (5 * NS_PER_MS + 3 * trip_ns) / beyond * 1000000; /* and what the samples blur */
            int64_t noticed = creep(rates[i], 10 * NS_PER_MS, trip_ns, 240 * NS_PER_S);
            assert_in_range(noticed, 1, soonest + (int64_t)MAX_TTL_MS * NS_PER_MS / 7 + NS_PER_S);
        }
}

/* What is forgiven is forgiven once in a max_ttl, not with every sample. */
TEST(small_steps_add_up)
{
    go_on(1);
    for (int i = 0; i < 2; i++) {
        pass(10 * NS_PER_MS);
        world.servers[1].offset_ns += 4 * NS_PER_MS;
        expect_after(sample(1), i == 0 ? 0 : 2, 0, i == 0 ? 0 : 2);
    }
}

/* Full rate one way, what is forgiven the same way, and back; sampled as sharply as can be. */
TEST(a_clock_that_keeps_the_promise_is_never_blamed)
{
    int64_t window_ns = (int64_t)MAX_TTL_MS * NS_PER_MS, way = 1;
    for (unsigned windows = 0; windows < 6; windows++, way = -way)
        for (int64_t passed = 0; passed < window_ns; passed += 50 * NS_PER_MS) {
            pass(50 * NS_PER_MS);
            world.servers[1].offset_ns += way * 50 * NS_PER_MS / 100;
            if (passed == window_ns / 2)
                world.servers[1].offset_ns += way * 5 * NS_PER_MS;
            expect_after(blurred_sample(1, 20 * NS_PER_US), 0, 0, 0);
            int64_t now_us = node_us(1, world.now);
            assert_in_range(now_us, trust_node_time_low_us(&world.trust, 1, world.now),
                            trust_node_time_us(&world.trust, 1, world.now));
        }
    expect_votes(1);
}

/* --- a random walk, and an oracle that knows all samples --------------------------------------------------------- */

enum { WALK_SAMPLES = 400, WALKS = 300 };

struct walk {
    struct trust_reading readings[WALK_SAMPLES];
    unsigned count;
};

/* By how much the new reading breaks the promise, judged by each of the last window; 0 = not at all. */
static int64_t broken_by(const struct walk *walk, const struct trust_reading *fresh, int64_t window_ns)
{
    int64_t most = 0;
    for (unsigned i = 0; i < walk->count; i++) {
        const struct trust_reading *old = &walk->readings[i];
        int64_t longest = instant_since(old->asked, fresh->answered),
                node = (fresh->node_us - old->node_us) * NS_PER_US;
        int64_t shortest =
            instant_since(old->answered, fresh->asked) > 0 ? instant_since(old->answered, fresh->asked) : 0;
        if (longest > window_ns)
            continue;
        int64_t fast = node - longest - longest / 100 - 5 * NS_PER_MS;
        int64_t slow = shortest - shortest / 100 - 5 * NS_PER_MS - node;
        most = fast > most ? fast : most;
        most = slow > most ? slow : most;
    }
    return most;
}

/* Whatever the oracle calls broken is noticed, but for the oldest seventh; and nothing else. */
TEST(a_random_walk_is_judged_by_all_samples)
{
    static const struct trust_promise promise = {.rate_ppm = 10000, .window_ns = 20 * NS_PER_S};
    unsigned noticed = 0, fine = 0;
    for (unsigned i = 0; i < WALKS; i++) {
        struct chance chance = {.state = 1000 + i};
        struct trust_clock clock = {.is_known = false};
        struct walk walk = {.count = 0};
        int64_t at = NS_PER_S, offset = WALL_NS, rate_ppm = 0, most_ppm = chance_scale(&chance, 5000, 60000);
        for (unsigned k = 0; k < WALK_SAMPLES; k++) {
            int64_t ns = chance_scale(&chance, NS_PER_MS, NS_PER_S);
            int64_t trip = chance_scale(&chance, 20 * NS_PER_US, 5 * NS_PER_MS), read = chance_below(&chance, trip);
            if (chance_pick(&chance, 10) == 0)
                rate_ppm = chance_between(&chance, -most_ppm, most_ppm);
            at += ns;
            offset += ns / 1000 * rate_ppm / 1000;
            struct trust_reading reading = {{at}, {at + trip}, (at + read + offset) / NS_PER_US};
            int64_t broken = broken_by(&walk, &reading, promise.window_ns * 6 / 7);
            int64_t perhaps = broken_by(&walk, &reading, promise.window_ns * 3);
            struct trust_clock_news news = trust_clock_read(&clock, &promise, &reading);
            at += trip;
            if (broken > 2 * NS_PER_US)
                assert_true(news.is_step);
            if (perhaps == 0)
                assert_false(news.is_step);
            noticed += news.is_step;
            fine += !news.is_step;
            if (news.is_step)
                walk.count = 0; /* everything older is dropped */
            int64_t now_offset = reading.node_us * NS_PER_US - (reading.asked.ns + read);
            if (most_ppm <= promise.rate_ppm)
                assert_in_range(now_offset, trust_clock_offset(&clock, &promise, reading.answered).least,
                                trust_clock_offset(&clock, &promise, reading.answered).most);
            walk.readings[walk.count++] = reading;
        }
    }
    assert_true(noticed > 100 && fine > 1000);
}

/* A rate of ten in a thousand, over ten seconds. */
TEST(before_the_last_sample_the_bounds_are_as_far_apart_as_the_rate_says)
{
    static const struct trust_promise promise = {.rate_ppm = 10000, .window_ns = 20 * NS_PER_S};
    struct trust_clock clock = {.is_known = false};
    struct instant heard = {100 * NS_PER_S}, before = {90 * NS_PER_S};
    trust_clock_read(&clock, &promise, &(struct trust_reading){heard, heard, 100 * US_PER_S});
    assert_int_equal(trust_clock_offset(&clock, &promise, before).least,
                     trust_clock_offset(&clock, &promise, heard).least - 100 * NS_PER_MS - 1);
    assert_int_equal(trust_clock_offset(&clock, &promise, before).most,
                     trust_clock_offset(&clock, &promise, heard).most + 100 * NS_PER_MS + 1);
}

/* An inspection that finds a step: it is one event. */
TEST(a_step_in_an_inspection)
{
    pass(NS_PER_S);
    world.servers[1].offset_ns -= NS_PER_S;
    expect_after(look(1), 2, 0, 2);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    expect_after(look(1), 0, 0, 0);
    assert_int_equal(world.forgot[1], 1);
}

TEST(without_witnesses_nothing_is_written)
{
    start(5);
    go_on(3);
    world.servers[1].offset_ns += HOUR_NS;
    sample_after(NS_PER_S, 1);
    for (unsigned i = 2; i < 5; i++) {
        sample(i); /* asked before the step was known: they may have been read before ours stood */
        expect_step(0, 0, 0);
    }
    expect_after(sample_after(NS_PER_S, 2), 0, 0, 0);      /* one is not enough of five */
    expect_after(sample_after(10 * NS_PER_S, 3), 0, 0, 0); /* that is too late */
    expect_after(tick_after(QUARANTINE_NS), 0, 0, 2);
    expect_votes(1); /* its marker was never doubted */
}

TEST(a_step_long_ago_is_no_news_for_others)
{
    go_on(1);
    world.servers[1].offset_ns += HOUR_NS;
    expect_after(sample_after(20 * NS_PER_S, 1), 2, 0, 2);
    go_on(3);
}

/* With a short longest ttl the quarantine can be over while the step is still news: then it is healed, not doubted. */
TEST(a_marker_that_is_to_be_healed_is_not_doubted)
{
    world_make(3);
    for (unsigned i = 0; i < 3; i++) {
        struct marker marker = group_marker(3, 1, i);
        marker.max_ttl_ms = 2000;
        mark(i, marker, run_of(i));
    }
    look_at_all();
    go_on(1);
    restart(1, 30);
    look(1);
    pass(NS_PER_S);
    world.servers[1].offset_ns += HOUR_NS;
    sample(1);
    expect_after(tick_at(until_of(1)), 0, 2, 0); /* the others are looked at as well, and vouch */
    expect_after(tick_after(NS_PER_S), 0, 2, 0);
    write_and_look(1);
    expect_votes(1);
}

/* --- samples ------------------------------------------------------------------------------------------------- */

static struct trust_step slow_sample(unsigned node, int64_t trip_ns, int64_t read_after_ns)
{
    struct instant asked = world.now;
    pass(trip_ns);
    int64_t time_us = node_us(node, instant_after(asked, read_after_ns));
    return took(&world, trust_sampled(&world.trust, node, asked, world.now, time_us, world.now));
}

TEST(an_answer_that_was_long_on_its_way_tells_little)
{
    go_on(3);
    expect_after(slow_sample(1, 8 * NS_PER_S, 8 * NS_PER_S), 0, 0, 0);
    expect_after(slow_sample(1, 8 * NS_PER_S, 0), 0, 0, 0);
    int64_t width_us =
        trust_node_time_us(&world.trust, 1, world.now) - trust_node_time_low_us(&world.trust, 1, world.now);
    assert_in_range(width_us, 1, 400000); /* 1 % of 17 s, both ways: the sharp sample was kept */
    world.servers[1].offset_ns += NS_PER_S;
    expect_after(slow_sample(1, 8 * NS_PER_S, 4 * NS_PER_S), 0, 0, 0); /* it could not show */
    expect_after(sample(1), 2, 0, 2);                                  /* but it does now */
}

TEST(a_blurred_witness_is_none)
{
    go_on(3);
    world.servers[1].offset_ns += NS_PER_S;
    sample_after(NS_PER_S, 1);
    expect_after(slow_sample(2, 2 * NS_PER_S, NS_PER_S), 0, 0, 0);
    expect_after(sample_after(NS_PER_S, 2), 0, 2, 0);
}

TEST(times_that_no_clock_shows_are_ignored)
{
    static const int64_t times[] = {INT64_MIN, -1, 0, INT64_MAX / 1000, INT64_MAX};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        world_make(3);
        trust_sampled(&world.trust, 0, world.now, world.now, times[i], world.now);
        assert_int_equal(trust_node_time_us(&world.trust, 0, world.now), 0);
        assert_int_equal(trust_median_us(&world.trust, world.now), 0);
        look_at_all();
        expect_after(trust_sampled(&world.trust, 0, world.now, world.now, times[i], world.now), 0, 0, 0);
        expect_after(trust_sampled(&world.trust, 0, world.now, instant_after(world.now, -1),
                                   node_us(0, world.now) + US_PER_S, world.now),
                     0, 0, 0); /* answered before it was asked */
    }
}

TEST(a_new_run_has_a_new_clock)
{
    go_on(1);
    restart(1, 30);
    world.servers[1].offset_ns += 500 * NS_PER_MS;
    expect_after(look(1), 2, 0, 2);
    expect(1, TRUST_QUARANTINED, TRUST_NEW_RUN);
    assert_int_equal(world.forgot[1], 1);
}

TEST(bounds_widen_by_what_is_promised)
{
    world_make(3);
    assert_int_equal(trust_node_time_low_us(&world.trust, 0, world.now), 0);
    struct instant asked = world.now, answered = instant_after(asked, 100 * NS_PER_US);
    int64_t told = INT64_C(1790000000000000);
    trust_sampled(&world.trust, 0, asked, answered, told, answered);
    assert_in_range(trust_node_time_us(&world.trust, 0, asked), told + 5000, told + 5005);
    assert_in_range(trust_node_time_low_us(&world.trust, 0, answered), told - 5005, told - 5000);
    struct instant later = instant_after(asked, 10 * NS_PER_S);
    int64_t high = told + 10000000 + 100000 + 5000, low = told + 10000000 - 100000 - 5000 - 100;
    assert_in_range(trust_node_time_us(&world.trust, 0, later), high, high + 5);
    assert_in_range(trust_node_time_low_us(&world.trust, 0, later), low - 5, low + 5);
    later = instant_after(asked, 70 * NS_PER_S); /* and forgiven twice by then */
    high = told + 70000000 + 700000 + 10000;
    assert_in_range(trust_node_time_us(&world.trust, 0, later), high, high + 5);
}

TEST(the_median_follows_the_majority)
{
    world_make(5);
    world.servers[1].offset_ns = 10 * HOUR_NS;
    world.servers[4].offset_ns = -10 * HOUR_NS;
    look(1);
    assert_in_range(trust_median_us(&world.trust, world.now), node_us(1, world.now) - 200, node_us(1, world.now) + 200);
    look_at_all();
    pass(60 * NS_PER_S);
    assert_in_range(trust_median_us(&world.trust, world.now), node_us(0, world.now) - 200, node_us(0, world.now) + 200);
}

/* --- outliers ------------------------------------------------------------------------------------------------ */

/* The whole trip took so long, most of it to the node. */
static void look_for_long(unsigned node, int64_t trip_ns)
{
    struct trust_inspection inspection = {.reading.asked = instant_after(world.now, -trip_ns),
                                          .reading.answered = world.now,
                                          .reading.node_us = node_us(node, instant_after(world.now, -trip_ns / 20))};
    memcpy(inspection.marker_text, world.servers[node].text, sizeof inspection.marker_text);
    memcpy(inspection.run_id, world.servers[node].run_id, sizeof inspection.run_id);
    trust_saw(&world.trust, node, &inspection, world.now);
}

/* We stood still while the answers to our first questions waited for us: they tell too little to compare clocks, and a
 * node whose clock jumped meanwhile would pass. */
TEST(clocks_are_compared_by_sharp_samples)
{
    world_make(3);
    for (unsigned i = 0; i < 3; i++)
        look_for_long(i, 20 * NS_PER_S);
    world.servers[1].offset_ns = 12 * NS_PER_S;
    sample_after(NS_PER_S, 0);
    expect_after(sample(1), 0, 0, 0);
    expect_voters(0);
    expect_after(sample(2), 0, 0, 7);
    expect_voters(5);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_OUTLIER);
}

TEST(a_clock_far_from_all_others)
{
    for (unsigned odd = 0; odd < 3; odd++)
        for (int64_t by_ns = -HOUR_NS; by_ns <= HOUR_NS; by_ns += 2 * HOUR_NS) {
            world_make(3);
            world.servers[odd].offset_ns = by_ns;
            look_at_all();
            expect_voters(7 & ~(1u << odd));
            expect(odd, TRUST_QUARANTINED, TRUST_CLOCK_OUTLIER);
            expect_quarantine(odd);
            tick_after(QUARANTINE_NS);
            assert_int_equal(world.step.write, 0);
            expect_votes(odd); /* what it forgot before it was seen has expired */
            go_on(3);
        }
}

TEST(a_clock_votes_when_a_quorum_agrees_with_it)
{
    world_make(3);
    world.servers[0].offset_ns = 990 * NS_PER_MS;
    look(0);
    expect_voters(0);
    look(2); /* node 1 is away: two of three agree, which is a majority at the first look */
    expect_voters(5);
    world_make(3);
    look_for_long(0, 1020 * NS_PER_MS);
    look_for_long(2, 1020 * NS_PER_MS); /* what may be the same time does not disagree */
    expect_voters(5);
    world_make(5);
    world.servers[0].offset_ns = HOUR_NS;
    for (unsigned i = 0; i < 3; i++)
        look(i);
    expect_voters(0); /* one against two, of five: nobody can tell */
    look(3);
    expect_voters(14);
    expect(0, TRUST_QUARANTINED, TRUST_CLOCK_OUTLIER);
}

/* Answers to other requests are enough for that. */
TEST(a_clock_is_compared_with_each_answer_until_a_quorum_agrees)
{
    start(3);
    pass(11 * NS_PER_S); /* what the others showed is old */
    restart(0, 40);
    mark(0, group_marker(3, 1, 0), run_of(40));
    look(0);
    expect(0, TRUST_QUARANTINED, TRUST_CLOCK_UNCOMPARED);
    sample(1);
    expect(0, TRUST_QUARANTINED, TRUST_CLOCK_UNCOMPARED);
    expect_after(sample_after(NS_PER_MS, 0), 0, 0, 1);
    expect_votes(0);
}

/* Two of three nodes are met, an hour apart. */
static void meet_two_that_disagree(void)
{
    world_make(3);
    world.servers[1].offset_ns = HOUR_NS;
    look(0);
    look(1);
}

/* A node jumped by an hour, and the only other one that can be reached disagrees. Whoever held the lock on the jumped
 * one still believes in it. */
TEST(of_two_that_disagree_none_votes_until_all_has_expired)
{
    meet_two_that_disagree();
    struct instant end = instant_after(world.now, QUARANTINE_NS);
    expect(0, TRUST_QUARANTINED, TRUST_CLOCK_UNCOMPARED);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_UNCOMPARED);
    assert_int_equal(until_of(1).ns, end.ns);
    for (unsigned i = 0; i < 60; i++) {
        sample_after(NS_PER_S, i % 2);
        expect_voters(0);
    }
    tick_at(end);
    expect_voters(3);
    look(2); /* what it forgot has expired: that it is far off is no reason any more */
    expect_voters(7);
}

/* It was wrong when we met it, and is right again: what it forgot when it jumped has not expired. */
TEST(a_step_back_before_the_clock_was_compared_is_a_step)
{
    meet_two_that_disagree();
    pass(NS_PER_S);
    world.servers[1].offset_ns = 0;
    sample(1);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    look(2);
    expect_voters(5);
    expect_quarantine(1);
}

/* We stood still for long: what we knew of its clock then hides the jump, and the quarantine from then is no proof. */
TEST(a_clock_that_was_known_too_little_is_compared_anew)
{
    world_make(3);
    for (unsigned i = 0; i < 3; i++)
        look_for_long(i, 20 * NS_PER_S);
    expect_voters(0);
    world.servers[1].offset_ns = 12 * NS_PER_S;
    tick_after(QUARANTINE_NS);
    expect_voters(7); /* by time; what they grant now is counted after the next sample */
    assert_int_equal(look(1).forgot, 2);
    look_at_all();
    expect_voters(5);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_OUTLIER);
    expect_quarantine(1);
}

/* Others healed it, but they knew its clock. */
TEST(a_restarted_node_is_compared_anew)
{
    restart(1, 9);
    mark(1, group_marker(3, 1, 1), run_of(9));
    world.servers[1].offset_ns = HOUR_NS;
    look_after(TRUST_FRESH_NS + NS_PER_S, 1); /* the samples of the others are too old to tell */
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_UNCOMPARED);
    sample(0);
    sample(2);
    tick();
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_OUTLIER);
}

/* --- with markers -------------------------------------------------------------------------------------------- */

/* He may have looked for the last time before the clock stepped once more. */
TEST(who_healed_a_doubted_marker_may_not_have_seen_our_step)
{
    go_on(1);
    world.servers[1].offset_ns += HOUR_NS;
    sample_after(NS_PER_S, 1);
    look(1); /* the marker is as it was: that tells nothing */
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    mark(1, group_marker(3, 1, 1), "");
    look_after(NS_PER_S, 1);
    expect_quarantine(1);
    pass(QUARANTINE_NS / 2);
    world.servers[1].offset_ns += HOUR_NS;
    sample(1);
    struct instant end = instant_after(world.now, QUARANTINE_NS);
    mark(1, group_marker(3, 1, 1), run_of(1));
    look(1);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    assert_int_equal(until_of(1).ns, end.ns);
    tick_at(end);
    expect_votes(1);
}

/* Our own write was on its way when we saw the step: it is no better than that of others. */
TEST(a_step_seen_while_we_heal_is_waited_for)
{
    go_on(1);
    mark(1, group_marker(3, 1, 1), "");
    look(1);
    expect_after(tick_at(until_of(1)), 0, 2, 0);
    assert_true(perform_write(1));
    world.servers[1].offset_ns += HOUR_NS;
    expect_after(sample(1), 2, 0, 2);
    struct instant end = instant_after(world.now, QUARANTINE_NS);
    look(1); /* healed, as we wanted it before */
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    assert_int_equal(until_of(1).ns, end.ns);
    tick_at(end);
    expect_votes(1);
}

TEST(who_healed_a_restart_has_not_waited_for_the_clock)
{
    go_on(1);
    restart(1, 30);
    look(1);
    pass(NS_PER_S);
    world.servers[1].offset_ns += HOUR_NS;
    sample(1);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    mark(1, group_marker(3, 1, 1), run_of(30));
    look(1);
    expect(1, TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    tick_at(until_of(1));
    expect_votes(1);
}

/* --- rates ---------------------------------------------------------------------------------------------------- */

/* Two readings with trips of so long, a second apart from the first answer to the second question; the node's time
 * went on by so much between them. */
static struct trust_span rate(int64_t trip_ns, int64_t node_us)
{
    struct instant asked = {NS_PER_S}, answered = instant_after(asked, trip_ns);
    struct instant again = instant_after(answered, NS_PER_S);
    struct trust_reading first = {asked, answered, WALL_NS / NS_PER_US};
    struct trust_reading second = {again, instant_after(again, trip_ns), WALL_NS / NS_PER_US + node_us};
    return trust_rate_ppm(&first, &second);
}

static void expect_rate(struct trust_span bounds, int64_t least, int64_t most)
{
    assert_true(bounds.least == least || bounds.least == least - 1);
    assert_true(bounds.most == most || bounds.most == most + 1);
}

TEST(a_rate_is_bounded_by_two_readings)
{
    expect_rate(rate(0, 1000000), -1, 1);
    expect_rate(rate(0, 1010000), 9999, 10001);
    expect_rate(rate(0, 1010002), 10001, 10003); /* surely beyond 1 % */
    expect_rate(rate(0, 989998), -10003, -10001);
    expect_rate(rate(0, 0), -1000001, -999999);
    expect_rate(rate(50 * NS_PER_MS, 1100000), -1, 100001); /* it may have run as ours did for 1.1 s */
    expect_rate(rate(50 * NS_PER_MS, 1000000), -90910, 1);
    expect_rate(rate(100 * NS_PER_MS, -1200000), -2200001, -1999999); /* backwards: 1.2 s in 1 s, or in 1.2 s */
    expect_rate(rate(0, INT64_C(3601000000)), INT64_C(3599999999), INT64_C(3600000001));
}

TEST(a_rate_of_readings_that_tell_nothing_is_not_known)
{
    struct instant now = {NS_PER_S}, later = instant_after(now, NS_PER_S), last = instant_after(later, NS_PER_S);
    struct trust_reading good = {now, later, 1000000}, next = {instant_after(later, 1), last, INT64_MAX / 8000};
    const struct trust_reading wrong[] = {
        {later, last, 2000000},                     /* asked when the first was answered */
        {now, later, 1000000},                      /* the same one */
        {instant_after(later, 1), last, INT64_MAX}, /* no time */
        {instant_after(later, 1), last, -1},        /* none either */
        {instant_after(last, 1), last, 2000000},    /* answered before it was asked */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct trust_span bounds = trust_rate_ppm(&good, &wrong[i]);
        assert_true(bounds.least == INT64_MIN && bounds.most == INT64_MAX);
    }
    struct trust_span far = trust_rate_ppm(&good, &next); /* the furthest that a node may claim */
    assert_true(far.least > 0 && far.most == INT64_MAX);
}

RUN_TESTS_BETWEEN(start_three, NULL)
