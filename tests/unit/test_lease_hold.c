/* The lease from HELD to FREE: extension, DANGER, LOST, release. */
#include "tests/unit/lease_fixture.h"

/* Where an extension begins, and what it asks. */
static struct lease_step extension_begin(struct instant *begun)
{
    *begun = lease_next(&lease, &terms);
    struct lease_step step = lease_tick(&lease, &terms, *begun);
    assert_int_not_equal(step.extend, 0);
    return step;
}

static struct instant deadline_from(struct instant confirmed)
{
    return instant_after(confirmed, terms.ttl_ns - terms.drift_ns - terms.guard_ns);
}

/* --- extension ------------------------------------------------------------------------------------------------- */

TEST(test_e33_extensions_start_at_a_third_of_the_ttl_jittered_and_in_company)
{
    int64_t first = INT64_MAX, last = 0;
    for (uint32_t noise = 0; noise < 500; noise++) {
        lease_init(&lease, noise * 2654435761u);
        lease_acquire(&lease, &terms, START);
        votes("yy", ms_after(START, 1));
        int64_t after = instant_since(START, lease_next(&lease, &terms));
        first = after < first ? after : first;
        last = after > last ? after : last;
        assert_int_equal(lease_next(&lease, &terms).ns % (10 * NS_PER_MS), 0);
    }
    assert_true(first >= terms.extend_after_ns * 9 / 10 - 10 * NS_PER_MS && first < terms.extend_after_ns * 92 / 100);
    assert_true(last <= terms.extend_after_ns && last > terms.extend_after_ns * 98 / 100);
}

static void check_extension(unsigned assignment, const unsigned *order)
{
    static const enum lease_vote kinds[VOTE_KINDS] = {LEASE_YES, LEASE_NO, LEASE_UNKNOWN, LEASE_UNSENT};
    hold();
    struct instant before = lease.valid_until, begun;
    assert_int_equal(extension_begin(&begun).extend, all_of());
    uint32_t round = lease.round;
    unsigned yes = 0, no = 0, quorum = lease_quorum(&terms);
    enum lease_news told = LEASE_NEWS_NONE;
    for (unsigned i = 0; i < terms.nodes; i++) {
        enum lease_vote vote = kinds[vote_of(assignment, order[i])];
        struct lease_step step = lease_vote(&lease, &terms, order[i], round, vote, 0, ms_after(begun, 1 + i));
        yes += vote == LEASE_YES;
        no += vote == LEASE_NO;
        assert_int_equal(step.abandon | step.grant | step.extend | step.release, 0);
        enum lease_news expected = told != LEASE_NEWS_NONE     ? LEASE_NEWS_NONE
                                   : no > terms.nodes - quorum ? LEASE_NEWS_LOST
                                   : yes >= quorum             ? LEASE_NEWS_EXTENDED
                                                               : LEASE_NEWS_NONE;
        assert_int_equal(step.news, expected);
        if (expected == LEASE_NEWS_LOST)
            assert_int_equal(step.loss, REDLOCK_LOST_TAKEN);
        told = expected != LEASE_NEWS_NONE ? expected : told;
    }
    assert_int_equal(lease.state, told == LEASE_NEWS_LOST ? LEASE_LOST : LEASE_HELD);
    if (told == LEASE_NEWS_EXTENDED)
        assert_instant(lease.valid_until, instant_after(begun, terms.ttl_ns - terms.drift_ns));
    else
        assert_instant(lease.valid_until, before);
}

TEST(test_e24_e27_e49_every_answer_in_every_order_extends_loses_or_leaves_the_hold_alone)
{
    for_all_orders(check_extension);
}

TEST(test_e24_validity_of_an_extension_counts_from_its_own_start)
{
    hold();
    struct instant begun;
    extension_begin(&begun);
    assert_int_equal(votes("yy", ms_after(begun, 700)).news, LEASE_NEWS_EXTENDED);
    assert_instant(lease_believed_until(&lease, &terms), deadline_from(begun));
}

TEST(test_e24_an_extension_counts_only_before_the_deadline_and_lost_is_final)
{
    for (int64_t late = -1; late <= 0; late++) {
        hold();
        struct instant begun, deadline = deadline_from(START);
        extension_begin(&begun);
        vote_now(0, LEASE_YES, ms_after(begun, 1));
        uint32_t round = lease.round;
        struct lease_step step = vote_now(1, LEASE_YES, instant_after(deadline, late));
        assert_int_equal(step.news, late < 0 ? LEASE_NEWS_EXTENDED : LEASE_NEWS_LOST);
        if (late < 0)
            continue;
        assert_int_equal(step.loss, REDLOCK_LOST_DEADLINE);
        assert_empty(lease_vote(&lease, &terms, 2, round, LEASE_YES, 0, deadline));
        assert_empty(vote_now(2, LEASE_YES, deadline));
        assert_empty(lease_tick(&lease, &terms, ms_after(deadline, 1000)));
        assert_int_equal(lease.state, LEASE_LOST);
        assert_int_equal(lease_believed_until(&lease, &terms).ns, 0);
    }
}

TEST(test_e27_e28_a_failed_extension_is_repeated_until_the_deadline)
{
    for (int64_t limit_ms = 60; limit_ms <= 2500; limit_ms += 610) {
        terms = terms_of(3);
        terms.attempt_limit_ns = limit_ms * NS_PER_MS;
        lease_terms_derive(&terms);
        hold();
        struct instant deadline = deadline_from(START), last = {0};
        unsigned rounds = 0, dangers = 0, turns = 0;
        struct lease_step step = {0};
        while (step.news != LEASE_NEWS_LOST && turns++ < 1000) {
            struct instant now = lease_next(&lease, &terms);
            assert_true(now.ns <= deadline.ns); /* E28: whatever is planned lies before it */
            step = lease_tick(&lease, &terms, now);
            dangers += step.news == LEASE_NEWS_DANGER;
            if (!step.extend)
                continue;
            assert_true(rounds == 0 || instant_since(last, now) >= terms.attempt_limit_ns);
            assert_true(rounds == 0 || instant_since(last, now) <= terms.extend_retry_ns + terms.ttl_ns / 40);
            last = now;
            rounds++;
            assert_empty(votes(rounds % 2 ? "uu" : "yuu", instant_after(now, 1)));
            assert_int_equal(lease.state, LEASE_HELD);
        }
        assert_true(rounds >= 2);
        assert_int_equal(dangers, 1);
        assert_instant(deadline, lease_believed_until(&(struct lease){.state = LEASE_HELD,
                                                                      .valid_until = lease.valid_until,
                                                                      .hold_until = INSTANT_NEVER},
                                                      &terms));
    }
}

TEST(test_e28_answers_that_take_as_long_as_they_may_still_extend)
{
    for (int64_t share = 4; share <= 100; share += 4) {
        terms = terms_of(3);
        terms.attempt_limit_ns = terms.ttl_ns / share;
        lease_terms_derive(&terms);
        hold();
        struct instant begun;
        extension_begin(&begun);
        uint32_t round = lease.round;
        struct instant answered = instant_after(begun, terms.attempt_limit_ns - 1);
        lease_tick(&lease, &terms, answered);
        assert_empty(lease_vote(&lease, &terms, 0, round, LEASE_YES, 0, answered));
        assert_int_equal(lease_vote(&lease, &terms, 1, round, LEASE_YES, 0, answered).news, LEASE_NEWS_EXTENDED);
    }
}

TEST(test_e29_answers_to_an_older_extension_do_not_count)
{
    hold();
    struct instant first, second;
    extension_begin(&first);
    uint32_t older = lease.round;
    vote_now(0, LEASE_YES, ms_after(first, 1));
    extension_begin(&second);
    assert_empty(lease_vote(&lease, &terms, 1, older, LEASE_YES, 0, ms_after(second, 1)));
    assert_empty(lease_vote(&lease, &terms, 2, older, LEASE_NO, 0, ms_after(second, 1)));
    assert_empty(vote_now(1, LEASE_YES, ms_after(second, 1)));
    assert_int_equal(vote_now(2, LEASE_YES, ms_after(second, 2)).news, LEASE_NEWS_EXTENDED);
    assert_instant(lease.confirmed, second);
}

TEST(test_e29_a_grant_that_is_answered_during_an_extension_does_not_extend)
{
    terms = terms_of(5);
    hold_after("yyy");
    uint32_t grants = lease.round;
    struct instant begun;
    extension_begin(&begun);
    votes("yy", ms_after(begun, 1));
    assert_empty(lease_vote(&lease, &terms, 3, grants, LEASE_YES, 0, ms_after(begun, 2)));
    assert_empty(lease_vote(&lease, &terms, 4, grants, LEASE_YES, 0, ms_after(begun, 2)));
    assert_instant(lease.confirmed, START);
}

TEST(test_e25_a_node_that_lost_our_key_is_not_asked_again)
{
    terms = terms_of(5);
    hold_after("xyyyn");
    struct instant begun;
    assert_int_equal(extension_begin(&begun).extend, 0x0e);
    assert_int_equal(votes(" yyy", begun).news, LEASE_NEWS_EXTENDED);
    assert_int_equal(extension_begin(&begun).extend, 0x0e);

    hold();
    extension_begin(&begun);
    assert_int_equal(votes("nyyy", begun).news, LEASE_NEWS_EXTENDED);
    assert_int_equal(extension_begin(&begun).extend, 0x1e);
}

TEST(test_e49_nodes_that_lost_our_key_add_up_over_rounds)
{
    terms = terms_of(5);
    hold();
    struct instant begun;
    for (unsigned node = 0; node < 2; node++) {
        extension_begin(&begun);
        assert_empty(vote_now(node, LEASE_NO, begun));
        votes(node == 0 ? " yyy" : "  yyy", begun);
        assert_int_equal(lease.state, LEASE_HELD);
    }
    extension_begin(&begun);
    expect_lost(vote_now(2, LEASE_NO, begun), REDLOCK_LOST_TAKEN);
    assert_int_equal(lease_release(&lease, &terms, ms_after(begun, 1)).release, 0x1f); /* E42 */
}

TEST(test_e49_nodes_that_were_never_reached_count_as_not_ours)
{
    terms = terms_of(5);
    hold_after("xxyyy");
    struct instant begun;
    extension_begin(&begun);
    assert_int_equal(vote_now(2, LEASE_NO, begun).news, LEASE_NEWS_LOST);
}

TEST(test_a_hold_that_was_lengthened_counts_for_as_much_from_then_on)
{
    hold();
    lease_lengthen(&lease, &terms, 2 * terms.ttl_ns);
    assert_int_equal(terms.ttl_ns, 20 * NS_PER_S);
    assert_instant(lease_believed_until(&lease, &terms), deadline_from(START));
    struct instant begun;
    extension_begin(&begun);
    assert_true(instant_since(START, begun) > 5 * NS_PER_S);
    votes("yy", begun);
    assert_instant(lease_believed_until(&lease, &terms), deadline_from(begun));
}

/* --- danger and loss ------------------------------------------------------------------------------------------- */

/* Ticks exactly when it is asked to, failing every extension, and returns when the news came. */
static struct instant when_told(enum lease_news news)
{
    for (unsigned i = 0; i < 1000; i++) {
        struct instant now = lease_next(&lease, &terms);
        assert_int_not_equal(now.ns, INSTANT_NEVER.ns);
        assert_empty(lease_tick(&lease, &terms, instant_after(now, -1)));
        if (lease_tick(&lease, &terms, now).news == news)
            return now;
    }
    fail_msg("the news never came");
    return INSTANT_NEVER;
}

TEST(test_e34_danger_and_lost_come_at_their_times_to_the_nanosecond)
{
    for (int64_t ttl_ms = 500; ttl_ms <= 60000; ttl_ms += 1700) {
        terms = terms_of(5);
        terms.ttl_ns = ttl_ms * NS_PER_MS;
        lease_terms_derive(&terms);
        hold();
        assert_instant(when_told(LEASE_NEWS_DANGER), instant_after(START, terms.ttl_ns / 3 * 2));
        assert_instant(when_told(LEASE_NEWS_LOST), deadline_from(START));
        assert_instant(lease_next(&lease, &terms), INSTANT_NEVER);
    }
}

TEST(test_e34_an_extension_ends_the_danger_and_the_next_one_is_told_again)
{
    hold();
    for (unsigned i = 0; i < 3; i++) {
        when_told(LEASE_NEWS_DANGER);
        struct instant begun;
        extension_begin(&begun);
        assert_int_equal(votes("yy", ms_after(begun, 1)).news, LEASE_NEWS_EXTENDED);
        assert_instant(lease.confirmed, begun);
    }
}

TEST(test_e35_who_was_away_too_long_is_told_lost_first)
{
    hold();
    struct lease_step step = lease_tick(&lease, &terms, ms_after(START, 3600 * 1000));
    expect_lost(step, REDLOCK_LOST_DEADLINE);
    assert_int_equal(step.extend, 0);

    hold(); /* by a reply that lay in the socket */
    struct instant begun;
    extension_begin(&begun);
    assert_int_equal(vote_now(0, LEASE_YES, ms_after(START, 3600 * 1000)).news, LEASE_NEWS_LOST);
}

TEST(test_an_extension_and_danger_that_are_due_together_are_both_done)
{
    hold();
    struct lease_step step = lease_tick(&lease, &terms, instant_after(START, terms.danger_after_ns));
    assert_int_equal(step.news, LEASE_NEWS_DANGER);
    assert_int_equal(step.extend, 7);
}

/* --- release --------------------------------------------------------------------------------------------------- */

static enum redlock_ending ending_expected(unsigned deleted, unsigned silent, unsigned foreign, unsigned quorum)
{
    if (deleted >= quorum)
        return REDLOCK_RELEASED;
    if (deleted + silent >= quorum)
        return REDLOCK_UNKNOWN;
    return foreign > 0 ? REDLOCK_FOREIGN : REDLOCK_EXPIRED;
}

static void check_release(unsigned assignment, const unsigned *order)
{
    static const enum lease_vote kinds[VOTE_KINDS] = {LEASE_YES, LEASE_NO, LEASE_UNKNOWN, LEASE_FOREIGN};
    hold();
    assert_int_equal(lease_release(&lease, &terms, ms_after(START, 5)).release, all_of());
    uint32_t round = lease.round;
    unsigned count[VOTE_KINDS] = {0};
    bool over = false;
    for (unsigned i = 0; i < terms.nodes; i++) {
        unsigned kind = vote_of(assignment, order[i]);
        struct lease_step step = lease_vote(&lease, &terms, order[i], round, kinds[kind], 0, ms_after(START, 6 + i));
        if (over) {
            assert_empty(step);
            continue;
        }
        count[kind]++;
        over = count[0] >= lease_quorum(&terms) || i + 1 == terms.nodes;
        assert_int_equal(step.news, over ? LEASE_NEWS_RELEASED : LEASE_NEWS_NONE);
        if (over)
            assert_int_equal(step.ending, ending_expected(count[0], count[2], count[3], lease_quorum(&terms)));
    }
    assert_int_equal(lease.state, LEASE_FREE);
}

TEST(test_e39_e40_every_answer_in_every_order_ends_the_release)
{
    for_all_orders(check_release);
}

static enum redlock_ending ending_of(const char *grants, const char *releases)
{
    terms = terms_of((unsigned)strlen(grants));
    hold_after(grants);
    lease_release(&lease, &terms, ms_after(START, 5));
    struct lease_step step = votes(releases, ms_after(START, 6));
    if (step.news == LEASE_NEWS_NONE)
        step = lease_tick(&lease, &terms, lease_next(&lease, &terms));
    assert_int_equal(step.news, LEASE_NEWS_RELEASED);
    assert_int_equal(lease.state, LEASE_FREE);
    return step.ending;
}

TEST(test_e39_expired_is_told_only_when_no_majority_can_have_held_it)
{
    assert_int_equal(ending_of("xyy", " yu"), REDLOCK_UNKNOWN); /* the first was never reached */
    assert_int_equal(ending_of("xxyyy", "  yyu"), REDLOCK_UNKNOWN);
    assert_int_equal(ending_of("xyy", " yn"), REDLOCK_EXPIRED);
    assert_int_equal(ending_of("yyn", "nnf"), REDLOCK_FOREIGN);
    assert_int_equal(ending_of("yyy", "nu "), REDLOCK_UNKNOWN);
}

TEST(test_e51_a_release_ends_at_its_limit_and_works_with_a_majority)
{
    assert_int_equal(ending_of("yyyyy", "yyy"), REDLOCK_RELEASED);
    assert_int_equal(ending_of("yyyyy", "uyyuy"), REDLOCK_RELEASED);
    assert_int_equal(ending_of("yyyyy", "yy"), REDLOCK_UNKNOWN);
    assert_int_equal(ending_of("yyyyy", ""), REDLOCK_UNKNOWN);
    terms = terms_of(3);
    hold();
    lease_release(&lease, &terms, ms_after(START, 5));
    assert_instant(lease_next(&lease, &terms), instant_after(ms_after(START, 5), terms.attempt_limit_ns));
    assert_empty(lease_tick(&lease, &terms, instant_after(lease_next(&lease, &terms), -1)));
}

TEST(test_e1_a_release_goes_to_every_node_a_grant_may_have_reached)
{
    terms = terms_of(7);
    hold_after("yyunxyy");
    assert_int_equal(lease_release(&lease, &terms, ms_after(START, 5)).release, 0x6f);
}

TEST(test_e30_nothing_is_extended_once_the_release_was_asked_for)
{
    hold();
    struct instant begun;
    extension_begin(&begun);
    uint32_t extension = lease.round;
    struct lease_step step = lease_release(&lease, &terms, ms_after(begun, 1));
    assert_int_equal(step.extend, 0);
    assert_int_equal(lease_believed_until(&lease, &terms).ns, 0);
    for (unsigned node = 0; node < 3; node++)
        assert_empty(lease_vote(&lease, &terms, node, extension, LEASE_YES, 0, ms_after(begun, 2)));
    assert_int_equal(lease.state, LEASE_RELEASING);
    step = lease_tick(&lease, &terms, ms_after(START, 3600 * 1000));
    assert_int_equal(step.extend, 0);
    assert_int_equal(step.news, LEASE_NEWS_RELEASED);
}

TEST(test_e42_a_lost_lock_still_sends_its_release)
{
    hold();
    when_told(LEASE_NEWS_LOST);
    struct instant now = ms_after(START, 20000);
    assert_int_equal(lease_release(&lease, &terms, now).release, 7);
    assert_int_equal(votes("nnn", now).ending, REDLOCK_EXPIRED);
    assert_int_equal(lease_acquire(&lease, &terms, now).grant, 7); /* and can be used again */
    assert_int_equal(votes("yy", now).news, LEASE_NEWS_ACQUIRED);
}

static void release_twice(void)
{
    terms = terms_of(3);
    hold();
    lease_release(&lease, &terms, ms_after(START, 5));
    lease_release(&lease, &terms, ms_after(START, 5));
}

TEST(test_a_second_release_aborts)
{
    assert_true(test_aborts(release_twice));
}

RUN_TESTS_BETWEEN(begin_with_three, NULL)
