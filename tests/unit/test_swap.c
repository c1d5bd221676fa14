/* A hold that goes to the next one: what becomes of the old value on each node. */
#include "redlock/swap.h"

#include "tests/unit/lease_fixture.h"

enum { ALL = 0x1f };

static struct swap begun(void)
{
    struct swap swap;
    swap_begin(&swap, ALL);
    return swap;
}

TEST(test_nothing_is_left_where_it_was_taken_or_gone)
{
    struct swap swap = begun();
    assert_int_equal(swap_answered(&swap, 0, SWAP_TAKEN), 0);
    assert_int_equal(swap_answered(&swap, 1, SWAP_FREE), 0);
    assert_int_equal(swap.taken, 1);
    assert_int_equal(swap_failed(&swap), 0x1c);
}

TEST(test_where_it_was_not_it_is_released_once)
{
    struct swap swap = begun();
    for (unsigned node = 0; node < 5; node++) {
        assert_int_equal(swap_answered(&swap, node, SWAP_NOT), 1 << node);
        assert_int_equal(swap_answered(&swap, node, SWAP_NOT), 0);
    }
    assert_int_equal(swap_failed(&swap), 0);
}

TEST(test_where_nobody_knows_it_is_released_too)
{
    struct swap swap = begun();
    assert_int_equal(swap_answered(&swap, 2, SWAP_UNKNOWN), 4);
    assert_int_equal(swap_answered(&swap, 2, SWAP_TAKEN), 0);
    assert_int_equal(swap_failed(&swap), 0x1b);
}

TEST(test_after_a_failure_late_answers_release_nothing_more)
{
    struct swap swap = begun();
    assert_int_equal(swap_failed(&swap), ALL);
    assert_int_equal(swap_failed(&swap), 0);
    assert_int_equal(swap_answered(&swap, 3, SWAP_NOT), 0);
    assert_int_equal(swap_answered(&swap, 4, SWAP_TAKEN), 0);
}

TEST(test_where_it_never_was_nothing_is_released)
{
    struct swap swap;
    swap_begin(&swap, 0x16);
    assert_int_equal(swap_answered(&swap, 0, SWAP_NOT), 0);
    assert_int_equal(swap_answered(&swap, 1, SWAP_NOT), 2);
    assert_int_equal(swap_failed(&swap), 0x14);
}

TEST(test_what_an_answer_says_about_the_release)
{
    assert_int_equal(swap_vote(SWAP_TAKEN), LEASE_YES);
    assert_int_equal(swap_vote(SWAP_FREE), LEASE_NO);
    assert_int_equal(swap_vote(SWAP_NOT), LEASE_UNSENT);
    assert_int_equal(swap_vote(SWAP_UNKNOWN), LEASE_UNSENT);
}

TEST(test_what_may_have_been_taken_was_not_gone_for_certain)
{
    assert_int_equal(swap_release_vote(LEASE_NO, false), LEASE_NO);
    assert_int_equal(swap_release_vote(LEASE_FOREIGN, false), LEASE_FOREIGN);
    assert_int_equal(swap_release_vote(LEASE_YES, true), LEASE_YES);
    assert_int_equal(swap_release_vote(LEASE_NO, true), LEASE_UNKNOWN);
    assert_int_equal(swap_release_vote(LEASE_FOREIGN, true), LEASE_UNKNOWN);
}

TEST(test_only_what_is_believed_in_can_be_swapped)
{
    terms = terms_of(3);
    hold();
    struct instant until = lease_believed_until(&lease, &terms), before = {until.ns - 1};
    assert_true(swap_may_begin(&lease, &terms, before, before));
    assert_false(swap_may_begin(&lease, &terms, until, until));
    lease_forfeit(&lease);
    assert_false(swap_may_begin(&lease, &terms, before, before));
}

TEST(test_e30_an_extension_of_this_turn_comes_first)
{
    terms = terms_of(3);
    hold();
    struct instant at = lease_next(&lease, &terms);
    assert_int_not_equal(lease_tick(&lease, &terms, at).extend, 0);
    assert_false(swap_may_begin(&lease, &terms, at, at));
    assert_true(swap_may_begin(&lease, &terms, ms_after(at, 1), ms_after(at, 1)));
}

RUN_TESTS
