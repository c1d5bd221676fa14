/* H2. A record that was interrupted leaves no membership with a quorum: those who see that finish it, without having
 * known the group before. */
#include "tests/unit/trust_fixture.h"

static const char *const ids[] = {"e0000029", "e000002a", "e000002b"};

/* The group's generation 1 with other ids at some places: "" leaves a place as it is, "-" makes it vacant. */
static struct marker changed(unsigned nodes, uint32_t generation, unsigned self, const char *first, const char *second)
{
    struct marker marker = group_marker(nodes, generation, self);
    const char *const change[] = {first, second};
    for (unsigned place = 0; place < 2; place++)
        if (change[place][0] != '\0')
            snprintf(marker.places[place], sizeof marker.places[place], "%s",
                     strcmp(change[place], "-") == 0 ? "" : change[place]);
    return marker;
}

/* Nodes of which a client knows nothing; the first `bare` of them are empty servers of other runs. */
static void strangers(struct world *world, unsigned nodes, unsigned bare)
{
    world_make(world, nodes);
    for (unsigned i = 0; i < bare; i++) {
        restart(world, i, 90 + i);
        world->servers[i].text[0] = '\0';
    }
}

static void has(struct world *world, unsigned node, uint32_t generation, const char *first, const char *second)
{
    mark(world, node, changed(world->trust.nodes, generation, node, first, second), run_of(node));
}

static struct marker marker_of(const struct world *world, unsigned node)
{
    struct marker marker;
    assert_true(marker_parse(&marker, world->servers[node].text, strlen(world->servers[node].text), NULL));
    return marker;
}

/* What is to be written once all but the `unseen` were seen. */
static node_set wanted_without(struct world *world, node_set unseen)
{
    node_set wanted = 0;
    for (unsigned i = 0; i < world->trust.nodes; i++)
        if (((unsigned)unseen >> i & 1u) == 0)
            look(world, i);
    pass(world, NS_PER_S);
    tick(world);
    for (unsigned i = 0; i < world->trust.nodes; i++)
        if (world->trust.node[i].records)
            wanted |= (node_set)(1u << i);
    return wanted;
}

static node_set wanted(struct world *world)
{
    return wanted_without(world, 0);
}

static void write_at(struct world *world, node_set nodes)
{
    for (unsigned i = 0; i < world->trust.nodes; i++)
        if ((unsigned)nodes >> i & 1u) {
            assert_true(perform_write(world, i));
            look(world, i);
        }
}

TEST(who_knew_nothing_finishes_a_record)
{
    for (unsigned nodes = 3; nodes <= 5; nodes += 2) {
        struct world world;
        unsigned bare = nodes / 2;
        strangers(&world, nodes, bare);
        has(&world, bare, nodes == 3 ? 2 : 3, ids[0], nodes == 3 ? "" : ids[1]);
        node_set behind = (node_set)((1u << nodes) - (2u << bare));
        assert_int_equal(wanted(&world), behind);
        assert_false(world.trust.has_group);
        write_at(&world, behind);
        for (unsigned i = bare; i < nodes; i++) {
            struct marker marker = marker_of(&world, i), first = marker_of(&world, bare);
            assert_true(marker_same_membership(&marker, &first));
            assert_string_equal(marker.self, group_marker(nodes, 1, i).self);
            assert_string_equal(marker.run, run_of(i));
            expect_votes(&world, i);
        }
    }
}

TEST(fewer_than_a_quorum_decide_nothing)
{
    struct world world;
    strangers(&world, 5, 1);
    has(&world, 2, 2, ids[0], "");
    assert_int_equal(wanted_without(&world, 0x12), 0);
    look(&world, 4);
    pass(&world, NS_PER_S);
    tick(&world);
    assert_int_equal(world.step.write, 0x18);
}

/* The server at place 1 is new there, and node 2 has not heard of it. */
TEST(who_does_not_list_another_counts_for_nothing)
{
    struct world world;
    strangers(&world, 5, 1);
    struct marker newcomer = changed(5, 2, 1, "", ids[1]);
    memcpy(newcomer.self, ids[1], sizeof newcomer.self);
    mark(&world, 1, newcomer, run_of(1));
    has(&world, 3, 3, ids[0], ids[1]);
    has(&world, 4, 2, "", ids[1]);
    assert_int_equal(wanted_without(&world, 0x10), 0);
    assert_int_equal(wanted(&world), 0x12);
    write_at(&world, 0x12);
    assert_int_equal(world.trust.group.generation, 3);
    pass(&world, NS_PER_S);
    assert_int_equal(tick(&world).write, 0x4);
}

TEST(a_member_that_was_replaced_is_passed_over_when_it_is_behind)
{
    struct world world;
    strangers(&world, 5, 1);
    has(&world, 2, 3, ids[0], ids[1]);
    has(&world, 3, 2, "", ids[1]);
    has(&world, 4, 2, "", ids[1]);
    assert_int_equal(wanted(&world), 0x18);
    strangers(&world, 5, 1);
    has(&world, 2, 2, ids[0], "");
    struct marker newcomer = changed(5, 3, 1, "", ids[1]); /* newer than what would be finished */
    memcpy(newcomer.self, ids[1], sizeof newcomer.self);
    mark(&world, 1, newcomer, run_of(1));
    assert_int_equal(wanted(&world), 0);
}

TEST(a_copy_of_a_member_is_none)
{
    struct world world;
    strangers(&world, 5, 1);
    has(&world, 2, 2, ids[0], "");
    mark(&world, 4, group_marker(5, 1, 3), run_of(4));
    assert_int_equal(wanted_without(&world, 0x2), 0);
}

TEST(a_memory_is_not_taken_for_the_newest)
{
    struct world world;
    strangers(&world, 5, 1);
    has(&world, 1, 2, ids[0], "");
    restart(&world, 1, 91);
    assert_int_equal(wanted(&world) & 0x1c, 0);
}

/* It may have lost the newest marker: it counts when nobody else is left. */
TEST(a_member_that_restarted_counts_when_too_few_did_not)
{
    struct world world;
    strangers(&world, 5, 2);
    has(&world, 2, 2, ids[0], "");
    restart(&world, 3, 93);
    assert_int_equal(wanted_without(&world, 0x2), 0);
    assert_int_equal(wanted(&world), 0x18);
    write_at(&world, 0x18);
    assert_int_equal(world.trust.group.generation, 2);
    assert_string_equal(marker_of(&world, 3).run, run_of(3));
    expect(&world, 3, TRUST_QUARANTINED, TRUST_NEW_RUN); /* that is another matter */

    strangers(&world, 5, 0); /* four did not restart, and these can still tell */
    restart(&world, 4, 94);
    for (unsigned i = 0; i < 4; i++)
        has(&world, i, i == 2 ? 2 : i == 3 ? 4 : 1, i < 2 ? "" : ids[0], i == 3 ? ids[1] : "");
    assert_int_equal(wanted(&world) & 0x10, 0);
}

TEST(what_an_operator_began_is_his_to_finish)
{
    struct world world;
    strangers(&world, 5, 1);
    has(&world, 2, 2, "", "-");
    has(&world, 3, 3, ids[0], "-");
    assert_int_equal(wanted_without(&world, 0x2), 0);
    strangers(&world, 5, 1);
    has(&world, 2, 2, ids[0], "");
    mark(&world, 1, changed(5, 2, 2, "", "-"), "");
    assert_int_equal(wanted(&world), 0);
    strangers(&world, 5, 1);
    has(&world, 2, 3, ids[0], ""); /* the place was vacant in between */
    assert_int_equal(wanted_without(&world, 0x2), 0);
}

TEST(the_smaller_of_two_records_wins_when_the_other_cannot)
{
    struct world world;
    strangers(&world, 3, 1);
    has(&world, 1, 2, ids[1], "");
    has(&world, 2, 2, ids[0], "");
    assert_int_equal(wanted(&world), 0x2);
    write_at(&world, 0x2);
    assert_string_equal(world.trust.group.places[0], ids[0]);
    strangers(&world, 5, 1);
    for (unsigned i = 2; i < 5; i++)
        has(&world, i, 2, i == 2 ? ids[0] : ids[1], "");
    assert_int_equal(wanted_without(&world, 0x2), 0); /* the one that is not seen may have the other one */
    has(&world, 3, 2, ids[0], "");
    assert_int_equal(wanted_without(&world, 0x2), 0x10);
    for (unsigned kind = 0; kind < 2; kind++) { /* two places are contested */
        strangers(&world, 5, 2);
        has(&world, 2, 3, ids[0], ids[1 + kind]);
        for (unsigned i = 3; i < 5; i++)
            has(&world, i, 3, ids[1], ids[2 - kind]);
        has(&world, 3, 3, ids[0], ids[1 + kind]);
        assert_int_equal(wanted(&world), 0);
    }
}

/* It missed a record that was finished, and the next one is not. */
TEST(who_knows_an_older_generation_finishes_the_next)
{
    struct world world;
    start(&world, 3);
    restart(&world, 0, 90);
    world.servers[0].text[0] = '\0';
    has(&world, 1, 3, ids[1], "");
    has(&world, 2, 2, ids[0], "");
    assert_int_equal(wanted(&world), 0x4);
    write_at(&world, 0x4);
    assert_int_equal(world.trust.group.generation, 3);
}

TEST(nothing_older_than_the_group_is_finished)
{
    struct world world;
    world_make(&world, 3);
    for (unsigned i = 0; i < 3; i++)
        mark(&world, i, changed(3, 3, 2, ids[0], ids[1]), run_of(i));
    for (unsigned i = 0; i < 2; i++) {
        struct marker marker = changed(3, 3, i, ids[0], ids[1]);
        memcpy(marker.self, ids[i], sizeof marker.self);
        mark(&world, i, marker, run_of(i));
    }
    look_at_all(&world);
    assert_int_equal(world.trust.group.generation, 3);
    trust_unseen(&world.trust, 2, world.now);
    restart(&world, 0, 90); /* the addresses lead back to old servers */
    restart(&world, 1, 91);
    mark(&world, 0, group_marker(3, 1, 0), run_of(90));
    struct marker marker = group_marker(3, 2, 1);
    memcpy(marker.places[2], ids[2], sizeof marker.places[2]);
    mark(&world, 1, marker, run_of(91));
    assert_int_equal(wanted_without(&world, 0x4), 0);
}

RUN_TESTS
