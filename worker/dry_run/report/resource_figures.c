/* The figures about resources, nodes and the points of a what-if. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/print/table.h"
#include "worker/print/human.h"
#include "worker/dry_run/report/plot.h"
#include "worker/dry_run/report/result_figures.h"
#include "worker/print/markup.h"

enum {
    ROWS_MAX = 24,
    ROW_HEIGHT = 17,
    ROWS_TOP = 10,
    ROWS_BOTTOM = 24,
    NAME_WIDTH = 110,
    NAME_CHARACTERS = 17,
    POINTS_MAX = 300,
    CURVE_STEPS = 10,
    TITLE_MAX = 512
};

struct curve {
    double x[POINTS_MAX * (CURVE_STEPS + 1)], y[POINTS_MAX * (CURVE_STEPS + 1)];
    size_t count;
};

/* --- rows: a name at the left of each ----------------------------------------------------------------------------- */

static double row_y(unsigned row)
{
    return ROWS_TOP + row * ROW_HEIGHT;
}

static unsigned rows_height(unsigned rows)
{
    return ROWS_TOP + rows * ROW_HEIGHT + ROWS_BOTTOM;
}

static void row_name(struct plot *plot, unsigned row, const char *name)
{
    struct buffer cut = {0};
    table_text_write(name[0] != '\0' ? name : "-", NAME_CHARACTERS, &cut);
    buffer_format(plot->out, "<text class=\"row\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", NAME_WIDTH - 6,
                  row_y(row) + ROW_HEIGHT / 2 + 3.5);
    markup_text(plot->out, buffer_text(&cut));
    buffer_append_text(plot->out, "<title>");
    markup_text(plot->out, name);
    buffer_append_text(plot->out, "</title></text>\n");
    buffer_fini(&cut);
}

static void row_bar(struct plot *plot, unsigned row, unsigned colour, double from, double to, const char *title)
{
    double x = plot_x(plot, from), width = plot_x(plot, to) - x;
    buffer_format(plot->out, "<rect class=\"column p%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"><title>",
                  colour, x, row_y(row) + 2, width > 0.5 ? width : 0.5, ROW_HEIGHT - 4);
    markup_text(plot->out, title);
    buffer_append_text(plot->out, "</title></rect>\n");
}

static void row_tick(struct plot *plot, unsigned row, unsigned colour, double at, const char *title)
{
    buffer_format(plot->out, "<line class=\"tick p%u\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"><title>", colour,
                  plot_x(plot, at), plot_x(plot, at), row_y(row), row_y(row) + ROW_HEIGHT);
    markup_text(plot->out, title);
    buffer_append_text(plot->out, "</title></line>\n");
}

static struct plot rows_plot(const char *title, struct plot_axis x, unsigned rows, struct buffer *out)
{
    return (struct plot){.title = title, .x = x, .left = NAME_WIDTH, .height = rows_height(rows), .out = out};
}

/* --- resources ---------------------------------------------------------------------------------------------------- */

static unsigned share_colour(double share)
{
    return share >= 0.9 ? 9 : share >= 0.7 ? 1 : 0;
}

static void shares_draw(const struct result *result, struct buffer *out)
{
    unsigned rows = result->resource_count < ROWS_MAX ? (unsigned)result->resource_count : ROWS_MAX;
    struct plot plot = rows_plot("Share of the time that a resource is held, the hottest first",
                                 (struct plot_axis){.unit = PLOT_SHARE, .low = 0, .high = 1}, rows, out);
    plot_begin(&plot);
    for (unsigned i = 0; i < rows; i++) {
        const struct result_resource *resource = &result->resources[i];
        char text[TITLE_MAX], quoted[LOG_QUOTE_MAX], share[HUMAN_TEXT_MAX], load[HUMAN_TEXT_MAX], wait[HUMAN_TEXT_MAX];
        snprintf(text, sizeof text, "%s: held %s, %s tasks/s, mean wait %s", log_quote(resource->name, quoted),
                 human_share(resource->share_held, share), human_rate(resource->load, load),
                 human_time(resource->wait_mean, wait));
        row_name(&plot, i, resource->name);
        row_bar(&plot, i, share_colour(resource->share_held), 0, resource->share_held, text);
        if (resource->expected.is_known)
            row_tick(&plot, i, 3, resource->expected.utilisation, "expected");
    }
    plot_name(&plot, 0, "held");
    plot_name(&plot, 1, "70 % or more");
    plot_name(&plot, 9, "90 % or more");
    plot_name(&plot, 3, "expected");
    plot_end(&plot);
}

static int by_utilisation(const void *left, const void *right)
{
    double one = (*(const struct result_resource *const *)left)->expected.utilisation,
           other = (*(const struct result_resource *const *)right)->expected.utilisation;
    return (one > other) - (one < other);
}

/* Those for which there is a model, by utilisation. */
static size_t modelled(const struct result *result, const struct result_resource **found)
{
    size_t count = 0;
    for (size_t i = 0; i < result->resource_count && count < POINTS_MAX; i++)
        if (result->resources[i].expected.is_known && result->resources[i].expected.wait > 0 &&
            result->resources[i].wait_mean > 0)
            found[count++] = &result->resources[i];
    qsort(found, count, sizeof found[0], by_utilisation);
    return count;
}

static void wait_point(struct plot *plot, const struct result_resource *resource)
{
    char text[TITLE_MAX], quoted[LOG_QUOTE_MAX], measured[HUMAN_TEXT_MAX], error[HUMAN_TEXT_MAX],
        expected[HUMAN_TEXT_MAX], share[HUMAN_TEXT_MAX];
    snprintf(text, sizeof text, "%s: mean wait %s, give or take %s, expected %s at %s",
             log_quote(resource->name, quoted), human_time(resource->wait_mean, measured),
             human_time(resource->wait_error, error), human_time(resource->expected.wait, expected),
             human_share(resource->expected.utilisation, share));
    plot_point(plot, 0, resource->expected.utilisation, resource->wait_mean, resource->wait_error, text);
}

/* Between two resources the formula goes as u / (1 - u), not straight. */
static void curve_add(struct curve *curve, const struct result_expected *from, const struct result_expected *to)
{
    double first = from->utilisation, last = to->utilisation;
    bool is_curved = first < 1 && last < 1 && last - first > 0.01;
    for (unsigned i = 0; is_curved && i < CURVE_STEPS; i++) {
        double at = first + (last - first) * i / CURVE_STEPS;
        double part = (at / (1 - at) - first / (1 - first)) / (last / (1 - last) - first / (1 - first));
        curve->x[curve->count] = at;
        curve->y[curve->count++] = from->wait + part * (to->wait - from->wait);
    }
    curve->x[curve->count] = last;
    curve->y[curve->count++] = to->wait;
}

static void curve_draw(struct plot *plot, const struct result_resource *const *found, size_t count)
{
    struct curve *curve = memory_new(struct curve);
    for (size_t i = 0; i < count; i++)
        curve_add(curve, &found[i > 0 ? i - 1 : 0]->expected, &found[i]->expected);
    plot_line(plot, &(struct plot_line){.name = "expected by the formula",
                                        .colour = 1,
                                        .is_dashed = true,
                                        .x = curve->x,
                                        .y = curve->y,
                                        .count = curve->count});
    free(curve);
}

static void waits_draw(const struct result *result, struct buffer *out)
{
    const struct result_resource **found = memory_zeroed(POINTS_MAX, sizeof *found);
    size_t count = modelled(result, found);
    unsigned height = rows_height(result->resource_count < ROWS_MAX ? (unsigned)result->resource_count : ROWS_MAX);
    struct plot plot = {.title = "Mean wait for a resource against how much of it is used",
                        .x = {.unit = PLOT_SHARE, .label = "utilisation"},
                        .y = {.unit = PLOT_SECONDS, .is_log = true},
                        .height = height > PLOT_HEIGHT ? height : 0,
                        .out = out};
    for (size_t i = 0; i < count; i++) {
        plot_axis_see(&plot.x, found[i]->expected.utilisation);
        plot_axis_see(&plot.y, found[i]->expected.wait);
        plot_axis_see(&plot.y, found[i]->wait_mean + found[i]->wait_error);
        plot_axis_see(&plot.y, found[i]->wait_mean - found[i]->wait_error);
    }
    plot_axis_from_zero(&plot.x);
    if (count > 0) {
        plot_begin(&plot);
        curve_draw(&plot, found, count);
        for (size_t i = 0; i < count; i++)
            wait_point(&plot, found[i]);
        plot_name(&plot, 0, "measured, with its 95 % interval");
        plot_end(&plot);
    }
    free(found);
}

bool figures_of_resources(const struct result *result, struct buffer *out)
{
    if (result->resource_count == 0)
        return false;
    shares_draw(result, out);
    waits_draw(result, out);
    return true;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void latency_row(struct plot *plot, unsigned row, const struct result_node *node)
{
    const struct result_spread *spread = &node->latency;
    char text[TITLE_MAX], p50[HUMAN_TEXT_MAX], p90[HUMAN_TEXT_MAX], p99[HUMAN_TEXT_MAX], p999[HUMAN_TEXT_MAX];
    snprintf(text, sizeof text, "p50 %s, p90 %s, p99 %s, p99.9 %s", human_time(spread->p50, p50),
             human_time(spread->p90, p90), human_time(spread->p99, p99), human_time(spread->p999, p999));
    row_name(plot, row, node->name);
    row_bar(plot, row, 4, spread->p50, spread->p90, text);
    row_bar(plot, row, 0, spread->p90, spread->p99, text);
    row_bar(plot, row, 3, spread->p99, spread->p999, text);
}

static void latencies_draw(const struct result *result, struct buffer *out)
{
    unsigned rows = 0;
    struct plot_axis x = {.unit = PLOT_SECONDS, .is_log = true};
    for (unsigned i = 0; i < result->node_count; i++) {
        const struct result_spread *spread = &result->nodes[i].latency;
        if (spread->count == 0)
            continue;
        plot_axis_see(&x, spread->p50);
        plot_axis_see(&x, spread->p999);
        rows++;
    }
    if (rows == 0)
        return;
    struct plot plot = rows_plot("How fast the nodes answer", x, rows, out);
    plot_begin(&plot);
    for (unsigned i = 0, row = 0; i < result->node_count; i++)
        if (result->nodes[i].latency.count > 0)
            latency_row(&plot, row++, &result->nodes[i]);
    plot_name(&plot, 4, "p50 to p90");
    plot_name(&plot, 0, "to p99");
    plot_name(&plot, 3, "to p99.9");
    plot_end(&plot);
}

static void answer_row(struct plot *plot, unsigned row, const struct result_node *node)
{
    const struct {
        const char *name;
        uint64_t count;
        unsigned colour;
    } parts[] = {{"granted", node->granted, 2},
                 {"refused", node->refused, 1},
                 {"errors", node->errors, 9},
                 {"no answer", node->timeouts, 3}};
    double all = (double)(node->granted + node->refused + node->errors + node->timeouts), so_far = 0;
    row_name(plot, row, node->name);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char text[TITLE_MAX], count[HUMAN_TEXT_MAX], share[HUMAN_TEXT_MAX];
        double part = (double)parts[i].count / all;
        if (parts[i].count == 0)
            continue;
        snprintf(text, sizeof text, "%s: %s (%s)", parts[i].name, human_count((int64_t)parts[i].count, count),
                 human_share(part, share));
        row_bar(plot, row, parts[i].colour, so_far, so_far + part, text);
        so_far += part;
    }
}

static bool was_asked(const struct result_node *node)
{
    return node->granted + node->refused + node->errors + node->timeouts > 0;
}

static void answers_draw(const struct result *result, struct buffer *out)
{
    unsigned rows = 0;
    for (unsigned i = 0; i < result->node_count; i++)
        rows += was_asked(&result->nodes[i]);
    if (rows == 0)
        return;
    struct plot plot = rows_plot("What the lock nodes answered",
                                 (struct plot_axis){.unit = PLOT_SHARE, .low = 0, .high = 1}, rows, out);
    plot_begin(&plot);
    for (unsigned i = 0, row = 0; i < result->node_count; i++)
        if (was_asked(&result->nodes[i]))
            answer_row(&plot, row++, &result->nodes[i]);
    plot_name(&plot, 2, "granted");
    plot_name(&plot, 1, "refused: another had it");
    plot_name(&plot, 9, "errors");
    plot_name(&plot, 3, "no answer in time");
    plot_end(&plot);
}

bool figures_of_nodes(const struct result *result, struct buffer *out)
{
    size_t before = out->length;
    latencies_draw(result, out);
    answers_draw(result, out);
    return out->length > before;
}

/* --- what-if ------------------------------------------------------------------------------------------------------ */

struct points {
    double threads[DRY_RUN_POINTS_MAX];
    double throughput[DRY_RUN_POINTS_MAX], throughput_expected[DRY_RUN_POINTS_MAX];
    double p99[DRY_RUN_POINTS_MAX], mean[DRY_RUN_POINTS_MAX], mean_expected[DRY_RUN_POINTS_MAX];
    unsigned count;
};

static int by_threads(const void *left, const void *right)
{
    unsigned one = ((const struct result_point *)left)->threads, other = ((const struct result_point *)right)->threads;
    return (one > other) - (one < other);
}

static void points_take(const struct result *result, struct points *points)
{
    struct result_point sorted[DRY_RUN_POINTS_MAX];
    points->count = result->point_count;
    memcpy(sorted, result->points, result->point_count * sizeof sorted[0]);
    qsort(sorted, points->count, sizeof sorted[0], by_threads);
    for (unsigned i = 0; i < points->count; i++) {
        const struct result_point *point = &sorted[i];
        bool is_known = point->expected.is_known;
        points->threads[i] = point->threads;
        points->throughput[i] = point->throughput;
        points->throughput_expected[i] = is_known ? point->expected.throughput : NAN;
        points->p99[i] = point->wait_p99 > 0 ? point->wait_p99 : NAN;
        points->mean[i] = point->wait_mean > 0 ? point->wait_mean : NAN;
        points->mean_expected[i] = is_known && point->expected.wait > 0 ? point->expected.wait : NAN;
    }
}

static void points_draw(const struct points *points, const char *title, struct plot_axis y,
                        const struct plot_line *lines, size_t line_count, struct buffer *out)
{
    struct plot plot = {.title = title, .x = {.is_log = true, .label = "threads of each process"}, .y = y, .out = out};
    plot.x.ticks = points->threads;
    plot.x.tick_count = points->count;
    for (unsigned i = 0; i < points->count; i++)
        plot_axis_see(&plot.x, points->threads[i]);
    for (size_t i = 0; i < line_count; i++)
        for (unsigned j = 0; j < points->count; j++)
            plot_axis_see(&plot.y, lines[i].y[j]);
    if (!y.is_log)
        plot_axis_from_zero(&plot.y);
    plot_begin(&plot);
    for (size_t i = 0; i < line_count; i++) {
        struct plot_line line = lines[i];
        line.x = points->threads;
        line.count = points->count;
        line.has_points = !line.is_dashed;
        plot_line(&plot, &line);
    }
    plot_end(&plot);
}

bool figures_of_points(const struct result *result, struct buffer *out)
{
    struct points points;
    if (result->point_count == 0)
        return false;
    points_take(result, &points);
    const struct plot_line rates[] = {
        {.name = "measured", .colour = 0, .y = points.throughput},
        {.name = "expected", .colour = 1, .is_dashed = true, .y = points.throughput_expected}};
    const struct plot_line waits[] = {
        {.name = "p99", .colour = 3, .y = points.p99},
        {.name = "mean", .colour = 0, .y = points.mean},
        {.name = "mean expected", .colour = 1, .is_dashed = true, .y = points.mean_expected}};
    points_draw(&points, "Throughput with more or fewer threads", (struct plot_axis){.label = "tasks/s"}, rates, 2,
                out);
    points_draw(&points, "Wait with more or fewer threads", (struct plot_axis){.unit = PLOT_SECONDS, .is_log = true},
                waits, 3, out);
    return true;
}
