/* Random inputs in every state never break what must always hold. The model beside the lease is small: which nodes
 * may hold our key and have not been told to delete it, and what was told so far. */
#include "tests/unit/lease_fixture.h"

#include "tests/sim/world/chance.h"

enum { LEASES = 3000, STEPS = 150 }; /* 450,000 inputs */

struct model {
    node_set owed; /* may hold the value of the pass */
    unsigned attempts;
    struct instant sent; /* of the last grants or extensions */
};

static enum lease_news expected_in(enum lease_state before, enum lease_state after)
{
    if (before == after)
        return LEASE_NEWS_NONE;
    switch (after) {
    case LEASE_FREE:
        return before == LEASE_RELEASING ? LEASE_NEWS_RELEASED : LEASE_NEWS_REFUSED;
    case LEASE_HELD:
        return LEASE_NEWS_ACQUIRED;
    case LEASE_LOST:
        return LEASE_NEWS_LOST;
    default:
        return LEASE_NEWS_NONE;
    }
}

static bool may_follow(enum lease_state before, enum lease_state after)
{
    static const unsigned followers[] = {
        [LEASE_FREE] = 1u << LEASE_ACQUIRING,
        [LEASE_ACQUIRING] = 1u << LEASE_WAITING | 1u << LEASE_HELD | 1u << LEASE_FREE,
        [LEASE_WAITING] = 1u << LEASE_ACQUIRING | 1u << LEASE_FREE,
        [LEASE_HELD] = 1u << LEASE_LOST | 1u << LEASE_RELEASING,
        [LEASE_LOST] = 1u << LEASE_RELEASING,
        [LEASE_RELEASING] = 1u << LEASE_FREE,
    };
    return before == after || (followers[before] >> after & 1u);
}

static void check_sets(struct lease_step step)
{
    int kinds = (step.abandon != 0) + (step.grant != 0) + (step.extend != 0) + (step.release != 0);
    assert_true(kinds <= 1);
    assert_int_equal((step.abandon | step.grant | step.extend | step.release) & ~all_of(), 0);
    if (step.grant)
        assert_int_equal(step.grant, all_of());
}

/* What was planted is abandoned or released, in full, before anything else is planted. */
static void check_owed(struct lease_step step, struct model *model)
{
    if (step.abandon) {
        assert_int_equal(step.abandon, model->owed);
        model->owed = 0;
    }
    if (step.grant) {
        assert_int_equal(model->owed, 0);
        model->owed = step.grant;
    }
    if (step.extend)
        assert_int_equal(step.extend & ~model->owed, 0);
    if (step.release) {
        assert_int_equal(step.release, model->owed);
        model->owed = 0;
    }
    if (lease.state == LEASE_FREE || lease.state == LEASE_WAITING)
        assert_int_equal(model->owed, 0);
}

static void check_news(const struct lease *before, struct lease_step step, struct instant now, struct model *model)
{
    enum lease_news expected = expected_in(before->state, lease.state);
    bool in_hold = before->state == LEASE_HELD && lease.state == LEASE_HELD;
    if (!in_hold || (step.news != LEASE_NEWS_EXTENDED && step.news != LEASE_NEWS_DANGER))
        assert_int_equal(step.news, expected);
    if (step.news == LEASE_NEWS_ACQUIRED || step.news == LEASE_NEWS_EXTENDED) {
        assert_instant(lease.valid_until, instant_after(model->sent, terms.ttl_ns - terms.drift_ns));
        assert_true(count_of(lease.yes) >= lease_quorum(&terms));
        assert_true(instant_before(now, lease_believed_until(&lease, &terms)));
    } else if (in_hold) {
        assert_instant(lease.valid_until, before->valid_until);
    }
    if (step.news == LEASE_NEWS_EXTENDED)
        assert_true(instant_before(now, lease_believed_until(before, &terms)));
    if (step.news == LEASE_NEWS_LOST && step.loss == REDLOCK_LOST_DEADLINE)
        assert_true(instant_reached(now, lease_believed_until(before, &terms)));
}

static void check_times(void)
{
    bool waits = lease.state != LEASE_FREE && lease.state != LEASE_LOST;
    assert_int_equal(lease_next(&lease, &terms).ns != INSTANT_NEVER.ns, waits);
    assert_int_equal(lease_believed_until(&lease, &terms).ns != 0, lease.state == LEASE_HELD);
    if (lease.state == LEASE_HELD)
        assert_true(lease_next(&lease, &terms).ns <= lease_believed_until(&lease, &terms).ns);
}

static void check(const struct lease *before, struct lease_step step, struct instant now, struct model *model)
{
    assert_true(may_follow(before->state, lease.state));
    assert_true(lease.round >= before->round && lease.round != 0);
    check_sets(step);
    if (step.grant || step.extend) {
        model->sent = now;
        assert_true(lease.round > before->round); /* E29 */
    }
    model->attempts = before->state == LEASE_FREE ? step.grant != 0 : model->attempts + (step.grant != 0);
    assert_true(model->attempts <= terms.tries);
    check_owed(step, model);
    check_news(before, step, now, model);
    check_times();
}

static struct lease_step vote_by_chance(struct chance *chance, struct instant now, struct model *model)
{
    /* Mostly yes, or holds would be rare. */
    static const enum lease_vote kinds[] = {LEASE_YES, LEASE_YES,     LEASE_YES,     LEASE_YES,
                                            LEASE_NO,  LEASE_FOREIGN, LEASE_UNKNOWN, LEASE_UNSENT};
    unsigned node = chance_pick(chance, terms.nodes);
    uint32_t back = chance_pick(chance, 4) == 0 ? chance_pick(chance, 4) : 0;
    uint32_t round = lease.round > back ? lease.round - back : lease.round;
    enum lease_vote vote = kinds[chance_pick(chance, 8)];
    bool counts = round == lease.round && (lease.asked & only(node)) != 0 &&
                  ((lease.yes | lease.no | lease.foreign | lease.unknown) & only(node)) == 0;
    if (counts && vote == LEASE_UNSENT && lease.state == LEASE_ACQUIRING)
        model->owed &= (node_set)~only(node);
    struct lease before = lease;
    struct lease_step step = lease_vote(&lease, &terms, node, round, vote, chance_pick(chance, 4), now);
    if (!counts) {
        assert_empty(step);
        assert_memory_equal(&before, &lease, sizeof before);
    }
    return step;
}

static struct lease_step unsent_by_chance(struct chance *chance, struct instant now, struct model *model)
{
    node_set nodes = (node_set)(chance_next(chance) & chance_next(chance) & all_of());
    node_set open = (node_set)(lease.asked & ~(lease.yes | lease.no | lease.foreign));
    if (lease.state == LEASE_ACQUIRING)
        model->owed &= (node_set) ~(nodes & open);
    return lease_unsent(&lease, &terms, nodes, lease.round, now);
}

static bool is_active(void)
{
    return lease.state != LEASE_FREE && lease.state != LEASE_RELEASING;
}

static struct lease_step input_by_chance(struct chance *chance, struct instant *now, struct model *model)
{
    struct instant next = lease_next(&lease, &terms);
    switch (chance_pick(chance, 16)) {
    case 0: /* away for up to two ttl */
        *now = instant_after(*now, chance_below(chance, 2 * terms.ttl_ns));
        return lease_tick(&lease, &terms, *now);
    case 1:
        if (is_active() && chance_pick(chance, 3) == 0)
            return lease_release(&lease, &terms, *now);
        if (chance_pick(chance, 4) == 0)
            return lease_last_try(&lease);
        lease_wait_until(&lease, instant_after(*now, chance_below(chance, terms.ttl_ns)));
        return lease_tick(&lease, &terms, *now);
    case 2:
        return unsent_by_chance(chance, *now, model);
    case 3:
    case 4: /* exactly when it asked for it */
        if (next.ns != INSTANT_NEVER.ns && instant_before(*now, next))
            *now = next;
        return lease_tick(&lease, &terms, *now);
    default:
        *now = instant_after(*now, chance_below(chance, terms.attempt_limit_ns / 4));
        if (lease.state == LEASE_FREE)
            return lease_acquire(&lease, &terms, *now);
        if (lease.state == LEASE_LOST && chance_pick(chance, 4) == 0)
            return lease_release(&lease, &terms, *now);
        return vote_by_chance(chance, *now, model);
    }
}

static struct lease_terms terms_by_chance(struct chance *chance)
{
    terms = terms_of(1 + chance_pick(chance, LEASE_NODES_MAX));
    terms.ttl_ns = chance_scale(chance, 500 * NS_PER_MS, 60 * NS_PER_S);
    terms.drift_factor = (double)chance_between(chance, 1, 100) / 1000;
    terms.attempt_limit_ns = chance_scale(chance, NS_PER_MS, terms.ttl_ns / 2);
    terms.tries = 1 + chance_pick(chance, 5);
    terms.retry_delay_ns = chance_below(chance, NS_PER_S);
    terms.retry_jitter_ns = chance_below(chance, NS_PER_S);
    lease_terms_derive(&terms);
    return terms;
}

TEST(test_no_sequence_of_inputs_breaks_an_invariant)
{
    unsigned news[LEASE_NEWS_RELEASED + 1] = {0};
    for (unsigned seed = 0; seed < LEASES; seed++) {
        struct chance chance = {seed};
        terms = terms_by_chance(&chance);
        struct model model = {0};
        struct instant now = START;
        lease_init(&lease, seed);
        lease.round = 1;
        for (unsigned i = 0; i < STEPS; i++) {
            struct lease before = lease;
            struct lease_step step = input_by_chance(&chance, &now, &model);
            check(&before, step, now, &model);
            news[step.news]++;
        }
    }
    for (unsigned i = 0; i <= LEASE_NEWS_RELEASED; i++)
        assert_true(news[i] > 100);
}

/* The time at which it wants to be called is exact: nothing happens before, and something does then. */
TEST(test_every_deadline_is_exact_and_moves_on)
{
    for (unsigned seed = 0; seed < LEASES; seed++) {
        struct chance chance = {seed + LEASES};
        terms = terms_by_chance(&chance);
        struct model model = {0};
        struct instant now = START;
        lease_init(&lease, seed);
        for (unsigned i = 0; i < 40; i++) {
            input_by_chance(&chance, &now, &model);
            struct instant next = lease_next(&lease, &terms);
            if (next.ns == INSTANT_NEVER.ns)
                continue;
            struct lease early = lease, due = lease;
            assert_empty(lease_tick(&early, &terms, instant_after(next, -1)));
            assert_memory_equal(&early, &lease, sizeof early);
            lease_tick(&due, &terms, next);
            assert_true(instant_before(next, lease_next(&due, &terms)));
        }
    }
}

RUN_TESTS
