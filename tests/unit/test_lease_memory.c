/* Nodes that forget while a lease is had or wanted (reference 5), clocks of ours that stood still, and being asked
 * whether a lock is still held. */
#include "tests/unit/lease_fixture.h"

/* Held since START with token 40; a letter a node: y granted, n refused, blank silent. */
static void hold_fenced(const char *letters)
{
    ask();
    uint32_t round = lease.round;
    for (unsigned node = 0; letters[node] != '\0'; node++)
        if (letters[node] != ' ')
            lease_vote(&lease, &terms, node, round, letters[node] == 'y' ? LEASE_YES : LEASE_NO, 40,
                       ms_after(START, 1));
    assert_int_equal(lease.state, LEASE_HELD);
}

/* --- in a pass ---------------------------------------------------------------------------------------------------- */

TEST(test_a_vote_for_an_undecided_pass_is_void)
{
    terms = terms_of(3);
    ask();
    vote_now(0, LEASE_YES, ms_after(START, 1));
    assert_empty(lease_forgot(&lease, &terms, 0, ms_after(START, 2)));
    assert_empty(vote_now(1, LEASE_YES, ms_after(START, 3)));
    assert_int_equal(vote_now(2, LEASE_YES, ms_after(START, 4)).news, LEASE_NEWS_ACQUIRED);
}

TEST(test_a_vote_that_is_still_on_its_way_is_void_too)
{
    terms = terms_of(3);
    ask();
    assert_empty(lease_forgot(&lease, &terms, 0, ms_after(START, 1)));
    assert_empty(vote_now(0, LEASE_YES, ms_after(START, 2)));
    assert_empty(vote_now(1, LEASE_YES, ms_after(START, 3)));
    struct lease_step step = vote_now(2, LEASE_NO, ms_after(START, 4));
    assert_int_equal(step.news, LEASE_NEWS_REFUSED);
    assert_int_equal(step.abandon, 7); /* it may have been planted there */
}

TEST(test_a_raise_without_the_node_that_forgot)
{
    ask();
    for (unsigned node = 0; node < 3; node++)
        lease_vote(&lease, &terms, node, lease.round, LEASE_YES, 10 + node, ms_after(START, 1));
    assert_int_equal(lease.state, LEASE_FENCING);
    assert_empty(lease_forgot(&lease, &terms, 2, ms_after(START, 2))); /* the one that had the token already */
    assert_empty(lease_vote(&lease, &terms, 0, lease.round, LEASE_YES, 12, ms_after(START, 3)));
    assert_int_equal(lease_vote(&lease, &terms, 1, lease.round, LEASE_YES, 12, ms_after(START, 3)).news,
                     LEASE_NEWS_ACQUIRED);
}

TEST(test_a_pass_that_its_void_vote_decides_ends_at_once)
{
    terms = terms_of(3);
    ask();
    vote_now(0, LEASE_YES, ms_after(START, 1));
    assert_empty(vote_now(1, LEASE_NO, ms_after(START, 2)));
    expect_abandoned(lease_forgot(&lease, &terms, 2, ms_after(START, 3)), 7);
}

TEST(test_what_was_not_sent_to_a_node_that_forgot_is_not_cleaned_up)
{
    terms = terms_of(3);
    ask();
    assert_empty(lease_forgot(&lease, &terms, 0, START));
    expect_abandoned(lease_unsent(&lease, &terms, 5, lease.round, START), 2);
}

/* --- in a hold ---------------------------------------------------------------------------------------------------- */

/* Conditions a and b hold: it granted, and it would still keep the key. */
TEST(test_e26_the_key_is_planted_again_and_counts)
{
    hold_fenced("yy ");
    struct instant now = ms_after(START, 500);
    assert_empty(lease_forgot(&lease, &terms, 0, now));
    assert_instant(lease_next(&lease, &terms), now); /* at once, and not at the next extension */
    assert_instant(lease.kept_until[0], lease.valid_until);
    struct lease_step step = lease_tick(&lease, &terms, now);
    assert_int_equal(step.replant, 1);
    assert_int_equal(step.extend, 6);
    step = votes("yyn", ms_after(now, 1));
    assert_int_equal(step.news, LEASE_NEWS_EXTENDED);
    assert_int_equal(lease.token, 40);
    assert_int_equal(lease.forgot, 0);
    step = lease_tick(&lease, &terms, lease_next(&lease, &terms));
    assert_int_equal(step.replant, 0); /* it is one of ours again */
    assert_int_equal(step.extend & 1, 1);
}

TEST(test_a_not_where_it_was_never_acknowledged)
{
    hold_fenced("yy ");
    struct instant now = ms_after(START, 500);
    lease_forgot(&lease, &terms, 2, now);
    struct lease_step step = lease_tick(&lease, &terms, now);
    assert_int_equal(step.replant, 0);
    assert_int_equal(step.extend, 3);
    assert_int_equal(lease.gone, 4);
}

TEST(test_a_not_where_it_was_refused)
{
    terms = fenced_terms(5);
    hold_fenced("nyyy");
    lease_forgot(&lease, &terms, 0, ms_after(START, 500));
    struct lease_step step = lease_tick(&lease, &terms, lease_next(&lease, &terms));
    assert_int_equal((step.replant | step.extend) & 1, 0);
}

/* Extended without node 0 from then on, which forgets when its own key would have expired. */
TEST(test_b_not_when_it_would_not_keep_the_key_any_more)
{
    hold_fenced("yyy");
    struct instant kept = lease.kept_until[0], now = START;
    while (instant_before(now, kept)) {
        now = lease_next(&lease, &terms);
        lease_tick(&lease, &terms, now);
        votes("uyy", ms_after(now, 1));
    }
    assert_instant(lease.kept_until[0], kept);
    assert_int_equal(lease.state, LEASE_HELD);
    lease_forgot(&lease, &terms, 0, now);
    now = lease_next(&lease, &terms);
    struct lease_step step = lease_tick(&lease, &terms, now);
    assert_int_equal(step.replant, 0);
    assert_int_equal(step.extend, 6);
}

/* The script refuses: somebody else was there. */
TEST(test_c_a_node_that_refuses_is_out)
{
    hold_fenced("yyy");
    struct instant now = ms_after(START, 500);
    lease_forgot(&lease, &terms, 0, now);
    lease_tick(&lease, &terms, now);
    assert_int_equal(votes("nyy", ms_after(now, 1)).news, LEASE_NEWS_EXTENDED);
    struct lease_step step = lease_tick(&lease, &terms, lease_next(&lease, &terms));
    assert_int_equal((step.replant | step.extend) & 1, 0);
}

TEST(test_e25_an_unfenced_hold_plants_nothing)
{
    terms = terms_of(3);
    hold();
    struct instant now = ms_after(START, 500);
    lease_forgot(&lease, &terms, 0, now);
    struct lease_step step = lease_tick(&lease, &terms, now);
    assert_int_equal(step.replant, 0);
    assert_int_equal(step.extend, 7); /* what is still there may be extended */
}

TEST(test_its_vote_for_an_extension_under_way_is_void)
{
    hold_fenced("yyy");
    struct instant now = lease_next(&lease, &terms);
    lease_tick(&lease, &terms, now);
    assert_empty(votes("y", ms_after(now, 1)));
    assert_empty(lease_forgot(&lease, &terms, 0, ms_after(now, 2)));
    assert_empty(votes(" y", ms_after(now, 3)));
    assert_int_equal(votes("  y", ms_after(now, 4)).news, LEASE_NEWS_EXTENDED);
}

TEST(test_its_vote_for_an_extension_is_void_when_it_comes_later_too)
{
    hold_fenced("yyy");
    struct instant now = lease_next(&lease, &terms);
    lease_tick(&lease, &terms, now);
    assert_empty(lease_forgot(&lease, &terms, 0, ms_after(now, 1)));
    assert_empty(votes("yy", ms_after(now, 2)));
    assert_int_equal(votes("  y", ms_after(now, 3)).news, LEASE_NEWS_EXTENDED);
}

TEST(test_a_majority_that_is_gone_without_an_answer_is_a_loss)
{
    hold_fenced("yy ");
    struct instant now = lease_next(&lease, &terms);
    lease_tick(&lease, &terms, now);
    assert_empty(votes("n", ms_after(now, 1)));
    assert_empty(lease_forgot(&lease, &terms, 2, ms_after(now, 2)));
    expect_lost(lease_tick(&lease, &terms, ms_after(now, 2)), REDLOCK_LOST_TAKEN);
}

TEST(test_a_majority_that_forgot_and_refuses_is_a_loss)
{
    hold_fenced("yy ");
    struct instant now = ms_after(START, 500);
    lease_forgot(&lease, &terms, 0, now);
    lease_forgot(&lease, &terms, 1, now);
    assert_int_equal(lease_tick(&lease, &terms, now).replant, 3);
    expect_lost(votes("nn", ms_after(now, 1)), REDLOCK_LOST_TAKEN);
}

TEST(test_it_is_harmless_elsewhere)
{
    lease_init(&lease, 1);
    assert_empty(lease_forgot(&lease, &terms, 0, START));
    hold_fenced("yyy");
    lease_release(&lease, &terms, ms_after(START, 5));
    assert_empty(lease_forgot(&lease, &terms, 0, ms_after(START, 6)));
    votes("yy", ms_after(START, 7));
    assert_int_equal(lease.state, LEASE_FREE);
}

/* --- our own clock ------------------------------------------------------------------------------------------------ */

TEST(test_a_hold_over_a_time_that_nobody_knows_is_lost)
{
    terms = terms_of(3);
    hold();
    expect_lost(lease_doubt(&lease, &terms, ms_after(START, 5)), REDLOCK_LOST_CLOCK);
    assert_int_equal(lease_believed_until(&lease, &terms).ns, 0);
    assert_int_equal(lease_release(&lease, &terms, ms_after(START, 6)).release, 7);
}

TEST(test_a_pass_over_such_a_time_fails)
{
    for (int is_fencing = 0; is_fencing < 2; is_fencing++) {
        terms = fenced_terms(3);
        ask();
        for (unsigned node = 0; is_fencing && node < 3; node++) /* no two tokens are alike */
            lease_vote(&lease, &terms, node, lease.round, LEASE_YES, node + 1, ms_after(START, 1));
        assert_int_equal(lease.state, is_fencing ? LEASE_FENCING : LEASE_ACQUIRING);
        expect_abandoned(lease_doubt(&lease, &terms, ms_after(START, 5)), 7);
        assert_empty(lease_doubt(&lease, &terms, ms_after(START, 6)));
    }
}

/* --- verification ----------------------------------------------------------------------------------------------- */

TEST(test_verified_by_a_round_of_its_own)
{
    terms = terms_of(3);
    hold();
    struct instant now = ms_after(START, 700);
    struct lease_step step = lease_verify(&lease, &terms, now);
    assert_int_equal(step.extend, 7);
    assert_int_equal(step.news, LEASE_NEWS_NONE);
    step = votes("yy", ms_after(now, 3));
    assert_int_equal(step.news, LEASE_NEWS_EXTENDED);
    assert_instant(lease.confirmed, now);
}

TEST(test_e29_answers_to_the_round_before_verify_nothing)
{
    terms = terms_of(3);
    hold();
    lease_verify(&lease, &terms, ms_after(START, 700));
    uint32_t before = lease.round;
    lease_verify(&lease, &terms, ms_after(START, 710));
    assert_int_not_equal(lease.round, before);
    for (unsigned node = 0; node < 3; node++)
        assert_empty(lease_vote(&lease, &terms, node, before, LEASE_YES, 0, ms_after(START, 720)));
    assert_instant(lease.confirmed, START);
    assert_int_equal(votes("yy", ms_after(START, 721)).news, LEASE_NEWS_EXTENDED);
    assert_instant(lease.confirmed, ms_after(START, 710));
}

TEST(test_verified_as_lost)
{
    terms = terms_of(3);
    hold();
    lease_verify(&lease, &terms, ms_after(START, 700));
    assert_int_equal(votes("nn", ms_after(START, 701)).loss, REDLOCK_LOST_TAKEN);
    assert_empty(lease_verify(&lease, &terms, ms_after(START, 702)));
    hold();
    assert_int_equal(lease_verify(&lease, &terms, lease_believed_until(&lease, &terms)).news, LEASE_NEWS_LOST);
}

/* --- a clock of ours that perhaps stood still ----------------------------------------------------------------- */

TEST(test_a_suspected_hold_is_believed_for_so_much_less)
{
    hold_fenced("yy ");
    struct instant until = lease.valid_until, now = ms_after(START, 20);
    lease_suspect(&lease, &terms, 100 * NS_PER_MS, now);
    assert_instant(lease.valid_until, instant_after(until, -100 * NS_PER_MS));
    assert_instant(lease_next(&lease, &terms), now); /* and asks at once */
    struct lease_step step = lease_tick(&lease, &terms, now);
    assert_int_equal(step.extend, 7);
    assert_int_equal(votes("yy", ms_after(START, 25)).news, LEASE_NEWS_EXTENDED);
    assert_instant(lease.valid_until, instant_after(now, terms.ttl_ns - terms.drift_ns));
}

/* A node's jump must not cost a hold that a majority still confirms. */
TEST(test_a_suspected_hold_has_time_for_one_round)
{
    hold_fenced("yyy");
    struct instant now = ms_after(START, 20), end = instant_after(now, terms.attempt_limit_ns);
    lease_suspect(&lease, &terms, 3600 * NS_PER_S, now);
    assert_instant(lease_believed_until(&lease, &terms), end);
    lease_tick(&lease, &terms, now);
    assert_int_equal(lease_tick(&lease, &terms, end).news, LEASE_NEWS_LOST);
}

TEST(test_a_round_from_before_the_suspicion_confirms_nothing)
{
    hold_fenced("yyy");
    struct instant now = lease_next(&lease, &terms);
    lease_tick(&lease, &terms, now);
    uint32_t round = lease.round;
    lease_suspect(&lease, &terms, NS_PER_S, now);
    for (unsigned node = 0; node < 3; node++)
        assert_empty(lease_vote(&lease, &terms, node, round, LEASE_YES, 0, now));
    assert_int_equal(lease_tick(&lease, &terms, now).extend, 7);
}

TEST(test_a_suspicion_never_makes_a_hold_longer)
{
    hold_fenced("yyy");
    struct instant until = lease.valid_until, now = instant_after(until, -terms.guard_ns - NS_PER_MS);
    lease_suspect(&lease, &terms, NS_PER_S, now);
    assert_instant(lease.valid_until, until);
}

TEST(test_a_suspected_pass_has_taken_so_much_longer)
{
    ask();
    lease_suspect(&lease, &terms, 100 * NS_PER_MS, START);
    for (unsigned node = 0; node < 2; node++)
        lease_vote(&lease, &terms, node, lease.round, LEASE_YES, 40, START);
    assert_int_equal(lease.state, LEASE_HELD);
    assert_instant(lease.valid_until, instant_after(START, terms.ttl_ns - terms.drift_ns - 100 * NS_PER_MS));
    ask();
    lease_suspect(&lease, &terms, terms.ttl_ns, START);
    assert_int_equal(lease_tick(&lease, &terms, START).abandon, 7);
}

RUN_TESTS_BETWEEN(begin_fenced, NULL)
