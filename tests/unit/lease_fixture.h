/* What the tests of the lease share: terms, votes by letter, and all orders of a few nodes. */
#ifndef TESTS_LEASE_FIXTURE_H
#define TESTS_LEASE_FIXTURE_H

#include "tests/support/test.h"

#include <string.h>

#include "redlock/lease.h"

#define START ((struct instant){1000 * NS_PER_S})

/* What each test is about. */
static struct lease_terms terms;
static struct lease lease;

enum { NODES_TRIED_MAX = 7, VOTE_KINDS = 4 };

static inline struct lease_terms terms_of(unsigned nodes)
{
    terms = (struct lease_terms){
        .nodes = nodes,
        .ttl_ns = 10 * NS_PER_S,
        .drift_factor = 0.01,
        .attempt_limit_ns = 60 * NS_PER_MS,
        .tries = 1,
        .retry_delay_ns = 20 * NS_PER_MS,
        .retry_jitter_ns = 30 * NS_PER_MS,
    };
    lease_terms_derive(&terms);
    return terms;
}

static inline struct lease_terms fenced_terms(unsigned nodes)
{
    struct lease_terms fenced = terms_of(nodes);
    fenced.fenced = true;
    return fenced;
}

/* What the tests of a file begin with, unless they say otherwise. */
static inline void begin_with_three(void)
{
    terms = terms_of(3);
}

static inline void begin_fenced(void)
{
    terms = fenced_terms(3);
}

static inline node_set all_of(void)
{
    return (node_set)((1u << terms.nodes) - 1);
}

static inline unsigned count_of(node_set set)
{
    return (unsigned)__builtin_popcount(set);
}

static inline node_set only(unsigned node)
{
    return (node_set)(1u << node);
}

static inline bool step_is_empty(struct lease_step step)
{
    return (step.abandon | step.grant | step.extend | step.release) == 0 && step.news == LEASE_NEWS_NONE;
}

#define assert_empty(step)            assert_true(step_is_empty(step))
#define assert_instant(is, should_be) assert_int_equal((is).ns, (should_be).ns)

static inline void expect_lost(struct lease_step step, enum redlock_loss loss)
{
    assert_int_equal(step.news, LEASE_NEWS_LOST);
    assert_int_equal(step.loss, loss);
}

static inline void expect_refused(struct lease_step step, enum redlock_answer refusal)
{
    assert_int_equal(step.news, LEASE_NEWS_REFUSED);
    assert_int_equal(step.refusal, refusal);
}

/* Refused, and what may have reached these nodes is taken back. */
static inline void expect_abandoned(struct lease_step step, node_set nodes)
{
    assert_int_equal(step.news, LEASE_NEWS_REFUSED);
    assert_int_equal(step.abandon, nodes);
}

static inline struct instant ms_after(struct instant from, int64_t milliseconds)
{
    return instant_after(from, milliseconds * NS_PER_MS);
}

/* A vote of the current round, whose refusals do not tell the owner. */
static inline struct lease_step vote_now(unsigned node, enum lease_vote vote, struct instant now)
{
    return lease_vote(&lease, &terms, node, lease.round, vote, 0, now);
}

/* Feeds a letter for each node, in order, and returns the last step that was not empty: y yes, n no, f foreign,
 * u unknown, x unsent; 'a' to 'd' no, with that owner; a blank is a node that says nothing. */
static inline struct lease_step votes(const char *letters, struct instant now)
{
    struct lease_step last = {0};
    uint32_t round = lease.round;
    for (unsigned node = 0; letters[node] != '\0'; node++) {
        char letter = letters[node];
        enum lease_vote vote = letter == 'y'   ? LEASE_YES
                               : letter == 'u' ? LEASE_UNKNOWN
                               : letter == 'x' ? LEASE_UNSENT
                               : letter == 'f' ? LEASE_FOREIGN
                                               : LEASE_NO;
        uint64_t owner = letter >= 'a' && letter <= 'd' ? (uint64_t)letter : 0;
        if (letter == ' ')
            continue;
        struct lease_step step = lease_vote(&lease, &terms, node, round, vote, owner, now);
        if (!step_is_empty(step))
            last = step;
    }
    return last;
}

/* Has asked every node at START. */
static inline void ask(void)
{
    lease_init(&lease, 12345);
    lease_acquire(&lease, &terms, START);
}

/* Held since START, every answer a millisecond later. The letters are those of the grants. */
static inline void hold_after(const char *letters)
{
    ask();
    struct lease_step step = votes(letters, ms_after(START, 1));
    assert_int_equal(step.news, LEASE_NEWS_ACQUIRED);
}

static inline void hold(void)
{
    char letters[LEASE_NODES_MAX + 1] = {0};
    memset(letters, 'y', terms.nodes);
    hold_after(letters);
}

/* The next permutation in lexical order; false after the last. */
static inline bool next_order(unsigned *order, unsigned count)
{
    unsigned i = count - 1;
    while (i > 0 && order[i - 1] >= order[i])
        i--;
    if (i == 0)
        return false;
    unsigned j = count - 1;
    while (order[j] <= order[i - 1])
        j--;
    unsigned swap = order[i - 1];
    order[i - 1] = order[j];
    order[j] = swap;
    for (j = count - 1; i < j; i++, j--) {
        swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    return true;
}

/* One assignment of votes to nodes: digit i of `number`, to the base of VOTE_KINDS, says what node i votes. */
static inline unsigned vote_of(unsigned number, unsigned node)
{
    return number >> (2 * node) & (VOTE_KINDS - 1);
}

/* Calls `check` for every assignment of four kinds of votes in every order of arrival, for 1, 3 and 5 nodes; for 2, 4
 * and 7 nodes every assignment in some orders. */
typedef void order_check(unsigned assignment, const unsigned *order);

static inline void for_orders(unsigned nodes, bool all, order_check *check)
{
    terms = terms_of(nodes);
    for (unsigned assignment = 0; assignment < 1u << (2 * nodes); assignment++) {
        unsigned order[NODES_TRIED_MAX];
        for (unsigned i = 0; i < nodes; i++)
            order[i] = i;
        do
            check(assignment, order);
        while (all && next_order(order, nodes));
        for (unsigned turn = 1; !all && turn < nodes; turn++) { /* others: rotated, and rotated backwards */
            for (unsigned i = 0; i < nodes; i++)
                order[i] = turn % 2 ? (turn + nodes - i) % nodes : (turn + i) % nodes;
            check(assignment, order);
        }
    }
}

static inline void for_all_orders(order_check *check)
{
    static const unsigned odd[] = {1, 3, 5}, others[] = {2, 4, 7};
    for (unsigned i = 0; i < 3; i++)
        for_orders(odd[i], true, check);
    for (unsigned i = 0; i < 3; i++)
        for_orders(others[i], false, check);
}

#endif
