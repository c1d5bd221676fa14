/* A key that is given again in a hold: who is offered it, when it counts, and where it must be released. */
#include "tests/unit/lease_fixture.h"

/* Held since START with token 40; a letter a node: y granted, n refused, x not sent, blank silent. */
static void hold_fenced(const char *letters)
{
    ask();
    uint32_t round = lease.round;
    for (unsigned node = 0; letters[node] != '\0'; node++)
        if (letters[node] != ' ')
            lease_vote(&lease, &terms, node, round,
                       letters[node] == 'y'   ? LEASE_YES
                       : letters[node] == 'x' ? LEASE_UNSENT
                                              : LEASE_NO,
                       40, ms_after(START, 1));
    assert_int_equal(lease.state, LEASE_HELD);
}

static struct lease_step extend(void)
{
    return lease_tick(&lease, &terms, lease_next(&lease, &terms));
}

/* The answers to the extension that began last. */
static struct lease_step answers(const char *letters)
{
    return votes(letters, ms_after(lease.attempt_started, 1));
}

TEST(who_refused_and_who_was_not_reached_is_offered_the_key)
{
    terms = fenced_terms(5);
    hold_fenced("xnyyy");
    struct lease_step step = extend();
    assert_int_equal(step.extend, 28);
    assert_int_equal(step.regrant, 1 + 2);
    assert_int_equal(step.replant, 0);
    assert_int_equal(lease.reached, 30); /* nothing was sent to the first yet */
    lease_regranted(&lease, 1);
    assert_int_equal(lease_release(&lease, &terms, lease.attempt_started).release, 31);
}

TEST(who_says_that_it_is_not_ours_is_offered_it_the_next_time)
{
    hold_fenced("yyy");
    assert_int_equal(extend().regrant, 0);
    assert_int_equal(answers("nyy").news, LEASE_NEWS_EXTENDED);
    struct lease_step step = extend();
    assert_int_equal(step.extend, 6);
    assert_int_equal(step.regrant, 1);
    answers("nyy");
    assert_int_equal(extend().regrant, 1); /* whoever has it there may leave */
}

TEST(it_counts_from_the_next_extension_on)
{
    hold_fenced("yyn");
    extend();
    assert_empty(answers("y y")); /* two have the key, and one of them only now */
    assert_int_equal(answers(" y").news, LEASE_NEWS_EXTENDED);
    struct lease_step step = extend();
    assert_int_equal(step.extend, 7);
    assert_int_equal(step.regrant, 0);
    assert_int_equal(answers("nyy").news, LEASE_NEWS_EXTENDED);
}

TEST(it_counts_also_if_its_answer_comes_behind_the_decision)
{
    hold_fenced("yyn");
    extend();
    assert_int_equal(answers("yy").news, LEASE_NEWS_EXTENDED);
    assert_empty(answers("  y"));
    assert_int_equal(extend().extend, 7);
}

/* E25, E49: what a majority lost stays lost, although the key is free there. */
TEST(e25_it_makes_up_for_no_majority_that_is_gone)
{
    hold_fenced("yyn");
    extend();
    assert_empty(answers("  y"));
    expect_lost(answers("n"), REDLOCK_LOST_TAKEN);
}

/* E27: of three nodes, the next goes away as soon as the one before has the key again. */
TEST(e27_it_counts_after_a_round_without_a_decision)
{
    hold_fenced("yyn");
    extend();
    assert_empty(answers("yuy"));
    assert_int_equal(extend().extend, 7);
    assert_int_equal(answers("yuy").news, LEASE_NEWS_EXTENDED);
}

TEST(it_does_not_count_while_its_answer_is_missing)
{
    hold_fenced("yyn");
    extend();
    assert_empty(answers("yuu"));
    assert_int_equal(extend().regrant, 4);
    assert_empty(answers("yuy"));
    assert_int_equal(lease_tick(&lease, &terms, lease_believed_until(&lease, &terms)).loss, REDLOCK_LOST_DEADLINE);
}

TEST(who_forgets_it_before_it_counts_does_not_have_it)
{
    hold_fenced("yyn");
    extend();
    answers("  y");
    assert_empty(lease_forgot(&lease, &terms, 2, lease.attempt_started));
    assert_int_equal(answers("yy").news, LEASE_NEWS_EXTENDED);
    struct lease_step step = extend();
    assert_int_equal(step.regrant, 4);
    assert_int_equal(step.replant, 0);
}

TEST(who_forgets_it_when_it_counts_gets_it_back_at_once)
{
    hold_fenced("yyn");
    extend();
    answers("yyy");
    extend();
    answers("yy");
    lease_forgot(&lease, &terms, 2, lease.attempt_started);
    assert_int_equal(extend().replant, 4);
}

TEST(an_unfenced_hold_offers_nothing)
{
    terms = terms_of(3);
    hold_after("yyn");
    struct lease_step step = extend();
    assert_int_equal(step.extend, 3);
    assert_int_equal(step.regrant, 0);
    assert_empty(answers("  y"));
    assert_int_equal(extend().extend, 3);
}

/* Each of three nodes is away for longer than the ttl, one after the other. */
TEST(a_long_hold_outlives_nodes_that_are_away_one_after_the_other)
{
    hold_fenced("yyy");
    for (unsigned away = 0; away < 3; away++) {
        char without[4] = "yyy", refused[4] = "yyy";
        without[away] = 'u';
        refused[away] = 'n';
        for (unsigned i = 0; i < 10; i++) {
            extend();
            assert_int_equal(answers(without).news, LEASE_NEWS_EXTENDED);
        }
        extend();
        answers(refused);
        assert_int_equal(extend().regrant, 1u << away);
        answers("yyy");
    }
    assert_int_equal(lease.state, LEASE_HELD);
    assert_int_equal(lease.token, 40);
}

RUN_TESTS_BETWEEN(begin_fenced, NULL)
