/* Plots for a page of HTML, as inline SVG with its legend: axes with ticks at round numbers, lines, bars, points, spans
 * and marks, with what they stand for as titles. Colours are the classes p0 to p9 of page_frame.h, so a plot follows
 * the page into the dark and onto paper.
 *
 *     struct plot plot = {.title = "Throughput", .x = {.label = "s", ...}, .y = {...}, .out = out};
 *     plot_axis_see(&plot.y, value) ...       what has to fit
 *     plot_begin(&plot);
 *     plot_line(&plot, &line);
 *     plot_end(&plot);
 *
 * Whatever the numbers are, what is drawn stays inside. Pure. */
#ifndef WORKER_DRY_RUN_PLOT_H
#define WORKER_DRY_RUN_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

enum plot_unit { PLOT_NUMBER, PLOT_SECONDS, PLOT_SHARE };

struct plot_axis {
    enum plot_unit unit;
    bool is_log;
    bool is_exact; /* ends where the values end, not at a round number */
    bool is_seen;  /* a value was; before, `low` and `high` may be set by hand */
    double low, high;
    const char *label;   /* what it is; NULL = the title says it */
    const double *ticks; /* where they are; NULL = at round numbers */
    size_t tick_count;
};

enum { PLOT_WIDTH = 560, PLOT_HEIGHT = 230, PLOT_NAMES_MAX = 8, PLOT_TEXT_MAX = 48 };

struct plot {
    const char *title;
    struct plot_axis x, y;
    unsigned height; /* 0 = PLOT_HEIGHT */
    unsigned left;   /* of the axis, which has no ticks then; 0 = as its numbers need */
    struct buffer *out;
    /* its own */
    const char *names[PLOT_NAMES_MAX];
    unsigned colours[PLOT_NAMES_MAX], name_count;
    bool is_dashed[PLOT_NAMES_MAX];
};

/* Widens the axis so that the value is on it. What is no number, or not above 0 where the axis is logarithmic, is
 * passed over. */
void plot_axis_see(struct plot_axis *axis, double value);
/* The axis begins at 0. */
void plot_axis_from_zero(struct plot_axis *axis);
/* A tick as text: "20 ms", "1.5k", "40 %". Returns `out`. */
const char *plot_number_text(enum plot_unit unit, double value, char out[PLOT_TEXT_MAX]);

/* The frame, the ticks and the labels. Widens axes to round numbers. */
void plot_begin(struct plot *plot);
/* The legend, of what was drawn under a name. */
void plot_end(struct plot *plot);

struct plot_line {
    const char *name;
    unsigned colour;
    bool is_dashed, has_points;
    const double *x, *y;
    size_t count;
};
/* Where y is no number the line is broken. */
void plot_line(struct plot *plot, const struct plot_line *line);
/* From the lower end of the y axis to y. The title is made safe here, as all texts are. */
void plot_bar(struct plot *plot, unsigned colour, double from, double to, double y, const char *title);
/* `error` is half the length of the whisker; 0 = none. */
void plot_point(struct plot *plot, unsigned colour, double x, double y, double error, const char *title);
/* All the height, behind what is drawn next. */
void plot_span(struct plot *plot, double from, double to, bool is_bad, const char *title);
/* Lines all the height with texts beside them, each a row lower, so that they do not touch. Last of what is drawn. */
struct plot_mark {
    double x;
    char text[PLOT_TEXT_MAX];
};
void plot_marks(struct plot *plot, const struct plot_mark *marks, size_t count);
/* A name for the legend without a line. */
void plot_name(struct plot *plot, unsigned colour, const char *name);

/* Where a value lies, in the units of the drawing. */
double plot_x(const struct plot *plot, double value);
double plot_y(const struct plot *plot, double value);

extern const char plot_style[];

#endif
