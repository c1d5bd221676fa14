/* Changes of membership: every state that interruptions, unreachable nodes and repetitions can lead to is visited, and
 * in each of them the invariants of membership.h are checked. */
#include "tests/unit/membership_fixture.h"

/* --- all states --------------------------------------------------------------------------------------------------- */

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

static struct membership_step step_from(const struct history *history, const struct world *world, unsigned reached)
{
    struct membership_step step = {.verdict = MEMBERSHIP_DONE};
    if (history->heals)
        step = plan_of_members(history, world, reached);
    return step.verdict == MEMBERSHIP_DONE ? plan(history, world, reached) : step;
}

/* Who is interrupted again and again, with another node away each time, makes changes meet without end: two rounds of
 * that are looked at. */
enum { GENERATIONS_MAX = 4 };

/* From every state: what a process would do that reaches just these servers; and that it dies. */
static void history_explore(struct history *history, const struct world *begin)
{
    state_of(history, begin);
    for (unsigned at = 0; at < history->count; at++) {
        for (unsigned reached = 0; reached < 1U << (history->nodes + 1); reached++) {
            if (history->heals && (unsigned)__builtin_popcount(reached) < history->nodes)
                continue; /* one at most is away: many states differ only in the order of what is written */
            struct world world = history->states[at];
            struct membership_step step = step_from(history, &world, reached);
            if (step.group.generation > founding(history->nodes).generation + GENERATIONS_MAX)
                continue;
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

/* --- the invariants ----------------------------------------------------------------------------------------------- */

static unsigned bits(unsigned set)
{
    return (unsigned)__builtin_popcount(set);
}

/* The servers that are members together with this one: their markers are of one membership, in which each has a
 * number. */
static unsigned members_with(const struct world *world, unsigned server, unsigned servers)
{
    const struct marker *marker = &world->marker[server];
    unsigned voters = 0;
    for (unsigned i = 0; i < servers && marker->generation != 0; i++)
        if (marker_same_membership(marker, &world->marker[i]) && marker_number_of(marker, world->marker[i].self) >= 0)
            voters |= 1U << i;
    return voters;
}

/* Those that can vote: their markers name their runs. */
static unsigned voters_with(const struct world *world, unsigned server, unsigned servers)
{
    unsigned voters = members_with(world, server, servers);
    for (unsigned i = 0; i < servers; i++)
        if (world->marker[i].run[0] == '\0')
            voters &= ~(1U << i);
    return voters;
}

/* The members of `voters` as holders of memory: a node that was emptied is another one than before. */
static unsigned memory_of(const struct history *history, const struct world *world, unsigned voters)
{
    if (history->newcomer_is_outside || history->leaving == MEMBERSHIP_NOBODY)
        return voters;
    bool is_back = strcmp(world->marker[history->leaving].self, new_id) == 0;
    unsigned leaving = 1U << history->leaving, another = 1U << (history->nodes + history->heals);
    return is_back && (voters & leaving) != 0 ? (voters & ~leaving) | another : voters;
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

/* All states that can follow on this one, or on what was just before it, before a longest ttl has passed. */
static void assert_safe_after(const struct history *history, const struct world *before, unsigned begin)
{
    static bool seen[STATES_MAX];
    static unsigned queue[STATES_MAX];
    unsigned head = 0, tail = 0;
    memset(seen, 0, sizeof seen);
    seen[begin] = true;
    queue[tail++] = begin;
    while (head < tail) {
        unsigned at = queue[head++];
        assert_majorities_meet(history, before, &history->states[at]);
        for (unsigned i = 0; i < history->edges; i++) {
            if (history->from[i] != at || history->is_wait[i] || seen[history->to[i]])
                continue;
            seen[history->to[i]] = true;
            queue[tail++] = history->to[i];
        }
    }
}

static void assert_safe_from(const struct history *history, unsigned begin)
{
    assert_safe_after(history, &history->states[begin], begin);
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
    unsigned voters = members_with(&world, newcomer, history->nodes + 1), expected = reached;
    if (history->newcomer_is_outside)
        expected &= ~(1U << history->leaving);
    assert_int_equal(voters, expected & ~(history->newcomer_is_outside ? 0 : 1U << history->nodes));
    assert_int_equal(marker_number_of(&world.marker[newcomer], new_id), history->leaving);
    unsigned generations = history->newcomer_is_outside ? 2 : 1;
    assert_int_equal(world.marker[newcomer].generation, founding(history->nodes).generation + generations);
    char run[MARKER_RUN_DIGITS + 1];
    if (!history->newcomer_is_outside)
        assert_string_equal(world.marker[newcomer].run, ""); /* it has no vote before a quarantine is over */
    for (unsigned i = 0; i <= history->nodes; i++)
        if ((voters >> i & 1) != 0 && (history->newcomer_is_outside || i != newcomer)) {
            run_of(i, run);
            assert_string_equal(world.marker[i].run, run);
        }
}

/* Its quarantine begins with its marker. From then on nothing may be granted with the vote of the server before. */
static void assert_quarantine_is_late_enough(const struct history *history, const struct world *world)
{
    unsigned newcomer = (unsigned)history->leaving, quorum = history->nodes / 2 + 1;
    if (history->newcomer_is_outside || strcmp(world->marker[newcomer].self, new_id) != 0)
        return;
    unsigned before = 1; /* the server that is gone */
    for (unsigned i = 0; i < history->nodes; i++)
        before += i != newcomer && marker_number_of(&world->marker[i], new_id) < 0;
    assert_true(before < quorum);
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
    assert_true(history->count >= (is_outside ? 7 : nodes + 1));
    for (unsigned i = 0; i < history->count; i++) {
        assert_ids_are_single(history, &history->states[i]);
        assert_safe_from(history, i);
        assert_quarantine_is_late_enough(history, &history->states[i]);
        assert_ends_well(history, history->states[i], all);
        if (is_outside)
            assert_ends_well(history, history->states[i], all & ~(1U << leaving));
    }
    free(history);
}

TEST(a_replacement_may_be_interrupted_anywhere)
{
    for (unsigned leaving = 0; leaving < 3; leaving++)
        all_is_well(3, leaving, true);
    all_is_well(5, 0, true);
    all_is_well(5, 2, true);
    all_is_well(5, 4, true);
}

TEST(a_readmission_may_be_interrupted_anywhere)
{
    for (unsigned leaving = 0; leaving < 3; leaving++)
        all_is_well(3, leaving, false);
    all_is_well(5, 0, false);
    all_is_well(5, 3, false);
}

/* --- changes that met --------------------------------------------------------------------------------------------- */

/* What a member knows: the group before, a record of the server that is at the first number now, another record of that
 * number, that an operator made it vacant; or nothing, because it was emptied. */
enum known { BEFORE, RECORDED, OTHER_RECORDED, VACATED, NOTHING, KNOWN };

static const char *const met_ids[] = {"00000001", "aaaa0001", "bbbb0001", ""};

static void knows(struct world *world, unsigned server, enum known known)
{
    if (known == NOTHING) {
        memset(&world->marker[server], 0, sizeof world->marker[server]);
        return;
    }
    id_set(world->marker[server].members[0], met_ids[known]);
    world->marker[server].generation += known != BEFORE;
}

/* All members but those of the first number, so many of each kind. */
static struct world met(unsigned nodes, const unsigned counts[KNOWN], enum known emptied, bool has_successor)
{
    struct world world = world_begin(nodes);
    unsigned server = 1;
    world.marker[nodes] = world.marker[0]; /* the server before lives on elsewhere */
    for (enum known known = BEFORE; known < KNOWN; known++)
        for (unsigned i = 0; i < counts[known]; i++)
            knows(&world, server++, known == NOTHING ? emptied : known);
    knows(&world, 0, has_successor ? RECORDED : NOTHING);
    if (has_successor)
        id_set(world.marker[0].self, met_ids[RECORDED]);
    return world;
}

/* Healing again and again, with all in reach, ends with the server at the first number as a member. */
static void assert_heals(const struct history *history, struct world world, unsigned members)
{
    struct membership_step step = {.verdict = MEMBERSHIP_WAIT};
    for (unsigned steps = 0; step.verdict != MEMBERSHIP_DONE; steps++) {
        assert_true(steps < 60);
        step = step_from(history, &world, (1U << history->nodes) - 1);
        if (step.verdict == MEMBERSHIP_WRITE)
            perform(history, &world, &step);
        else if (step.verdict == MEMBERSHIP_WAIT)
            world.waited = step.group.generation;
        else if (step.verdict != MEMBERSHIP_DONE)
            fail_msg("refused: %s", step.reason);
    }
    assert_int_equal(bits(members_with(&world, 0, history->nodes)), members + 1);
}

/* A successor has its marker only after a quorum of the others recorded it, less than a ttl after which nobody votes
 * with the server before. */
static bool is_possible(unsigned nodes, const unsigned counts[KNOWN], bool has_successor, enum known emptied)
{
    unsigned earlier = counts[BEFORE] + (emptied == BEFORE ? counts[NOTHING] : 0);
    return !has_successor || nodes - 1 - earlier - counts[OTHER_RECORDED] > nodes / 2;
}

static void changes_met_well(unsigned nodes, const unsigned counts[KNOWN], bool has_successor)
{
    struct history *history = history_of(nodes, 0, false);
    struct world begin = met(nodes, counts, NOTHING, has_successor);
    history->heals = true;
    history_explore(history, &begin);
    for (unsigned i = 0; i < history->count; i++)
        assert_safe_from(history, i);
    for (enum known emptied = BEFORE; emptied < NOTHING; emptied++) {
        struct world before = met(nodes, counts, emptied, has_successor);
        if (is_possible(nodes, counts, has_successor, emptied))
            assert_safe_after(history, &before, 0);
    }
    unsigned members = nodes - 1 - counts[NOTHING];
    bool has_contest = counts[RECORDED] + counts[OTHER_RECORDED] + counts[VACATED] > 0;
    for (unsigned i = 0; i < history->count && members > nodes / 2 && has_contest; i++)
        assert_heals(history, history->states[i], members);
    free(history);
}

TEST(changes_that_met_end_in_one_membership)
{
    for (unsigned nodes = 3; nodes <= 5; nodes += 2)
        for (unsigned number = 0; number < 2 * 5 * 5 * 5 * 5; number++) {
            unsigned counts[KNOWN] = {number / 2 % 5, number / 10 % 5, number / 50 % 5, number / 250};
            unsigned known = counts[BEFORE] + counts[RECORDED] + counts[OTHER_RECORDED] + counts[VACATED];
            bool has_successor = number % 2 == 1;
            counts[NOTHING] = nodes - 1 - known;
            if (known < nodes && is_possible(nodes, counts, has_successor, NOTHING))
                changes_met_well(nodes, counts, has_successor);
        }
}

/* The checker itself: without the wait, or with one step instead of two, it has to find two majorities that miss each
 * other. */
TEST(the_check_would_find_a_replacement_in_one_step)
{
    struct history *history = history_of(3, 0, true);
    struct world before = world_begin(3), after = before;
    for (unsigned i = 1; i <= 3; i++) {
        after.marker[i] = before.marker[1];
        after.marker[i].generation++;
        id_set(after.marker[i].members[0], new_id);
        id_set(after.marker[i].self, i == 3 ? new_id : before.marker[i].self);
    }
    unsigned ours = voters_with(&before, 1, 4), theirs = voters_with(&after, 1, 4);
    assert_int_equal(ours, 7);
    assert_int_equal(theirs, 14);
    assert_true(bits(ours | theirs) >= 4);
    free(history);
}

RUN_TESTS
