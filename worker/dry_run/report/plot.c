/* The drawing is PLOT_WIDTH wide and is scaled with the page, texts too. Values become places in one function for both
 * axes, which brings what lies outside to the edge: a number that no one can draw is no reason to draw elsewhere. */
#include "worker/dry_run/report/plot.h"

#include <math.h>
#include <stdio.h>

#include "base/invariant.h"
#include "worker/print/markup.h"

enum { LEFT = 52, RIGHT = 14, MARGIN = 8, LABEL = 12, TICK = 20, TICKS_MAX = 6, MARK_ROW = 12 };

/* A log axis spans at least one of these, and at most so many decades. */
#define DECADES_MAX 9.0

const char plot_style[] =
    "figure{margin:0;padding:.7rem .8rem .5rem;border:1px solid var(--line);border-radius:6px;background:var(--card);"
    "break-inside:avoid;min-width:0}figcaption{font-weight:600;margin-bottom:.2rem}"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr));gap:.9rem;margin:.8rem 0}\n"
    "figure svg{height:auto;overflow:hidden}.axis{stroke:var(--soft);stroke-width:1}"
    ".series{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}.dashed{stroke-dasharray:5 4}"
    ".dot{fill:var(--c);stroke:var(--card);stroke-width:1}.whisker{stroke:var(--c);stroke-width:1.2;opacity:.7}"
    ".column{fill:var(--c);stroke:var(--card);stroke-width:.6}.span{fill:var(--p8);fill-opacity:.22}"
    ".span.fault{fill:var(--bad);fill-opacity:.2;stroke:var(--bad);stroke-opacity:.5}"
    ".at{stroke:var(--text);stroke-width:1;stroke-dasharray:3 3;opacity:.75}"
    "text.on{fill:var(--text);paint-order:stroke;stroke:var(--card);stroke-width:3}"
    "figure .legend{margin:.1rem 0 0;font-size:.85rem}"
    "figure .key.line{height:.2em;vertical-align:.25em;width:1.2em}"
    "figure .key.dashes{height:0;background:none;border-top:2px dashed var(--c);vertical-align:.25em;width:1.4em;"
    "border-radius:0}\n";

/* --- axes --------------------------------------------------------------------------------------------------------- */

void plot_axis_see(struct plot_axis *axis, double value)
{
    if (!isfinite(value) || (axis->is_log && value <= 0) || (!axis->is_log && fabs(value) > 1e15))
        return;
    if (!axis->is_seen || value < axis->low)
        axis->low = value;
    if (!axis->is_seen || value > axis->high)
        axis->high = value;
    axis->is_seen = true;
}

void plot_axis_from_zero(struct plot_axis *axis)
{
    axis->low = 0;
}

/* 1, 2 or 5 times a power of ten, the smallest that is not below. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value))), factor = value / power;
    return power * (factor <= 1.000001 ? 1 : factor <= 2.000001 ? 2 : factor <= 5.000001 ? 5 : 10);
}

static double round_down(double value)
{
    double power = pow(10, floor(log10(value))), factor = value / power;
    return power * (factor >= 4.999999 ? 5 : factor >= 1.999999 ? 2 : 1);
}

/* Of times that are minutes or hours, round by the clock. */
static double clock_step(double least)
{
    static const double steps[] = {20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (least <= steps[i])
            return steps[i];
    return round_up(least / 86400) * 86400;
}

static double step_of(const struct plot_axis *axis)
{
    double least = (axis->high - axis->low) / TICKS_MAX;
    return axis->unit == PLOT_SECONDS && least > 10 ? clock_step(least) : round_up(least);
}

/* A share that is near 1 ends there. */
static void linear_complete(struct plot_axis *axis)
{
    if (axis->unit == PLOT_SHARE && axis->high <= 1 && axis->high > 0.6)
        axis->high = 1;
    if (!(axis->high > axis->low))
        axis->high = axis->low + 1;
    if (axis->ticks != NULL || axis->is_exact)
        return;
    double step = step_of(axis);
    axis->low = floor(axis->low / step + 1e-9) * step;
    axis->high = ceil(axis->high / step - 1e-9) * step;
}

static void log_complete(struct plot_axis *axis)
{
    if (!(axis->low > 0) || !(axis->high > 0))
        axis->low = axis->high = 1;
    axis->low = fmax(axis->low, axis->high * pow(10, -DECADES_MAX));
    if (axis->ticks == NULL) {
        axis->low = round_down(axis->low);
        axis->high = round_up(axis->high);
    }
    if (axis->high < axis->low * 1.5) {
        axis->low /= 2;
        axis->high *= 2;
    }
}

static double place_on(const struct plot_axis *axis, double value)
{
    double place;
    if (axis->is_log)
        place = value > 0 ? log(value / axis->low) / log(axis->high / axis->low) : 0;
    else
        place = (value - axis->low) / (axis->high - axis->low);
    return place >= 1 ? 1 : place > 0 ? place : 0; /* what is no number, too */
}

static unsigned height_of(const struct plot *plot)
{
    return plot->height > 0 ? plot->height : PLOT_HEIGHT;
}

static unsigned left_of(const struct plot *plot)
{
    return plot->left > 0 ? plot->left : LEFT;
}

/* Labels have room only where there are some. */
static unsigned top_of(const struct plot *plot)
{
    return MARGIN + (plot->y.label != NULL ? LABEL : 0);
}

static unsigned bottom_of(const struct plot *plot)
{
    return height_of(plot) - TICK - (plot->x.label != NULL ? LABEL : 0);
}

double plot_x(const struct plot *plot, double value)
{
    return left_of(plot) + place_on(&plot->x, value) * (PLOT_WIDTH - RIGHT - left_of(plot));
}

double plot_y(const struct plot *plot, double value)
{
    return bottom_of(plot) - place_on(&plot->y, value) * (bottom_of(plot) - top_of(plot));
}

/* --- ticks -------------------------------------------------------------------------------------------------------- */

const char *plot_number_text(enum plot_unit unit, double value, char out[PLOT_TEXT_MAX])
{
    static const struct {
        double size;
        const char *name;
    } times[] = {{86400, " d"}, {3600, " h"}, {60, " min"}, {1, " s"}, {1e-3, " ms"}, {1e-6, " us"}},
      numbers[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    double size = fabs(value) * 1.000001;
    if (unit == PLOT_SHARE)
        snprintf(out, PLOT_TEXT_MAX, "%.4g %%", value * 100);
    else if (size < 1e-9)
        snprintf(out, PLOT_TEXT_MAX, "0");
    else if (unit == PLOT_SECONDS) {
        size_t i = size >= 180 ? 0 : 3; /* minutes only where there are some */
        while (i + 1 < sizeof times / sizeof times[0] && size < times[i].size * (i < 2 ? 2 : 1))
            i++;
        snprintf(out, PLOT_TEXT_MAX, "%.4g%s", value / times[i].size, times[i].name);
    } else {
        size_t i = 0;
        while (i < sizeof numbers / sizeof numbers[0] && size < numbers[i].size)
            i++;
        if (i < sizeof numbers / sizeof numbers[0])
            snprintf(out, PLOT_TEXT_MAX, "%.4g%s", value / numbers[i].size, numbers[i].name);
        else
            snprintf(out, PLOT_TEXT_MAX, "%.4g", value);
    }
    return out;
}

/* Like 10, 20, 50, 100: as many of 1, 2 and 5 as there is room for. */
static void log_ticks(struct plot *plot, const struct plot_axis *axis, void (*draw)(struct plot *, double))
{
    double decades = log10(axis->high / axis->low);
    unsigned every = decades > TICKS_MAX + 1 ? 2 : 1;
    for (int power = (int)floor(log10(axis->low)); power <= (int)ceil(log10(axis->high)); power++) {
        static const double factors[] = {1, 2, 5};
        for (size_t i = 0; i < (decades <= 2.3 ? 3 : 1); i++) {
            double value = factors[i] * pow(10, power);
            if (value >= axis->low * 0.999 && value <= axis->high * 1.001 && power % (int)every == 0)
                draw(plot, value);
        }
    }
}

static void ticks_draw(struct plot *plot, const struct plot_axis *axis, void (*draw)(struct plot *, double))
{
    if (axis->ticks != NULL) {
        for (size_t i = 0; i < axis->tick_count; i++)
            draw(plot, axis->ticks[i]);
    } else if (axis->is_log) {
        log_ticks(plot, axis, draw);
    } else {
        double step = step_of(axis);
        double first = ceil(axis->low / step - 1e-9) * step;
        for (unsigned i = 0; first + i * step <= axis->high + step / 100; i++)
            draw(plot, first + i * step);
    }
}

static void x_tick(struct plot *plot, double value)
{
    char text[PLOT_TEXT_MAX];
    double x = plot_x(plot, value);
    unsigned bottom = bottom_of(plot);
    buffer_format(plot->out, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%u\"/>", x, x, top_of(plot),
                  bottom);
    buffer_format(plot->out, "<text x=\"%.1f\" y=\"%u\" text-anchor=\"%s\">%s</text>\n", x, bottom + 14,
                  x > PLOT_WIDTH - RIGHT - 8 ? "end"
                  : x < 20                   ? "start"
                                             : "middle",
                  plot_number_text(plot->x.unit, value, text));
}

static void y_tick(struct plot *plot, double value)
{
    char text[PLOT_TEXT_MAX];
    double y = plot_y(plot, value);
    buffer_format(plot->out, "<line class=\"grid\" x1=\"%u\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", left_of(plot),
                  PLOT_WIDTH - RIGHT, y, y);
    buffer_format(plot->out, "<text x=\"%u\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", left_of(plot) - 5, y + 4,
                  plot_number_text(plot->y.unit, value, text));
}

/* --- the frame ---------------------------------------------------------------------------------------------------- */

static void axis_complete(struct plot_axis *axis)
{
    if (axis->is_log)
        log_complete(axis);
    else
        linear_complete(axis);
}

void plot_begin(struct plot *plot)
{
    unsigned height = height_of(plot);
    axis_complete(&plot->x);
    axis_complete(&plot->y);
    buffer_append_text(plot->out, "<figure><figcaption>");
    markup_text(plot->out, plot->title);
    buffer_format(plot->out, "</figcaption><svg viewBox=\"0 0 %d %u\" role=\"img\" aria-label=\"", PLOT_WIDTH, height);
    markup_text(plot->out, plot->title);
    buffer_append_text(plot->out, "\">\n");
    ticks_draw(plot, &plot->x, x_tick);
    if (plot->left == 0)
        ticks_draw(plot, &plot->y, y_tick);
    buffer_format(plot->out, "<path class=\"axis\" fill=\"none\" d=\"M%u %dV%uH%d\"/>\n", left_of(plot), top_of(plot),
                  bottom_of(plot), PLOT_WIDTH - RIGHT);
    if (plot->y.label != NULL) {
        buffer_append_text(plot->out, "<text x=\"4\" y=\"11\">");
        markup_text(plot->out, plot->y.label);
        buffer_append_text(plot->out, "</text>\n");
    }
    if (plot->x.label != NULL) {
        buffer_format(plot->out, "<text x=\"%d\" y=\"%u\" text-anchor=\"end\">", PLOT_WIDTH - RIGHT, height - 5);
        markup_text(plot->out, plot->x.label);
        buffer_append_text(plot->out, "</text>\n");
    }
}

void plot_end(struct plot *plot)
{
    buffer_append_text(plot->out, "</svg>");
    if (plot->name_count > 0)
        buffer_append_text(plot->out, "<p class=\"legend soft\">");
    for (unsigned i = 0; i < plot->name_count; i++) {
        buffer_format(plot->out, "<span><span class=\"key %s p%u\"></span>", plot->is_dashed[i] ? "dashes" : "line",
                      plot->colours[i]);
        markup_text(plot->out, plot->names[i]);
        buffer_append_text(plot->out, "</span> ");
    }
    buffer_append_text(plot->out, plot->name_count > 0 ? "</p></figure>\n" : "</figure>\n");
}

static void name_add(struct plot *plot, unsigned colour, bool is_dashed, const char *name)
{
    invariant(plot->name_count < PLOT_NAMES_MAX);
    plot->names[plot->name_count] = name;
    plot->colours[plot->name_count] = colour;
    plot->is_dashed[plot->name_count++] = is_dashed;
}

void plot_name(struct plot *plot, unsigned colour, const char *name)
{
    name_add(plot, colour, false, name);
}

/* --- what is drawn ------------------------------------------------------------------------------------------------ */

static void title_write(struct buffer *out, const char *title)
{
    buffer_append_text(out, "<title>");
    markup_text(out, title);
    buffer_append_text(out, "</title>");
}

static void line_points(struct plot *plot, const struct plot_line *line)
{
    char x[PLOT_TEXT_MAX], y[PLOT_TEXT_MAX], title[3 * PLOT_TEXT_MAX];
    for (size_t i = 0; i < line->count; i++) {
        if (!isfinite(line->y[i]))
            continue;
        snprintf(title, sizeof title, "%.40s: %s at %s", line->name, plot_number_text(plot->y.unit, line->y[i], y),
                 plot_number_text(plot->x.unit, line->x[i], x));
        plot_point(plot, line->colour, line->x[i], line->y[i], 0, title);
    }
}

void plot_line(struct plot *plot, const struct plot_line *line)
{
    bool is_on = false;
    name_add(plot, line->colour, line->is_dashed, line->name);
    buffer_format(plot->out, "<path class=\"series p%u%s\" d=\"", line->colour, line->is_dashed ? " dashed" : "");
    for (size_t i = 0; i < line->count; i++) {
        bool is_number = isfinite(line->y[i]);
        if (is_number)
            buffer_format(plot->out, "%s%.1f %.1f", is_on ? "L" : "M", plot_x(plot, line->x[i]),
                          plot_y(plot, line->y[i]));
        is_on = is_number;
    }
    buffer_append_text(plot->out, "\">");
    title_write(plot->out, line->name);
    buffer_append_text(plot->out, "</path>\n");
    if (line->has_points)
        line_points(plot, line);
}

void plot_bar(struct plot *plot, unsigned colour, double from, double to, double y, const char *title)
{
    double x = plot_x(plot, from), top = plot_y(plot, y);
    buffer_format(plot->out, "<rect class=\"column p%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">", colour,
                  x, top, fmax(plot_x(plot, to) - x, 0.5), fmax(bottom_of(plot) - top, 0));
    title_write(plot->out, title);
    buffer_append_text(plot->out, "</rect>\n");
}

void plot_point(struct plot *plot, unsigned colour, double x, double y, double error, const char *title)
{
    double at = plot_x(plot, x);
    if (error > 0)
        buffer_format(plot->out, "<line class=\"whisker p%u\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                      colour, at, at, plot_y(plot, y - error), plot_y(plot, y + error));
    buffer_format(plot->out, "<circle class=\"dot p%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\">", colour, at,
                  plot_y(plot, y));
    title_write(plot->out, title);
    buffer_append_text(plot->out, "</circle>\n");
}

void plot_span(struct plot *plot, double from, double to, bool is_bad, const char *title)
{
    double x = plot_x(plot, from);
    buffer_format(plot->out, "<rect class=\"span%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%u\">",
                  is_bad ? " fault" : "", x, top_of(plot), fmax(plot_x(plot, to) - x, 1.5),
                  bottom_of(plot) - top_of(plot));
    title_write(plot->out, title);
    buffer_append_text(plot->out, "</rect>\n");
}

static void mark_text(struct plot *plot, const struct plot_mark *mark, size_t row)
{
    double at = plot_x(plot, mark->x);
    bool is_right = at > PLOT_WIDTH * 0.75;
    buffer_format(plot->out, "<text class=\"on\" x=\"%.1f\" y=\"%zu\" text-anchor=\"%s\">", at + (is_right ? -4 : 4),
                  top_of(plot) + 10 + row * MARK_ROW, is_right ? "end" : "start");
    markup_text(plot->out, mark->text);
    buffer_append_text(plot->out, "</text>\n");
}

void plot_marks(struct plot *plot, const struct plot_mark *marks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double at = plot_x(plot, marks[i].x);
        buffer_format(plot->out, "<line class=\"at\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%u\" y2=\"%u\"/>\n", at, at,
                      top_of(plot), bottom_of(plot));
    }
    for (size_t i = 0; i < count; i++)
        mark_text(plot, &marks[i], i);
}
