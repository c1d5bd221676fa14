/* H2. A record that was interrupted leaves no membership with a quorum: those who see that finish it, without having
 * known the group before. */
#include "tests/unit/trust_fixture.h"

static const char *const ids[] = {"e0000029", "e000002a", "e000002b"};

/* The group's generation 1 with other ids at some numbers: "" leaves a number as it is, "-" makes it vacant. */
static struct marker changed(unsigned nodes, uint32_t generation, unsigned self, const char *first, const char *second)
{
    struct marker marker = group_marker(nodes, generation, self);
    const char *const change[] = {first, second};
    for (unsigned number = 0; number < 2; number++)
        if (change[number][0] != '\0')
            snprintf(marker.members[number], sizeof marker.members[number], "%s",
                     strcmp(change[number], "-") == 0 ? "" : change[number]);
    return marker;
}

/* Nodes of which a client knows nothing; the first `bare` of them are empty servers of other runs. */
static void comes_back_bare(unsigned node)
{
    restart(node, 90 + node);
    world.servers[node].text[0] = '\0';
}

static void strangers(unsigned nodes, unsigned bare)
{
    world_make(nodes);
    for (unsigned i = 0; i < bare; i++)
        comes_back_bare(i);
}

static void has(unsigned node, uint32_t generation, const char *first, const char *second)
{
    mark(node, changed(world.trust.nodes, generation, node, first, second), run_of(node));
}

static struct marker marker_of(unsigned node)
{
    struct marker marker;
    assert_true(marker_parse(&marker, world.servers[node].text, strlen(world.servers[node].text)));
    return marker;
}

/* What is to be written once all but the `unseen` were seen. */
static node_set wanted_without(node_set unseen)
{
    node_set wanted = 0;
    for (unsigned i = 0; i < world.trust.nodes; i++)
        if (((unsigned)unseen >> i & 1u) == 0)
            look(i);
    tick_after(NS_PER_S);
    for (unsigned i = 0; i < world.trust.nodes; i++)
        if (world.trust.node[i].records)
            wanted |= (node_set)(1u << i);
    return wanted;
}

static node_set wanted(void)
{
    return wanted_without(0);
}

static void write_at(node_set nodes)
{
    for (unsigned i = 0; i < world.trust.nodes; i++)
        if ((unsigned)nodes >> i & 1u) {
            write_and_look(i);
        }
}

TEST(who_knew_nothing_finishes_a_record)
{
    for (unsigned nodes = 3; nodes <= 5; nodes += 2) {
        unsigned bare = nodes / 2;
        strangers(nodes, bare);
        has(bare, nodes == 3 ? 2 : 3, ids[0], nodes == 3 ? "" : ids[1]);
        node_set behind = (node_set)((1u << nodes) - (2u << bare));
        assert_int_equal(wanted(), behind);
        assert_false(world.trust.has_group);
        write_at(behind);
        for (unsigned i = bare; i < nodes; i++) {
            struct marker marker = marker_of(i), first = marker_of(bare);
            assert_true(marker_same_membership(&marker, &first));
            assert_string_equal(marker.self, group_marker(nodes, 1, i).self);
            assert_string_equal(marker.run, run_of(i));
            expect_votes(i);
        }
    }
}

TEST(fewer_than_a_quorum_decide_nothing)
{
    strangers(5, 1);
    has(2, 2, ids[0], "");
    assert_int_equal(wanted_without(0x12), 0);
    look(4);
    tick_after(NS_PER_S);
    assert_int_equal(world.step.write, 0x18);
}

/* The server at number 1 is new there, and node 2 has not heard of it. */
TEST(who_does_not_list_another_counts_for_nothing)
{
    strangers(5, 1);
    struct marker newcomer = changed(5, 2, 1, "", ids[1]);
    memcpy(newcomer.self, ids[1], sizeof newcomer.self);
    mark(1, newcomer, run_of(1));
    has(3, 3, ids[0], ids[1]);
    has(4, 2, "", ids[1]);
    assert_int_equal(wanted_without(0x10), 0);
    assert_int_equal(wanted(), 0x12);
    write_at(0x12);
    assert_int_equal(world.trust.group.generation, 3);
    pass(NS_PER_S);
    assert_int_equal(tick().write, 0x4);
}

TEST(a_member_that_was_replaced_is_passed_over_when_it_is_behind)
{
    strangers(5, 1);
    has(2, 3, ids[0], ids[1]);
    has(3, 2, "", ids[1]);
    has(4, 2, "", ids[1]);
    assert_int_equal(wanted(), 0x18);
    strangers(5, 1);
    has(2, 2, ids[0], "");
    struct marker newcomer = changed(5, 3, 1, "", ids[1]); /* newer than what would be finished */
    memcpy(newcomer.self, ids[1], sizeof newcomer.self);
    mark(1, newcomer, run_of(1));
    assert_int_equal(wanted(), 0);
}

TEST(a_copy_of_a_member_is_none)
{
    strangers(5, 1);
    has(2, 2, ids[0], "");
    mark(4, group_marker(5, 1, 3), run_of(4));
    assert_int_equal(wanted_without(0x2), 0);
}

TEST(a_memory_is_not_taken_for_the_newest)
{
    strangers(5, 1);
    has(1, 2, ids[0], "");
    restart(1, 91);
    assert_int_equal(wanted() & 0x1c, 0);
}

/* It may have lost the newest marker: it counts when nobody else is left. */
TEST(a_member_that_restarted_counts_when_too_few_did_not)
{
    strangers(5, 2);
    has(2, 2, ids[0], "");
    restart(3, 93);
    assert_int_equal(wanted_without(0x2), 0);
    assert_int_equal(wanted(), 0x18);
    write_at(0x18);
    assert_int_equal(world.trust.group.generation, 2);
    assert_string_equal(marker_of(3).run, run_of(3));
    expect(3, TRUST_QUARANTINED, TRUST_NEW_RUN); /* that is another matter */

    strangers(5, 0); /* four did not restart, and these can still tell */
    restart(4, 94);
    for (unsigned i = 0; i < 4; i++)
        has(i, i == 2 ? 2 : i == 3 ? 4 : 1, i < 2 ? "" : ids[0], i == 3 ? ids[1] : "");
    assert_int_equal(wanted() & 0x10, 0);
}

TEST(what_an_operator_began_is_his_to_finish)
{
    strangers(5, 1);
    has(2, 2, "", "-");
    has(3, 3, ids[0], "-");
    assert_int_equal(wanted_without(0x2), 0);
    strangers(5, 1);
    has(2, 2, ids[0], "");
    mark(1, changed(5, 2, 2, "", "-"), "");
    assert_int_equal(wanted(), 0);
    strangers(5, 1);
    has(2, 3, ids[0], ""); /* the number was vacant in between */
    assert_int_equal(wanted_without(0x2), 0);
}

TEST(the_smaller_of_two_records_wins_when_the_other_cannot)
{
    strangers(3, 1);
    has(1, 2, ids[1], "");
    has(2, 2, ids[0], "");
    assert_int_equal(wanted(), 0x2);
    write_at(0x2);
    assert_string_equal(world.trust.group.members[0], ids[0]);
    strangers(5, 1);
    for (unsigned i = 2; i < 5; i++)
        has(i, 2, i == 2 ? ids[0] : ids[1], "");
    assert_int_equal(wanted_without(0x2), 0); /* the one that is not seen may have the other one */
    has(3, 2, ids[0], "");
    assert_int_equal(wanted_without(0x2), 0x10);
    strangers(5, 0);
    comes_back_bare(1);
    comes_back_bare(2);
    has(0, 2, "", ids[0]); /* the second number is contested */
    has(3, 2, "", ids[0]);
    has(4, 2, "", ids[1]);
    assert_int_equal(wanted(), 0x10);
    for (unsigned kind = 0; kind < 2; kind++) { /* two numbers are contested */
        strangers(5, 2);
        has(2, 3, ids[0], ids[1 + kind]);
        for (unsigned i = 3; i < 5; i++)
            has(i, 3, ids[1], ids[2 - kind]);
        has(3, 3, ids[0], ids[1 + kind]);
        assert_int_equal(wanted(), 0);
    }
}

/* It missed a record that was finished, and the next one is not. */
TEST(who_knows_an_older_generation_finishes_the_next)
{
    comes_back_bare(0);
    has(1, 3, ids[1], "");
    has(2, 2, ids[0], "");
    assert_int_equal(wanted(), 0x4);
    write_at(0x4);
    assert_int_equal(world.trust.group.generation, 3);
}

TEST(nothing_older_than_the_group_is_finished)
{
    world_make(3);
    for (unsigned i = 0; i < 3; i++)
        mark(i, changed(3, 3, 2, ids[0], ids[1]), run_of(i));
    for (unsigned i = 0; i < 2; i++) {
        struct marker marker = changed(3, 3, i, ids[0], ids[1]);
        memcpy(marker.self, ids[i], sizeof marker.self);
        mark(i, marker, run_of(i));
    }
    look_at_all();
    assert_int_equal(world.trust.group.generation, 3);
    trust_unseen(&world.trust, 2, world.now);
    restart(0, 90); /* the addresses lead back to old servers */
    restart(1, 91);
    mark(0, group_marker(3, 1, 0), run_of(90));
    struct marker marker = group_marker(3, 2, 1);
    memcpy(marker.members[2], ids[2], sizeof marker.members[2]);
    mark(1, marker, run_of(91));
    assert_int_equal(wanted_without(0x4), 0);
}

RUN_TESTS_BETWEEN(start_three, NULL)
