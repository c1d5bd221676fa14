/* What became of locks, by class and kind of resource: what is counted together, what is bounded, what is taken. */
#include "tests/support/test.h"

#include "worker/presence/lock_metrics.h"
#include "tests/support/arguments_text.h"

static const struct wall_time today = {INT64_C(1795194279000000)}, tomorrow = {INT64_C(1795280679000000)};

static int make(void **state)
{
    *state = lock_metrics_create();
    return 0;
}

static int end(void **state)
{
    lock_metrics_destroy(*state);
    return 0;
}

/* What a take gives, in the order of the first count of each. */
static const char *taken(struct lock_metrics *metrics, struct wall_time at)
{
    struct buffer arguments = {0};
    unsigned pairs = lock_metrics_take(metrics, at, &arguments);
    return arguments_text(&arguments, pairs);
}

TEST(resources_of_one_kind_are_counted_together)
{
    lock_metrics_count(*state, "transfer", "acct:7", LOCK_EVENT_ACQUIRED);
    lock_metrics_count(*state, "transfer", "acct:8:x", LOCK_EVENT_ACQUIRED);
    lock_metrics_count(*state, "transfer", "acct:8", LOCK_EVENT_PARKED);
    lock_metrics_count(*state, "transfer", "account", LOCK_EVENT_LOST);
    lock_metrics_count(*state, "render", "acct:7", LOCK_EVENT_SKIPPED);
    assert_string_equal(taken(*state, today),
                        "transfer|acct:|=acquired 2 parked 1 ;transfer|account|=lost 1 ;render|acct:|=skipped 1 ;");
}

TEST(what_is_taken_is_taken_once)
{
    lock_metrics_count(*state, "a", "x:1", LOCK_EVENT_WAITED);
    assert_string_equal(taken(*state, today), "a|x:|=waited 1 ;");
    assert_string_equal(taken(*state, today), "");
    lock_metrics_count(*state, "b", "x:1", LOCK_EVENT_HANDED_OVER);
    lock_metrics_count(*state, "a", "x:1", LOCK_EVENT_FENCED_OFF);
    assert_string_equal(taken(*state, today), "a|x:|=fenced_off 1 ;b|x:|=handed_over 1 ;");
}

/* B = 4 * o + q, with q from 0 to 3, begins at (4 + q) * 2^(o + 2) us. */
TEST(times_are_counted_in_quarters_of_an_octave)
{
    lock_metrics_acquired(*state, "a", "x:1", 16383);
    lock_metrics_acquired(*state, "a", "x:1", 16384);
    lock_metrics_acquired(*state, "a", "x:1", 20479);
    lock_metrics_hold(*state, "a", "x:1", -5);
    lock_metrics_hold(*state, "a", "x:1", INT64_MAX);
    assert_string_equal(taken(*state, today), "a|x:|=acquired 3 wait.39 1 wait.40 2 hold.0 1 hold.127 1 ;");
    assert_string_equal(taken(*state, today), "");
}

TEST(bytes_that_separate_are_replaced)
{
    lock_metrics_count(*state, "a|b\n", "x|\x1b[2J\x7f:1", LOCK_EVENT_LOST);
    assert_string_equal(taken(*state, today), "a_b_|x__[2J_:|=lost 1 ;");
}

TEST(long_names_are_cut_between_characters)
{
    char resource[513], class_name[600], wanted[1024];
    memset(resource, 'r', 512);
    resource[512] = '\0';
    memcpy(resource + 63, "\xc3\xa4", 2); /* a letter of two bytes across the bound */
    memset(class_name, 'c', 599);
    class_name[599] = '\0';
    lock_metrics_count(*state, class_name, resource, LOCK_EVENT_LOST);
    snprintf(wanted, sizeof wanted, "%.256s|%.63s|=lost 1 ;", class_name, resource);
    assert_string_equal(taken(*state, today), wanted);
    memset(resource, 'r', 512);
    resource[100] = ':';
    lock_metrics_count(*state, "a", resource, LOCK_EVENT_LOST);
    snprintf(wanted, sizeof wanted, "a|%.64s|=lost 1 ;", resource);
    assert_string_equal(taken(*state, today), wanted);
}

/* Also those of all beats of a day together: what comes later has no name of its own. */
TEST(the_number_of_names_is_bounded_for_a_day)
{
    char resource[16];
    assert_string_equal(taken(*state, today), "");
    for (unsigned i = 0; i < LOCK_METRICS_PAIRS + 10; i++) {
        snprintf(resource, sizeof resource, "r%u:", i);
        lock_metrics_count(*state, "a", resource, LOCK_EVENT_ACQUIRED);
        const char *text = taken(*state, today);
        assert_string_equal(strchr(text, '='), "=acquired 1 ;");
        assert_true((strncmp(text, "hf.others||=", 12) == 0) == (i >= LOCK_METRICS_PAIRS - 1));
    }
    lock_metrics_count(*state, "a", "r0:", LOCK_EVENT_ACQUIRED);
    lock_metrics_count(*state, "a", "new:", LOCK_EVENT_ACQUIRED);
    assert_string_equal(taken(*state, tomorrow), "a|r0:|=acquired 1 ;hf.others||=acquired 1 ;");
    lock_metrics_count(*state, "a", "new:", LOCK_EVENT_ACQUIRED);
    assert_string_equal(taken(*state, tomorrow), "a|new:|=acquired 1 ;");
}

TEST(events_have_the_names_of_their_fields)
{
    static const char *const names[] = {"acquired", "waited", "parked", "handed_over", "skipped", "lost", "fenced_off"};
    for (unsigned i = 0; i < LOCK_EVENTS; i++)
        assert_string_equal(lock_event_name((enum lock_event)i), names[i]);
}

RUN_TESTS_WITH(make, end)
