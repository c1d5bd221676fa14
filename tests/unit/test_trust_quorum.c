/* A number of a group is given to another server, in two steps with one longest ttl between them, while any number of
 * clients look on: some with the old list of nodes, some with the new one, each with any mixture of fresh, old and no
 * knowledge of each node's marker. All of it is enumerated: no two of them, at moments that are less than a ttl apart,
 * have votes of quorums that do not meet.
 *
 * A vote counts where the node's marker is what the client saw (the scripts compare it), at that moment. Locks that
 * were granted before the wait have expired when the second step begins, so pairs of moments are compared within what
 * leads to the end of the wait, and within what follows the first step. */
#include "tests/unit/trust_fixture.h"

/* What a node's marker says, and what a client knows of it. */
enum stage { OLD, VACANT, FILLED, NOTHING };

enum { MASKS = 1 << 6, VIEWS_MAX = 1 << 10, HISTORIES = 4 };

struct story {
    unsigned nodes, replaced; /* server `replaced` by server `nodes` */
    bool may_vote[2][MASKS];  /* by window and set of servers: somebody could have exactly these votes */
};

static void mark_stage(unsigned server, unsigned nodes, unsigned replaced, enum stage stage)
{
    struct marker marker = group_marker(nodes, 1 + (uint32_t)stage, server);
    if (stage == VACANT)
        marker.members[replaced][0] = '\0';
    if (stage == FILLED)
        snprintf(marker.members[replaced], sizeof marker.members[replaced], "%08x", nodes + 1);
    mark(server, marker, run_of(server));
}

static void see(const struct story *story, bool new_list, unsigned node, enum stage stage)
{
    unsigned server = new_list && node == story->replaced ? story->nodes : node;
    mark_stage(server, story->nodes, story->replaced, stage);
    struct server at_node = world.servers[node];
    world.servers[node] = world.servers[server];
    look(node);
    if (server != node)
        world.servers[node] = at_node;
}

/* What a client sees who knew the nodes at earlier stages, or not, and then as in `views`. */
static node_set voters_of(const struct story *story, bool new_list, const enum stage *views, unsigned history)
{
    static const enum stage passes[HISTORIES][3] = {
        {FILLED, NOTHING, NOTHING}, {OLD, FILLED, NOTHING}, {VACANT, FILLED, NOTHING}, {OLD, VACANT, FILLED}};
    world_make(story->nodes);
    for (unsigned pass_number = 0; pass_number < 3 && passes[history][pass_number] != NOTHING; pass_number++)
        for (unsigned i = 0; i < story->nodes; i++) {
            enum stage until = passes[history][pass_number];
            bool is_newcomer = new_list && i == story->replaced;
            if (views[i] == NOTHING || (is_newcomer && until != FILLED))
                continue;
            see(story, new_list, i, views[i] < until ? views[i] : until);
        }
    return trust_voters(&world.trust);
}

/* The votes that the client gets while the markers are as in `stages` (of N + 1 servers). False when it cannot know yet
 * what it knows. */
static bool votes_at(const struct story *story, bool new_list, const enum stage *views, node_set voters,
                     const enum stage *stages, unsigned *votes)
{
    *votes = 0;
    for (unsigned i = 0; i < story->nodes; i++) {
        unsigned server = new_list && i == story->replaced ? story->nodes : i;
        if (views[i] == NOTHING)
            continue;
        if (stages[server] == NOTHING || views[i] > stages[server])
            return false;
        if (((unsigned)voters >> i & 1u) && views[i] == stages[server])
            *votes |= 1u << server;
    }
    return true;
}

/* Calls `visit` for all ways in which the markers can stand while the number is given away, with the windows that they
 * belong to: bit 0 = until the end of the wait, bit 1 = since the first step was written to a quorum. */
static void each_moment(struct story *story,
                        void (*visit)(struct story *story, const enum stage *stages, unsigned windows, void *context),
                        void *context)
{
    unsigned others = story->nodes - 1, all = 1u << others;
    for (unsigned first = 0; first < all; first++)
        for (unsigned second = 0; second <= all; second++) { /* == all: the second step has not begun */
            bool is_enough = (unsigned)__builtin_popcount(first) > story->nodes / 2;
            if (second < all && !is_enough)
                continue;
            enum stage stages[SERVERS_MAX] = {OLD};
            for (unsigned i = 0, bit = 0; i < story->nodes; i++) {
                if (i == story->replaced)
                    continue;
                stages[i] = first >> bit & 1u ? VACANT : OLD;
                if (second < all && (second >> bit & 1u))
                    stages[i] = FILLED;
                bit++;
            }
            stages[story->nodes] = second < all ? FILLED : NOTHING;
            visit(story, stages, (second == all ? 1u : 0u) | (is_enough ? 2u : 0u), context);
        }
}

struct client {
    bool new_list;
    enum stage views[SERVERS_MAX];
    node_set voters;
};

static void note_votes(struct story *story, const enum stage *stages, unsigned windows, void *context)
{
    const struct client *client = context;
    unsigned votes;
    if (!votes_at(story, client->new_list, client->views, client->voters, stages, &votes))
        return;
    for (unsigned window = 0; window < 2; window++)
        if (windows >> window & 1u)
            story->may_vote[window][votes] = true;
}

static void each_client(struct story *story)
{
    unsigned views = 1u << 2 * story->nodes;
    for (unsigned number = 0; number < 2 * HISTORIES * views; number++) {
        struct client client = {.new_list = number & 1u};
        bool is_possible = true;
        for (unsigned i = 0; i < story->nodes; i++) {
            client.views[i] = (enum stage)(number / (2 * HISTORIES) >> 2 * i & 3u);
            if (i == story->replaced) /* he who leaves is never told; the newcomer has but one marker */
                is_possible = client.views[i] == NOTHING || client.views[i] == (client.new_list ? FILLED : OLD);
            if (!is_possible)
                break;
        }
        if (!is_possible)
            continue;
        client.voters = voters_of(story, client.new_list, client.views, number / 2 % HISTORIES);
        each_moment(story, note_votes, &client);
    }
}

/* Whether two quorums that do not meet can be taken from the two sets. */
static bool can_part(unsigned a, unsigned b, int quorum)
{
    int only_a = __builtin_popcount(a & ~b), only_b = __builtin_popcount(b & ~a), both = __builtin_popcount(a & b);
    int missing_a = only_a < quorum ? quorum - only_a : 0, missing_b = only_b < quorum ? quorum - only_b : 0;
    return missing_a + missing_b <= both;
}

static unsigned check_pairs(const struct story *story)
{
    int quorum = (int)story->nodes / 2 + 1;
    unsigned quorums = 0;
    for (unsigned window = 0; window < 2; window++)
        for (unsigned a = 0; a < MASKS; a++) {
            quorums += story->may_vote[window][a] && __builtin_popcount(a) >= quorum;
            for (unsigned b = 0; b <= a; b++)
                if (story->may_vote[window][a] && story->may_vote[window][b] && can_part(a, b, quorum))
                    fail_msg("N = %u, window %u: votes %x and %x can be of two holders", story->nodes, window, a, b);
        }
    return quorums;
}

TEST(majorities_of_any_two_clients_meet)
{
    for (unsigned nodes = 3; nodes <= 5; nodes += 2)
        for (unsigned replaced = 0; replaced < nodes; replaced++) {
            struct story story = {.nodes = nodes, .replaced = replaced};
            each_client(&story);
            /* It is no proof that nobody votes: many sets must have been seen, from both ends of the story. */
            assert_true(check_pairs(&story) >= (nodes == 3 ? 6 : 16));
            unsigned old_all = (1u << nodes) - 1, new_all = ((1u << (nodes + 1)) - 1) & ~(1u << replaced);
            assert_true(story.may_vote[0][old_all]);
            assert_true(story.may_vote[1][new_all]);
            assert_true(story.may_vote[1][old_all & new_all]); /* in the middle: all that stay */
        }
}

/* Who knows everything has a majority before, during and after, except while the second step is being written to a
 * group of which the first one did not reach everybody: three generations are too many for five nodes. */
static void note_gaps(struct story *story, const enum stage *stages, unsigned windows, void *context)
{
    unsigned most = 0, behind = 0;
    for (unsigned new_list = 0; new_list < 2; new_list++) {
        enum stage views[SERVERS_MAX];
        for (unsigned i = 0; i < story->nodes; i++)
            views[i] = stages[new_list && i == story->replaced ? story->nodes : i];
        unsigned votes = (unsigned)__builtin_popcount(voters_of(story, new_list, views, 0));
        most = votes > most ? votes : most;
    }
    for (unsigned i = 0; i < story->nodes; i++)
        behind += i != story->replaced && stages[i] == OLD;
    if (most <= story->nodes / 2 && !(windows == 2 && behind > 0 && story->nodes > 3))
        fail_msg("N = %u: at most %u votes", story->nodes, most);
    *(unsigned *)context += 1;
}

TEST(there_is_a_majority_nearly_all_the_time)
{
    for (unsigned nodes = 3; nodes <= 5; nodes += 2) {
        struct story story = {.nodes = nodes, .replaced = 1};
        unsigned moments = 0;
        each_moment(&story, note_gaps, &moments);
        assert_int_equal(moments, nodes == 3 ? 8 : 96);
    }
}

RUN_TESTS
