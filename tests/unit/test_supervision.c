/* Who of several processes is started when: the rule alone, without processes. */
#include "tests/support/test.h"

#include "worker/supervisor/supervision.h"

static struct supervision supervision;
static struct instant now;

static void later(int64_t seconds)
{
    now = instant_after(now, seconds * NS_PER_S);
}

static void begin(unsigned count)
{
    now = (struct instant){1000 * NS_PER_S};
    supervision_begin(&supervision, count, now);
}

static void start_due(void)
{
    unsigned due;
    while ((due = supervision_due(&supervision, now)) < supervision.count)
        supervision_started(&supervision, due, now);
}

/* All run and are up. */
static void begin_up(unsigned count)
{
    begin(count);
    start_due();
    supervision_up(&supervision, 0);
    start_due();
    for (unsigned i = 1; i < count; i++)
        supervision_up(&supervision, i);
    assert_int_equal(supervision_alive(&supervision), count);
}

/* The process dies at once, and comes up again after that many seconds, and not before. */
static void assert_pause(int64_t seconds)
{
    assert_int_equal(supervision_ended(&supervision, 0, 1, now), SUPERVISION_RESTART);
    assert_int_equal(instant_since(now, supervision_next(&supervision)), seconds * NS_PER_S);
    later(seconds - 1);
    assert_int_equal(supervision_due(&supervision, now), supervision.count);
    later(1);
    assert_int_equal(supervision_due(&supervision, now), 0);
    start_due();
}

TEST(the_first_is_started_alone)
{
    begin(3);
    assert_int_equal(supervision_due(&supervision, now), 0);
    start_due();
    assert_int_equal(supervision_alive(&supervision), 1);
    assert_true(supervision_awaits(&supervision));
    assert_int_equal(supervision_next(&supervision).ns, INSTANT_NEVER.ns);
    supervision_up(&supervision, 0);
    assert_false(supervision_awaits(&supervision));
    assert_int_equal(supervision_next(&supervision).ns, now.ns);
    start_due();
    assert_int_equal(supervision_alive(&supervision), 3);
    assert_true(supervision_awaits(&supervision));
}

TEST(pauses_double_up_to_a_minute)
{
    begin_up(1);
    const int64_t pauses[] = {1, 2, 4, 8, 16, 32, 60, 60};
    for (unsigned i = 0; i < sizeof pauses / sizeof pauses[0]; i++)
        assert_pause(pauses[i]);
}

TEST(who_has_lived_for_a_minute_begins_anew)
{
    begin_up(1);
    assert_pause(1);
    assert_pause(2);
    later(59);
    assert_pause(4);
    later(60);
    assert_pause(1);
    assert_pause(2);
}

/* Also when it does not come up: the configuration may have been changed, and be mended again. */
TEST(who_was_up_once_is_started_again_for_ever)
{
    begin_up(2);
    assert_int_equal(supervision_ended(&supervision, 1, 1, now), SUPERVISION_RESTART);
    later(1);
    start_due();
    assert_int_equal(supervision_ended(&supervision, 1, 1, now), SUPERVISION_RESTART);
    assert_int_equal(supervision.processes[1].pause_ns, 2 * NS_PER_S);
    assert_int_equal(supervision.processes[0].pause_ns, 0);
    assert_false(supervision_is_over(&supervision));
}

TEST(who_fails_before_it_was_ever_up_ends_all)
{
    begin(2);
    start_due();
    assert_int_equal(supervision_ended(&supervision, 0, 7, now), SUPERVISION_HOPELESS);
    assert_true(supervision_is_over(&supervision));
    assert_int_equal(supervision.exit_code, 7);

    begin(2);
    start_due();
    supervision_up(&supervision, 0);
    start_due();
    assert_int_equal(supervision_ended(&supervision, 1, 1, now), SUPERVISION_HOPELESS);
    assert_false(supervision_is_over(&supervision));
    assert_int_equal(supervision_ended(&supervision, 0, 0, now), SUPERVISION_OVER);
    assert_true(supervision_is_over(&supervision));
    assert_int_equal(supervision.exit_code, 1);
}

TEST(a_first_one_that_ends_well_before_it_was_up_ends_all)
{
    begin(2);
    start_due();
    assert_int_equal(supervision_ended(&supervision, 0, 0, now), SUPERVISION_OVER);
    assert_true(supervision_is_over(&supervision));
    assert_int_equal(supervision.exit_code, 0);
}

TEST(who_ends_well_is_not_started_again)
{
    begin_up(2);
    assert_int_equal(supervision_ended(&supervision, 0, 0, now), SUPERVISION_OVER);
    assert_int_equal(supervision_next(&supervision).ns, INSTANT_NEVER.ns);
    assert_false(supervision_is_over(&supervision));
    assert_int_equal(supervision_ended(&supervision, 1, 1, now), SUPERVISION_RESTART);
    later(1);
    start_due();
    supervision_up(&supervision, 1);
    assert_int_equal(supervision_ended(&supervision, 1, 0, now), SUPERVISION_OVER);
    assert_true(supervision_is_over(&supervision));
    assert_int_equal(supervision.exit_code, 0);
}

TEST(nothing_is_started_while_all_is_ending)
{
    begin_up(3);
    assert_int_equal(supervision_ended(&supervision, 0, 1, now), SUPERVISION_RESTART);
    supervision_end(&supervision);
    assert_int_equal(supervision_next(&supervision).ns, INSTANT_NEVER.ns);
    later(60);
    assert_int_equal(supervision_due(&supervision, now), supervision.count);
    assert_int_equal(supervision_ended(&supervision, 1, 3, now), SUPERVISION_OVER);
    assert_int_equal(supervision_ended(&supervision, 2, 1, now), SUPERVISION_OVER);
    assert_true(supervision_is_over(&supervision));
    assert_int_equal(supervision.exit_code, 3);
}

/* --- silence ------------------------------------------------------------------------------------------------------ */

static uint64_t heartbeats;

/* Looks once a second, for that long; which processes were found silent, one bit each. The first one is alive. */
static unsigned watch(int64_t seconds)
{
    unsigned silent = 0;
    for (; seconds > 0; seconds--) {
        later(1);
        supervision_look(&supervision, now);
        heartbeats++;
        silent |= supervision_is_silent(&supervision, 0, heartbeats, now);
        silent |= (unsigned)supervision_is_silent(&supervision, 1, 7, now) << 1;
    }
    return silent;
}

TEST(a_process_whose_beats_stop_is_silent)
{
    begin_up(2);
    assert_int_equal(watch(20), 0); /* its first heartbeat was heard within the first second */
    assert_int_equal(watch(1), 2);
    assert_int_equal(watch(19), 0); /* it was told, and takes time to die */
    assert_int_equal(watch(1), 2);
}

TEST(a_process_that_starts_or_ends_is_not_judged)
{
    begin_up(2);
    for (unsigned i = 0; i < 100; i++) {
        later(1);
        supervision_look(&supervision, now);
        assert_false(supervision_is_silent(&supervision, 0, 0, now));
    }
}

TEST(a_new_process_is_not_judged_by_the_beats_of_the_one_before)
{
    begin_up(2);
    assert_int_equal(watch(21), 2);
    assert_int_equal(supervision_ended(&supervision, 1, 1, now), SUPERVISION_RESTART);
    later(1);
    start_due();
    assert_int_equal(watch(20), 0);
}

TEST(time_in_which_the_supervisor_stood_still_does_not_count)
{
    begin_up(2);
    assert_int_equal(watch(15), 0);
    later(3600); /* the machine was suspended */
    assert_int_equal(watch(15), 0);
    assert_int_equal(watch(10), 2);
}

RUN_TESTS
