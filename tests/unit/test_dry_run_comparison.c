/* The intervals of two runs of the same overlap; those of runs that differ do not. */
#include "tests/support/test.h"

#include <math.h>

#include "base/memory.h"
#include "tests/support/dry_run_sample.h"
#include "worker/dry_run/report/comparison.h"

/* --- runs that never were: lines with one server each ----------------------------------------------------------- */

enum { LINES = 3, PAIRS = 300 };

struct world {
    double rate, hold, seconds;
    double share[LINES]; /* of the tasks */
};

static const struct world usual = {.rate = 330, .hold = 0.005, .seconds = 18, .share = {0.45, 0.35, 0.2}};

static uint64_t chance_state;

static double chance(void)
{
    uint64_t bits = (chance_state += 0x9e3779b97f4a7c15U);
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
    return ((double)((bits ^ (bits >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double exponential(double mean)
{
    return -mean * log(chance());
}

struct course {
    double free_at[LINES];
    struct batch_means waits[LINES], all_waits, holds;
    double wait_sum[LINES], hold_sum[LINES], hold_squares[LINES];
    unsigned count[LINES];
};

static void spread_take(struct result_spread *spread, struct batch_means *means, double value)
{
    if (spread->histogram == NULL)
        spread->histogram = memory_new(struct histogram);
    histogram_record(spread->histogram, llround(value * 1e6));
    batch_means_add(means, value);
}

static void spread_end(struct result_spread *spread, const struct batch_means *means)
{
    spread->count = spread->histogram->count;
    spread->mean = (double)spread->histogram->sum_us / (double)spread->count / 1e6;
    spread->mean_error = batch_means_error(means);
}

static void resources_end(struct result *result, const struct world *world, const struct course *course)
{
    result->resources = memory_zeroed(LINES, sizeof *result->resources);
    result->resource_count = LINES;
    for (unsigned i = 0; i < LINES; i++) {
        struct result_resource *resource = &result->resources[i];
        char name[8];
        snprintf(name, sizeof name, "r%u", i);
        *resource = (struct result_resource){.name = memory_text(name),
                                             .arrived = course->count[i],
                                             .held = course->count[i],
                                             .load = course->count[i] / world->seconds,
                                             .throughput = course->count[i] / world->seconds,
                                             .share_held = course->hold_sum[i] / world->seconds,
                                             .hold_second_moment = course->hold_squares[i] / course->count[i],
                                             .wait_mean = course->wait_sum[i] / course->count[i],
                                             .wait_error = batch_means_error(&course->waits[i])};
    }
}

static void task_play(struct result *result, const struct world *world, struct course *course, double at)
{
    double draw = chance(), hold = exponential(world->hold);
    unsigned line = draw < world->share[0] ? 0 : draw < world->share[0] + world->share[1] ? 1 : 2;
    double wait = fmax(course->free_at[line] - at, 0) + 0.0004;
    course->free_at[line] = at + wait + hold;
    course->count[line]++;
    course->wait_sum[line] += wait;
    course->hold_sum[line] += hold;
    course->hold_squares[line] += hold * hold;
    batch_means_add(&course->waits[line], wait);
    spread_take(&result->wait, &course->all_waits, wait);
    spread_take(&result->hold, &course->holds, hold);
    double end = course->free_at[line];
    if (end < world->seconds)
        result->seconds[(size_t)end].ended++;
}

static void play(const struct world *world, struct result *result)
{
    struct course *course = memory_new(struct course);
    *result = (struct result){.measured_for = world->seconds};
    plan_init(&result->plan);
    plan_complete(&result->plan);
    result->plan.warm_up_ns = 0;
    result->plan.for_ns = (int64_t)world->seconds * NS_PER_S;
    result->second_count = (size_t)world->seconds;
    result->seconds = memory_zeroed(result->second_count, sizeof *result->seconds);
    for (size_t i = 0; i < result->second_count; i++)
        result->seconds[i].at = (double)i;
    for (double at = exponential(1 / world->rate); at < world->seconds; at += exponential(1 / world->rate))
        task_play(result, world, course, at);
    for (size_t i = 0; i < result->second_count; i++)
        result->throughput += result->seconds[i].ended / world->seconds;
    spread_end(&result->wait, &course->all_waits);
    spread_end(&result->hold, &course->holds);
    resources_end(result, world, course);
    free(course);
}

/* --- how often what is said -------------------------------------------------------------------------------------- */

/* By more than chance. */
static bool differs(const struct comparison_row *row)
{
    bool is_known = row->before.is_known && row->after.is_known;
    return is_known && (row->before.high < row->after.low || row->after.high < row->before.low);
}

TEST(intervals_of_the_same_overlap)
{
    unsigned known = 0, apart = 0;
    chance_state = 20;
    for (unsigned i = 0; i < PAIRS; i++) {
        struct result one, other;
        struct comparison comparison;
        play(&usual, &one);
        play(&usual, &other);
        comparison_make(&one, &other, &comparison);
        for (size_t row = 0; row < comparison.row_count; row++) {
            known += comparison.rows[row].before.is_known && comparison.rows[row].after.is_known;
            apart += differs(&comparison.rows[row]);
        }
        comparison_fini(&comparison);
        result_fini(&one);
        result_fini(&other);
    }
    assert_true(known > PAIRS * 14);
    if (apart > known / 50)
        fail_msg("%u of %u numbers", apart, known);
}

static const struct comparison_row *row_find(const struct comparison *comparison, const char *name, const char *what)
{
    for (size_t i = 0; i < comparison->row_count; i++)
        if (strcmp(comparison->rows[i].name, name) == 0 && strcmp(comparison->rows[i].what, what) == 0)
            return &comparison->rows[i];
    fail_msg("no row %s %s", name, what);
    return NULL;
}

/* The intervals of that row lie apart, and the second one above (by 1) or below, in so many of 40 pairs or more. */
static void assert_apart(const struct world *after, const char *name, const char *what, int side, unsigned least)
{
    enum { TRIES = 40 };
    unsigned apart = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        struct result one, other;
        struct comparison comparison;
        play(&usual, &one);
        play(after, &other);
        comparison_make(&one, &other, &comparison);
        const struct comparison_row *row = row_find(&comparison, name, what);
        apart += differs(row) && (row->after.value > row->before.value) == (side > 0);
        comparison_fini(&comparison);
        result_fini(&one);
        result_fini(&other);
    }
    if (apart < least)
        fail_msg("%s %s: %u of %d, at least %u", name, what, apart, TRIES, least);
}

TEST(intervals_of_what_differs_lie_apart)
{
    struct world slower = usual, busier = usual, quicker = usual;
    slower.hold *= 1.3;
    busier.rate *= 1.2;
    quicker.hold *= 0.5;
    chance_state = 30;
    assert_apart(&slower, "", "mean hold", 1, 38);
    assert_apart(&slower, "", "p50 hold", 1, 28);
    assert_apart(&busier, "", "throughput", 1, 38);
    assert_apart(&quicker, "r0", "held", -1, 38);
    assert_apart(&quicker, "r0", "mean wait", -1, 30);
}

/* --- estimates ---------------------------------------------------------------------------------------------------- */

TEST(quantiles_of_few_values_are_not_known)
{
    struct histogram *histogram = memory_new(struct histogram);
    struct result_spread spread = {.histogram = histogram, .mean_error = 0.00001};
    for (int i = 1; i <= 100; i++)
        histogram_record(histogram, i * 100);
    spread.count = histogram->count;
    assert_true(estimate_of_quantile(&spread, 0.5).is_known);
    assert_false(estimate_of_quantile(&spread, 0.99).is_known);
    struct estimate median = estimate_of_quantile(&spread, 0.5);
    assert_true(median.low < 0.0042 && median.low > 0.0036 && median.high > 0.0058 && median.high < 0.0066);
    spread.mean_error = 0;
    assert_false(estimate_of_quantile(&spread, 0.5).is_known);
    free(histogram);
}

/* --- what is said ------------------------------------------------------------------------------------------------- */

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void told(enum sample_kind before, enum sample_kind after, struct buffer *text, struct buffer *json)
{
    struct result one, other;
    struct comparison comparison;
    dry_run_sample(before, &one);
    dry_run_sample(after, &other);
    snprintf(other.plan.id, sizeof other.plan.id, "000000000000");
    comparison_make(&one, &other, &comparison);
    comparison_text_write(&comparison, 100, false, text);
    comparison_json_write(&comparison, json);
    comparison_fini(&comparison);
    result_fini(&one);
    result_fini(&other);
}

TEST(the_same_result_has_the_same_plan)
{
    struct buffer text = {0}, json = {0};
    told(SAMPLE_FULL, SAMPLE_FULL, &text, &json);
    assert_has(buffer_text(&text), "The plans are the same.");
    assert_has(buffer_text(&json), "\"plans\":[]");
    buffer_fini(&text);
    buffer_fini(&json);
}

TEST(plans_that_differ_are_told_first)
{
    struct buffer text = {0}, json = {0};
    told(SAMPLE_ONE, SAMPLE_FULL, &text, &json);
    const char *plan = strstr(buffer_text(&text), "The plans differ");
    assert_non_null(plan);
    assert_true(plan < strstr(buffer_text(&text), "throughput"));
    assert_has(plan, ": 120, then 770");
    assert_null(strstr(plan, "- id"));
    assert_has(buffer_text(&text), "0 resources are in the first only, 99 in the second");
    assert_has(buffer_text(&json), "\"what\":\"throughput\",\"unit\":\"a second\",\"before\":{\"value\":");
    buffer_fini(&text);
    buffer_fini(&json);
}

TEST(every_pair_of_results_can_be_compared)
{
    for (enum sample_kind one = 0; one < SAMPLE_KINDS; one++)
        for (enum sample_kind other = 0; other < SAMPLE_KINDS; other++) {
            struct buffer text = {0}, json = {0};
            told(one, other, &text, &json);
            assert_null(strchr(buffer_text(&text), '\x1b'));
            assert_null(strchr(buffer_text(&json), '\x1b'));
            assert_null(strstr(buffer_text(&text), "nan"));
            buffer_fini(&text);
            buffer_fini(&json);
        }
}

RUN_TESTS
