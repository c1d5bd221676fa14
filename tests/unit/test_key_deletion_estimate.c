/* How many keys an unfinished walk has left: as many as the part of the table that it has seen lets expect. */
#include "tests/support/test.h"

#include "worker/dry_run/nodes/key_deletion.h"

TEST(a_walk_that_has_seen_all_has_left_what_it_did_not_delete)
{
    assert_int_equal(key_deletion_estimate(0, 0, "0"), 0);
    assert_int_equal(key_deletion_estimate(100, 100, "0"), 0);
    assert_int_equal(key_deletion_estimate(100, 60, "0"), 40);
    assert_int_equal(key_deletion_estimate(60, 100, "0"), 0); /* never less than none */
}

/* Cursors of a table of 8 buckets in the order in which SCAN answers them: 4 2 6 1 5 3 7. */
TEST(the_cursor_tells_how_far_a_walk_is)
{
    static const char *const cursors[] = {"4", "2", "6", "1", "5", "3", "7"};
    for (unsigned i = 0; i < 7; i++) {
        unsigned seen = i + 1; /* eighths */
        assert_int_equal(key_deletion_estimate(seen * 1000, seen * 1000, cursors[i]), (8 - seen) * 1000);
    }
}

TEST(how_large_the_table_is_does_not_matter)
{
    assert_int_equal(key_deletion_estimate(500, 500, "1"), 500); /* one half, of two buckets or of a million */
    assert_int_equal(key_deletion_estimate(500, 400, "1"), 600);
    assert_int_equal(key_deletion_estimate(3000000, 3000000, "3"), 1000000);
    assert_int_equal(key_deletion_estimate(1, 1, "2097152"), 4194303); /* bucket 1 of 2^22 */
}

RUN_TESTS
