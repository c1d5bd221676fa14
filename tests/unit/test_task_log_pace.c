/* Which tasks get a line of their own, in virtual time: successes beyond a number a second are added up, nothing else
 * ever is, and every task is either in a line or in a sum. */
#include "tests/support/test.h"

#include "base/random.h"
#include "worker/events/task_log.h"

static struct task_log task_log;
static struct instant now;

static void set_up(void)
{
    task_log_init(&task_log, 1);
    now = (struct instant){1000 * NS_PER_S};
}

static bool ends(enum config_log_tasks mode, enum flow_ending ending)
{
    return task_log_wants(&task_log, mode, ending, NS_PER_MS, now);
}

static unsigned lines_of(enum flow_ending ending, unsigned tasks)
{
    unsigned lines = 0;
    for (unsigned i = 0; i < tasks; i++)
        lines += ends(CONFIG_LOG_TASKS_AUTO, ending);
    return lines;
}

TEST(the_first_hundred_successes_of_a_second_have_lines)
{
    assert_int_equal(lines_of(FLOW_DONE, 100), 100);
    assert_false(task_log_has_sums(&task_log));
    now.ns += NS_PER_S - 1;
    assert_int_equal(lines_of(FLOW_DONE, 50), 0);
    assert_int_equal(lines_of(FLOW_SKIPPED, 3), 0);
    assert_int_equal(lines_of(FLOW_SNOOZED, 2), 0);
    assert_false(task_log_is_due(&task_log, now));
    now.ns += 1;
    assert_true(task_log_is_due(&task_log, now));
    struct task_sums sums = task_log_take(&task_log);
    assert_int_equal(sums.done, 50);
    assert_int_equal(sums.skipped, 3);
    assert_int_equal(sums.snoozed, 2);
    assert_int_equal(sums.ran_ns, 55 * NS_PER_MS);
    assert_false(task_log_is_due(&task_log, now));
    assert_int_equal(lines_of(FLOW_DONE, 101), 100);
    assert_int_equal(task_log.until.ns, now.ns + NS_PER_S);
}

TEST(a_second_begins_with_its_first_task)
{
    for (unsigned second = 0; second < 5; second++, now.ns += 3 * NS_PER_S / 2)
        assert_int_equal(lines_of(FLOW_DONE, 100), 100);
    assert_false(task_log_has_sums(&task_log));
}

TEST(no_failure_is_ever_added_up)
{
    assert_int_equal(lines_of(FLOW_DONE, 300), 100);
    for (int ending = 0; ending < FLOW_ENDINGS; ending++) {
        bool went_well = ending == FLOW_DONE || ending == FLOW_SKIPPED || ending == FLOW_SNOOZED;
        assert_int_equal(lines_of((enum flow_ending)ending, 1000), went_well ? 0 : 1000);
        assert_int_equal(ends(CONFIG_LOG_TASKS_FAILURES, (enum flow_ending)ending), !went_well);
        assert_true(ends(CONFIG_LOG_TASKS_ALL, (enum flow_ending)ending));
    }
    struct task_sums sums = task_log_take(&task_log);
    assert_int_equal(sums.done + sums.skipped + sums.snoozed, 200 + 3000);
}

TEST(failures_alone_add_nothing_up)
{
    for (unsigned i = 0; i < 1000; i++)
        assert_false(ends(CONFIG_LOG_TASKS_FAILURES, FLOW_DONE));
    assert_false(task_log_has_sums(&task_log));
}

TEST(the_processes_of_a_unit_share_the_hundred)
{
    static const unsigned processes[] = {0, 1, 3, 4, 64, 1000}, lines[] = {100, 100, 33, 25, 1, 1};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        task_log_init(&task_log, processes[i]);
        assert_int_equal(lines_of(FLOW_DONE, 500), lines[i]);
    }
}

/* A reload may come within a second that was summed up. */
TEST(what_was_added_up_is_told_also_when_the_mode_changes)
{
    assert_int_equal(lines_of(FLOW_DONE, 150), 100);
    assert_true(ends(CONFIG_LOG_TASKS_ALL, FLOW_DONE));
    now.ns += 5 * NS_PER_S;
    assert_true(task_log_is_due(&task_log, now));
    assert_int_equal(task_log_take(&task_log).done, 50);
}

/* Whoever tells sums when they are due loses none, however the tasks come. */
TEST(every_task_is_in_a_line_or_in_a_sum)
{
    uint64_t tasks = 0, lines = 0, summed = 0;
    for (int round = 0; round < 100000; round++) {
        now.ns += random_between(0, random_between(0, 99) > 0 ? 5 * NS_PER_MS : 2 * NS_PER_S);
        if (task_log_is_due(&task_log, now))
            summed += task_log_take(&task_log).done;
        bool is_line = ends(CONFIG_LOG_TASKS_AUTO, FLOW_DONE);
        lines += is_line;
        tasks++;
    }
    summed += task_log_take(&task_log).done;
    assert_int_equal(lines + summed, tasks);
    assert_true(lines > 1000 && summed > 1000);
}

RUN_TESTS_BETWEEN(set_up, NULL)
