/* Where the fences of a node are: what the scheme of its marker means for votes, and which scheme is written. */
#include "tests/unit/trust_fixture.h"

static struct marker marker_at(unsigned server)
{
    struct marker marker;
    assert_true(marker_parse(&marker, world.servers[server].text, strlen(world.servers[server].text)));
    return marker;
}

static struct trust_step set_scheme(unsigned node, enum marker_scheme scheme)
{
    struct marker marker = marker_at(node);
    marker.scheme = scheme;
    marker_write(&marker, world.servers[node].text);
    return look(node);
}

TEST(nodes_of_both_schemes_vote)
{
    set_scheme(0, MARKER_SET);
    expect_voters(7);
    set_scheme(1, MARKER_SET);
    set_scheme(2, MARKER_SET);
    expect_voters(7);
    assert_string_equal(trust_marker_expected(&world.trust, 2), world.servers[2].text);
}

TEST(a_node_whose_fences_move_extends_and_nothing_else)
{
    expect_after(set_scheme(1, MARKER_MOVING), 0, 0, 2);
    expect(1, TRUST_EXCLUDED, TRUST_FENCES_MOVE);
    expect_voters(5);
    assert_int_equal(trust_members(&world.trust), 7);
    assert_int_equal(trust_replanters(&world.trust), 5);
    assert_int_equal(trust_next(&world.trust).ns, INSTANT_NEVER.ns); /* nothing to wait for */
    expect_after(set_scheme(1, MARKER_SET), 0, 0, 2);
    expect_votes(1);
    assert_int_equal(trust_replanters(&world.trust), 7);
}

/* Only where they are in a set. */
TEST(a_node_whose_fences_are_none_extends_and_nothing_else)
{
    world.servers[1].has_bad_fences = true;
    look(1);
    expect_voters(7);
    expect_after(set_scheme(1, MARKER_SET), 0, 0, 2);
    expect(1, TRUST_EXCLUDED, TRUST_FENCES_BAD);
    expect_voters(5);
    assert_int_equal(trust_members(&world.trust), 7);
    assert_int_equal(trust_replanters(&world.trust), 5);
    world.servers[1].has_bad_fences = false;
    expect_after(look(1), 0, 0, 2);
    expect_votes(1);
    assert_int_equal(trust_replanters(&world.trust), 7);
    world.servers[1].has_bad_fences = true;
    expect_after(look(1), 0, 0, 2);
    expect(1, TRUST_EXCLUDED, TRUST_FENCES_BAD);
}

/* Its doubts and its memory are those of any node, and whoever heals it leaves the fences to the operator. */
TEST(a_node_that_restarts_meanwhile_is_healed_on_the_way)
{
    set_scheme(1, MARKER_MOVING);
    restart(1, 21);
    expect_after(look(1), 2, 0, 2);
    expect(1, TRUST_QUARANTINED, TRUST_NEW_RUN);
    assert_int_equal(trust_members(&world.trust), 7);
    assert_int_equal(trust_replanters(&world.trust), 5);
    expect_after(tick_after(QUARANTINE_NS), 0, 2, 0);
    write_and_look(1);
    assert_int_equal(marker_at(1).scheme, MARKER_MOVING);
    assert_string_equal(marker_at(1).run, run_of(21));
    expect(1, TRUST_EXCLUDED, TRUST_FENCES_MOVE);
    set_scheme(1, MARKER_SET);
    expect_votes(1);
}

/* Returns the scheme that node 1 gets after it was emptied, behind a quarantine too. */
static enum marker_scheme scheme_of_emptied(void)
{
    empty(1);
    look_at_others(1);
    assert_true(perform_write(1));
    enum marker_scheme scheme = marker_at(1).scheme;
    look(1);
    tick_after(QUARANTINE_NS);
    write_and_look(1);
    expect_votes(1);
    assert_int_equal(marker_at(1).scheme, scheme);
    return scheme;
}

TEST(an_emptied_node_has_what_the_group_is_on_the_way_to)
{
    assert_int_equal(scheme_of_emptied(), MARKER_STRINGS);
    for (enum marker_scheme scheme = MARKER_MOVING; scheme <= MARKER_SET; scheme++) {
        start_three();
        set_scheme(2, scheme);
        assert_int_equal(scheme_of_emptied(), MARKER_SET);
        start_three();
        set_scheme(1, scheme); /* the node itself had said so */
        assert_int_equal(scheme_of_emptied(), MARKER_SET);
    }
}

TEST(another_group_says_nothing_about_ours)
{
    struct marker foreign = group_marker(3, 1, 2);
    foreign.group[3] = 'e';
    foreign.scheme = MARKER_SET;
    mark(2, foreign, run_of(2));
    look(2);
    expect(2, TRUST_EXCLUDED, TRUST_OTHER_GROUP);
    mark(2, group_marker(3, 1, 2), run_of(2));
    look(2);
    assert_int_equal(scheme_of_emptied(), MARKER_STRINGS);
}

/* A change of members reaches a node in its marker, and not the fences there. */
TEST(a_member_that_takes_the_group_keeps_its_scheme)
{
    for (enum marker_scheme scheme = MARKER_STRINGS; scheme <= MARKER_SET; scheme++) {
        start(5);
        set_scheme(4, scheme);
        for (unsigned i = 1; i < 4; i++) {
            struct marker marker = group_marker(5, 2, i);
            marker.scheme = MARKER_SET;
            snprintf(marker.places[0], sizeof marker.places[0], "0000abcd");
            mark(i, marker, run_of(i));
            look(i);
        }
        assert_true(world.trust.node[4].records);
        write_and_look(4);
        assert_string_equal(marker_at(4).places[0], "0000abcd");
        assert_int_equal(marker_at(4).scheme, scheme);
    }
}

RUN_TESTS_BETWEEN(start_three, NULL)
