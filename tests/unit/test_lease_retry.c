/* The lease between passes: how long it waits, and how it is given up before it is held. */
#include "tests/unit/lease_fixture.h"

/* --- retries --------------------------------------------------------------------------------------------------- */

/* Fails passes with these votes and notes how long it waits after each. */
static void waits_of(uint32_t noise, const char *letters, int64_t *waits)
{
    lease_init(&lease, noise);
    struct instant now = START;
    lease_acquire(&lease, &terms, now);
    for (unsigned i = 0; i + 1 < terms.tries; i++) {
        struct lease_step step = votes(letters, now);
        assert_int_equal(step.news, LEASE_NEWS_NONE);
        assert_int_equal(lease.state, LEASE_WAITING);
        waits[i] = instant_since(now, lease_next(&lease, &terms));
        assert_empty(lease_tick(&lease, &terms, instant_after(lease_next(&lease, &terms), -1)));
        now = lease_next(&lease, &terms);
        step = lease_tick(&lease, &terms, now);
        assert_int_equal(step.grant, all_of());
        assert_int_equal(step.abandon, 0); /* the pass before was abandoned when it ended */
    }
    assert_int_equal(votes(letters, now).news, LEASE_NEWS_REFUSED);
    assert_int_equal(lease.state, LEASE_FREE);
    assert_instant(lease_next(&lease, &terms), INSTANT_NEVER);
}

TEST(test_a_refusal_waits_for_the_delay_and_some_jitter)
{
    enum { TRIES = 20 };
    terms = terms_of(3);
    terms.tries = TRIES;
    int64_t waits[TRIES], least = INT64_MAX, most = 0;
    for (uint32_t noise = 0; noise < 200; noise++) {
        waits_of(noise, noise % 2 ? "aa" : "uu", waits);
        for (unsigned i = 0; i + 1 < TRIES; i++) {
            least = waits[i] < least ? waits[i] : least;
            most = waits[i] > most ? waits[i] : most;
        }
    }
    assert_true(least >= terms.retry_delay_ns && least < terms.retry_delay_ns + NS_PER_MS);
    assert_true(most <= terms.retry_delay_ns + terms.retry_jitter_ns);
    assert_true(most > terms.retry_delay_ns + terms.retry_jitter_ns - NS_PER_MS);
}

TEST(test_e48_a_split_vote_is_tried_again_at_once_and_backs_off)
{
    enum { TRIES = 9 };
    terms = terms_of(3);
    terms.tries = TRIES;
    int64_t most[TRIES] = {0}, waits[TRIES];
    for (uint32_t noise = 0; noise < 2000; noise++) {
        waits_of(noise * 2654435761u, "yab", waits);
        for (unsigned i = 0; i + 1 < TRIES; i++) {
            int64_t bound = (8 * NS_PER_MS) << i;
            assert_true(waits[i] >= NS_PER_MS);
            assert_true(waits[i] < NS_PER_MS + (bound < 100 * NS_PER_MS ? bound : 100 * NS_PER_MS));
            most[i] = waits[i] > most[i] ? waits[i] : most[i];
        }
    }
    assert_true(most[0] > 8 * NS_PER_MS && most[1] > 15 * NS_PER_MS && most[8 - 1] > 90 * NS_PER_MS);
}

TEST(test_e48_a_split_vote_after_another_refusal_is_the_first)
{
    static const char *const refusals[] = {"yab", "yab", "yab", "yab", "aaa", "yab"};
    terms = terms_of(3);
    terms.tries = 7;
    for (uint32_t noise = 0; noise < 200; noise++) {
        struct instant now = START;
        lease_init(&lease, noise * 2654435761u);
        lease_acquire(&lease, &terms, now);
        for (unsigned i = 0; i < 5; i++) {
            votes(refusals[i], now);
            now = lease_next(&lease, &terms);
            lease_tick(&lease, &terms, now);
        }
        votes(refusals[5], now);
        assert_true(instant_since(now, lease_next(&lease, &terms)) < 9 * NS_PER_MS);
    }
}

TEST(test_a_pass_that_reached_no_node_waits_and_has_nothing_to_undo)
{
    terms = terms_of(1);
    terms.tries = 2;
    terms.retry_delay_ns = 500 * NS_PER_MS; /* longer than the pass limit */
    ask();
    assert_empty(votes("x", START));
    assert_int_equal(lease.state, LEASE_WAITING);
    assert_true(instant_since(START, lease_next(&lease, &terms)) >= terms.retry_delay_ns);
    assert_empty(lease_tick(&lease, &terms, instant_after(START, terms.attempt_limit_ns)));
    assert_int_equal(lease_tick(&lease, &terms, lease_next(&lease, &terms)).grant, 1);
}

/* --- giving up ------------------------------------------------------------------------------------------------- */

TEST(test_e13_a_cancelled_pass_is_cleaned_up)
{
    terms = terms_of(5);
    ask();
    votes("yx", ms_after(START, 1));
    struct lease_step step = lease_release(&lease, &terms, ms_after(START, 2));
    expect_refused(step, REDLOCK_CANCELLED);
    assert_int_equal(step.abandon, 0x1d);
    assert_int_equal(step.release, 0);
    assert_int_equal(lease.state, LEASE_FREE);
    assert_empty(vote_now(2, LEASE_YES, ms_after(START, 3)));
}

TEST(test_e13_cancelling_between_passes_has_nothing_left_to_clean_up)
{
    terms.tries = 2;
    ask();
    assert_int_equal(votes("aa", START).abandon, 7);
    struct lease_step step = lease_release(&lease, &terms, ms_after(START, 1));
    assert_int_equal(step.refusal, REDLOCK_CANCELLED);
    assert_int_equal(step.abandon, 0);
    assert_int_equal(lease.state, LEASE_FREE);
}

/* --- what a refused one may leave in the way of others --------------------------------------------------------- */

static bool obstructs_after(unsigned nodes, const char *letters)
{
    terms = terms_of(nodes);
    ask();
    votes(letters, START);
    if (lease.state != LEASE_FREE)
        lease_release(&lease, &terms, START);
    return lease.may_obstruct;
}

TEST(test_whoever_a_majority_may_have_granted_may_obstruct_others)
{
    static const struct {
        const char *letters;
        bool obstructs;
    } passes[] = {{"aaa", false},   {"yyaaa", false}, {"yyaab", false}, {"xxxyy", false}, {"aauaa", false},
                  {"yaaua", false}, {"yyuaa", true},  {"yuaaa", false}, {"uuuaa", true},  {"uuu", true},
                  {"yuuxx", true},  {"xxxyu", false}, {"yy   ", true},  {"  aa ", true},  {"x  aa", false}};
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++)
        if (obstructs_after(5, passes[i].letters) != passes[i].obstructs)
            fail_msg("%s", passes[i].letters);
    assert_true(obstructs_after(1, "u"));
    assert_false(obstructs_after(1, "a"));
}

TEST(test_what_an_earlier_pass_left_obstructs_whatever_the_last_one_ends_with)
{
    terms.tries = 2;
    ask();
    votes("uu", START);
    assert_true(lease.may_obstruct);
    lease_tick(&lease, &terms, lease_next(&lease, &terms));
    assert_int_equal(votes("aa", lease.attempt_started).refusal, REDLOCK_BUSY);
    assert_true(lease.may_obstruct);
    lease_acquire(&lease, &terms, START);
    assert_false(lease.may_obstruct);
}

/* A majority granted it, and its token was not agreed upon. */
TEST(test_who_was_to_raise_its_token_obstructs)
{
    terms.fenced = true;
    ask();
    for (unsigned node = 0; node < 3; node++)
        lease_vote(&lease, &terms, node, lease.round, LEASE_YES, 10 + node, START);
    assert_int_equal(lease.state, LEASE_FENCING);
    assert_int_equal(votes("nn", START).news, LEASE_NEWS_REFUSED);
    assert_true(lease.may_obstruct);
}

static void acquire_twice(void)
{
    terms = terms_of(3);
    ask();
    lease_acquire(&lease, &terms, START);
}

static void release_what_is_free(void)
{
    terms = terms_of(3);
    lease_init(&lease, 1);
    lease_release(&lease, &terms, START);
}

TEST(test_e3_a_second_attempt_before_the_first_has_ended_aborts)
{
    assert_true(test_aborts(acquire_twice));
    assert_true(test_aborts(release_what_is_free));
}

/* --- waiting as the driver says -------------------------------------------------------------------------------- */

TEST(test_the_driver_says_when_the_next_pass_begins)
{
    terms.tries = LEASE_TRIES_ENDLESS;
    ask();
    for (unsigned i = 0; i < 2000; i++) { /* far more than any number of tries */
        struct instant now = ms_after(START, i * 1000);
        assert_int_equal(votes("aa", now).news, LEASE_NEWS_NONE);
        assert_int_equal(lease.refusal, REDLOCK_BUSY);
        lease_wait_until(&lease, ms_after(now, 60000)); /* later, */
        assert_empty(lease_tick(&lease, &terms, ms_after(now, 59999)));
        lease_wait_until(&lease, ms_after(now, 1000)); /* and earlier after all */
        assert_instant(lease_next(&lease, &terms), ms_after(now, 1000));
        assert_int_equal(lease_tick(&lease, &terms, ms_after(now, 1000)).grant, all_of());
    }
}

TEST(test_only_a_wait_can_be_moved)
{
    for (int is_held = 0; is_held < 2; is_held++) {
        if (is_held)
            hold();
        else
            ask();
        struct lease before = lease;
        lease_wait_until(&lease, ms_after(START, 5));
        assert_memory_equal(&before, &lease, sizeof before);
        if (is_held)
            assert_empty(lease_last_try(&lease));
        assert_memory_equal(&before, &lease, sizeof before);
    }
}

TEST(test_the_last_try_ends_with_the_pass_under_way)
{
    terms.tries = LEASE_TRIES_ENDLESS;
    ask();
    assert_empty(lease_last_try(&lease));
    struct lease_step step = votes("uu", START);
    expect_refused(step, REDLOCK_NO_QUORUM);
    assert_int_equal(step.abandon, all_of());

    ask(); /* and may well succeed */
    assert_empty(lease_last_try(&lease));
    assert_int_equal(votes("yyy", START).news, LEASE_NEWS_ACQUIRED);
}

TEST(test_e12_giving_up_between_passes_tells_how_the_last_one_ended)
{
    static const struct {
        const char *votes;
        enum redlock_answer refusal;
    } passes[] = {{"aa", REDLOCK_BUSY}, {"yab", REDLOCK_SPLIT}, {"uu", REDLOCK_NO_QUORUM}, {"aa", REDLOCK_BUSY}};
    terms = terms_of(3);
    terms.tries = LEASE_TRIES_ENDLESS;
    ask();
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        votes(passes[i].votes, lease.attempt_started);
        struct lease gives_up = lease;
        struct lease_step step = lease_last_try(&gives_up);
        expect_refused(step, passes[i].refusal);
        assert_int_equal(step.abandon, 0);
        assert_int_equal(gives_up.state, LEASE_FREE);
        lease_tick(&lease, &terms, lease_next(&lease, &terms));
    }
    assert_int_equal(lease_release(&lease, &terms, START).refusal, REDLOCK_CANCELLED);
    assert_int_equal(lease.refusal, REDLOCK_CANCELLED);
}

RUN_TESTS_BETWEEN(begin_with_three, NULL)
