/* Which seat of a resource is tried next. */
#include "tests/support/test.h"

#include "redlock/seats.h"

TEST(a_pass_visits_each_seat_once_wherever_it_begins)
{
    for (unsigned limit = 1; limit <= 64; limit++)
        for (unsigned start = 1; start <= limit; start++) {
            struct seat_pass pass;
            uint64_t visited = 0;
            seat_pass_begin(&pass, limit, start);
            for (unsigned i = 0; i < limit; i++) {
                unsigned seat = seat_pass_next(&pass);
                assert_true(seat >= 1 && seat <= limit);
                assert_true(i > 0 || seat == start);
                assert_true((visited & 1ull << (seat - 1)) == 0);
                visited |= 1ull << (seat - 1);
            }
            assert_int_equal(seat_pass_next(&pass), 0);
            assert_int_equal(seat_pass_next(&pass), 0);
        }
}

TEST(a_pass_begins_where_a_seat_was_free_last)
{
    static struct seats_seen seen;
    seen = (struct seats_seen){.free = {{0}}};
    assert_int_equal(seats_start(&seen, 7, 5, 13), 13 % 5 + 1);
    seats_note_free(&seen, 7, 4);
    assert_int_equal(seats_start(&seen, 7, 5, 13), 4);
    seats_note_taken(&seen, 7, 3); /* another */
    assert_int_equal(seats_start(&seen, 7, 5, 13), 4);
    seats_note_taken(&seen, 7, 4);

    assert_int_equal(seats_start(&seen, 7, 5, 15), 1);
}

TEST(what_is_remembered_is_of_the_same_resource_and_below_its_limit)
{
    static struct seats_seen seen;
    seen = (struct seats_seen){.free = {{0}}};
    seats_note_free(&seen, 7, 4);
    assert_int_equal(seats_start(&seen, 7, 3, 1), 2);
    assert_int_equal(seats_start(&seen, 7 + SEATS_REMEMBERED, 5, 1), 2); /* shares the entry */
    seats_note_taken(&seen, 7 + SEATS_REMEMBERED, 4);
    assert_int_equal(seats_start(&seen, 7, 5, 1), 4);
    seats_note_free(&seen, 7 + SEATS_REMEMBERED, 5);
    assert_int_equal(seats_start(&seen, 7, 5, 1), 2);
    assert_int_equal(seats_start(&seen, 7 + SEATS_REMEMBERED, 5, 1), 5);
}

RUN_TESTS
