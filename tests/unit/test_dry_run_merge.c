/* Results of hosts of one run are joined: counts are added, spreads are those of all, and the answer is that of the
 * whole. Results of different runs are not. */
#include "tests/support/test.h"

#include <math.h>

#include "base/memory.h"
#include "tests/support/dry_run_sample.h"
#include "worker/dry_run/count/merge.h"
#include "worker/dry_run/report/result_json.h"

static struct result one, other;

/* As of two hosts of one run: of the other the locks were wanted half as often. */
static int set_up(void **state)
{
    (void)state;
    struct result *const both[] = {&one, &other};
    for (unsigned i = 0; i < 2; i++) {
        struct result *result = both[i];
        dry_run_sample(SAMPLE_FULL, result);
        result->host_count = 1;
        result->plan.hosts = 2;
        snprintf(result->plan.run_id, sizeof result->plan.run_id, "0123456789ab");
        snprintf(result->hosts[0].id, sizeof result->hosts[0].id, "%012u", i);
        result->began_us = 1234567;
        result->fault_count = 0;
        result->overheads =
            (struct result_overheads){.arrivals = 100, .together = 1, .tries = 1, .base = {10, 0.01, 0.00002}};
    }
    for (size_t i = 0; i < other.resource_count; i++)
        other.resources[i].load /= 2;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    result_fini(&one);
    result_fini(&other);
    return 0;
}

static void merge(void)
{
    struct error error = ERROR_NONE;
    if (!result_merge(&one, &other, &error))
        fail_msg("%s", error.text);
    result_merge_end(&one);
}

static void assert_refused(const char *why)
{
    struct error error = ERROR_NONE;
    assert_false(result_merge(&one, &other, &error));
    assert_contains(error.text, why);
    assert_int_equal(one.host_count, 1);
}

static void assert_near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-9 * fabs(wanted)))
        fail_msg("%g and not %g", value, wanted);
}

TEST(counts_and_rates_are_added)
{
    uint64_t pushed = one.pushed, count = one.wait.count, requests = one.nodes[1].requests;
    double throughput = one.throughput, ended = one.seconds[3].ended, rate = one.plan.rate;
    size_t resources = one.resource_count;
    merge();
    assert_int_equal(one.pushed, 2 * pushed);
    assert_int_equal(one.wait.count, 2 * count);
    assert_int_equal(one.wait.histogram->count, 2 * count);
    assert_int_equal(one.nodes[1].requests, 2 * requests);
    assert_int_equal(one.host_count, 2);
    assert_int_equal(one.resource_count, resources);
    assert_int_equal(one.overheads.base.count, 20);
    assert_near(one.throughput, 2 * throughput);
    assert_near(one.seconds[3].ended, 2 * ended);
    assert_near(one.plan.rate, 2 * rate);
    assert_near(one.overheads.arrivals, 200);
}

TEST(means_are_those_of_all_and_errors_get_smaller)
{
    double mean = one.wait.mean, error = one.wait.mean_error, busy = one.utilisation, load = one.resources[0].load;
    assert_true(error > 0);
    other.wait.mean = 3 * mean;
    other.utilisation = 0;
    merge();
    assert_near(one.wait.mean, 2 * mean);
    assert_near(one.wait.mean_error, error / sqrt(2));
    assert_near(one.utilisation, busy / 2);
    assert_near(one.resources[0].load, 1.5 * load);
}

TEST(resources_of_one_host_are_there_too)
{
    free(other.resources[5].name);
    other.resources[5].name = memory_text("only there");
    other.resources[5].load = 1e6;
    size_t count = one.resource_count;
    merge();
    assert_int_equal(one.resource_count, count + 1);
    assert_string_equal(one.resources[0].name, "only there"); /* by load */
}

TEST(what_a_merge_cannot_know_it_says)
{
    bool is_said = false;
    merge();
    for (unsigned i = 0; i < one.advice_count; i++)
        is_said |= strstr(one.advice[i], "overlaps between their tasks") != NULL;
    assert_true(is_said);
}

TEST(a_part_of_the_hosts_is_no_answer)
{
    one.plan.hosts = other.plan.hosts = 3;
    one.expected.is_known = false; /* as of all parts */
    merge();
    assert_contains(one.answer, "This is a part: 2 of 3 hosts.");
    assert_false(one.expected.is_known);
    assert_int_equal(one.bottleneck, RESULT_UNKNOWN);
}

TEST(other_runs_are_refused)
{
    other.began_us++;
    assert_refused("these are not of one run");
    other.began_us--;
    other.plan.run_id[0] = 'f';
    assert_refused("these are not of one run");
    other.plan.run_id[0] = '0';
    other.plan.hosts = 3;
    assert_refused("these are not of one run");
    one.plan.hosts = other.plan.hosts = 1;
    assert_refused("these are not of one run");
    one.plan.hosts = other.plan.hosts = 2;
    memcpy(other.hosts[0].id, one.hosts[0].id, sizeof other.hosts[0].id);
    assert_refused("is there twice");
}

/* What is written is what was joined. */
TEST(the_whole_is_written_and_read_again)
{
    struct buffer json = {0};
    struct error error = ERROR_NONE;
    merge();
    result_json_write(&one, &json);
    if (!result_read(json.bytes, json.length, &other, &error))
        fail_msg("%s", error.text);
    assert_int_equal(other.began_us, one.began_us);
    assert_string_equal(other.hosts[1].id, one.hosts[1].id);
    assert_int_equal(other.overheads.base.count, 20);
    assert_near(other.overheads.arrivals, 200);
    buffer_fini(&json);
}

RUN_GROUP(NULL, NULL, set_up, tear_down)
