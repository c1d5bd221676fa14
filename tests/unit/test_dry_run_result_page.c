/* The page about a dry run: its data are the result, bounded, and the report as text is in it, whatever is in the
 * result. */
#include "tests/support/test.h"

#include <math.h>

#include "base/memory.h"
#include "tests/support/dry_run_sample.h"
#include "tests/support/page_check.h"
#include "worker/dry_run/report/plan_about.h"
#include "worker/dry_run/report/result_json.h"

static struct result result;
static struct buffer out;

static void tear_down(void)
{
    result_fini(&result);
    buffer_fini(&out);
}

/* The data of the page; to be freed. */
static char *data_of(const struct result *shown)
{
    buffer_clear(&out);
    result_page_write(shown, &out);
    assert_true(out.length < RESULT_PAGE_MAX);
    return page_data(buffer_text(&out));
}

/* The result in the data of a page, which end with it. */
static char *result_in(char *data)
{
    char *found = strstr(data, ",\"result\":");
    assert_non_null(found);
    data[strlen(data) - 1] = '\0';
    return found + strlen(",\"result\":");
}

static void assert_shown_as_it_is(void)
{
    struct buffer json = {0};
    char *data = data_of(&result);
    result_json_write(&result, &json);
    assert_string_equal(result_in(data), buffer_text(&json));
    buffer_fini(&json);
    free(data);
}

TEST(the_data_are_the_result)
{
    for (enum sample_kind kind = 0; kind < SAMPLE_KINDS; kind++) {
        tear_down();
        dry_run_sample(kind, &result);
        if (kind != SAMPLE_MANY)
            assert_shown_as_it_is();
    }
}

TEST(words_that_are_made_here_are_beside_it)
{
    dry_run_sample(SAMPLE_FULL, &result);
    char *data = data_of(&result);
    assert_contains(data, "{\"tone\":\"warn\",\"about\":\"a rehearsal on 5 private lock nodes: ");
    assert_contains(data, "\"command\":\"holdfast dry-run --private=5 ");
    assert_contains(data, "\"faults\":[\"lock node 3 stopped for 3s\"");
    free(data);
}

/* A long run: seconds are put together, percentiles as the worst of them, all else as their mean. */
TEST(a_page_is_bounded)
{
    struct result shown;
    struct error error = ERROR_NONE;
    dry_run_sample(SAMPLE_MANY, &result);
    for (size_t i = 0; i < 6; i++) {
        result.seconds[i].ended = (double)i;
        result.seconds[i].wait_p99 = (double)(10 - i);
    }
    char *data = data_of(&result), *json = result_in(data);
    assert_true(result_read(json, strlen(json), &shown, &error));
    assert_int_equal(shown.second_count, 600);
    assert_true(fabs(shown.seconds[0].ended - 2.5) < 1e-9);
    assert_true(fabs(shown.seconds[0].wait_p99 - 10) < 1e-9);
    assert_int_equal(shown.resource_count, 300);
    assert_int_equal(shown.resources_left_out, 4321 + 700);
    assert_string_equal(shown.resources[299].name, result.resources[299].name);
    result_fini(&shown);
    free(data);
}

TEST(the_report_as_text_is_there)
{
    dry_run_sample(SAMPLE_FULL, &result);
    free(data_of(&result));
    char *text = page_text(buffer_text(&out));
    static const char *const parts[] = {"The resource r0 is the bottleneck",
                                        "\nTOTALS\n",
                                        "\nHOW LONG ",
                                        "\nRESOURCE 20/100 ",
                                        "\nNODE ",
                                        "\nHOST ",
                                        "lock3 stood still for 3.0 s",
                                        "\nWHAT IF ",
                                        "THE DRY RUN ITSELF",
                                        "\nholdfast dry-run --private=5",
                                        "tasks/s (expected"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_contains(text, parts[i]);
    free(text);
}

TEST(hostile_texts_stay_texts)
{
    dry_run_sample(SAMPLE_HOSTILE, &result);
    memset(result.nodes[0].name, 0xff, sizeof result.nodes[0].name - 1);
    free(result.resources[0].name);
    result.resources[0].name = memset(memory_zeroed(65537, 1), '<', 65536);
    char *data = data_of(&result), *text = page_text(buffer_text(&out));
    assert_contains(data, "<script>alert(1)</script>");
    assert_contains(text, "&lt;script>alert(1)&lt;/script>");
    assert_int_equal(strspn(strstr(data, "<<<"), "<"), 65536);
    free(data);
    free(text);
}

/* What no run can have, a file can. */
TEST(odd_numbers_are_numbers_or_null)
{
    static const double odd[] = {1e308, -1e308, 5e-324, -1, 1e15, NAN, INFINITY};
    dry_run_sample(SAMPLE_FULL, &result);
    for (size_t i = 0; i < result.second_count; i++)
        result.seconds[i].wait_p99 = result.seconds[i].ended = odd[i % (sizeof odd / sizeof odd[0])];
    result.wait.p50 = NAN;
    result.headroom = INFINITY;
    char *data = data_of(&result);
    assert_contains(data, "\"headroom\":null");
    assert_contains(data, "\"ended\":1e+308");
    free(data);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

TEST(the_command_says_all_of_the_plan)
{
    dry_run_sample(SAMPLE_FULL, &result);
    buffer_clear(&out);
    result.plan.faults[0] = (struct dry_run_fault){
        .kind = DRY_RUN_FAULT_STOP, .at_ns = 8 * NS_PER_S, .lasts_ns = 3 * NS_PER_S, .number = 3};
    result.plan.faults[1] = (struct dry_run_fault){
        .kind = DRY_RUN_FAULT_CLOCK, .at_ns = 9 * NS_PER_S, .amount_ns = -5 * NS_PER_S, .number = 0};
    result.plan.faults[2] =
        (struct dry_run_fault){.kind = DRY_RUN_FAULT_KILL, .at_ns = 9 * NS_PER_S, .at_worker = true, .number = 2};
    result.plan.fault_count = 3;
    result.plan.points[0] = 8;
    result.plan.points[1] = 16;
    result.plan.point_count = 2;
    plan_command(&result.plan, &out);
    assert_string_equal(
        buffer_text(&out),
        "holdfast dry-run --private=5 --for 22s --warm-up 2s --processes 2 --threads 16 --name NAME --hosts 2 "
        "--rate 770/s --resources 100 --zipf 1.1 --hold exp:5ms --seed 42 --fault 8s:stop:lock3:3s "
        "--fault 9s:clock:queue:-5s --fault 9s:kill:worker2 --what-if threads=8,16");
}

RUN_TESTS_BETWEEN(NULL, tear_down)
