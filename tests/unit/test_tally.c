/* What is counted of tasks: once each, by class, by shown class and by class and kind of resource; what is bounded, and
 * what is taken. */
#include "tests/support/test.h"

#include "worker/events/tally.h"

static const struct wall_time today = {INT64_C(1795194279000000)}, tomorrow = {INT64_C(1795280679000000)};
static const char *const queues[] = {"jobs", "low"};
static struct tally *tally;
static char text[128 * 1024];

static void set_up(void)
{
    tally = tally_create(&(struct tally_setup){.queues = queues, .queue_count = 2, .class_max = 2});
}

static void tear_down(void)
{
    tally_destroy(tally);
}

static const struct instant began = {NS_PER_S};

/* A task that had its lock at once, ran and is done. */
static struct observed_task task_of(const char *class_name, const char *resource)
{
    static const char *resources[1];
    resources[0] = resource;
    return (struct observed_task){.class_name = class_name,
                                  .shown_class = class_name,
                                  .queue = "jobs",
                                  .resources = resources,
                                  .resource_count = resource != NULL,
                                  .wants_lock = resource != NULL,
                                  .ending = FLOW_DONE,
                                  .claimed = began,
                                  .locked = {resource != NULL ? began.ns : 0},
                                  .started = began,
                                  .ended = instant_after(began, 5 * NS_PER_MS),
                                  .left = instant_after(began, 6 * NS_PER_MS),
                                  .waited_ns = -1,
                                  .held_ns = -1};
}

static void done(const char *class_name, const char *resource)
{
    struct observed_task task = task_of(class_name, resource);
    tally_task(tally, &task);
}

/* A task that did not have its lock. */
static void refused(const char *class_name, const char *resource, enum flow_ending ending)
{
    struct observed_task task = task_of(class_name, resource);
    task.locked = task.started = task.ended = (struct instant){0};
    task.ending = ending;
    tally_task(tally, &task);
}

static size_t times_print(size_t length, const char *name, const struct histogram_coarse *histogram)
{
    for (unsigned i = 0; histogram != NULL && i < HISTOGRAM_COARSE_STEPS; i++)
        if (histogram->counts[i] > 0)
            length +=
                (size_t)snprintf(text + length, sizeof text - length, "%s.%u %d ", name, i, (int)histogram->counts[i]);
    return length;
}

/* The counts of locks since they were taken, in the order in which the names came, and the others first; and takes
 * them. */
static const char *taken(struct wall_time at)
{
    struct tally_rows locks = tally_locks(tally);
    size_t length = 0;
    text[0] = '\0';
    for (const struct tally_row *row = locks.rows; row < locks.rows + locks.count; row++) {
        if (!row->is_counted)
            continue;
        length += (size_t)snprintf(text + length, sizeof text - length, "%s=", row->name);
        for (unsigned i = 0; i < TALLY_LOCK_COUNTS; i++)
            if (row->counts[i] > 0)
                length += (size_t)snprintf(text + length, sizeof text - length, "%s %d ",
                                           tally_count_name((enum tally_count)i), (int)row->counts[i]);
        length = times_print(length, "hold", row->coarse[TALLY_HOLD]);
        length += (size_t)snprintf(text + length, sizeof text - length, ";");
    }
    tally_taken(tally, at);
    return text;
}

/* --- locks -------------------------------------------------------------------------------------------------------- */

TEST(resources_of_one_kind_are_counted_together)
{
    done("transfer", "acct:7");
    done("transfer", "acct:8:x");
    refused("transfer", "acct:8", FLOW_PARKED);
    done("transfer", "account");
    refused("render", "acct:7", FLOW_SKIPPED);
    done("render", NULL);
    assert_string_equal(taken(today),
                        "transfer|acct:|=acquired 2 parked 1 ;transfer|account|=acquired 1 ;render|acct:|=skipped 1 ;");
}

TEST(what_is_taken_is_taken_once)
{
    done("a", "x:1");
    assert_string_equal(taken(today), "a|x:|=acquired 1 ;");
    assert_string_equal(taken(today), "");
    done("b", "x:1");
    done("a", "x:1");
    assert_string_equal(taken(today), "a|x:|=acquired 1 ;b|x:|=acquired 1 ;");
}

TEST(each_fact_of_a_lock_has_its_count)
{
    struct observed_task task = task_of("a", "x:1");
    task.had_to_wait = task.handed_over = task.was_lost = task.was_fenced_off = true;
    tally_task(tally, &task);
    assert_string_equal(taken(today), "a|x:|=acquired 1 waited 1 handed_over 1 lost 1 fenced_off 1 ;");
    task.locked.ns = 0; /* it had none, and could not lose it */
    tally_task(tally, &task);
    assert_string_equal(taken(today), "a|x:|=fenced_off 1 ;");
    task.was_fenced_off = false;
    tally_task(tally, &task);
    task.wants_lock = false; /* it was parked for its class's share */
    task.ending = FLOW_PARKED;
    tally_task(tally, &task);
    assert_string_equal(taken(today), "");
}

TEST(a_hold_is_counted_when_it_is_over)
{
    struct observed_task task = task_of("a", "x:1");
    task.lock_waited_ns = 17 * NS_PER_MS;
    task.lock_took_ns = 1 * NS_PER_MS;
    tally_task(tally, &task);
    const struct tally_row *row = &tally_locks(tally).rows[1];
    assert_int_equal(row->coarse[TALLY_WAIT]->counts[40], 1);
    assert_null(row->coarse[TALLY_HOLD]);
    task.held_ns = 17 * NS_PER_MS;
    tally_task(tally, &task);
    assert_string_equal(taken(today), "a|x:|=acquired 2 hold.40 1 ;");
    tally_task(tally, &task);
    assert_string_equal(taken(today), "a|x:|=acquired 1 hold.40 1 ;");
}

/* Its end came too late, and another process has it: only that is new. */
TEST(a_task_that_left_twice_is_counted_once)
{
    struct observed_task task = task_of("a", "x:1");
    tally_task(tally, &task);
    task.claimed.ns = 0;
    task.ending = FLOW_CLAIM_LOST;
    tally_task(tally, &task);
    assert_string_equal(taken(today), "a|x:|=acquired 1 ;");
    static struct tally_total total;
    tally_total(tally, &total);
    assert_int_equal(total.endings[FLOW_DONE], 1);
    assert_int_equal(total.endings[FLOW_CLAIM_LOST], 1);
    assert_int_equal(total.counts[TALLY_RUNS], 1);
}

TEST(bytes_that_separate_are_replaced)
{
    done("a|b\n", "x|\x1b[2J\x7f:1");
    assert_string_equal(taken(today), "a_b_|x__[2J_:|=acquired 1 ;");
}

TEST(long_names_are_cut_between_characters)
{
    char resource[513], class_name[600], wanted[1024];
    memset(resource, 'r', 512);
    resource[512] = '\0';
    memcpy(resource + 63, "\xc3\xa4", 2); /* a letter of two bytes across the bound */
    memset(class_name, 'c', 599);
    class_name[599] = '\0';
    done(class_name, resource);
    snprintf(wanted, sizeof wanted, "%.256s|%.63s|=acquired 1 ;", class_name, resource);
    assert_string_equal(taken(today), wanted);
    memset(resource, 'r', 512);
    resource[100] = ':';
    done("a", resource);
    snprintf(wanted, sizeof wanted, "a|%.64s|=acquired 1 ;", resource);
    assert_string_equal(taken(today), wanted);
}

/* Also those of all beats of a day together: what comes later has no name of its own. */
TEST(the_number_of_names_is_bounded_for_a_day)
{
    char resource[16];
    assert_string_equal(taken(today), "");
    for (unsigned i = 0; i < NAME_SET_MAX + 10; i++) {
        snprintf(resource, sizeof resource, "r%u:", i);
        done("a", resource);
        taken(today);
        assert_string_equal(strchr(text, '='), "=acquired 1 ;");
        assert_true((strncmp(text, "hf.others||=", 12) == 0) == (i >= NAME_SET_MAX - 1));
    }
    done("a", "r0:");
    done("a", "new:");
    assert_string_equal(taken(tomorrow), "hf.others||=acquired 1 ;a|r0:|=acquired 1 ;");
    done("a", "new:");
    assert_string_equal(taken(tomorrow), "a|new:|=acquired 1 ;");
}

TEST(counts_have_the_names_of_their_fields)
{
    static const char *const names[] = {"acquired", "waited", "parked", "handed_over", "skipped", "lost", "fenced_off"};
    for (unsigned i = 0; i < TALLY_LOCK_COUNTS; i++)
        assert_string_equal(tally_count_name((enum tally_count)i), names[i]);
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

TEST(runs_are_counted_by_the_class_that_dashboards_show)
{
    struct observed_task task = task_of("wrapper", NULL);
    task.shown_class = "inner|";
    tally_task(tally, &task);
    task.has_failed = true;
    tally_task(tally, &task);
    task.shown_class = NULL; /* it comes again, and was no failure */
    tally_task(tally, &task);
    struct tally_rows runs = tally_runs(tally);
    assert_int_equal(runs.count, 2);
    assert_false(runs.rows[NAME_SET_OTHERS].is_counted);
    assert_string_equal(runs.rows[1].name, "inner_");
    assert_int_equal(runs.rows[1].counts[TALLY_RUNS], 2);
    assert_int_equal(runs.rows[1].counts[TALLY_FAILED], 1);
    assert_int_equal(runs.rows[1].times[TALLY_RUN]->count, 1);
    assert_int_equal(runs.rows[1].times[TALLY_RUN]->sum_us, 5000);
    tally_taken(tally, today);
    assert_int_equal(tally_runs(tally).count, 1);
}

TEST(names_of_runs_are_bounded_until_they_are_taken)
{
    char name[16];
    for (unsigned i = 0; i < NAME_SET_MAX + 10; i++) {
        snprintf(name, sizeof name, "c%u", i);
        done(name, NULL);
    }
    struct tally_rows runs = tally_runs(tally);
    assert_int_equal(runs.count, NAME_SET_MAX);
    assert_string_equal(runs.rows[NAME_SET_OTHERS].name, "hf.others");
    assert_int_equal(runs.rows[NAME_SET_OTHERS].counts[TALLY_RUNS], 11);
    tally_taken(tally, today);
    done("new", NULL);
    assert_string_equal(tally_runs(tally).rows[1].name, "new");
}

TEST(runs_of_a_loaded_class_are_its_own_after_each_take)
{
    tally_class_add(tally, "echo");
    for (int i = 0; i < 2; i++) {
        if (i > 0)
            done("other", NULL);
        done("echo", NULL);
        done("echo", NULL);
        struct tally_rows runs = tally_runs(tally);
        assert_string_equal(runs.rows[runs.count - 1].name, "echo");
        assert_int_equal(runs.rows[runs.count - 1].counts[TALLY_RUNS], 2);
        tally_taken(tally, today);
    }
}

/* --- since the start ---------------------------------------------------------------------------------------------- */

TEST(a_class_is_itself_only_if_it_is_loaded)
{
    static struct tally_total total;
    tally_class_add(tally, "echo");
    tally_class_add(tally, "echo");
    tally_class_add(tally, "sleep");
    tally_class_add(tally, "one too many");
    assert_int_equal(tally_class_count(tally), 3);
    assert_string_equal(tally_class(tally, 2)->name, "sleep");
    struct observed_task task = task_of("sleep", NULL);
    task.queue = "low";
    tally_task(tally, &task);
    done("one too many", NULL);
    done("invented", NULL);
    tally_taken(tally, today);
    assert_int_equal(tally_endings(tally, 2, 1)[FLOW_DONE], 1);
    assert_int_equal(tally_endings(tally, 2, 0)[FLOW_DONE], 0);
    assert_int_equal(tally_endings(tally, NAME_SET_OTHERS, 0)[FLOW_DONE], 2);
    assert_int_equal(tally_class(tally, 2)->times[TALLY_RUN]->count, 1);
    tally_total(tally, &total);
    assert_int_equal(total.endings[FLOW_DONE], 3);
    assert_int_equal(total.counts[TALLY_RUNS], 3);
    assert_int_equal(total.times[TALLY_RUN].sum_us, 15000);
}

TEST(what_was_put_off_or_abandoned_is_no_run)
{
    static struct tally_total total;
    struct observed_task task = task_of("a", "x:1");
    task.waited_ns = 3 * NS_PER_MS;
    task.ended.ns = 0;
    tally_task(tally, &task);
    refused("a", "x:1", FLOW_PARKED);
    tally_total(tally, &total);
    assert_int_equal(total.counts[TALLY_RUNS], 0);
    assert_int_equal(total.times[TALLY_QUEUED].count, 1);
    assert_int_equal(total.times[TALLY_HOLD].count, 0);
}

TEST(a_failure_that_is_discarded_is_a_failure)
{
    static struct tally_total total;
    struct observed_task task = task_of("a", NULL);
    task.ending = FLOW_DISCARDED;
    tally_task(tally, &task);
    task.is_failure = true;
    tally_task(tally, &task);
    task.ending = FLOW_FAILED;
    tally_task(tally, &task);
    tally_total(tally, &total);
    assert_int_equal(total.endings[FLOW_DISCARDED], 1);
    assert_int_equal(total.endings[FLOW_FAILED], 2);
    assert_int_equal(tally_endings(tally, NAME_SET_OTHERS, 0)[FLOW_DISCARDED], 2); /* how they ended */
}

TEST(a_total_knows_when_work_began_and_ended_and_the_slowest_lock)
{
    static struct tally_total total;
    struct observed_task task = task_of("a", "quick");
    task.lock_took_ns = 10 * NS_PER_US;
    tally_task(tally, &task);
    task = task_of("a", "slow");
    task.claimed.ns = 7;
    task.left.ns = 9 * NS_PER_S;
    task.lock_took_ns = 5 * NS_PER_MS;
    tally_task(tally, &task);
    task = task_of("a", "middling");
    task.left.ns = 10 * NS_PER_S;
    task.lock_took_ns = 3 * NS_PER_MS;
    tally_task(tally, &task);
    tally_total(tally, &total);
    assert_int_equal(total.first_claim.ns, 7);
    assert_int_equal(total.last_ending.ns, 10 * NS_PER_S);
    assert_int_equal(total.slowest_lock_us, 5000);
    assert_string_equal(total.slowest_resource, "slow");
    assert_int_equal(total.times[TALLY_LOCK].count, 3);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
