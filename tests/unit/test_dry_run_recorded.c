/* What was seen of a load, from logs and from results, as the load of a plan. */
#include "tests/support/test.h"

#include <math.h>

#include "base/memory.h"
#include "tests/support/dry_run_sample.h"
#include "tests/support/private_directory.h"
#include "worker/dry_run/load/recording.h"
#include "worker/dry_run/report/result_json.h"
#include "worker/history/history.h"

static struct history *history;
static struct recorded recorded;
static char directory[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 16];

static void set_up(void)
{
    history = history_create();
    recorded = (struct recorded){0};
    private_directory_create(directory);
    snprintf(path, sizeof path, "%s/file", directory);
}

static void tear_down(void)
{
    history_destroy(history);
    recorded_fini(&recorded);
    (void)unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

static void assert_near(double found, double wanted, double within)
{
    if (!(fabs(found - wanted) <= within))
        fail_msg("%.9g is not near %.9g", found, wanted);
}

static void add_hold(int64_t from_ms, int64_t lasts_ms, const char *resource, const char *other)
{
    const char *resources[] = {resource, other};
    history_add(history, &(struct history_hold){.process = "p",
                                                .class_name = "transfer",
                                                .jid = "j",
                                                .ending = "done",
                                                .resources = resources,
                                                .resource_count = resource == NULL ? 0
                                                                  : other == NULL  ? 1
                                                                                   : 2,
                                                .from = {1000000000 + from_ms * 1000},
                                                .to = {1000000000 + (from_ms + lasts_ms) * 1000},
                                                .held_us = -1,
                                                .is_locked = true});
}

static void read_history(void)
{
    struct error error = ERROR_NONE;
    history_order(history);
    if (!recorded_from_history(&recorded, history, &error))
        fail_msg("%s", error.text);
}

/* --- histories ---------------------------------------------------------------------------------------------------- */

TEST(holds_resources_and_rate_are_found)
{
    add_hold(0, 4, "b", NULL);
    add_hold(100, 1, "a", NULL);
    add_hold(200, 2, "b", NULL);
    add_hold(400, 3, "c", NULL);
    add_hold(500, 5, "b", NULL);
    read_history();
    assert_int_equal(recorded.tasks, 5);
    assert_near(recorded.rate, 4 / 0.5, 1e-9);
    assert_int_equal(recorded.resources_per_task, 1);
    assert_int_equal(recorded.hold.kind, DISTRIBUTION_MEASURED);
    assert_int_equal(recorded.hold.quantile_count, 5);
    assert_near(recorded.hold.quantiles[0], 0.001, 1e-12);
    assert_near(distribution_mean(&recorded.hold), 0.003, 1e-12);
    assert_int_equal(recorded.popularity.count, 3);
    assert_string_equal(recorded.popularity.names[0], "b");
    assert_near(recorded.popularity.weights[0], 3, 0);
    assert_string_equal(recorded.popularity.names[1], "a");
    assert_near(recorded.popularity.weights[1], 1, 0);
}

TEST(what_did_not_end_or_had_no_lock_does_not_count)
{
    const char *resource = "x";
    struct history_hold open = {.process = "p",
                                .resources = &resource,
                                .resource_count = 1,
                                .from = {5},
                                .to = {100000000},
                                .held_us = -1,
                                .is_locked = true,
                                .is_open = true};
    history_add(history, &open);
    open.is_open = open.is_locked = false;
    history_add(history, &open);
    add_hold(0, 9, NULL, NULL);
    struct error error = ERROR_NONE;
    history_order(history);
    assert_false(recorded_from_history(&recorded, history, &error));
    assert_contains(error.text, "worker.log_tasks is \"all\"");
    add_hold(0, 7, "a", NULL);
    read_history();
    assert_int_equal(recorded.tasks, 1);
    assert_near(distribution_mean(&recorded.hold), 0.007, 1e-12);
    assert_near(recorded.rate, 0, 0); /* one alone has none */
}

TEST(several_resources_a_task_are_rounded)
{
    add_hold(0, 1, "a", "b");
    add_hold(1, 1, "a", "c");
    add_hold(2, 1, "a", NULL);
    read_history();
    assert_int_equal(recorded.resources_per_task, 2);
    assert_near(recorded.popularity.weights[0], 3, 0);
}

TEST(names_that_no_resource_can_have_are_left_out)
{
    add_hold(0, 1, "a", "hf:x");
    add_hold(1, 1, "\xff\xfe", NULL);
    read_history();
    assert_int_equal(recorded.popularity.count, 1);
    assert_string_equal(recorded.popularity.names[0], "a");
}

TEST(of_very_many_resources_the_most_wanted_are_kept)
{
    char name[32];
    for (int i = 0; i < DRY_RUN_NAMED_MAX + 7; i++) {
        snprintf(name, sizeof name, "r%d", i);
        add_hold(i, 1, name, NULL);
    }
    add_hold(0, 1, "r3", NULL);
    read_history();
    assert_int_equal(recorded.popularity.count, DRY_RUN_NAMED_MAX);
    assert_int_equal(recorded.left_out, 7);
    assert_string_equal(recorded.popularity.names[0], "r3");
}

/* --- logs --------------------------------------------------------------------------------------------------------- */

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

TEST(a_log_is_read)
{
    write_file("2026-11-22T01:00:00.000Z info worker_started identity=north:17:abc\n"
               "2026-11-22T01:00:00.105Z info task_ended ending=done jid=a1 class=transfer ran_ms=4 fence=7 "
               "locked=2026-11-22T01:00:00.100Z released=2026-11-22T01:00:00.105Z held_ms=5.250 resource=account:1\n"
               "this is no line of a log \033[31m\n"
               "{\"time\":\"2026-11-22T01:00:01.103Z\",\"level\":\"info\",\"msg\":\"task_ended\",\"ending\":\"done\","
               "\"jid\":\"a2\","
               "\"class\":\"transfer\",\"ran_ms\":2.5,\"fence\":8,\"locked\":\"2026-11-22T01:00:01.100Z\","
               "\"released\":\"2026-11-22T01:00:01.103Z\",\"held_ms\":2.750,\"resource\":\"account:2\"}\n");
    struct error error = ERROR_NONE;
    if (!recorded_read_file(&recorded, path, &error))
        fail_msg("%s", error.text);
    assert_int_equal(recorded.tasks, 2);
    assert_near(recorded.rate, 1, 1e-9);
    assert_near(distribution_mean(&recorded.hold), 0.004, 1e-12);
    assert_int_equal(recorded.popularity.count, 2);
}

TEST(a_log_that_was_summed_up_is_refused)
{
    write_file("2026-11-22T01:00:00.105Z info task_ended ending=done jid=a1 class=transfer ran_ms=4 fence=7 "
               "locked=2026-11-22T01:00:00.100Z released=2026-11-22T01:00:00.105Z held_ms=5.250 resource=account:1\n"
               "2026-11-22T01:00:01.105Z info tasks_summed done=300 skipped=0 snoozed=0 ran_ms=100 "
               "since=2026-11-22T01:00:00.105Z until=2026-11-22T01:00:01.105Z\n");
    struct error error = ERROR_NONE;
    assert_false(recorded_read_file(&recorded, path, &error));
    assert_contains(error.text, "record with worker.log_tasks = \"all\"");
}

TEST(files_that_hold_nothing_are_refused)
{
    static const char *const hostile[] = {"", "\n\n\n", "task_started jid=a resource=b\n",
                                          "2026-11-22T01:00:00.000Z debug task_started jid=a1 resource=account:1\n"};
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct error error = ERROR_NONE;
        write_file(hostile[i]);
        assert_false(recorded_read_file(&recorded, path, &error));
        assert_contains(error.text, "/file: there is no lock in it that was taken and ended");
    }
    struct error error = ERROR_NONE;
    (void)unlink(path);
    assert_false(recorded_read_file(&recorded, path, &error));
    assert_contains(error.text, "No such file");
    error = ERROR_NONE;
    assert_false(recorded_read_file(&recorded, directory, &error));
    assert_contains(error.text, "Is a directory");
}

/* --- results ------------------------------------------------------------------------------------------------------ */

TEST(a_result_is_repeated)
{
    static struct histogram histogram;
    histogram = (struct histogram){0};
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        double us = -5000 * log1p(-(i + 0.5) / 10000); /* exponential, 5 ms */
        histogram_record(&histogram, (int64_t)us);
        sum += us / 1e6;
    }
    struct result_resource resources[] = {{.name = (char[]){"hot"}, .arrived = 90},
                                          {.name = (char[]){"cold"}, .arrived = 10},
                                          {.name = (char[]){"idle"}, .arrived = 0}};
    struct result result = {.measured_for = 10,
                            .hold = {.count = 10000, .mean = sum / 10000, .histogram = &histogram},
                            .resources = resources,
                            .resource_count = 3,
                            .plan = {.resources_per_task = 1, .rate = 200}};
    struct error error = ERROR_NONE;
    if (!recorded_from_result(&recorded, &result, &error))
        fail_msg("%s", error.text);
    assert_near(recorded.rate, 200, 1e-9);
    assert_int_equal(recorded.popularity.count, 2);
    assert_string_equal(recorded.popularity.names[0], "hot");
    assert_near(recorded.popularity.weights[0], 90, 0);
    assert_near(distribution_mean(&recorded.hold), sum / 10000, 1e-9);
    assert_near(distribution_second_moment(&recorded.hold), 50e-6, 50e-6 * 0.02);
    assert_near(distribution_at(&recorded.hold, 0.5), 0.005 * log(2), 0.005 * log(2) * 0.02);
    assert_near(distribution_at(&recorded.hold, 0.99), 0.005 * log(100), 0.005 * log(100) * 0.02);
}

/* All in one step of the histogram: nothing says where in it. */
TEST(holds_of_one_step_are_spread_over_it)
{
    static struct histogram histogram;
    histogram = (struct histogram){0};
    for (int i = 0; i < 100; i++)
        histogram_record(&histogram, 10000 + 2 * i);
    struct result_resource resource = {.name = (char[]){"a"}, .arrived = 1};
    struct result result = {
        .hold = {.count = 100, .mean = 0.0101, .histogram = &histogram}, .resources = &resource, .resource_count = 1};
    struct error error = ERROR_NONE;
    assert_true(recorded_from_result(&recorded, &result, &error));
    double least = distribution_at(&recorded.hold, 0), most = distribution_at(&recorded.hold, 0.999);
    assert_true(least < most && most < least * 1.04);
    assert_near(distribution_mean(&recorded.hold), 0.0101, 1e-9);
}

TEST(results_without_holds_are_refused)
{
    static struct histogram histogram;
    histogram = (struct histogram){0};
    struct result result = {.measured_for = 10};
    struct error error = ERROR_NONE;
    assert_false(recorded_from_result(&recorded, &result, &error));
    assert_contains(error.text, "nothing was held in that run");
    result.hold.histogram = &histogram;
    error = ERROR_NONE;
    assert_false(recorded_from_result(&recorded, &result, &error));
    assert_contains(error.text, "nothing was held in that run");
    histogram_record(&histogram, 0); /* a hold of no length */
    error = ERROR_NONE;
    assert_false(recorded_from_result(&recorded, &result, &error));
    assert_contains(error.text, "no task of that run wanted a resource");
    struct result_resource resource = {.name = (char[]){"a"}, .arrived = 1};
    result.resources = &resource;
    result.resource_count = 1;
    error = ERROR_NONE;
    assert_true(recorded_from_result(&recorded, &result, &error));
    assert_near(distribution_mean(&recorded.hold), 0, 1e-6);
}

/* What pushed it goes before what could be counted; a shadow has only that. */
TEST(arrivals_are_those_of_the_run)
{
    struct result result;
    struct error error = ERROR_NONE;
    dry_run_sample(SAMPLE_FULL, &result);
    result.plan.arrivals = DRY_RUN_CLOSED;
    result.plan.population = 77;
    assert_true(recorded_from_result(&recorded, &result, &error));
    assert_int_equal(recorded.population, 77);
    assert_near(recorded.rate, 0, 0);
    struct dry_run_plan plan;
    plan_init(&plan);
    recorded_apply(&recorded, &plan);
    plan_complete(&plan);
    assert_int_equal(plan.arrivals, DRY_RUN_CLOSED);
    assert_int_equal(plan.population, 77);
    plan_fini(&plan);
    recorded_fini(&recorded);
    result.plan.kind = DRY_RUN_SHADOW;
    for (size_t i = 0; i < result.second_count; i++)
        result.seconds[i].pushed = i < 10 ? (double)(i % 2) * 100 : 0; /* the last that came is in the 10th second */
    assert_true(recorded_from_result(&recorded, &result, &error));
    assert_near(recorded.rate, 50, 1e-9);
    assert_int_equal(recorded.population, 0);
    result_fini(&result);
}

TEST(a_file_with_a_result_is_read)
{
    struct result result;
    struct buffer json = {0};
    struct error error = ERROR_NONE;
    dry_run_sample(SAMPLE_FULL, &result);
    result_json_write(&result, &json);
    write_file(buffer_text(&json));
    if (!recorded_read_file(&recorded, path, &error))
        fail_msg("%s", error.text);
    assert_near(recorded.rate, result.plan.rate, 0);
    assert_int_equal(recorded.popularity.count, 100);
    assert_near(distribution_mean(&recorded.hold), result.hold.mean, 1e-9);
    recorded_fini(&recorded);
    buffer_text(&json);
    json.bytes[json.length / 2] = '\0';
    write_file(json.bytes); /* half of it */
    assert_false(recorded_read_file(&recorded, path, &error));
    assert_contains(error.text, "/file: this is no JSON, or not all of it");
    result_fini(&result);
    buffer_fini(&json);
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

TEST(it_becomes_the_load_of_a_plan)
{
    struct dry_run_plan plan;
    plan_init(&plan);
    distribution_measure(&plan.hold, (double[]){1, 2}, 2);
    popularity_weigh(&plan.popularity, &(struct popular){"former", 1}, 1);
    add_hold(0, 4, "a", "b");
    add_hold(500, 4, "a", "b");
    read_history();
    recorded_apply(&recorded, &plan);
    recorded_fini(&recorded);
    plan_complete(&plan);
    assert_int_equal(plan.arrivals, DRY_RUN_OPEN);
    assert_near(plan.rate, 2, 1e-9);
    assert_int_equal(plan.resources_per_task, 2);
    assert_near(distribution_mean(&plan.hold), 0.004, 1e-12);
    assert_string_equal(plan.popularity.names[popularity_at(&plan.popularity, 0.9, NULL, 0)], "b");
    plan_fini(&plan);
}

TEST(without_a_rate_the_loop_stays_closed)
{
    struct dry_run_plan plan;
    plan_init(&plan);
    add_hold(0, 4, "a", NULL);
    read_history();
    recorded_apply(&recorded, &plan);
    assert_int_equal(plan.arrivals, DRY_RUN_CLOSED);
    plan_fini(&plan);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
