/* The page about a dry run: well-formed and bounded whatever is in the result, everything from outside stays text, and
 * what is drawn lies inside of what it is drawn in. */
#include "tests/support/test.h"

#include <math.h>

#include "base/memory.h"
#include "tests/support/dry_run_sample.h"
#include "tests/support/markup_check.h"
#include "worker/dry_run/report/plan_about.h"
#include "worker/dry_run/report/plot.h"
#include "worker/dry_run/report/result_page.h"

static struct result result;
static struct buffer out;

static void tear_down(void)
{
    result_fini(&result);
    buffer_fini(&out);
}

static const char *page_of(enum sample_kind kind)
{
    tear_down();
    dry_run_sample(kind, &result);
    result_page_write(&result, &out);
    return buffer_text(&out);
}

static void assert_good(const char *page)
{
    char *wrong = markup_check(page);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    assert_true(strlen(page) < RESULT_PAGE_MAX);
    assert_null(strstr(page, "nan"));
    assert_null(strstr(page, "inf"));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "http"));
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is missing", part);
}

/* Every number of such an attribute lies between the two. */
static void assert_inside(const char *page, const char *attribute, double low, double high)
{
    size_t found = 0;
    for (const char *at = page; (at = strstr(at, attribute)) != NULL; at += strlen(attribute), found++) {
        double value = strtod(at + strlen(attribute), NULL);
        if (!(value >= low && value <= high))
            fail_msg("%.60s", at);
    }
    assert_true(found > 0);
}

TEST(every_page_is_good)
{
    for (enum sample_kind kind = 0; kind < SAMPLE_KINDS; kind++)
        assert_good(page_of(kind));
}

TEST(the_answer_and_every_plot_are_there)
{
    static const char *const parts[] = {"<p class=\"answer tone-warn\">The resource r0 is the bottleneck",
                                        "<li>More threads would not help",
                                        "Wait for a lock, from the push",
                                        "<figcaption>Hold<",
                                        "Acquiring from the lock nodes",
                                        "Extending a lock",
                                        "Throughput",
                                        "Runners that run a task",
                                        "Share of the time that a resource is held",
                                        "Mean wait for a resource against",
                                        "How fast the nodes answer",
                                        "What the lock nodes answered",
                                        "Throughput with more or fewer threads",
                                        "lock node 3 stopped for 3s",
                                        "warm-up: not measured",
                                        "p99.9 127 ms",
                                        "<summary>80 more</summary>",
                                        "prefers-color-scheme:dark",
                                        "--seed 42"};
    const char *page = page_of(SAMPLE_FULL);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_has(page, parts[i]);
    assert_int_equal(markup_count(page, "figure"), 16);
}

TEST(what_is_not_known_is_left_out)
{
    const char *page = page_of(SAMPLE_EMPTY);
    assert_int_equal(markup_count(page, "figure"), 0);
    assert_has(page, "Nothing was measured");
    assert_null(strstr(page, "<h2>Resources"));
    page = page_of(SAMPLE_ONE);
    assert_null(strstr(page, "How fast the nodes answer"));
    assert_has(page, "Mean wait for a resource");
    assert_has(page_of(SAMPLE_STOPPED), "It was interrupted");
}

TEST(hostile_texts_stay_texts)
{
    const char *page = page_of(SAMPLE_HOSTILE);
    assert_null(strstr(page, "\xe2\x80\xae"));
    assert_null(strchr(page, '\x1b'));
    assert_has(page, "&lt;script&gt;alert(1)&lt;/script&gt;");
}

TEST(long_names_are_cut_and_whole_in_titles)
{
    char name[301];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    page_of(SAMPLE_ONE);
    free(result.resources[0].name);
    result.resources[0].name = memory_text(name);
    buffer_clear(&out);
    result_page_write(&result, &out);
    assert_has(buffer_text(&out), "text-anchor=\"end\">xxxxxxxxxxxxxxxx~<title>xxxxxxxxxxxxxxxxxxxxxxxx");
}

TEST(what_is_drawn_stays_inside)
{
    const char *page = page_of(SAMPLE_FULL);
    assert_inside(page, " x1=\"", 0, PLOT_WIDTH);
    assert_inside(page, " cx=\"", 0, PLOT_WIDTH);
    assert_inside(page, " cy=\"", 0, 600);
    assert_inside(page, " height=\"", 0, 600);
}

/* Numbers that a file can hold and no run can have. */
static void spoil(double *numbers, size_t count)
{
    static const double odd[] = {1e308, -1e308, 5e-324, 0, -1, 1e15, 1};
    for (size_t i = 0; i < count; i++)
        numbers[i] = odd[i % (sizeof odd / sizeof odd[0])];
}

TEST(odd_numbers_are_drawn_inside)
{
    page_of(SAMPLE_FULL);
    for (size_t i = 0; i < result.second_count; i++)
        spoil(&result.seconds[i].at, sizeof result.seconds[i] / sizeof(double) - i % 3);
    for (size_t i = 0; i < result.resource_count; i++) {
        spoil(&result.resources[i].load, 3);
        spoil(&result.resources[i].wait_mean, 4 - i % 3);
        result.resources[i].expected = (struct result_expected){true, i % 2 ? 1e300 : -5, i % 3 ? 1e-300 : 1e300, -1};
        result.resources[i].arrived = INT64_MAX;
    }
    for (unsigned i = 0; i < result.point_count; i++)
        result.points[i] = (struct result_point){0, 0, 1e308, -1e308, 1e-320, 7, {true, 1, 1e308, -1e300}};
    for (unsigned i = 0; i < result.fault_count; i++) {
        result.faults[i].at = i % 2 ? -1e308 : 1e308;
        result.faults[i].fault.lasts_ns = result.faults[i].fault.amount_ns = INT64_MIN;
    }
    for (unsigned i = 0; i < result.node_count; i++)
        spoil(&result.nodes[i].latency.mean, 6);
    result.wait.p50 = -1e308;
    result.wait.p99 = 1e308;
    result.wait.histogram->counts[0] = INT64_MAX / 2;
    result.headroom = 1e308;
    buffer_clear(&out);
    result_page_write(&result, &out);
    char *wrong = markup_check(buffer_text(&out));
    if (wrong != NULL)
        fail_msg("%s", wrong);
    assert_inside(buffer_text(&out), " x1=\"", 0, PLOT_WIDTH);
    assert_inside(buffer_text(&out), " cx=\"", 0, PLOT_WIDTH);
    assert_inside(buffer_text(&out), " cy=\"", 0, 600);
}

/* --- plots -------------------------------------------------------------------------------------------------------- */

TEST(ticks_are_round)
{
    struct plot plot = {.title = "t", .x = {.unit = PLOT_SECONDS}, .y = {.unit = PLOT_NUMBER}, .out = &out};
    plot_axis_see(&plot.x, 0);
    plot_axis_see(&plot.x, 19);
    plot_axis_see(&plot.y, 3);
    plot_axis_see(&plot.y, 1730);
    plot_axis_from_zero(&plot.y);
    plot_begin(&plot);
    plot_end(&plot);
    static const char *const ticks[] = {">0<",   ">5 s<", ">10 s<", ">15 s<", ">20 s<",
                                        ">500<", ">1k<",  ">1.5k<", ">2k<"};
    for (size_t i = 0; i < sizeof ticks / sizeof ticks[0]; i++)
        assert_has(buffer_text(&out), ticks[i]);
    assert_null(strstr(buffer_text(&out), ">25 s<"));
    assert_true(fabs(plot_x(&plot, 20) - (PLOT_WIDTH - 14)) < 0.01);
}

TEST(logarithmic_ticks_are_decades_and_what_fits_between)
{
    struct plot plot = {.title = "t", .x = {.unit = PLOT_SECONDS, .is_log = true}, .out = &out};
    plot_axis_see(&plot.x, 0);
    plot_axis_see(&plot.x, -1);
    plot_axis_see(&plot.x, NAN);
    plot_axis_see(&plot.x, 0.0012);
    plot_axis_see(&plot.x, 0.019);
    plot_begin(&plot);
    static const char *const ticks[] = {">1 ms<", ">2 ms<", ">5 ms<", ">10 ms<", ">20 ms<"};
    for (size_t i = 0; i < sizeof ticks / sizeof ticks[0]; i++)
        assert_has(buffer_text(&out), ticks[i]);
    assert_null(strstr(buffer_text(&out), ">500 us<"));
    assert_true(fabs(plot_x(&plot, sqrt(0.001 * 0.02)) - (plot_x(&plot, 0.001) + plot_x(&plot, 0.02)) / 2) < 0.01);
}

TEST(numbers_of_ticks_are_short)
{
    static const struct {
        enum plot_unit unit;
        double value;
        const char *text;
    } cases[] = {{PLOT_SECONDS, 0, "0"},     {PLOT_SECONDS, 2e-5, "20 us"},  {PLOT_SECONDS, 0.05, "50 ms"},
                 {PLOT_SECONDS, 90, "90 s"}, {PLOT_SECONDS, 1200, "20 min"}, {PLOT_SECONDS, 7200, "2 h"},
                 {PLOT_SHARE, 0.4, "40 %"},  {PLOT_SHARE, 0.025, "2.5 %"},   {PLOT_NUMBER, 1500, "1.5k"},
                 {PLOT_NUMBER, 2e6, "2M"},   {PLOT_NUMBER, -20, "-20"}};
    char text[PLOT_TEXT_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(plot_number_text(cases[i].unit, cases[i].value, text), cases[i].text);
}

TEST(lines_are_broken_where_there_is_no_number)
{
    struct plot plot = {.title = "t", .x = {.low = 0, .high = 4}, .y = {.low = 0, .high = 1}, .out = &out};
    double x[] = {0, 1, 2, 3, 4}, y[] = {0, 1, NAN, 1, 0};
    plot_begin(&plot);
    buffer_clear(&out);
    plot_line(&plot, &(struct plot_line){.name = "n", .x = x, .y = y, .count = 5});
    const char *path = strstr(buffer_text(&out), " d=\"M");
    assert_non_null(path);
    assert_non_null(strchr(path + 5, 'M'));
    assert_int_equal(markup_count(buffer_text(&out), "path"), 1);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

TEST(the_command_says_all_of_the_plan)
{
    page_of(SAMPLE_FULL);
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
    assert_string_equal(buffer_text(&out),
                        "holdfast dry-run --private=5 --for 22s --warm-up 2s --processes 2 --threads 16 --hosts 2 "
                        "--rate 770/s --resources 100 --zipf 1.1 --hold exp:5ms --seed 42 --fault 8s:stop:lock3:3s "
                        "--fault 9s:clock:queue:-5s --fault 9s:kill:worker2 --what-if threads=8,16");
}

TEST(checks_that_crash_are_told)
{
    page_of(SAMPLE_ONE);
    assert_null(strstr(buffer_text(&out), "check()"));
    buffer_clear(&out);
    snprintf(result.crashed_checks, sizeof result.crashed_checks, "transfer (SIGSEGV) for 2 tasks");
    result_page_write(&result, &out);
    assert_contains(buffer_text(&out), "The check() of arguments crashed in transfer (SIGSEGV) for 2 tasks");
}

RUN_TESTS_BETWEEN(NULL, tear_down)
