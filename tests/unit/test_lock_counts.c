/* Counts of locks as the node keeps them: folded by class and kind, sorted, and what is read off their histograms. */
#include "tests/support/test.h"

#include <limits.h>

#include "worker/presence/lock_counts.h"

static void add(struct lock_counts *counts, const char *field, long long number)
{
    lock_counts_add(counts, field, strlen(field), number);
}

TEST(fields_of_all_days_are_folded_by_class_and_prefix)
{
    struct lock_counts counts = {0};
    add(&counts, "b|x:|acquired", 5);
    add(&counts, "a|x:|acquired", 2);
    add(&counts, "b|x:|parked", 1);
    add(&counts, "b||fenced_off", 7);
    add(&counts, "b|x:|acquired", 40);
    add(&counts, "b|x:|wait.3", 4);
    add(&counts, "b|x:|wait.3", 4);
    add(&counts, "b|x:|hold.25", 1);
    lock_counts_fold(&counts);
    assert_int_equal(counts.row_count, 3);
    const struct lock_counts_row *row = &counts.rows[0];
    assert_string_equal(row->class_name, "b");
    assert_string_equal(row->prefix, "x:");
    assert_int_equal(row->events[TALLY_ACQUIRED], 45);
    assert_int_equal(row->events[TALLY_PARKED], 1);
    assert_int_equal(row->wait.steps[3], 8);
    assert_int_equal(row->hold.steps[25], 1);
    assert_string_equal(counts.rows[1].class_name, "a"); /* nobody was in anybody's way: by locks */
    assert_string_equal(counts.rows[2].prefix, "");
    assert_int_equal(counts.rows[2].events[TALLY_FENCED_OFF], 7);
    lock_counts_free(&counts);
}

TEST(the_most_contended_come_first)
{
    static const char *const order[] = {"skipped", "parked", "waited", "acquired", "c", "d"};
    struct lock_counts counts = {0};
    add(&counts, "d|x:|lost", 1);
    add(&counts, "acquired|x:|acquired", 1000);
    add(&counts, "parked|x:|parked", 3);
    add(&counts, "c|x:|lost", 1);
    add(&counts, "waited|x:|waited", 2);
    add(&counts, "skipped|x:|skipped", 4);
    lock_counts_fold(&counts);
    assert_int_equal(counts.row_count, 6);
    for (unsigned i = 0; i < 6; i++)
        assert_string_equal(counts.rows[i].class_name, order[i]);
    lock_counts_free(&counts);
}

TEST(what_is_no_field_of_ours_is_passed_over)
{
    struct lock_counts counts = {0};
    add(&counts, "", 1);
    add(&counts, "a|acquired", 1);
    add(&counts, "a|x:|y|acquired", 1);
    lock_counts_add(&counts, "a\0|x:|acquired", 14, 1);
    lock_counts_fold(&counts);
    assert_int_equal(counts.row_count, 0);
    add(&counts, "a|x:|wait.128", 1);
    add(&counts, "a|x:|wait.-1", 1);
    add(&counts, "a|x:|hold.1x", 1);
    add(&counts, "a|x:|hold.1", -1);
    add(&counts, "a|x:|hold.1", LLONG_MAX);
    add(&counts, "a|x:|later", 1);
    lock_counts_fold(&counts);
    assert_int_equal(counts.row_count, 1);
    assert_int_equal(lock_histogram_total(&counts.rows[0].wait) + lock_histogram_total(&counts.rows[0].hold), 0);
    lock_counts_free(&counts);
}

TEST(quantiles_are_the_steps_in_which_they_lie)
{
    struct lock_histogram histogram = {{0}};
    assert_int_equal(lock_histogram_quantile(&histogram, 0.5), -1);
    histogram.steps[4] = 98;
    histogram.steps[7] = 1;
    histogram.steps[25] = 1;
    assert_int_equal(lock_histogram_total(&histogram), 100);
    assert_int_equal(lock_histogram_quantile(&histogram, 0), 4);
    assert_int_equal(lock_histogram_quantile(&histogram, 0.5), 4);
    assert_int_equal(lock_histogram_quantile(&histogram, 0.98), 4);
    assert_int_equal(lock_histogram_quantile(&histogram, 0.99), 7);
    assert_int_equal(lock_histogram_quantile(&histogram, 0.991), 25);
    assert_int_equal(lock_histogram_quantile(&histogram, 1), 25);
}

RUN_TESTS
