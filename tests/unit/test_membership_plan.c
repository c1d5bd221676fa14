/* What is planned, and what is refused, for single states of a lock group. */
#include "tests/unit/membership_fixture.h"

#include "redlock/lease.h"

/* What the nodes have; a sound group of five, unless a test says otherwise. */
static struct world world;

static void set_up(void)
{
    world = world_begin(5);
}

static struct membership_step step_of(unsigned nodes, int leaving, bool is_outside, unsigned reached)
{
    struct history *history = history_of(nodes, leaving, is_outside);
    struct membership_step step = plan(history, &world, reached);
    free(history);
    return step;
}

static void assert_refused(struct membership_step step, enum membership_verdict verdict, const char *reason)
{
    assert_int_equal(step.verdict, verdict);
    if (strstr(step.reason, reason) == NULL)
        fail_msg("'%s' does not say '%s'", step.reason, reason);
}

TEST(too_few_nodes_change_nothing)
{
    assert_refused(step_of(5, 0, true, 0x26), MEMBERSHIP_TOO_FEW,
                   "only 2 of the 4 nodes that stay can be reached: 3 are needed"); /* n2, n3 and the newcomer */
    assert_refused(step_of(5, 0, true, 0x1f), MEMBERSHIP_TOO_FEW, "n6 cannot be reached");
}

TEST(nodes_without_a_group_are_told_so)
{
    world = world_begin(3);
    memset(world.marker, 0, sizeof world.marker);
    assert_refused(step_of(3, 0, true, 0xf), MEMBERSHIP_REFUSED, "no lock group yet");
    world.marker[0] = world_begin(3).marker[0];
    assert_refused(step_of(3, 2, true, 0xf), MEMBERSHIP_REFUSED, "only 1 of 3 nodes remember the group");
}

TEST(a_majority_that_forgot_is_not_healed)
{
    for (unsigned i = 0; i < 3; i++)
        memset(&world.marker[i], 0, sizeof world.marker[i]);
    assert_refused(step_of(5, 0, false, 0x1f), MEMBERSHIP_REFUSED, "only 2 of 5 nodes remember the group");
}

TEST(a_member_or_a_stranger_is_no_newcomer)
{
    world.marker[5] = world.marker[4]; /* as after a copy of a data directory */
    assert_refused(step_of(5, 0, true, 0x3f), MEMBERSHIP_REFUSED, "n6 is a member of this group already");
    memset(world.marker[5].group, 'f', MARKER_GROUP_DIGITS);
    assert_refused(step_of(5, 0, true, 0x3f), MEMBERSHIP_REFUSED,
                   "n6 belongs to another lock group (ffffffffffffffff)");
    world.marker[5] = world.marker[4];
    id_set(world.marker[5].members[4], "0000000a");
    id_set(world.marker[5].self, "0000000a");
    world.marker[5].generation = 3;
    assert_refused(step_of(5, 0, true, 0x3f), MEMBERSHIP_REFUSED, "n6 was a member of this group before (as 0000000a)");
}

TEST(a_node_that_was_replaced_is_no_member)
{
    world = world_begin(3);
    for (unsigned i = 1; i < 3; i++) {
        id_set(world.marker[i].members[0], "0000000a");
        world.marker[i].generation += 2;
    }
    assert_refused(step_of(3, 0, true, 0xf), MEMBERSHIP_REFUSED,
                   "n1 is no member of the group any more: it was replaced before");
    assert_refused(step_of(3, 0, false, 0x7), MEMBERSHIP_REFUSED, "Put its successor into the configuration");
}

/* --- changes that met --------------------------------------------------------------------------------------------- */

static void changes(unsigned server, unsigned number, const char *id)
{
    id_set(world.marker[server].members[number], id);
    world.marker[server].generation++;
}

/* Once others had time to finish a change. */
static struct membership_step healing(unsigned reached)
{
    struct history *history = history_of(5, MEMBERSHIP_NOBODY, false);
    struct membership_step step = plan_of_members(history, &world, reached);
    free(history);
    return step;
}

/* Of three members two know one record of the first number, and one knows another; the fourth forgot. */
static void records_meet(void)
{
    memset(&world.marker[0], 0, sizeof world.marker[0]);
    memset(&world.marker[4], 0, sizeof world.marker[4]);
    for (unsigned i = 1; i < 4; i++)
        changes(i, 0, i == 1 ? "0000000a" : "0000000b");
}

TEST(a_contested_number_becomes_vacant)
{
    records_meet();
    assert_refused(step_of(5, MEMBERSHIP_NOBODY, false, 0x1f), MEMBERSHIP_WAIT, "two changes of the group met");
    assert_refused(step_of(5, 0, true, 0x3f), MEMBERSHIP_REFUSED, "run `nodes heal --wait` first");
    assert_refused(step_of(5, 0, false, 0x1f), MEMBERSHIP_REFUSED, "run `nodes heal --wait` first");
    struct history *history = history_of(5, MEMBERSHIP_NOBODY, false);
    for (unsigned server = 1; server < 4; server++) {
        struct membership_step step = plan_of_members(history, &world, 0x1f);
        assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
        assert_int_equal(step.server, server);
        assert_int_equal(step.group.generation, 9); /* above all that clients may have adopted */
        assert_string_equal(step.group.members[0], "");
        perform(history, &world, &step);
    }
    free(history);
    assert_int_equal(step_of(5, MEMBERSHIP_NOBODY, false, 0x1f).verdict, MEMBERSHIP_DONE);
    for (int leaving = 0; leaving < 5; leaving += 4) { /* which has no vote before a quarantine is over */
        struct membership_step step = step_of(5, leaving, false, 0x1f);
        assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
        assert_int_equal(step.server, 1);
        assert_string_equal(step.group.members[0], new_id);
    }
}

/* Its quarantine begins with its marker, which comes last. */
TEST(a_node_that_lost_its_marker_gets_no_vote_yet)
{
    struct history *history = history_of(5, 0, false);
    memset(&world.marker[0], 0, sizeof world.marker[0]);
    for (unsigned server = 1; server <= 5; server++) {
        struct membership_step step = plan(history, &world, 0x1f);
        assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
        assert_int_equal(step.server, server % 5);
        assert_string_equal(step.group.members[0], new_id);
        assert_false(step.gives_vote);
        perform(history, &world, &step);
    }
    assert_string_equal(world.marker[0].run, "");
    assert_int_equal(plan(history, &world, 0x1f).verdict, MEMBERSHIP_DONE);
    free(history);
}

TEST(too_few_that_are_sure_of_their_numbers_settle_nothing)
{
    records_meet();
    assert_int_equal(healing(0x17).verdict, MEMBERSHIP_TOO_FEW);
    changes(3, 3, "0000000c"); /* recorded by one that knows itself there */
    changes(1, 1, "0000000d");
    id_set(world.marker[1].self, "0000000d");
    id_set(world.marker[3].self, "0000000c");
    assert_refused(healing(0x1f), MEMBERSHIP_REFUSED, "only 1 of the nodes that can be reached have a number");
    assert_refused(healing(0x0e), MEMBERSHIP_TOO_FEW, "only 1 of the nodes that can be reached have a number");
}

TEST(what_a_quorum_knows_is_not_contested)
{
    memset(&world.marker[0], 0, sizeof world.marker[0]);
    for (unsigned i = 1; i < 5; i++)
        changes(i, 0, i == 1 ? "0000000a" : "0000000b");
    struct membership_step step = step_of(5, MEMBERSHIP_NOBODY, false, 0x1f);
    assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
    assert_int_equal(step.server, 1);
    assert_int_equal(step.group.generation, 8);
    assert_string_equal(step.group.members[0], "0000000b");
    assert_int_equal(step_of(5, MEMBERSHIP_NOBODY, false, 0x0f).verdict, MEMBERSHIP_WAIT);
}

/* Who changed two numbers never knew of the record that a quorum has, although its generation is higher. */
TEST(a_higher_generation_may_contest_as_well)
{
    for (unsigned i = 0; i < 3; i++)
        changes(i, 4, "0000000a");
    changes(3, 4, "0000000b");
    changes(3, 0, "0000000c");
    memset(&world.marker[4], 0, sizeof world.marker[4]);
    struct history *history = history_of(5, MEMBERSHIP_NOBODY, false);
    for (unsigned server = 1; server < 4; server++) {
        struct membership_step step = plan_of_members(history, &world, 0x1f);
        assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
        assert_int_equal(step.server, server);
        assert_int_equal(step.group.generation, 11);
        assert_string_equal(step.group.members[0], "");
        assert_string_equal(step.group.members[4], "");
        perform(history, &world, &step);
    }
    free(history);
    for (unsigned i = 0; i < 5; i += 4) { /* one after the other, and each at its index */
        struct membership_step step = step_of(5, (int)i, false, 0x1f);
        assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
        assert_int_equal(step.server, 1);
        assert_string_equal(step.group.members[i], new_id);
    }
}

TEST(another_replacement_is_finished_first)
{
    for (unsigned i = 1; i < 5; i++) {
        world.marker[i].members[0][0] = '\0';
        world.marker[i].generation++;
    }
    assert_refused(step_of(5, 2, true, 0x3f), MEMBERSHIP_REFUSED, "another node than n3 is being replaced");
    assert_refused(step_of(5, 2, true, 0x3b), MEMBERSHIP_REFUSED,
                   "the vacant number is that of n1"); /* n3 is dead; the vacancy can be seen to be n1's */
    world = world_begin(3);                            /* of three nodes, only one stays in both replacements */
    for (unsigned i = 1; i < 3; i++) {
        world.marker[i].members[0][0] = '\0';
        world.marker[i].generation++;
    }
    assert_refused(step_of(3, 2, true, 0xf), MEMBERSHIP_REFUSED, "another node than n3 is being replaced");
}

TEST(a_group_of_another_size_is_refused)
{
    assert_refused(step_of(3, 0, true, 0xf), MEMBERSHIP_REFUSED, "the group has 5 members, but 3 nodes are configured");
}

TEST(one_number_of_two_nodes_is_refused)
{
    world.marker[2] = world.marker[1];
    assert_refused(step_of(5, 0, true, 0x3f), MEMBERSHIP_REFUSED, "n2 and n3 are the same member 00000002");
}

/* Two nodes are dead and the configuration has another order than the numbers: nothing is guessed. */
TEST(a_number_is_not_guessed)
{
    struct marker first = world.marker[0];
    world.marker[0] = world.marker[1];
    world.marker[1] = first;
    assert_refused(step_of(5, 4, true, 0x27), MEMBERSHIP_TOO_FEW,
                   "the number of n5 in the group is not known"); /* n4 and n5 are away */
    struct membership_step step = step_of(5, 0, true, 0x2f);      /* n1 says which one it has, although n5 is away */
    assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
    assert_non_null(strstr(step.text, "members=00000001,-,00000003,00000004,00000005 "));
    world = world_begin(5);
    step = step_of(5, 4, true, 0x27);
    assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
    assert_non_null(strstr(step.text, "members=00000001,00000002,00000003,00000004,- "));
}

/* The configuration has another order than the numbers, and the node that goes is dead: what nobody else has was its */
TEST(the_only_missing_number_is_taken)
{
    struct marker first = world.marker[1];
    world.marker[1] = world.marker[4];
    world.marker[4] = first;
    struct membership_step step = step_of(5, 4, true, 0x2f);
    assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
    assert_non_null(strstr(step.text, "members=00000001,-,00000003,00000004,00000005 "));
}

/* The configuration names nodes that were replaced long ago: they count for nothing. */
TEST(former_members_do_not_count)
{
    for (unsigned i = 0; i < 3; i++) {
        id_set(world.marker[i].members[3], "0000000c");
        world.marker[i].generation += 2;
    }
    assert_refused(
        step_of(5, 0, true, 0x2e), MEMBERSHIP_TOO_FEW,
        "only 2 of the nodes that stay are reached and belong to the group"); /* n2, n3, and n4 that was replaced */
    world.marker[5] = world.marker[1];
    id_set(world.marker[5].members[0], new_id);
    id_set(world.marker[5].members[2], "0000000d");
    id_set(world.marker[5].self, new_id);
    world.marker[5].generation += 2;
    struct membership_step step = step_of(5, 0, true, 0x2e);
    assert_int_equal(step.verdict, MEMBERSHIP_WRITE); /* n2 learns of it; n3 and n4 have no number */
    struct history *history = history_of(5, 0, true);
    perform(history, &world, &step);
    free(history);
    assert_refused(step_of(5, 0, true, 0x2e), MEMBERSHIP_TOO_FEW,
                   "n6 is a member, but too few of the other nodes can be reached");
}

/* A member that was away during a change learns of it, and keeps what it says about its run. */
TEST(members_are_brought_up_to_date)
{
    struct membership membership = {.nodes = 5, .leaving = MEMBERSHIP_NOBODY, .new_id = new_id};
    for (unsigned i = 0; i < 4; i++) {
        id_set(world.marker[i].members[0], "0000000a");
        if (i == 0)
            id_set(world.marker[i].self, "0000000a");
        world.marker[i].generation += 2;
    }
    world.marker[4].run[0] = '\0';
    for (unsigned i = 0; i < 5; i++)
        node_read(&membership.node[i], &world, i, true);
    struct membership_step step = membership_next(&membership);
    assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
    assert_int_equal(step.server, 4);
    assert_string_equal(step.text, "4 group=00112233445566aa generation=9 max_ttl_ms=2000 "
                                   "members=0000000a,00000002,00000003,00000004,00000005 self=00000005 run=-");
    assert_true(marker_parse(&world.marker[4], step.text, strlen(step.text)));
    node_read(&membership.node[4], &world, 4, true);
    assert_int_equal(membership_next(&membership).verdict, MEMBERSHIP_DONE);
}

TEST(the_wait_is_longer_than_any_lock)
{
    assert_int_equal(lease_wait_ns(60000 * NS_PER_MS, 0.01, 50 * NS_PER_MS),
                     60007 * NS_PER_MS * 100 / 99 + 50 * NS_PER_MS);
    assert_int_equal(lease_wait_ns(1 * NS_PER_MS, 0.5, 0), 16 * NS_PER_MS);
}

RUN_TESTS_BETWEEN(set_up, NULL)
