/* The clock of a node as several hosts see it: the shortest round trip counts, until it is old. */
#include "tests/support/test.h"

#include "worker/dry_run/run/host_heartbeat.h"

static struct node_clock clock_seen;

static void forget(void)
{
    clock_seen = (struct node_clock){0};
}

/* Asked and answered at these milliseconds of the host, when the node's clock said so many. */
static void note(int64_t asked_ms, int64_t answered_ms, int64_t node_ms)
{
    node_clock_note(&clock_seen, (struct instant){asked_ms * NS_PER_MS}, (struct instant){answered_ms * NS_PER_MS},
                    node_ms * 1000);
}

TEST(the_first_answer_is_in_the_middle_of_its_round_trip)
{
    note(1000, 1010, 50000);
    assert_true(clock_seen.is_known);
    assert_int_equal(clock_seen.offset_ns, (50000 - 1005) * NS_PER_MS);
    assert_int_equal(clock_seen.error_ns, 5 * NS_PER_MS);
}

TEST(a_shorter_round_trip_is_believed_and_a_longer_one_is_not)
{
    note(1000, 1010, 50000);
    note(1100, 1140, 60000);
    assert_int_equal(clock_seen.offset_ns, (50000 - 1005) * NS_PER_MS);
    note(1200, 1202, 50200);
    assert_int_equal(clock_seen.offset_ns, (50200 - 1201) * NS_PER_MS);
    assert_int_equal(clock_seen.error_ns, 1 * NS_PER_MS);
}

/* 100 us a second: after 100 s an error of 1 ms has become 11 ms. */
TEST(what_is_old_gives_way_to_what_is_new)
{
    note(1000, 1002, 50000);
    note(101000, 101024, 160000);
    assert_int_equal(clock_seen.error_ns, 1 * NS_PER_MS);
    note(101000, 101020, 150000);
    assert_int_equal(clock_seen.error_ns, 10 * NS_PER_MS);
    assert_int_equal(clock_seen.offset_ns, (150000 - 101010) * NS_PER_MS);
}

TEST(its_error_grows_with_what_clocks_drift)
{
    note(1000, 1002, 50000);
    assert_int_equal(node_clock_error(&clock_seen, (struct instant){1002 * NS_PER_MS}), 1 * NS_PER_MS);
    assert_int_equal(node_clock_error(&clock_seen, (struct instant){11002 * NS_PER_MS}), 2 * NS_PER_MS);
}

TEST(times_of_two_hosts_are_compared_by_the_node)
{
    struct node_clock here = {.is_known = true, .offset_ns = 900}, there = {.is_known = true, .offset_ns = 400};
    int64_t theirs = 1000; /* 1400 at the node, which is 500 here */
    assert_int_equal(theirs + node_clock_between(&there, &here), 500);
    assert_int_equal(node_clock_between(&here, &here), 0);
}

RUN_TESTS_BETWEEN(forget, NULL)
