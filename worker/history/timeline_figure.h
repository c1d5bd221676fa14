/* The figure of one part: processes and what was done to them, then the lanes of the resources, as SVG with its names
 * beside it. Positions are per cents of its width, so it grows with the page and with the zoom. */
#ifndef WORKER_TIMELINE_FIGURE_H
#define WORKER_TIMELINE_FIGURE_H

#include "base/buffer.h"
#include "worker/history/timeline_lanes.h"

struct timeline_limits {
    size_t lanes, bars, marks, processes; /* at most so many in one figure */
};

/* What the figure does not show, in words for a note below it; nothing when it shows all. */
void timeline_figure_write(const struct history *history, size_t part, const struct history_places *places,
                           const struct timeline_limits *limits, struct buffer *out, struct buffer *note);

#endif
