/* How many answers may be outstanding, from what was answered and lost: pure. */
#include "tests/support/test.h"

#include "queue/answer_window.h"

static void answered(struct answer_window *window, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        answer_window_answered(window);
}

TEST(without_a_loss_there_is_no_limit)
{
    struct answer_window window = {0};
    answered(&window, 1000);
    assert_int_equal(answer_window_most(&window), UINT_MAX);
    assert_true(answer_window_takes(&window, 100000, 100000));
}

TEST(each_loss_leaves_half_down_to_one)
{
    struct answer_window window = {0};
    static const unsigned limits[] = {4, 2, 1, 1};
    unsigned outstanding = 8;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        answer_window_sent(&window);
        answer_window_lost(&window, outstanding);
        assert_int_equal(answer_window_most(&window), limits[i]);
        outstanding = limits[i];
    }
}

/* A connection that ends loses several requests: half of them all is left, not a half for each. */
TEST(what_is_lost_together_counts_together)
{
    struct answer_window window = {0};
    answer_window_sent(&window);
    for (unsigned i = 0; i < 4; i++)
        answer_window_lost(&window, 2);
    assert_int_equal(answer_window_most(&window), 4);
    answer_window_sent(&window);
    answer_window_lost(&window, 2);
    assert_int_equal(answer_window_most(&window), 1);
}

TEST(no_more_than_the_limit_is_outstanding_but_one_request_always_goes)
{
    struct answer_window window = {.limit = 4};
    assert_true(answer_window_takes(&window, 0, 4));
    assert_true(answer_window_takes(&window, 3, 1));
    assert_false(answer_window_takes(&window, 3, 2));
    assert_false(answer_window_takes(&window, 4, 1));
    assert_true(answer_window_takes(&window, 0, 9));
}

TEST(answers_in_a_row_give_it_back_until_there_is_no_limit)
{
    struct answer_window window = {.limit = 1};
    answered(&window, ANSWER_WINDOW_GROWTH - 1);
    assert_int_equal(window.limit, 1);
    answered(&window, 1);
    assert_int_equal(window.limit, 2);
    answered(&window, ANSWER_WINDOW_GROWTH / 2);
    answer_window_lost(&window, 2);
    answered(&window, ANSWER_WINDOW_GROWTH - 1);
    assert_int_equal(window.limit, 1);
    answered(&window, 1 + 8 * ANSWER_WINDOW_GROWTH);
    assert_int_equal(window.limit, 512);
    answered(&window, ANSWER_WINDOW_GROWTH);
    assert_int_equal(answer_window_most(&window), UINT_MAX);
}

RUN_TESTS
