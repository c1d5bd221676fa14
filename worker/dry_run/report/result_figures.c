/* Each figure is bounded: a histogram has some hundred bars, a course COURSE_POINTS_MAX points, in which seconds are
 * put together, and of resources the hottest are drawn. */
#include "worker/dry_run/report/result_figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/print/human.h"
#include "worker/dry_run/report/plan_about.h"
#include "worker/dry_run/report/plot.h"

enum { STEPS_PER_BAR = 8, BARS_MAX = HISTOGRAM_STEPS / STEPS_PER_BAR, NARROW_LEFT = 14 };
enum { COURSE_POINTS_MAX = 600, TITLE_MAX = 768 };

/* --- histograms --------------------------------------------------------------------------------------------------- */

/* Steps of 1 microsecond are too small to be seen. */
static double bar_top(unsigned bar)
{
    return (double)histogram_step_top((bar + 1) * STEPS_PER_BAR - 1) / 1e6;
}

static double bar_bottom(unsigned bar)
{
    return bar > 0 ? bar_top(bar - 1) : 1e-6;
}

/* The share of all in a bar, divided by how often it doubles from its bottom to its top: bars of different widths can
 * be compared so. */
static double bar_height(unsigned bar, uint64_t count, double all)
{
    return (double)count / all / log2(bar_top(bar) / bar_bottom(bar));
}

/* Returns the height of the highest. */
static double bars_count(const struct histogram *histogram, uint64_t counts[BARS_MAX], struct plot *plot)
{
    double most = 0;
    for (unsigned bar = 0; bar < BARS_MAX; bar++) {
        counts[bar] = 0;
        for (unsigned step = 0; step < STEPS_PER_BAR; step++)
            counts[bar] += histogram->counts[bar * STEPS_PER_BAR + step];
        if (counts[bar] == 0)
            continue;
        plot_axis_see(&plot->x, bar_bottom(bar));
        plot_axis_see(&plot->x, bar_top(bar));
        most = fmax(most, bar_height(bar, counts[bar], (double)histogram->count));
    }
    return most;
}

static void percentiles_mark(struct plot *plot, const struct result_spread *spread)
{
    const struct {
        const char *name;
        double value;
    } marks[] = {{"p50", spread->p50}, {"p90", spread->p90}, {"p99", spread->p99}, {"p99.9", spread->p999}};
    struct plot_mark drawn[sizeof marks / sizeof marks[0]];
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        char human[HUMAN_TEXT_MAX];
        drawn[i].x = marks[i].value;
        snprintf(drawn[i].text, sizeof drawn[i].text, "%s %.32s", marks[i].name, human_time(marks[i].value, human));
    }
    plot_marks(plot, drawn, sizeof drawn / sizeof drawn[0]);
}

/* The texts of the marks have the upper part for themselves. */
static bool spread_draw(const struct result_spread *spread, const char *title, unsigned colour, struct buffer *out)
{
    uint64_t counts[BARS_MAX];
    if (spread->histogram == NULL || spread->histogram->count == 0)
        return false;
    struct plot plot = {.title = title,
                        .x = {.unit = PLOT_SECONDS, .is_log = true},
                        .y = {.unit = PLOT_NUMBER, .label = "how often"},
                        .left = NARROW_LEFT,
                        .out = out};
    double all = (double)spread->histogram->count, most = bars_count(spread->histogram, counts, &plot);
    plot_axis_see(&plot.y, most * 1.35);
    plot_axis_from_zero(&plot.y);
    plot_begin(&plot);
    for (unsigned bar = 0; bar < BARS_MAX; bar++) {
        char text[TITLE_MAX], from[HUMAN_TEXT_MAX], to[HUMAN_TEXT_MAX], share[HUMAN_TEXT_MAX], count[HUMAN_TEXT_MAX];
        if (counts[bar] == 0)
            continue;
        snprintf(text, sizeof text, "%s to %s: %s (%s)", human_time(bar_bottom(bar), from),
                 human_time(bar_top(bar), to), human_share((double)counts[bar] / all, share),
                 human_count((int64_t)counts[bar], count));
        plot_bar(&plot, colour, bar_bottom(bar), bar_top(bar), bar_height(bar, counts[bar], all), text);
    }
    percentiles_mark(&plot, spread);
    plot_end(&plot);
    return true;
}

bool figures_of_times(const struct result *result, struct buffer *out)
{
    bool wait = spread_draw(&result->wait, "Wait for a lock, from the push", 0, out);
    bool hold = spread_draw(&result->hold, "Hold", 2, out);
    bool acquire = spread_draw(&result->acquire, "Acquiring from the lock nodes", 3, out);
    bool extend = spread_draw(&result->extend, "Extending a lock", 4, out);
    return wait || hold || acquire || extend;
}

/* --- the course --------------------------------------------------------------------------------------------------- */

enum merging { MERGE_MEAN, MERGE_MOST };

struct course_line {
    const char *name;
    size_t offset; /* of the double in struct result_second */
    enum merging merging;
    unsigned colour;
};

struct course {
    const struct result *result;
    size_t count, each; /* points, and seconds in one */
    double *x, *y;
};

static double merged(const struct course *course, const struct course_line *line, size_t point)
{
    size_t from = point * course->each, to = from + course->each;
    double sum = 0, most = 0, count = 0;
    for (size_t i = from; i < to && i < course->result->second_count; i++, count++) {
        double value = *(const double *)((const char *)&course->result->seconds[i] + line->offset);
        sum += value;
        most = value > most ? value : most;
    }
    return line->merging == MERGE_MEAN ? sum / count : most;
}

static void faults_draw(struct plot *plot, const struct result *result)
{
    for (unsigned i = 0; i < result->fault_count; i++) {
        const struct result_fault *fault = &result->faults[i];
        struct buffer about = {0};
        char text[TITLE_MAX], human[HUMAN_TEXT_MAX];
        if (!fault->was_done)
            continue;
        plan_fault_about(&fault->fault, &about);
        snprintf(text, sizeof text, "%s: %s. %s", human_time(fault->at, human), buffer_text(&about), fault->text);
        plot_span(plot, fault->at, fault->at + (double)fault->fault.lasts_ns / (double)NS_PER_S, true, text);
        buffer_fini(&about);
    }
}

static bool has_faults(const struct result *result)
{
    for (unsigned i = 0; i < result->fault_count; i++)
        if (result->faults[i].was_done)
            return true;
    return false;
}

static void warm_up_draw(struct plot *plot, const struct result *result)
{
    double warm_up = (double)result->plan.warm_up_ns / (double)NS_PER_S;
    if (warm_up > 0)
        plot_span(plot, 0, warm_up, false, "warm-up: not measured");
}

static bool has_values(const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            return true;
    return false;
}

/* On a logarithmic axis a 0 is no time at all, but a second in which nothing of the kind happened. */
static void course_draw(struct course *course, const char *title, struct plot_axis y, const struct course_line *lines,
                        size_t line_count, struct buffer *out)
{
    struct plot plot = {.title = title, .x = {.unit = PLOT_SECONDS, .is_exact = true}, .y = y, .out = out};
    size_t count = course->count;
    plot_axis_see(&plot.x, 0);
    for (size_t i = 0; i < count; i++)
        plot_axis_see(&plot.x, course->x[i]);
    for (size_t line = 0; line < line_count; line++)
        for (size_t i = 0; i < count; i++) {
            double value = merged(course, &lines[line], i);
            course->y[line * count + i] = y.is_log && value <= 0 ? NAN : value;
            plot_axis_see(&plot.y, course->y[line * count + i]);
        }
    if (!y.is_log)
        plot_axis_from_zero(&plot.y);
    plot_begin(&plot);
    warm_up_draw(&plot, course->result);
    faults_draw(&plot, course->result);
    for (size_t line = 0; line < line_count; line++)
        if (has_values(course->y + line * count, count))
            plot_line(&plot, &(struct plot_line){.name = lines[line].name,
                                                 .colour = lines[line].colour,
                                                 .x = course->x,
                                                 .y = course->y + line * count,
                                                 .count = count,
                                                 .has_points = count <= 60});
    if (has_faults(course->result))
        plot_name(&plot, 9, "fault");
    plot_end(&plot);
}

#define LINE(line_name, member, merge, colour_number)                                                                  \
    {                                                                                                                  \
        line_name, offsetof(struct result_second, member), merge, colour_number                                        \
    }
#define COURSE(course, title, y, lines, out) course_draw(course, title, y, lines, sizeof(lines) / sizeof(lines)[0], out)

static void courses_draw(struct course *course, struct buffer *out)
{
    static const struct course_line rates[] = {
        LINE("pushed", pushed, MERGE_MEAN, 8), LINE("ended", ended, MERGE_MEAN, 0),
        LINE("parked", parked, MERGE_MEAN, 1), LINE("handed over", handed_over, MERGE_MEAN, 2)};
    static const struct course_line waits[] = {LINE("p50", wait_p50, MERGE_MOST, 0),
                                               LINE("p99", wait_p99, MERGE_MOST, 1)};
    static const struct course_line waiting[] = {LINE("waiting tasks", waiting, MERGE_MEAN, 3)};
    static const struct course_line busy[] = {LINE("share of runners", busy, MERGE_MEAN, 2)};
    static const struct course_line rounds[] = {LINE("acquiring p50", acquire_p50, MERGE_MOST, 4),
                                                LINE("acquiring p99", acquire_p99, MERGE_MOST, 3),
                                                LINE("extending p99", extend_p99, MERGE_MOST, 5)};
    static const struct course_line holds[] = {LINE("p50", hold_p50, MERGE_MOST, 0),
                                               LINE("p99", hold_p99, MERGE_MOST, 1)};
    struct plot_axis number = {.unit = PLOT_NUMBER}, rate = {.unit = PLOT_NUMBER, .label = "a second"};
    struct plot_axis time = {.unit = PLOT_SECONDS, .is_log = true}, share = {.unit = PLOT_SHARE};
    COURSE(course, "Throughput", rate, rates, out);
    COURSE(course, "Wait for a lock", time, waits, out);
    COURSE(course, "Tasks that wait", number, waiting, out);
    COURSE(course, "Runners that run a task", share, busy, out);
    COURSE(course, "Rounds over the lock nodes", time, rounds, out);
    COURSE(course, "Holds", time, holds, out);
}

bool figures_of_course(const struct result *result, struct buffer *out)
{
    if (result->second_count < 2)
        return false;
    size_t each = (result->second_count + COURSE_POINTS_MAX - 1) / COURSE_POINTS_MAX;
    size_t count = (result->second_count + each - 1) / each;
    struct course course = {.result = result,
                            .count = count,
                            .each = each,
                            .x = memory_zeroed(count, sizeof(double)),
                            .y = memory_zeroed(count * PLOT_NAMES_MAX, sizeof(double))};
    for (size_t i = 0; i < count; i++)
        course.x[i] = result->seconds[i * each].at;
    courses_draw(&course, out);
    free(course.x);
    free(course.y);
    return true;
}
