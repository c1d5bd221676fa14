/* The fencing token of a lease: which votes make one, and when it has to be raised first (reference 4, F1 to F4). */
#include "tests/unit/lease_fixture.h"

static struct lease_step token_vote(unsigned node, uint64_t token, struct instant now)
{
    return lease_vote(&lease, &terms, node, lease.round, LEASE_YES, token, now);
}

/* --- every vote, every order ----------------------------------------------------------------------------------- */

/* Kinds of votes: granted with token 5, 6 or 7, and refused. */
enum { REFUSED = 3, TOKEN_LEAST = 5 };

struct fence_tally {
    unsigned with_token[VOTE_KINDS], granted, heard;
};

static unsigned most_common(const struct fence_tally *tally)
{
    unsigned most = 0;
    for (unsigned kind = 0; kind < REFUSED; kind++)
        if (tally->with_token[kind] > most)
            most = tally->with_token[kind];
    return most;
}

static void check_acquired(const struct fence_tally *tally)
{
    assert_in_range(lease.token, TOKEN_LEAST, TOKEN_LEAST + REFUSED - 1);
    assert_true(tally->with_token[lease.token - TOKEN_LEAST] >= lease_quorum(&terms));
}

/* All that granted are level now, or are asked to be: exactly the lower ones. */
static void check_raise(unsigned assignment, node_set heard, struct lease_step step)
{
    uint64_t highest = 0;
    node_set lower = 0;
    for (unsigned node = 0; node < terms.nodes; node++)
        if ((heard & only(node)) && vote_of(assignment, node) != REFUSED &&
            TOKEN_LEAST + vote_of(assignment, node) > highest)
            highest = TOKEN_LEAST + vote_of(assignment, node);
    for (unsigned node = 0; node < terms.nodes; node++)
        if ((heard & only(node)) && vote_of(assignment, node) != REFUSED &&
            TOKEN_LEAST + vote_of(assignment, node) < highest)
            lower |= only(node);
    assert_int_equal(lease.token, highest);
    assert_int_equal(step.raise, lower);
    assert_int_equal(step.abandon | step.grant | step.extend | step.release, 0);
}

static void check_order(unsigned assignment, const unsigned *order)
{
    terms.fenced = true;
    ask();
    struct fence_tally tally = {.heard = 0};
    node_set heard = 0;
    unsigned quorum = lease_quorum(&terms);
    for (unsigned i = 0; i < terms.nodes && lease.state == LEASE_ACQUIRING; i++) {
        unsigned node = order[i], kind = vote_of(assignment, node);
        enum lease_vote vote = kind == REFUSED ? LEASE_NO : LEASE_YES;
        struct lease_step step = lease_vote(&lease, &terms, node, lease.round, vote,
                                            kind == REFUSED ? 77 : TOKEN_LEAST + kind, ms_after(START, 1));
        heard |= only(node);
        tally.with_token[kind]++;
        tally.granted += kind != REFUSED;
        tally.heard++;
        unsigned open = terms.nodes - tally.heard;
        if (most_common(&tally) >= quorum) {
            assert_int_equal(step.news, LEASE_NEWS_ACQUIRED);
            check_acquired(&tally);
        } else if (tally.granted + open < quorum) {
            assert_int_equal(step.news, LEASE_NEWS_REFUSED);
            assert_int_equal(step.abandon, all_of());
        } else if (tally.granted >= quorum && most_common(&tally) + open < quorum) {
            assert_int_equal(lease.state, LEASE_FENCING);
            check_raise(assignment, heard, step);
        } else {
            assert_empty(step);
            assert_int_equal(step.raise, 0);
            assert_int_equal(lease.state, LEASE_ACQUIRING);
        }
    }
    assert_int_not_equal(lease.state, LEASE_ACQUIRING);
}

TEST(test_f1_f2_every_vote_in_every_order)
{
    for_orders(1, true, check_order);
    for_orders(3, true, check_order);
    for_orders(5, true, check_order);
}

/* --- one round -------------------------------------------------------------------------------------------------- */

TEST(test_f2_a_majority_with_one_token_needs_no_second_round)
{
    ask();
    assert_empty(token_vote(0, 40, ms_after(START, 1)));
    assert_int_equal(token_vote(2, 40, ms_after(START, 2)).news, LEASE_NEWS_ACQUIRED);
    assert_int_equal(lease.token, 40);
    assert_instant(lease.valid_until, instant_after(START, terms.ttl_ns - terms.drift_ns));
}

TEST(test_f2_the_common_token_need_not_be_the_highest)
{
    terms = fenced_terms(5);
    ask();
    static const uint64_t tokens[] = {40, 99, 40, 40};
    struct lease_step step = {0};
    for (unsigned node = 0; node < 4; node++)
        step = token_vote(node, tokens[node], ms_after(START, 1));
    assert_int_equal(step.news, LEASE_NEWS_ACQUIRED);
    assert_int_equal(lease.token, 40);
}

TEST(test_f4_a_token_does_not_change_in_a_hold_and_ends_with_it)
{
    ask();
    token_vote(0, 40, ms_after(START, 1));
    token_vote(1, 40, ms_after(START, 1));
    struct instant now = lease_next(&lease, &terms);
    assert_int_equal(lease_tick(&lease, &terms, now).extend, 7);
    for (unsigned node = 0; node < 3; node++)
        token_vote(node, 500 + node, now);
    assert_int_equal(lease.token, 40);
    lease_release(&lease, &terms, now);
    votes("yyy", now);
    assert_int_equal(lease.state, LEASE_FREE);
    assert_int_equal(lease.token, 0);
}

TEST(test_an_unfenced_lock_has_no_token)
{
    terms = terms_of(3);
    hold();
    assert_int_equal(lease.token, 0);
}

/* --- raising ------------------------------------------------------------------------------------------------------ */

/* Granted 10, 12 and 11 at START, heard a millisecond later. */
static void raise_token(struct lease_step *step)
{
    ask();
    token_vote(0, 10, ms_after(START, 1));
    token_vote(1, 12, ms_after(START, 1));
    *step = token_vote(2, 11, ms_after(START, 1));
    assert_int_equal(lease.state, LEASE_FENCING);
    assert_int_equal(lease.token, 12);
    assert_int_equal(step->raise, 5);
}

TEST(test_f3_raised_once_and_had_from_the_start_of_the_pass)
{
    struct lease_step step;
    raise_token(&step);
    uint32_t round = lease.round;
    step = token_vote(0, 12, ms_after(START, 9));
    assert_int_equal(step.news, LEASE_NEWS_ACQUIRED);
    assert_int_equal(lease.token, 12);
    assert_int_equal(lease.round, round);
    assert_instant(lease.valid_until, instant_after(START, terms.ttl_ns - terms.drift_ns));
    assert_instant(lease.confirmed, START);
}

TEST(test_f1_a_node_with_a_higher_counter_does_not_count)
{
    struct lease_step step;
    raise_token(&step);
    assert_empty(token_vote(0, 15, ms_after(START, 2)));
    step = token_vote(2, 14, ms_after(START, 2));
    assert_int_equal(lease.state, LEASE_FENCING); /* once more, with the highest of all three */
    assert_int_equal(lease.token, 15);
    assert_int_equal(step.raise, 6);
    step = token_vote(1, 15, ms_after(START, 3));
    assert_int_equal(step.news, LEASE_NEWS_ACQUIRED);
    assert_int_equal(lease.token, 15);
}

TEST(test_e29_a_vote_for_the_grants_is_none_for_the_raise)
{
    terms = fenced_terms(5);
    ask();
    uint32_t granted_in = lease.round;
    token_vote(0, 10, ms_after(START, 1));
    token_vote(1, 11, ms_after(START, 1));
    token_vote(2, 12, ms_after(START, 1));
    token_vote(3, 13, ms_after(START, 1));
    assert_int_equal(lease.state, LEASE_FENCING);
    assert_empty(lease_vote(&lease, &terms, 4, granted_in, LEASE_YES, 13, ms_after(START, 2)));
    assert_int_equal(lease.state, LEASE_FENCING);
}

TEST(test_a_node_that_is_lost_in_between)
{
    struct lease_step step;
    raise_token(&step);
    assert_empty(lease_vote(&lease, &terms, 0, lease.round, LEASE_NO, 0, ms_after(START, 2)));
    step = token_vote(2, 12, ms_after(START, 3));
    assert_int_equal(step.news, LEASE_NEWS_ACQUIRED);
    assert_int_equal(lease.gone, 1);
}

TEST(test_too_many_nodes_are_lost_in_between)
{
    struct lease_step step;
    raise_token(&step);
    lease_vote(&lease, &terms, 0, lease.round, LEASE_NO, 0, ms_after(START, 2));
    expect_abandoned(lease_vote(&lease, &terms, 2, lease.round, LEASE_UNKNOWN, 0, ms_after(START, 3)), 7);
    assert_int_equal(lease.token, 0);
}

TEST(test_nobody_answers_the_raise)
{
    struct lease_step step;
    raise_token(&step);
    assert_instant(lease_next(&lease, &terms), instant_after(ms_after(START, 1), terms.attempt_limit_ns));
    step = lease_tick(&lease, &terms, lease_next(&lease, &terms));
    expect_refused(step, REDLOCK_NO_QUORUM);
    assert_int_equal(step.abandon, 7);
}

TEST(test_e5_too_little_is_left_after_the_raise)
{
    struct lease_step step;
    raise_token(&step);
    struct instant last = instant_after(START, terms.ttl_ns - terms.drift_ns - terms.needed_ns);
    step = token_vote(0, 12, instant_after(last, 1)); /* also for a raise that began later */
    assert_int_equal(step.news, LEASE_NEWS_REFUSED);
    assert_int_equal(step.refusal, REDLOCK_TOO_SLOW);
    assert_int_equal(step.abandon, 7);
}

TEST(test_given_up_while_raising)
{
    struct lease_step step;
    raise_token(&step);
    step = lease_release(&lease, &terms, ms_after(START, 2));
    expect_refused(step, REDLOCK_CANCELLED);
    assert_int_equal(step.abandon, 7);
    assert_int_equal(lease.state, LEASE_FREE);
    assert_int_equal(lease.token, 0);
}

RUN_TESTS_BETWEEN(begin_fenced, NULL)
