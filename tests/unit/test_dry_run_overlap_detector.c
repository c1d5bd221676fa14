/* The overlap detector counts each pair of visits that intersect once, whatever the order in which it hears of them,
 * and each visit that was left behind a larger token once. */
#include "tests/support/test.h"

#include "worker/dry_run/count/overlap_detector.h"

static struct overlap_detector *detector;
static unsigned overlaps, unfenced, refusals, last_resource;

static void count_overlap(void *context, unsigned resource, bool is_fenced)
{
    (void)context;
    overlaps++;
    unfenced += !is_fenced;
    last_resource = resource;
}

static void count_refusal(void *context, unsigned resource)
{
    (void)context;
    refusals++;
    last_resource = resource;
}

static void setup(void)
{
    overlaps = unfenced = refusals = 0;
    last_resource = UINT32_MAX;
    detector = overlap_detector_create(&(struct overlap_told){count_overlap, count_refusal, NULL});
}

static void teardown(void)
{
    overlap_detector_destroy(detector);
}

/* Times of these tests are milliseconds. */
static struct instant at(int64_t ms)
{
    return (struct instant){ms * NS_PER_MS};
}

struct who {
    unsigned process, resource;
    const char *jid;
    uint64_t token;
};

static struct overlap_visit visit_of(struct who who, int64_t ms)
{
    return (struct overlap_visit){who.process, who.resource, who.jid, who.token, at(ms)};
}

static void enter(struct who who, int64_t ms)
{
    struct overlap_visit visit = visit_of(who, ms);
    overlap_detector_entered(detector, &visit);
}

static void leave(struct who who, int64_t ms)
{
    struct overlap_visit visit = visit_of(who, ms);
    overlap_detector_left(detector, &visit);
}

static void visit(struct who who, int64_t from, int64_t until)
{
    enter(who, from);
    leave(who, until);
}

static const struct who first = {.process = 0, .jid = "a", .token = 5}, second = {.process = 1, .jid = "b", .token = 6},
                        third = {.process = 2, .jid = "c", .token = 7};

TEST(visits_one_after_the_other_are_fine)
{
    visit(first, 10, 20);
    visit(second, 20, 30);
    visit(third, 31, 40);
    visit((struct who){.process = 0, .resource = 1, .jid = "d", .token = 8}, 10, 40);
    overlap_detector_end(detector, at(100));
    assert_int_equal(overlaps, 0);
    assert_int_equal(refusals, 0);
}

TEST(visits_that_intersect_are_an_overlap_and_the_stale_one_is_refused)
{
    enter(first, 10);
    enter(second, 15);
    leave(second, 18);
    assert_int_equal(overlaps, 0); /* the first may have ended before 15 for all that is known */
    leave(first, 20);
    assert_int_equal(overlaps, 1);
    assert_int_equal(unfenced, 0);
    assert_int_equal(refusals, 1);
    assert_int_equal(last_resource, 0);
}

TEST(the_order_of_the_records_of_two_processes_does_not_matter)
{
    visit(first, 10, 20);
    visit(second, 15, 18);
    assert_int_equal(overlaps, 1);
    assert_int_equal(refusals, 1);
    visit((struct who){.process = 1, .resource = 7, .jid = "e", .token = 9}, 15, 18);
    visit((struct who){.process = 0, .resource = 7, .jid = "d", .token = 8}, 10, 20);
    assert_int_equal(overlaps, 2);
    assert_int_equal(refusals, 2);
    assert_int_equal(last_resource, 7);
}

TEST(records_that_come_late_find_their_place)
{
    visit(third, 30, 40);
    visit(first, 10, 20);
    visit(second, 20, 30);
    assert_int_equal(overlaps, 0);
    assert_int_equal(refusals, 0);
    visit((struct who){.process = 3, .jid = "d", .token = 8}, 15, 35);
    assert_int_equal(overlaps, 3);
    assert_int_equal(refusals, 3); /* all three were left after the larger token had begun */
}

TEST(every_pair_counts_once)
{
    enter(first, 10);
    enter(second, 11);
    enter(third, 12);
    leave(third, 20);
    leave(first, 21);
    leave(second, 22);
    assert_int_equal(overlaps, 3);
    assert_int_equal(refusals, 2);
}

TEST(a_stale_visit_is_refused_without_an_overlap)
{
    visit(second, 10, 20); /* the larger token has been here */
    visit(first, 30, 40);  /* and one that was frozen before it entered comes after it */
    visit((struct who){.process = 3, .jid = "d", .token = 7}, 50, 60);
    assert_int_equal(overlaps, 0);
    assert_int_equal(refusals, 1);
}

TEST(the_largest_token_of_long_ago_counts)
{
    visit((struct who){.process = 3, .jid = "z", .token = 100}, 1, 2);
    for (unsigned i = 0; i < 50; i++)
        visit((struct who){.process = 1, .jid = "b", .token = 10 + i}, 10 + 10 * i, 15 + 10 * i);
    assert_int_equal(overlaps, 0);
    assert_int_equal(refusals, 50);
}

TEST(an_overlap_without_tokens_is_unfenced)
{
    visit((struct who){.process = 0, .jid = "a"}, 10, 20);
    visit((struct who){.process = 1, .jid = "b"}, 15, 25);
    assert_int_equal(overlaps, 1);
    assert_int_equal(unfenced, 1);
    visit((struct who){.process = 2, .jid = "c", .token = 3}, 24, 30);
    assert_int_equal(overlaps, 2);
    assert_int_equal(unfenced, 2);
    assert_int_equal(refusals, 0);
}

TEST(who_died_inside_was_there_until_its_death_and_is_not_refused)
{
    enter(first, 10);
    visit(second, 30, 40);
    overlap_detector_died(detector, 0, at(25));
    assert_int_equal(overlaps, 0);
    enter((struct who){.process = 0, .jid = "d", .token = 7}, 50);
    enter(third, 60); /* of the same process as nobody before */
    overlap_detector_died(detector, 0, at(70));
    leave(third, 80);
    assert_int_equal(overlaps, 1);
    assert_int_equal(refusals, 0);
}

TEST(who_died_is_not_refused_by_a_record_that_comes_late_either)
{
    enter(first, 10);
    overlap_detector_died(detector, 0, at(25));
    visit(second, 20, 30);
    assert_int_equal(overlaps, 1);
    assert_int_equal(refusals, 0);
}

TEST(who_never_leaves_is_there_until_the_run_ends)
{
    enter(first, 10);
    visit(second, 30, 40);
    assert_int_equal(overlaps, 0);
    overlap_detector_end(detector, at(100));
    assert_int_equal(overlaps, 1);
    assert_int_equal(refusals, 0);
}

TEST(a_leave_that_was_lost_ends_where_the_worker_saw_the_handler_return)
{
    enter(first, 10);
    visit(third, 15, 18); /* meanwhile */
    struct overlap_visit returned = visit_of(first, 20);
    overlap_detector_returned(detector, &returned);
    for (unsigned process = 0; process < 3; process++)
        overlap_detector_heard(detector, process, at(5000));
    overlap_detector_tidy(detector);
    assert_int_equal(overlaps, 1);
    visit(second, 30, 40);
    overlap_detector_end(detector, at(6000));
    assert_int_equal(overlaps, 1);
}

TEST(the_leave_itself_counts_when_it_comes_after_the_worker_s_word)
{
    enter(first, 10);
    struct overlap_visit returned = visit_of(first, 20);
    overlap_detector_returned(detector, &returned);
    visit(second, 21, 40);
    leave(first, 19);
    assert_int_equal(overlaps, 0);
    assert_int_equal(refusals, 0);
}

TEST(a_leave_of_nobody_and_an_enter_without_end_do_no_harm)
{
    leave(first, 10);
    overlap_detector_died(detector, 3, at(10));
    overlap_detector_end(detector, at(20));
    assert_int_equal(overlaps + refusals, 0);
    assert_int_equal(overlap_detector_remembered(detector), 0);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

TEST(what_can_matter_no_more_is_forgotten)
{
    for (int64_t ms = 0; ms < 100000; ms += 10) {
        visit((struct who){.process = 0, .resource = (unsigned)(ms / 10 % 50), .jid = "a", .token = 1}, ms, ms + 5);
        overlap_detector_heard(detector, 0, at(ms + 5));
        overlap_detector_heard(detector, 1, at(ms));
        if (ms % 1000 == 0)
            overlap_detector_tidy(detector);
        assert_true(overlap_detector_remembered(detector) < 350);
    }
    assert_int_equal(overlaps, 0);
}

/* A process that stands still may have taken its time for a record long before it writes it. */
TEST(nothing_is_forgotten_that_a_silent_process_may_still_meet)
{
    overlap_detector_heard(detector, 0, at(1000));
    overlap_detector_heard(detector, 1, at(1000));
    visit(second, 1500, 1600);
    overlap_detector_heard(detector, 1, at(30000));
    overlap_detector_tidy(detector);
    visit(first, 1550, 30000); /* told when it woke up */
    assert_int_equal(overlaps, 1);
    assert_int_equal(refusals, 1);
}

TEST(a_process_that_is_dead_holds_nothing_back)
{
    overlap_detector_heard(detector, 0, at(1000));
    visit(second, 1500, 1600);
    overlap_detector_heard(detector, 1, at(30000));
    overlap_detector_died(detector, 0, at(1200));
    overlap_detector_tidy(detector);
    assert_int_equal(overlap_detector_remembered(detector), 0);
}

TEST(a_frozen_holder_meets_all_who_came_meanwhile)
{
    enter(first, 1000);
    overlap_detector_heard(detector, 0, at(1000));
    for (int64_t ms = 2000; ms < 50000; ms += 10) {
        visit((struct who){.process = 1, .jid = "b", .token = 6}, ms, ms + 5);
        overlap_detector_heard(detector, 1, at(ms + 5));
        overlap_detector_tidy(detector);
    }
    leave(first, 49000);
    assert_int_equal(overlaps, 4700);
    assert_int_equal(refusals, 1);
    overlap_detector_heard(detector, 0, at(52000));
    overlap_detector_heard(detector, 1, at(52000));
    overlap_detector_tidy(detector);
    assert_int_equal(overlap_detector_remembered(detector), 0);
}

TEST(a_long_visit_of_a_process_that_goes_on_meets_all_who_came_meanwhile)
{
    enter(first, 1000);
    visit(second, 2000, 2005);
    overlap_detector_heard(detector, 0, at(50000));
    overlap_detector_heard(detector, 1, at(50000));
    overlap_detector_tidy(detector);
    leave(first, 50001);
    assert_int_equal(overlaps, 1);
    assert_int_equal(refusals, 1);
}

/* Every pair is compared by hand, for visits in random order. */
TEST(random_visits_are_judged_as_by_hand)
{
    enum { VISITS = 60, ROUNDS = 300 };
    unsigned seed = 7;
    for (unsigned round = 0; round < ROUNDS; round++) {
        int64_t from[VISITS], until[VISITS];
        uint64_t token[VISITS];
        unsigned wanted = 0, stale = 0, overlaps_before = overlaps, refusals_before = refusals;
        for (unsigned i = 0; i < VISITS; i++) {
            seed = seed * 1103515245 + 12345;
            from[i] = (seed >> 8) % 1000;
            seed = seed * 1103515245 + 12345;
            until[i] = from[i] + (seed >> 8) % 40;
            token[i] = 1 + (seed >> 16) % 100;
        }
        for (unsigned i = 0; i < VISITS; i++) {
            bool is_stale = false;
            for (unsigned j = 0; j < VISITS; j++) {
                int64_t begin = from[i] > from[j] ? from[i] : from[j], end = until[i] < until[j] ? until[i] : until[j];
                wanted += j < i && end > begin;
                is_stale |= token[i] < token[j] && until[i] > from[j];
            }
            stale += is_stale;
        }
        for (unsigned i = 0; i < VISITS; i++) {
            char jid[16];
            snprintf(jid, sizeof jid, "%u", i);
            visit((struct who){.process = i % 4, .resource = round, .jid = jid, .token = token[i]}, from[i], until[i]);
        }
        assert_int_equal(overlaps - overlaps_before, wanted);
        assert_int_equal(refusals - refusals_before, stale);
    }
}

RUN_TESTS_BETWEEN(setup, teardown)
