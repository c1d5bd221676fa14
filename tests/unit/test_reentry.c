/* When an owner may enter a lock again. */
#include "tests/support/test.h"

#include "redlock/reentry.h"

#define NAMES(...)                                                                                                     \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define COUNT(list) (unsigned)(sizeof(list) / sizeof(list)[0])
#define JUDGE(hold, in_danger, ...)                                                                                    \
    reentry_judge(&(hold),                                                                                             \
                  &(struct reentry_request){NAMES(__VA_ARGS__), COUNT(((const char *[]){__VA_ARGS__})), false, 1},     \
                  in_danger)

static const char *const held_names[] = {"a", "c", "e"};

static struct reentry_hold hold_of(bool is_acquired)
{
    return (struct reentry_hold){
        .names = held_names, .name_count = 3, .is_acquired = is_acquired, .seat = is_acquired, .entries = 1};
}

TEST(the_same_names_or_a_part_of_them_enter_again)
{
    struct reentry_hold hold = hold_of(true);
    assert_int_equal(JUDGE(hold, false, "a", "c", "e"), REENTRY_AGAIN);
    assert_int_equal(JUDGE(hold, false, "a"), REENTRY_AGAIN);
    assert_int_equal(JUDGE(hold, false, "e"), REENTRY_AGAIN);
    assert_int_equal(JUDGE(hold, false, "a", "e"), REENTRY_AGAIN);
}

TEST(other_names_are_another_lock)
{
    struct reentry_hold hold = hold_of(true);
    assert_int_equal(JUDGE(hold, false, "b"), REENTRY_NEW);
    assert_int_equal(JUDGE(hold, true, "b", "d", "f"), REENTRY_NEW);
    hold.is_acquired = false;
    assert_int_equal(JUDGE(hold, true, "b"), REENTRY_NEW);
}

TEST(whoever_wants_more_than_is_held_is_refused)
{
    struct reentry_hold hold = hold_of(true);
    assert_int_equal(JUDGE(hold, false, "a", "b"), REENTRY_OVERLAP);
    assert_int_equal(JUDGE(hold, false, "b", "c"), REENTRY_OVERLAP);
    assert_int_equal(JUDGE(hold, false, "a", "c", "e", "g"), REENTRY_OVERLAP);
    assert_int_equal(JUDGE(hold, true, "a", "b"), REENTRY_OVERLAP); /* it would be in the wrong after the danger too */
}

TEST(nobody_enters_after_danger)
{
    struct reentry_hold hold = hold_of(true);
    assert_int_equal(JUDGE(hold, true, "a"), REENTRY_DANGER);
    assert_int_equal(JUDGE(hold, true, "a", "c", "e"), REENTRY_DANGER);
}

TEST(a_reader_does_not_become_a_writer)
{
    struct reentry_hold hold = hold_of(true);
    const struct reentry_request to_read = {held_names, 1, true, 1};
    assert_int_equal(reentry_judge(&hold, &to_read, false), REENTRY_AGAIN);
    hold.is_shared = true;
    assert_int_equal(reentry_judge(&hold, &to_read, false), REENTRY_AGAIN);
    assert_int_equal(JUDGE(hold, false, "a"), REENTRY_UPGRADE);
    assert_int_equal(JUDGE(hold, false, "b"), REENTRY_NEW);
}

TEST(a_seat_beyond_the_limit_is_another_lock)
{
    struct reentry_hold hold = hold_of(true);
    struct reentry_request request = {held_names, 1, false, 1};
    hold.name_count = 1;
    hold.seat = 2;
    assert_int_equal(reentry_judge(&hold, &request, false), REENTRY_BEYOND);
    request.limit = 2;
    assert_int_equal(reentry_judge(&hold, &request, false), REENTRY_AGAIN);
    request.limit = 3;
    assert_int_equal(reentry_judge(&hold, &request, false), REENTRY_AGAIN);
    hold.seat = 1;
    assert_int_equal(reentry_judge(&hold, &request, false), REENTRY_AGAIN);
}

TEST(an_attempt_of_the_owner_is_waited_for)
{
    struct reentry_hold hold = hold_of(false);
    assert_int_equal(JUDGE(hold, true, "a"), REENTRY_UNDECIDED);
    assert_int_equal(JUDGE(hold, true, "a", "b"), REENTRY_UNDECIDED);
}

TEST(the_last_exit_releases)
{
    struct reentry_hold hold = hold_of(true);
    reentry_enter(&hold);
    reentry_enter(&hold);
    assert_false(reentry_leave(&hold));
    reentry_enter(&hold);
    assert_false(reentry_leave(&hold));
    assert_false(reentry_leave(&hold));
    assert_true(reentry_leave(&hold));
}

RUN_TESTS
