/* What became of locks, by class and kind of resource: what is counted together, what is bounded, what is taken. */
#include "tests/support/test.h"

#include <stdio.h>

#include "queue/metrics.h"
#include "worker/lock_metrics.h"
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

static void resources_of_one_kind_are_counted_together(void **state)
{
    lock_metrics_count(*state, "transfer", "acct:7", LOCK_EVENT_ACQUIRED);
    lock_metrics_count(*state, "transfer", "acct:8:x", LOCK_EVENT_ACQUIRED);
    lock_metrics_count(*state, "transfer", "acct:8", LOCK_EVENT_PARKED);
    lock_metrics_count(*state, "transfer", "account", LOCK_EVENT_LOST);
    lock_metrics_count(*state, "render", "acct:7", LOCK_EVENT_SKIPPED);
    assert_string_equal(taken(*state, today),
                        "transfer|acct:|=acquired 2 parked 1 ;transfer|account|=lost 1 ;render|acct:|=skipped 1 ;");
}

static void what_is_taken_is_taken_once(void **state)
{
    lock_metrics_count(*state, "a", "x:1", LOCK_EVENT_WAITED);
    assert_string_equal(taken(*state, today), "a|x:|=waited 1 ;");
    assert_string_equal(taken(*state, today), "");
    lock_metrics_count(*state, "b", "x:1", LOCK_EVENT_HANDED_OVER);
    lock_metrics_count(*state, "a", "x:1", LOCK_EVENT_FENCED_OFF);
    assert_string_equal(taken(*state, today), "a|x:|=fenced_off 1 ;b|x:|=handed_over 1 ;");
}

static void times_go_into_the_buckets_of_dashboards(void **state)
{
    lock_metrics_wait(*state, "a", "x:1", 19999);
    lock_metrics_wait(*state, "a", "x:1", 20000);
    lock_metrics_wait(*state, "a", "x:1", 29999);
    lock_metrics_hold(*state, "a", "x:1", -5);
    lock_metrics_hold(*state, "a", "x:1", INT64_MAX);
    assert_string_equal(taken(*state, today), "a|x:|=wait.0 1 wait.1 2 hold.0 1 hold.25 1 ;");
    assert_string_equal(taken(*state, today), "");
}

static void bytes_that_separate_are_replaced(void **state)
{
    lock_metrics_count(*state, "a|b\n", "x|\x1b[2J\x7f:1", LOCK_EVENT_LOST);
    assert_string_equal(taken(*state, today), "a_b_|x__[2J_:|=lost 1 ;");
}

static void long_names_are_cut_between_characters(void **state)
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
static void the_number_of_names_is_bounded_for_a_day(void **state)
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

static void events_have_the_names_of_their_fields(void **state)
{
    static const char *const names[] = {"acquired", "waited", "parked", "handed_over", "skipped", "lost", "fenced_off"};
    (void)state;
    for (unsigned i = 0; i < LOCK_EVENTS; i++)
        assert_string_equal(lock_event_name((enum lock_event)i), names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(resources_of_one_kind_are_counted_together, make, end),
        cmocka_unit_test_setup_teardown(what_is_taken_is_taken_once, make, end),
        cmocka_unit_test_setup_teardown(times_go_into_the_buckets_of_dashboards, make, end),
        cmocka_unit_test_setup_teardown(bytes_that_separate_are_replaced, make, end),
        cmocka_unit_test_setup_teardown(long_names_are_cut_between_characters, make, end),
        cmocka_unit_test_setup_teardown(the_number_of_names_is_bounded_for_a_day, make, end),
        cmocka_unit_test(events_have_the_names_of_their_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
