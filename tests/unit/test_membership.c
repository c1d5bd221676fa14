/* The planning of membership changes: every state that interruptions, unreachable nodes and repetitions can lead to is
 * visited, and in each of them the invariants of membership.h are checked. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "redlock/membership.h"

enum { NODES_MAX = 5, SERVERS_MAX = NODES_MAX + 1, STATES_MAX = 4096, EDGES_MAX = 1 << 19 };

/* What the servers hold: the configured ones, and behind them the one that is to come. A marker of generation 0 is
 * none. `waited` is what only the running process knows. */
struct world {
    struct marker marker[SERVERS_MAX];
    uint32_t waited;
};

struct history {
    unsigned nodes;
    int leaving;
    bool newcomer_is_outside;
    unsigned count, edges;
    struct world states[STATES_MAX];
    unsigned from[EDGES_MAX], to[EDGES_MAX];
    bool is_wait[EDGES_MAX];
};

static const char group_id[] = "00112233445566aa", new_id[] = "ffff0001";

static void id_set(char to[MARKER_ID_DIGITS + 1], const char *id)
{
    memset(to, 0, MARKER_ID_DIGITS + 1);
    memcpy(to, id, strlen(id));
}

static void run_of(unsigned server, char run[MARKER_RUN_DIGITS + 1])
{
    snprintf(run, MARKER_RUN_DIGITS + 1, "%040x", server + 1);
}

static struct marker founding(unsigned nodes)
{
    struct marker group = {.generation = 7, .max_ttl_ms = 2000, .place_count = nodes};
    memcpy(group.group, group_id, sizeof group_id);
    for (unsigned i = 0; i < nodes; i++)
        snprintf(group.places[i], sizeof group.places[i], "%08x", i + 1);
    return group;
}

static struct world world_begin(unsigned nodes)
{
    struct world world;
    memset(&world, 0, sizeof world); /* also what is between the members: worlds are compared byte for byte */
    for (unsigned i = 0; i < nodes; i++) {
        struct marker marker = founding(nodes);
        memcpy(world.marker[i].group, marker.group, sizeof marker.group);
        world.marker[i].generation = marker.generation;
        world.marker[i].max_ttl_ms = marker.max_ttl_ms;
        world.marker[i].place_count = marker.place_count;
        memcpy(world.marker[i].places, marker.places, sizeof marker.places);
        memcpy(world.marker[i].self, marker.places[i], sizeof world.marker[i].self);
        run_of(i, world.marker[i].run);
    }
    return world;
}

static void node_read(struct membership_node *node, const struct world *world, unsigned server, bool is_reached)
{
    static const char *const names[] = {"n1", "n2", "n3", "n4", "n5", "n6"};
    *node = (struct membership_node){.name = names[server], .is_reached = is_reached};
    run_of(server, node->run_id);
    if (!is_reached || world->marker[server].generation == 0)
        return;
    node->has_marker = true;
    node->marker = world->marker[server];
    marker_write(&node->marker, node->text);
}

/* `reached` has a bit for each server. */
static struct membership_step plan(const struct history *history, const struct world *world, unsigned reached)
{
    struct membership membership = {
        .nodes = history->nodes, .leaving = history->leaving, .new_id = new_id, .waited_for = world->waited};
    struct membership_node outside;
    for (unsigned i = 0; i < history->nodes; i++)
        node_read(&membership.node[i], world, i, (reached >> i & 1) != 0);
    node_read(&outside, world, history->nodes, (reached >> history->nodes & 1) != 0);
    membership.newcomer = history->newcomer_is_outside ? &outside : &membership.node[history->leaving];
    return membership_next(&membership);
}

/* As mark.lua does it: what is expected must be there. */
static void perform(const struct history *history, struct world *world, const struct membership_step *step)
{
    struct marker marker;
    unsigned server = step->server == MEMBERSHIP_NEWCOMER ? history->nodes : step->server;
    char found[MARKER_TEXT_MAX] = "";
    if (world->marker[server].generation != 0)
        marker_write(&world->marker[server], found);
    assert_string_equal(found, step->expected);
    assert_true(marker_parse(&marker, step->text, strlen(step->text), NULL));
    memset(&world->marker[server], 0, sizeof world->marker[server]);
    memcpy(world->marker[server].group, marker.group, sizeof marker.group);
    world->marker[server].generation = marker.generation;
    world->marker[server].max_ttl_ms = marker.max_ttl_ms;
    world->marker[server].place_count = marker.place_count;
    for (unsigned i = 0; i < marker.place_count; i++)
        id_set(world->marker[server].places[i], marker.places[i]);
    id_set(world->marker[server].self, marker.self);
    memcpy(world->marker[server].run, marker.run, sizeof marker.run);
}

/* --- all states ---------------------------------------------------------------------------------------------------- */

static unsigned state_of(struct history *history, const struct world *world)
{
    for (unsigned i = 0; i < history->count; i++)
        if (memcmp(&history->states[i], world, sizeof *world) == 0)
            return i;
    assert_true(history->count < STATES_MAX);
    history->states[history->count] = *world;
    return history->count++;
}

static void edge_add(struct history *history, unsigned from, const struct world *to, bool is_wait)
{
    unsigned target = state_of(history, to);
    if (target == from)
        return;
    for (unsigned i = history->edges; i-- > 0 && history->from[i] == from;)
        if (history->to[i] == target && history->is_wait[i] == is_wait)
            return;
    assert_true(history->edges < EDGES_MAX);
    history->from[history->edges] = from;
    history->to[history->edges] = target;
    history->is_wait[history->edges++] = is_wait;
}

/* From every state: what a process would do that reaches just these servers; and that it dies. */
static void history_explore(struct history *history, const struct world *begin)
{
    state_of(history, begin);
    for (unsigned at = 0; at < history->count; at++) {
        for (unsigned reached = 0; reached < 1U << (history->nodes + 1); reached++) {
            struct world world = history->states[at];
            struct membership_step step = plan(history, &world, reached);
            if (step.verdict == MEMBERSHIP_WRITE)
                perform(history, &world, &step);
            else if (step.verdict == MEMBERSHIP_WAIT)
                world.waited = step.group.generation;
            edge_add(history, at, &world, step.verdict == MEMBERSHIP_WAIT);
        }
        struct world killed = history->states[at];
        killed.waited = 0;
        edge_add(history, at, &killed, false);
    }
}

/* --- the invariants ------------------------------------------------------------------------------------------------ */

static unsigned bits(unsigned set)
{
    return (unsigned)__builtin_popcount(set);
}

/* The servers that can vote together with this one: their markers are of one membership, in which each has a place. */
static unsigned voters_with(const struct world *world, unsigned server, unsigned servers)
{
    const struct marker *marker = &world->marker[server];
    unsigned voters = 0;
    for (unsigned i = 0; i < servers && marker->generation != 0; i++)
        if (marker_same_membership(marker, &world->marker[i]) && marker_place_of(marker, world->marker[i].self) >= 0)
            voters |= 1U << i;
    return voters;
}

/* The members of `voters` as holders of memory: a node that was emptied is another one than before. */
static unsigned memory_of(const struct history *history, const struct world *world, unsigned voters)
{
    if (history->newcomer_is_outside || history->leaving == MEMBERSHIP_NOBODY)
        return voters;
    bool is_back = strcmp(world->marker[history->leaving].self, new_id) == 0;
    unsigned leaving = 1U << history->leaving;
    return is_back && (voters & leaving) != 0 ? (voters & ~leaving) | 1U << history->nodes : voters;
}

/* Two majorities that need not have a node in common. */
static void assert_majorities_meet(const struct history *history, const struct world *before, const struct world *after)
{
    unsigned servers = history->nodes + 1, quorum = history->nodes / 2 + 1;
    for (unsigned i = 0; i < servers; i++) {
        unsigned ours = memory_of(history, before, voters_with(before, i, servers));
        for (unsigned j = 0; j < servers && bits(ours) >= quorum; j++) {
            unsigned theirs = memory_of(history, after, voters_with(after, j, servers));
            if (bits(theirs) >= quorum)
                assert_true(bits(ours | theirs) < 2 * quorum);
        }
    }
}

static void assert_ids_are_single(const struct history *history, const struct world *world)
{
    for (unsigned i = 0; i <= history->nodes; i++)
        for (unsigned j = 0; j < i; j++)
            if (world->marker[i].generation != 0 && world->marker[j].generation != 0)
                assert_string_not_equal(world->marker[i].self, world->marker[j].self);
}

/* All states that can follow on this one before a longest ttl has passed. */
static void assert_safe_from(const struct history *history, unsigned begin)
{
    static bool seen[STATES_MAX];
    static unsigned queue[STATES_MAX];
    unsigned head = 0, tail = 0;
    memset(seen, 0, sizeof seen);
    seen[begin] = true;
    queue[tail++] = begin;
    while (head < tail) {
        unsigned at = queue[head++];
        assert_majorities_meet(history, &history->states[begin], &history->states[at]);
        for (unsigned i = 0; i < history->edges; i++) {
            if (history->from[i] != at || history->is_wait[i] || seen[history->to[i]])
                continue;
            seen[history->to[i]] = true;
            queue[tail++] = history->to[i];
        }
    }
}

/* Undisturbed, and with these servers in reach, the work is done from here. */
static void assert_ends_well(const struct history *history, struct world world, unsigned reached)
{
    struct membership_step step = {.verdict = MEMBERSHIP_WAIT};
    world.waited = 0;
    for (unsigned steps = 0; step.verdict != MEMBERSHIP_DONE; steps++) {
        assert_true(steps < 30);
        step = plan(history, &world, reached);
        if (step.verdict == MEMBERSHIP_WAIT)
            world.waited = step.group.generation;
        else if (step.verdict == MEMBERSHIP_WRITE)
            perform(history, &world, &step);
        else if (step.verdict != MEMBERSHIP_DONE)
            fail_msg("refused: %s", step.reason);
    }
    unsigned newcomer = history->newcomer_is_outside ? history->nodes : (unsigned)history->leaving;
    unsigned voters = voters_with(&world, newcomer, history->nodes + 1), expected = reached;
    if (history->newcomer_is_outside)
        expected &= ~(1U << history->leaving);
    assert_int_equal(voters, expected & ~(history->newcomer_is_outside ? 0 : 1U << history->nodes));
    assert_int_equal(marker_place_of(&world.marker[newcomer], new_id), history->leaving);
    assert_int_equal(world.marker[newcomer].generation, founding(history->nodes).generation + 2);
    char run[MARKER_RUN_DIGITS + 1];
    for (unsigned i = 0; i <= history->nodes; i++)
        if ((voters >> i & 1) != 0) {
            run_of(i, run);
            assert_string_equal(world.marker[i].run, run);
        }
}

static struct history *history_of(unsigned nodes, int leaving, bool newcomer_is_outside)
{
    struct history *history = memory_new(struct history);
    history->nodes = nodes;
    history->leaving = leaving;
    history->newcomer_is_outside = newcomer_is_outside;
    return history;
}

/* From each state that can be reached: with all nodes; and with the old one dead. */
static void all_is_well(unsigned nodes, unsigned leaving, bool is_outside)
{
    struct history *history = history_of(nodes, (int)leaving, is_outside);
    struct world begin = world_begin(nodes);
    unsigned all = (1U << (nodes + 1)) - 1;
    if (!is_outside)
        memset(&begin.marker[leaving], 0, sizeof begin.marker[leaving]);
    history_explore(history, &begin);
    assert_true(history->count >= 7);
    for (unsigned i = 0; i < history->count; i++) {
        assert_ids_are_single(history, &history->states[i]);
        assert_safe_from(history, i);
        assert_ends_well(history, history->states[i], all);
        if (is_outside)
            assert_ends_well(history, history->states[i], all & ~(1U << leaving));
    }
    free(history);
}

static void a_replacement_may_be_interrupted_anywhere(void **state)
{
    (void)state;
    for (unsigned leaving = 0; leaving < 3; leaving++)
        all_is_well(3, leaving, true);
    all_is_well(5, 0, true);
    all_is_well(5, 2, true);
    all_is_well(5, 4, true);
}

static void a_readmission_may_be_interrupted_anywhere(void **state)
{
    (void)state;
    for (unsigned leaving = 0; leaving < 3; leaving++)
        all_is_well(3, leaving, false);
    all_is_well(5, 0, false);
    all_is_well(5, 3, false);
}

/* The checker itself: without the wait, or with one step instead of two, it has to find two majorities that miss each
 * other. */
static void the_check_would_find_a_replacement_in_one_step(void **state)
{
    (void)state;
    struct history *history = history_of(3, 0, true);
    struct world before = world_begin(3), after = before;
    for (unsigned i = 1; i <= 3; i++) {
        after.marker[i] = before.marker[1];
        after.marker[i].generation++;
        id_set(after.marker[i].places[0], new_id);
        id_set(after.marker[i].self, i == 3 ? new_id : before.marker[i].self);
    }
    unsigned ours = voters_with(&before, 1, 4), theirs = voters_with(&after, 1, 4);
    assert_int_equal(ours, 7);
    assert_int_equal(theirs, 14);
    assert_true(bits(ours | theirs) >= 4);
    free(history);
}

/* --- one plan ------------------------------------------------------------------------------------------------------ */

static struct membership_step step_of(const struct world *world, unsigned nodes, int leaving, bool is_outside,
                                      unsigned reached)
{
    struct history *history = history_of(nodes, leaving, is_outside);
    struct membership_step step = plan(history, world, reached);
    free(history);
    return step;
}

static void assert_refused(const struct membership_step *step, enum membership_verdict verdict, const char *reason)
{
    assert_int_equal(step->verdict, verdict);
    if (strstr(step->reason, reason) == NULL)
        fail_msg("'%s' does not say '%s'", step->reason, reason);
}

static void too_few_nodes_change_nothing(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    struct membership_step step = step_of(&world, 5, 0, true, 0x26); /* n2, n3 and the newcomer */
    assert_refused(&step, MEMBERSHIP_TOO_FEW, "only 2 of the 4 nodes that stay can be reached: 3 are needed");
    step = step_of(&world, 5, 0, true, 0x1f);
    assert_refused(&step, MEMBERSHIP_TOO_FEW, "n6 cannot be reached");
}

static void nodes_without_a_group_are_told_so(void **state)
{
    (void)state;
    struct world world = world_begin(3);
    memset(world.marker, 0, sizeof world.marker);
    struct membership_step step = step_of(&world, 3, 0, true, 0xf);
    assert_refused(&step, MEMBERSHIP_REFUSED, "no lock group yet");
}

static void a_majority_that_forgot_is_not_healed(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    for (unsigned i = 0; i < 3; i++)
        memset(&world.marker[i], 0, sizeof world.marker[i]);
    struct membership_step step = step_of(&world, 5, 0, false, 0x1f);
    assert_refused(&step, MEMBERSHIP_REFUSED, "only 2 of 5 nodes remember the group");
}

static void a_member_or_a_stranger_is_no_newcomer(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    world.marker[5] = world.marker[4]; /* as after a copy of a data directory */
    struct membership_step step = step_of(&world, 5, 0, true, 0x3f);
    assert_refused(&step, MEMBERSHIP_REFUSED, "n6 is a member of this group already");
    memset(world.marker[5].group, 'f', MARKER_GROUP_DIGITS);
    step = step_of(&world, 5, 0, true, 0x3f);
    assert_refused(&step, MEMBERSHIP_REFUSED, "n6 belongs to another lock group (ffffffffffffffff)");
    world.marker[5] = world.marker[4];
    id_set(world.marker[5].places[4], "0000000a");
    id_set(world.marker[5].self, "0000000a");
    world.marker[5].generation = 3;
    step = step_of(&world, 5, 0, true, 0x3f);
    assert_refused(&step, MEMBERSHIP_REFUSED, "n6 was a member of this group before (as 0000000a)");
}

static void a_node_that_was_replaced_is_no_member(void **state)
{
    (void)state;
    struct world world = world_begin(3);
    for (unsigned i = 1; i < 3; i++) {
        id_set(world.marker[i].places[0], "0000000a");
        world.marker[i].generation += 2;
    }
    struct membership_step step = step_of(&world, 3, 0, true, 0xf);
    assert_refused(&step, MEMBERSHIP_REFUSED, "n1 is no member of the group any more: it was replaced before");
    step = step_of(&world, 3, 0, false, 0x7);
    assert_refused(&step, MEMBERSHIP_REFUSED, "Put its successor into the configuration");
}

static void two_changes_at_once_stop_each_other(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    for (unsigned i = 1; i < 5; i++) {
        id_set(world.marker[i].places[0], i < 3 ? "0000000a" : "0000000b");
        world.marker[i].generation += 2;
    }
    struct membership_step step = step_of(&world, 5, 0, true, 0x3f);
    assert_refused(&step, MEMBERSHIP_REFUSED, "two changes were made at once");
}

static void another_replacement_is_finished_first(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    for (unsigned i = 1; i < 5; i++) {
        world.marker[i].places[0][0] = '\0';
        world.marker[i].generation++;
    }
    struct membership_step step = step_of(&world, 5, 2, true, 0x3f);
    assert_refused(&step, MEMBERSHIP_REFUSED, "another node than n3 is being replaced");
    step = step_of(&world, 5, 2, true, 0x3b); /* n3 is dead; the vacancy can be seen to be n1's */
    assert_refused(&step, MEMBERSHIP_REFUSED, "the vacant place is that of n1");
}

static void a_group_of_another_size_is_refused(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    struct membership_step step = step_of(&world, 3, 0, true, 0xf);
    assert_refused(&step, MEMBERSHIP_REFUSED, "the group has 5 places, but 3 nodes are configured");
}

static void one_place_of_two_nodes_is_refused(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    world.marker[2] = world.marker[1];
    struct membership_step step = step_of(&world, 5, 0, true, 0x3f);
    assert_refused(&step, MEMBERSHIP_REFUSED, "n2 and n3 have the same place 00000002");
}

/* Two nodes are dead and the configuration has another order than the places: nothing is guessed. */
static void a_place_is_not_guessed(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    struct marker first = world.marker[0];
    world.marker[0] = world.marker[1];
    world.marker[1] = first;
    struct membership_step step = step_of(&world, 5, 4, true, 0x27); /* n4 and n5 are away */
    assert_refused(&step, MEMBERSHIP_TOO_FEW, "which place of the group n5 has cannot be told");
    world = world_begin(5);
    step = step_of(&world, 5, 4, true, 0x27);
    assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
    assert_non_null(strstr(step.text, "places=00000001,00000002,00000003,00000004,- "));
}

/* The configuration has another order than the places, and the node that goes is dead: what nobody else has was its. */
static void the_only_missing_place_is_taken(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    struct marker first = world.marker[1];
    world.marker[1] = world.marker[4];
    world.marker[4] = first;
    struct membership_step step = step_of(&world, 5, 4, true, 0x2f);
    assert_int_equal(step.verdict, MEMBERSHIP_WRITE);
    assert_non_null(strstr(step.text, "places=00000001,-,00000003,00000004,00000005 "));
}

/* The configuration names nodes that were replaced long ago: they count for nothing. */
static void former_members_do_not_count(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    for (unsigned i = 0; i < 3; i++) {
        id_set(world.marker[i].places[3], "0000000c");
        world.marker[i].generation += 2;
    }
    struct membership_step step = step_of(&world, 5, 0, true, 0x2e); /* n2, n3, and n4 that was replaced */
    assert_refused(&step, MEMBERSHIP_TOO_FEW, "only 2 of the nodes that stay are reached and belong to the group");
    world.marker[5] = world.marker[1];
    id_set(world.marker[5].places[0], new_id);
    id_set(world.marker[5].places[2], "0000000d");
    id_set(world.marker[5].self, new_id);
    world.marker[5].generation += 2;
    step = step_of(&world, 5, 0, true, 0x2e);
    assert_int_equal(step.verdict, MEMBERSHIP_WRITE); /* n2 learns of it; n3 and n4 have no place */
    struct history *history = history_of(5, 0, true);
    perform(history, &world, &step);
    free(history);
    step = step_of(&world, 5, 0, true, 0x2e);
    assert_refused(&step, MEMBERSHIP_TOO_FEW, "n6 has its place, but too few of the other nodes can be reached");
}

/* A member that was away during a change learns of it, and keeps what it says about its run. */
static void members_are_brought_up_to_date(void **state)
{
    (void)state;
    struct world world = world_begin(5);
    struct membership membership = {.nodes = 5, .leaving = MEMBERSHIP_NOBODY, .new_id = new_id};
    for (unsigned i = 0; i < 4; i++) {
        id_set(world.marker[i].places[0], "0000000a");
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
    assert_string_equal(step.text, "1 group=00112233445566aa generation=9 max_ttl_ms=2000 "
                                   "places=0000000a,00000002,00000003,00000004,00000005 self=00000005 run=-");
    assert_true(marker_parse(&world.marker[4], step.text, strlen(step.text), NULL));
    node_read(&membership.node[4], &world, 4, true);
    assert_int_equal(membership_next(&membership).verdict, MEMBERSHIP_DONE);
}

static void the_wait_is_longer_than_any_lock(void **state)
{
    (void)state;
    assert_int_equal(membership_wait_ns(60000, 50 * NS_PER_MS), 60602 * NS_PER_MS + 50 * NS_PER_MS);
    assert_int_equal(membership_wait_ns(1, 0), 3010000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replacement_may_be_interrupted_anywhere),
        cmocka_unit_test(a_readmission_may_be_interrupted_anywhere),
        cmocka_unit_test(the_check_would_find_a_replacement_in_one_step),
        cmocka_unit_test(too_few_nodes_change_nothing),
        cmocka_unit_test(nodes_without_a_group_are_told_so),
        cmocka_unit_test(a_majority_that_forgot_is_not_healed),
        cmocka_unit_test(a_member_or_a_stranger_is_no_newcomer),
        cmocka_unit_test(a_node_that_was_replaced_is_no_member),
        cmocka_unit_test(two_changes_at_once_stop_each_other),
        cmocka_unit_test(another_replacement_is_finished_first),
        cmocka_unit_test(a_group_of_another_size_is_refused),
        cmocka_unit_test(one_place_of_two_nodes_is_refused),
        cmocka_unit_test(a_place_is_not_guessed),
        cmocka_unit_test(the_only_missing_place_is_taken),
        cmocka_unit_test(former_members_do_not_count),
        cmocka_unit_test(members_are_brought_up_to_date),
        cmocka_unit_test(the_wait_is_longer_than_any_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
