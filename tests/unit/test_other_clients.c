/* Sharing a resource with other Redlock clients: when to look again, and whose turn it is. */
#include "tests/support/test.h"

#include <string.h>

#include "redlock/other_clients.h"

#define MS        NS_PER_MS
#define BUDGET    (1000 * MS)
#define NEAR_PACE (50 * MS)
enum { KEY = 7, OTHER_KEY = 8, SAME_PLACE = KEY + OTHER_CLIENTS_TABLE };

static struct other_clients others;

static struct instant at(int64_t ms)
{
    return (struct instant){NS_PER_S + ms * MS};
}

static int set_up(void **state)
{
    (void)state;
    memset(&others, 0, sizeof others);
    return 0;
}

TEST(only_values_of_ours_have_the_digits_and_the_colon)
{
    assert_false(other_clients_wrote("0123456789abcdef0123456789abcdef:host:1:2:jid"));
    assert_false(other_clients_wrote("0123456789abcdef0123456789abcdef:"));
    assert_true(other_clients_wrote("0123456789abcdef0123456789abcdef"));
    assert_true(other_clients_wrote("0123456789abcdef0123456789abcdef0:x"));
    assert_true(other_clients_wrote("0123456789abcdef0123456789abcde:x"));
    assert_true(other_clients_wrote("0123456789ABCDEF0123456789ABCDEF:x"));
    assert_true(other_clients_wrote("5f8c1e"));
    assert_true(other_clients_wrote(""));
}

TEST(the_looks_get_rarer_while_one_value_stays)
{
    other_clients_seen(&others, KEY, 1, at(0));
    assert_int_equal(other_clients_look_ns(&others, KEY, at(0)), NEAR_PACE);
    other_clients_seen(&others, KEY, 1, at(200));
    assert_int_equal(other_clients_look_ns(&others, KEY, at(200)), NEAR_PACE);
    other_clients_seen(&others, KEY, 1, at(800));
    assert_int_equal(other_clients_look_ns(&others, KEY, at(800)), 200 * MS);
    other_clients_seen(&others, KEY, 1, at(50000));
    assert_int_equal(other_clients_look_ns(&others, KEY, at(50000)), 1000 * MS);
}

TEST(another_value_starts_the_pace_again)
{
    other_clients_seen(&others, KEY, 1, at(0));
    other_clients_seen(&others, KEY, 2, at(8000));
    assert_int_equal(other_clients_look_ns(&others, KEY, at(8000)), NEAR_PACE);
}

TEST(nobody_gives_way_to_clients_that_were_never_seen)
{
    other_clients_seen(&others, OTHER_KEY, 1, at(0));
    other_clients_passed(&others, KEY, BUDGET, at(0));
    other_clients_had(&others, KEY, 5000 * MS, false, at(5000));
    assert_false(other_clients_are_next(&others, KEY, BUDGET, at(5000)));
    other_clients_let(&others, KEY, at(5000), at(5200));
    assert_int_equal(other_clients_let_until(&others, KEY).ns, 0);
}

/* The first hold of ours that would be too long, to the millisecond. */
static void assert_owed(int64_t ms, struct instant now)
{
    assert_false(other_clients_are_next(&others, KEY, ms * MS - 1, now));
    assert_true(other_clients_are_next(&others, KEY, ms * MS, now));
}

TEST(ours_have_it_for_as_long_as_theirs_had_it)
{
    other_clients_seen(&others, KEY, 1, at(0));
    assert_false(other_clients_are_next(&others, KEY, 5000 * MS, at(0))); /* it is theirs */
    other_clients_seen(&others, KEY, 2, at(250));
    other_clients_passed(&others, KEY, BUDGET, at(300));
    assert_owed(300, at(310));
    other_clients_had(&others, KEY, 100 * MS, true, at(400));
    other_clients_passed(&others, KEY, BUDGET, at(450)); /* the next of ours: still the same turn */
    assert_owed(200, at(460));
}

TEST(what_they_took_too_early_is_owed)
{
    other_clients_seen(&others, KEY, 1, at(0));
    other_clients_passed(&others, KEY, BUDGET, at(300));
    other_clients_had(&others, KEY, 100 * MS, true, at(400));
    other_clients_seen(&others, KEY, 2, at(400));
    other_clients_passed(&others, KEY, BUDGET, at(450));
    assert_owed(250, at(450));
}

TEST(what_ours_had_too_long_is_not)
{
    other_clients_seen(&others, KEY, 1, at(0));
    other_clients_passed(&others, KEY, BUDGET, at(100));
    other_clients_had(&others, KEY, 9000 * MS, true, at(9100));
    other_clients_seen(&others, KEY, 2, at(9200));
    other_clients_passed(&others, KEY, BUDGET, at(9300));
    assert_owed(100, at(9300));
}

TEST(but_not_beyond_the_budget)
{
    other_clients_seen(&others, KEY, 1, at(0));
    other_clients_passed(&others, KEY, BUDGET, at(9000));
    assert_owed(1000, at(9000));
}

TEST(what_was_left_to_them_is_theirs_once_they_are_seen)
{
    other_clients_seen(&others, KEY, 1, at(0));
    other_clients_passed(&others, KEY, BUDGET, at(100));
    other_clients_had(&others, KEY, 100 * MS, true, at(200));
    other_clients_let(&others, KEY, at(200), at(400));
    assert_int_equal(other_clients_let_until(&others, KEY).ns, at(400).ns);
    other_clients_passed(&others, KEY, BUDGET, at(250)); /* what is said of us meanwhile does not end their turn */
    assert_int_equal(other_clients_let_until(&others, KEY).ns, at(400).ns);
    other_clients_seen(&others, KEY, 2, at(410));
    other_clients_passed(&others, KEY, BUDGET, at(500));
    assert_owed(90, at(500));
}

TEST(a_turn_that_nobody_took_gives_ours_the_whole_budget)
{
    other_clients_seen(&others, KEY, 1, at(0));
    other_clients_passed(&others, KEY, BUDGET, at(100));
    other_clients_had(&others, KEY, 100 * MS, true, at(200));
    other_clients_let(&others, KEY, at(200), at(400));
    other_clients_passed(&others, KEY, BUDGET, at(401));
    assert_int_equal(other_clients_let_until(&others, KEY).ns, 0);
    assert_owed(1000, at(401));
}

TEST(they_are_forgotten_after_a_minute)
{
    other_clients_seen(&others, KEY, 1, at(0));
    other_clients_passed(&others, KEY, BUDGET, at(100));
    assert_true(other_clients_are_next(&others, KEY, BUDGET, at(59999)));
    assert_int_equal(others.until.ns, at(60000).ns);
    assert_false(other_clients_are_next(&others, KEY, BUDGET, at(60000)));
    other_clients_seen(&others, KEY, 1, at(61000));
    assert_int_equal(other_clients_look_ns(&others, KEY, at(61000)), NEAR_PACE);
}

TEST(of_two_resources_at_one_place_the_later_is_remembered)
{
    other_clients_seen(&others, KEY, 1, at(0));
    other_clients_passed(&others, KEY, BUDGET, at(1));
    other_clients_had(&others, SAME_PLACE, 100 * MS, true, at(5)); /* nothing of theirs was seen there */
    assert_owed(1, at(5));
    other_clients_seen(&others, SAME_PLACE, 1, at(10));
    assert_false(other_clients_are_next(&others, KEY, BUDGET, at(5000)));
    other_clients_passed(&others, SAME_PLACE, BUDGET, at(20));
    assert_true(other_clients_are_next(&others, SAME_PLACE, BUDGET, at(5000)));
}

/* --- who was never seen ------------------------------------------------------------------------------------------- */

/* Ours have it without a break, hold after hold, and leave a turn when it is due: returns when that was. */
static int64_t next_turn_ms(int64_t from_ms)
{
    for (int64_t ms = from_ms; ms < from_ms + 60000; ms += 20) {
        other_clients_passed(&others, KEY, BUDGET, at(ms));
        if (other_clients_are_next(&others, KEY, 20 * MS, at(ms + 20))) {
            other_clients_had(&others, KEY, 20 * MS, true, at(ms + 20));
            other_clients_let(&others, KEY, at(ms + 20), at(ms + 220));
            return ms + 20;
        }
        other_clients_had(&others, KEY, 20 * MS, true, at(ms + 20));
    }
    return -1;
}

TEST(what_is_wanted_without_a_break_is_left_free_now_and_then)
{
    int64_t ms = 0, sum_ms = 0;
    for (unsigned i = 0; i < 32; i++) {
        int64_t next_ms = next_turn_ms(ms);
        if (i == 0)
            assert_in_range(next_ms, 5000, 15020);
        else
            assert_in_range(next_ms - ms, 10000, 30020);
        sum_ms += next_ms - ms;
        ms = next_ms + 220;
    }
    assert_in_range(sum_ms / 32, 15000, 25000);
}

TEST(what_was_free_before_a_hold_needs_no_turn)
{
    other_clients_had(&others, KEY, 9000 * MS, true, at(9000));
    assert_true(other_clients_are_next(&others, KEY, 6000 * MS, at(9000)));
    other_clients_had(&others, KEY, 20 * MS, false, at(9100));
    assert_false(other_clients_are_next(&others, KEY, 4999 * MS, at(9100)));
}

TEST(who_took_the_first_turn_has_the_next_after_as_long_as_it_had_it)
{
    int64_t ms = next_turn_ms(0);
    other_clients_seen(&others, KEY, 1, at(ms + 100));
    other_clients_passed(&others, KEY, BUDGET, at(ms + 250));
    assert_owed(150, at(ms + 250));
}

TEST(turns_that_nobody_takes_become_rare_until_somebody_takes_one)
{
    other_clients_seen(&others, KEY, 1, at(0));
    other_clients_passed(&others, KEY, BUDGET, at(1000));
    int64_t ms = next_turn_ms(1000);
    for (unsigned i = 0; i + 1 < OTHER_CLIENTS_TURNS; i++) {
        int64_t next_ms = next_turn_ms(ms + 220);
        assert_int_equal(next_ms, ms + 1220);
        ms = next_ms;
    }
    assert_in_range(next_turn_ms(ms + 220), ms + 10220, ms + 30220);
    ms += 30220;
    other_clients_seen(&others, KEY, 2, at(ms + 100));
    other_clients_passed(&others, KEY, BUDGET, at(ms + 230));
    assert_owed(130, at(ms + 230));
    ms = next_turn_ms(ms + 230);
    assert_in_range(next_turn_ms(ms + 220), ms + 1220, ms + 1240); /* and it counts anew */
}

TEST(a_line_that_may_have_it_for_longer_keeps_it_for_longer)
{
    other_clients_had(&others, KEY, 15000 * MS, true, at(15000));
    assert_true(other_clients_are_next(&others, KEY, 0, at(15000)));
    other_clients_let(&others, KEY, at(15000), at(15200));
    other_clients_passed(&others, KEY, 600000 * MS, at(15200));
    assert_false(other_clients_are_next(&others, KEY, 299999 * MS, at(15200)));
}

TEST(who_was_seen_keeps_its_place_before_those_who_never_were)
{
    other_clients_seen(&others, SAME_PLACE, 1, at(0));
    other_clients_passed(&others, SAME_PLACE, BUDGET, at(30));
    other_clients_had(&others, KEY, 9000 * MS, true, at(9000));
    assert_false(other_clients_are_next(&others, KEY, 60000 * MS, at(9000)));
    assert_true(other_clients_are_next(&others, SAME_PLACE, 30 * MS, at(9000)));
}

RUN_TESTS_WITH(set_up, NULL)
