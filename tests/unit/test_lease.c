/* The lease from FREE to HELD: terms, votes, refusals. Further: test_lease_retry.c, test_lease_hold.c. */
#include "tests/unit/lease_fixture.h"

/* --- terms ----------------------------------------------------------------------------------------------------- */

TEST(test_e8_e9_the_quorum_is_a_majority_of_the_configured_nodes)
{
    static const unsigned quorums[] = {0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8};
    for (unsigned nodes = 1; nodes <= LEASE_NODES_MAX; nodes++) {
        terms = terms_of(nodes);
        assert_int_equal(lease_quorum(&terms), quorums[nodes]);
    }
}

TEST(test_e7_terms_are_derived_within_their_bounds)
{
    for (int64_t ttl_ms = 500; ttl_ms <= 60000; ttl_ms += 125)
        for (int thousandths = 1; thousandths <= 100; thousandths += 11) {
            int64_t ttl = ttl_ms * NS_PER_MS;
            terms = (struct lease_terms){.nodes = 5,
                                         .ttl_ns = ttl,
                                         .drift_factor = thousandths / 1000.0,
                                         .attempt_limit_ns = ttl / 4,
                                         .tries = 1};
            lease_terms_derive(&terms);
            assert_true(terms.drift_ns >= ttl * thousandths / 1000 + 7 * NS_PER_MS - 1);
            assert_true(terms.drift_ns <= ttl * thousandths / 1000 + 7 * NS_PER_MS + 1);
            assert_int_equal(terms.needed_ns, ttl / 2);
            assert_true(terms.guard_ns >= ttl / 100 && terms.guard_ns <= ttl / 10);
            assert_true(terms.guard_ns >= 50 * NS_PER_MS || terms.guard_ns == ttl / 10);
            assert_true(terms.extend_after_ns + terms.attempt_limit_ns < terms.danger_after_ns);
            assert_true(terms.extend_retry_ns >= terms.attempt_limit_ns && terms.extend_retry_ns >= ttl / 20);
            assert_true(terms.danger_after_ns < ttl - terms.drift_ns - terms.guard_ns);
        }
}

static void derive_without_tries(void)
{
    terms = terms_of(3);
    terms.tries = 0;
    lease_terms_derive(&terms);
}

static void derive_with_too_many_nodes(void)
{
    terms_of(LEASE_NODES_MAX + 1);
}

TEST(test_terms_that_make_no_sense_abort)
{
    assert_true(test_aborts(derive_without_tries));
    assert_true(test_aborts(derive_with_too_many_nodes));
}

/* --- every vote, every order ----------------------------------------------------------------------------------- */

/* Who refused, for a node that does: patterns of one owner, two, everybody another, and not told. */
static uint64_t owner_in(unsigned pattern, unsigned node)
{
    const uint64_t owners[] = {7, 1 + node % 2, 1 + node, 0};
    return owners[pattern];
}

struct tally {
    unsigned yes, no, failed;
    node_set unsent;
    unsigned of_owner[NODES_TRIED_MAX + 1], untold;
};

static void tally_add(struct tally *tally, unsigned node, enum lease_vote vote, uint64_t owner)
{
    tally->yes += vote == LEASE_YES;
    tally->no += vote == LEASE_NO;
    tally->failed += vote == LEASE_UNKNOWN || vote == LEASE_UNSENT;
    if (vote == LEASE_UNSENT)
        tally->unsent |= only(node);
    if (vote == LEASE_NO && owner == 0)
        tally->untold++;
    else if (vote == LEASE_NO)
        tally->of_owner[owner]++;
}

static unsigned most_of_one_owner(const struct tally *tally)
{
    unsigned most = 0;
    for (unsigned owner = 1; owner <= NODES_TRIED_MAX; owner++)
        if (tally->of_owner[owner] > most)
            most = tally->of_owner[owner];
    return most + tally->untold;
}

static enum redlock_answer refusal_expected(const struct tally *tally, unsigned nodes, unsigned quorum)
{
    if (tally->failed > nodes - quorum)
        return REDLOCK_NO_QUORUM;
    return most_of_one_owner(tally) >= quorum ? REDLOCK_BUSY : REDLOCK_SPLIT;
}

/* Those who have not answered make no majority for us, and cannot tell any more whether somebody has one. */
static bool is_refused(const struct tally *tally, unsigned left, unsigned quorum)
{
    unsigned most = most_of_one_owner(tally);
    return tally->yes + left < quorum && (most >= quorum || most + left < quorum);
}

static void check_refused(struct lease_step step, const struct tally *tally)
{
    assert_int_equal(step.news, LEASE_NEWS_REFUSED);
    assert_int_equal(step.abandon, all_of() & ~tally->unsent);
    assert_int_equal(step.refusal, refusal_expected(tally, terms.nodes, lease_quorum(&terms)));
    assert_int_equal(lease.state, LEASE_FREE);
}

static void check_held(struct lease_step step)
{
    assert_int_equal(step.news, LEASE_NEWS_ACQUIRED);
    assert_int_equal(lease.state, LEASE_HELD);
    assert_instant(lease.valid_until, instant_after(START, terms.ttl_ns - terms.drift_ns));
    assert_instant(lease_believed_until(&lease, &terms), instant_after(lease.valid_until, -terms.guard_ns));
}

static void check_pass(unsigned assignment, const unsigned *order, unsigned pattern)
{
    static const enum lease_vote kinds[VOTE_KINDS] = {LEASE_YES, LEASE_NO, LEASE_UNKNOWN, LEASE_UNSENT};
    lease_init(&lease, assignment + 1);
    assert_int_equal(lease_acquire(&lease, &terms, START).grant, all_of());
    uint32_t round = lease.round;
    struct tally tally = {0};
    bool decided = false;
    for (unsigned i = 0; i < terms.nodes; i++) {
        struct instant now = ms_after(START, 1 + i);
        enum lease_vote vote = kinds[vote_of(assignment, order[i])];
        uint64_t owner = vote == LEASE_NO ? owner_in(pattern, order[i]) : 0;
        struct lease_step step = lease_vote(&lease, &terms, order[i], round, vote, owner, now);
        if (decided) {
            assert_empty(step);
            continue;
        }
        tally_add(&tally, order[i], vote, owner);
        unsigned left = terms.nodes - i - 1;
        decided = true;
        if (tally.yes >= lease_quorum(&terms))
            check_held(step);
        else if (is_refused(&tally, left, lease_quorum(&terms)))
            check_refused(step, &tally);
        else
            decided = !step_is_empty(step);
    }
    assert_true(decided);
    assert_int_equal(lease.state, tally.yes >= lease_quorum(&terms) ? LEASE_HELD : LEASE_FREE);
}

static void check_pass_with_owners(unsigned assignment, const unsigned *order)
{
    for (unsigned pattern = 0; pattern < 4; pattern++)
        check_pass(assignment, order, pattern);
}

TEST(test_e1_e9_e10_every_vote_in_every_order_decides_as_soon_as_it_can)
{
    for_all_orders(check_pass_with_owners);
}

/* --- time ------------------------------------------------------------------------------------------------------ */

TEST(test_e5_a_quorum_that_comes_too_late_is_refused_and_cleaned_up)
{
    terms = terms_of(5);
    terms.attempt_limit_ns = terms.ttl_ns;
    int64_t latest = terms.ttl_ns - terms.drift_ns - terms.needed_ns;
    for (int64_t over = 0; over <= 1; over++) {
        ask();
        assert_empty(votes("yy", ms_after(START, 1)));
        struct lease_step step = vote_now(3, LEASE_YES, instant_after(START, latest + over));
        assert_int_equal(step.news, over ? LEASE_NEWS_REFUSED : LEASE_NEWS_ACQUIRED);
        assert_int_equal(step.abandon, over ? all_of() : 0);
        if (over)
            assert_int_equal(step.refusal, REDLOCK_TOO_SLOW);
    }
}

TEST(test_e6_validity_counts_from_the_start_of_the_pass_that_won)
{
    terms.tries = 2;
    ask();
    votes("nn", ms_after(START, 5));
    struct instant second = lease_next(&lease, &terms);
    assert_int_equal(lease_tick(&lease, &terms, second).grant, 7);
    assert_int_equal(votes("yy", ms_after(second, 5)).news, LEASE_NEWS_ACQUIRED);
    assert_instant(lease.valid_until, instant_after(second, terms.ttl_ns - terms.drift_ns));
}

TEST(test_e1_a_pass_that_is_undecided_at_its_limit_fails_and_is_cleaned_up_everywhere)
{
    terms = terms_of(5);
    ask();
    votes("ynyu", ms_after(START, 1));
    struct instant limit = instant_after(START, terms.attempt_limit_ns);
    assert_instant(lease_next(&lease, &terms), limit);
    assert_empty(lease_tick(&lease, &terms, instant_after(limit, -1)));
    expect_abandoned(lease_tick(&lease, &terms, limit), 31);
}

TEST(test_nodes_that_are_silent_at_the_limit_could_not_be_asked)
{
    terms = terms_of(5);
    ask();
    votes("yn", ms_after(START, 1));
    assert_int_equal(lease_tick(&lease, &terms, ms_after(START, 60)).refusal, REDLOCK_NO_QUORUM);
}

/* --- nodes that are slow of late ---------------------------------------------------------------------------------- */

static struct lease_terms patient_terms(void)
{
    terms = terms_of(5);
    terms.silence_limit_ns = 400 * NS_PER_MS;
    lease_terms_derive(&terms);
    return terms;
}

TEST(test_a_pass_waits_for_a_majority_that_is_slow_of_late)
{
    terms = patient_terms();
    ask();
    assert_empty(votes("yu  y", ms_after(START, 1)));
    assert_empty(lease_tick(&lease, &terms, ms_after(START, 399)));
    assert_instant(lease_next(&lease, &terms), ms_after(START, 400));
    assert_int_equal(vote_now(2, LEASE_YES, ms_after(START, 399)).news, LEASE_NEWS_ACQUIRED);
    ask();
    votes("yu  y", ms_after(START, 1));
    assert_int_equal(lease_tick(&lease, &terms, ms_after(START, 400)).refusal, REDLOCK_NO_QUORUM);
}

/* G6 */
TEST(test_what_a_majority_has_answered_does_not_wait_for_the_slow)
{
    terms = patient_terms();
    ask();
    votes("yny", ms_after(START, 1));
    assert_instant(lease_next(&lease, &terms), ms_after(START, 60));
    assert_int_equal(lease_tick(&lease, &terms, ms_after(START, 60)).news, LEASE_NEWS_REFUSED);
    hold();
    lease_release(&lease, &terms, START);
    votes("yn", ms_after(START, 1));
    assert_instant(lease_next(&lease, &terms), ms_after(START, 400));
    votes("  f", ms_after(START, 1));
    assert_instant(lease_next(&lease, &terms), ms_after(START, 60));
}

/* Or the answers that are waited for would be those of a former round. */
TEST(test_an_extension_is_repeated_when_it_was_waited_for)
{
    terms = terms_of(5);
    terms.silence_limit_ns = 2400 * NS_PER_MS;
    lease_terms_derive(&terms);
    assert_int_equal(terms.extend_retry_ns, 2400 * NS_PER_MS);
    terms.silence_limit_ns = 1;
    lease_terms_derive(&terms);
    assert_int_equal(terms.silence_limit_ns, terms.attempt_limit_ns);
    assert_int_equal(terms.extend_retry_ns, 500 * NS_PER_MS);
}

/* --- refusals -------------------------------------------------------------------------------------------------- */

static enum redlock_answer refusal_of(unsigned nodes, const char *letters)
{
    terms = terms_of(nodes);
    ask();
    struct lease_step step = votes(letters, ms_after(START, 1));
    assert_int_equal(step.news, LEASE_NEWS_REFUSED);
    return step.refusal;
}

TEST(test_e48_split_votes_are_told_from_a_holder)
{
    assert_int_equal(refusal_of(3, "aa"), REDLOCK_BUSY);
    assert_int_equal(refusal_of(3, "yab"), REDLOCK_SPLIT);
    assert_int_equal(refusal_of(3, "yaa"), REDLOCK_BUSY);
    assert_int_equal(refusal_of(3, "ynn"), REDLOCK_BUSY); /* refusals that tell no owner may be anybody's */
    assert_int_equal(refusal_of(5, "yyaab"), REDLOCK_SPLIT);
    assert_int_equal(refusal_of(5, "yyaaa"), REDLOCK_BUSY);
    assert_int_equal(refusal_of(5, "yyabc"), REDLOCK_SPLIT);
    assert_int_equal(refusal_of(2, "ya"), REDLOCK_SPLIT);
    assert_int_equal(refusal_of(1, "a"), REDLOCK_BUSY);
}

/* Who takes it for a holder waits for the end of nobody. */
TEST(test_e48_a_split_vote_is_no_holder_while_a_node_says_nothing)
{
    ask();
    assert_empty(votes("ab", ms_after(START, 1)));
    assert_int_equal(lease_tick(&lease, &terms, lease_next(&lease, &terms)).refusal, REDLOCK_SPLIT);
    assert_int_equal(refusal_of(3, "aby"), REDLOCK_SPLIT);
    assert_int_equal(refusal_of(3, "yax"), REDLOCK_SPLIT);
    assert_int_equal(refusal_of(3, "xay"), REDLOCK_SPLIT);
    assert_int_equal(refusal_of(5, "aabby"), REDLOCK_SPLIT);
    assert_int_equal(refusal_of(5, "aabya"), REDLOCK_BUSY);
    assert_int_equal(refusal_of(5, "yxaaa"), REDLOCK_BUSY);
}

TEST(test_one_node_that_is_down_does_not_make_a_holder_look_like_a_lost_majority)
{
    assert_int_equal(refusal_of(3, "xaa"), REDLOCK_BUSY);
    assert_int_equal(refusal_of(3, "uaa"), REDLOCK_BUSY);
    assert_int_equal(refusal_of(5, "xaaa"), REDLOCK_BUSY);
    assert_int_equal(refusal_of(5, "uxaaa"), REDLOCK_BUSY);
    assert_int_equal(refusal_of(4, "xaaa"), REDLOCK_BUSY);
}

TEST(test_e8_nodes_that_are_down_count_among_the_configured_ones)
{
    assert_int_equal(refusal_of(5, "xxx"), REDLOCK_NO_QUORUM);
    assert_int_equal(refusal_of(5, "yyuxu"), REDLOCK_NO_QUORUM);
    assert_int_equal(refusal_of(4, "xx"), REDLOCK_NO_QUORUM);
    assert_int_equal(refusal_of(2, "yx"), REDLOCK_NO_QUORUM); /* E9: two nodes bear no failure */
    assert_int_equal(refusal_of(1, "u"), REDLOCK_NO_QUORUM);
}

TEST(test_e10_errors_of_a_minority_are_no_errors)
{
    terms = terms_of(5);
    hold_after("uxyyy");
    assert_int_equal(lease.reached, 0x1d); /* E1: the one that was not heard may have it */
}

TEST(test_nodes_that_could_not_be_sent_to_are_told_all_at_once)
{
    terms = terms_of(5);
    ask();
    struct lease_step step = lease_unsent(&lease, &terms, 0x1b, lease.round, START);
    assert_int_equal(step.refusal, REDLOCK_NO_QUORUM);
    assert_int_equal(step.abandon, 0x04); /* and nothing is cleaned up where nothing was written */

    lease_acquire(&lease, &terms, START);
    assert_empty(lease_unsent(&lease, &terms, 0x03, lease.round - 1, START)); /* E29 */
    assert_empty(lease_unsent(&lease, &terms, 0x03, lease.round, START));
    assert_empty(vote_now(0, LEASE_YES, START));
    assert_int_equal(votes("  yyy", START).news, LEASE_NEWS_ACQUIRED);
    assert_int_equal(lease.reached, 0x1c);
    assert_empty(lease_unsent(&lease, &terms, 0x1c, lease.round, START));
    assert_int_equal(lease.reached, 0x1c);
}

/* --- votes that do not count ----------------------------------------------------------------------------------- */

TEST(test_e29_votes_of_older_rounds_are_ignored)
{
    terms.tries = 2;
    ask();
    uint32_t first = lease.round;
    votes("nn", ms_after(START, 1));
    assert_empty(lease_vote(&lease, &terms, 2, first, LEASE_YES, 0, ms_after(START, 2))); /* WAITING */
    struct instant second = lease_next(&lease, &terms);
    lease_tick(&lease, &terms, second);
    assert_int_not_equal(lease.round, first);
    for (unsigned node = 0; node < 3; node++)
        assert_empty(lease_vote(&lease, &terms, node, first, LEASE_YES, 0, ms_after(second, 1)));
    assert_empty(vote_now(0, LEASE_YES, ms_after(second, 2)));
    assert_int_equal(lease.state, LEASE_ACQUIRING);
}

TEST(test_e29_votes_of_an_earlier_life_are_ignored)
{
    ask();
    uint32_t first = lease.round;
    lease_release(&lease, &terms, ms_after(START, 1));
    lease_acquire(&lease, &terms, ms_after(START, 2));
    for (unsigned node = 0; node < 3; node++)
        assert_empty(lease_vote(&lease, &terms, node, first, LEASE_YES, 0, ms_after(START, 3)));
    assert_int_equal(lease.state, LEASE_ACQUIRING);
}

TEST(test_a_node_votes_once)
{
    ask();
    assert_empty(vote_now(0, LEASE_YES, START));
    assert_empty(vote_now(0, LEASE_YES, START));
    assert_empty(vote_now(1, LEASE_UNKNOWN, START));
    assert_empty(vote_now(1, LEASE_YES, START)); /* after its deadline */
    assert_int_equal(lease.state, LEASE_ACQUIRING);
}

TEST(test_e26_a_refusal_after_the_majority_marks_the_node_as_not_ours)
{
    terms = terms_of(5);
    hold_after("yyy");
    assert_empty(vote_now(3, LEASE_NO, ms_after(START, 2)));
    assert_empty(vote_now(4, LEASE_YES, ms_after(START, 2)));
    assert_int_equal(lease_tick(&lease, &terms, lease_next(&lease, &terms)).extend, 0x17);
    assert_int_equal(lease_release(&lease, &terms, ms_after(START, 9000)).release, 0x1f); /* E1 */
}

TEST(test_the_round_that_means_none_is_never_used)
{
    lease_init(&lease, 1);
    lease.round = UINT32_MAX;
    lease_acquire(&lease, &terms, START);
    assert_int_equal(lease.round, 1);
}

RUN_TESTS_BETWEEN(begin_with_three, NULL)
