/* A history as one page of HTML that needs nothing else: no network, no other file. It opens from the disk, can be
 * printed, and is bounded: at most about 4 MB, however long the history is; what it leaves out it says.
 *
 *     history_order(history);
 *     struct buffer page = {0};
 *     timeline_page_write(history, "Night of the 22nd", "3 logs", &page);
 *
 * A part of the history is a section: the timeline, sums by class and resource, and what happened. What was found out
 * (history_add_fact) stands above, part beside part. Pure. */
#ifndef WORKER_TIMELINE_PAGE_H
#define WORKER_TIMELINE_PAGE_H

#include "base/buffer.h"
#include "worker/history/history.h"
#include "worker/history/history_sums.h"

/* What a timeline shows of a part of a history: a lane for each resource, and bars in it. However much there is, there
 * are never more lanes and bars than wanted (at least a bar a lane). Bars that are close together become one: first
 * only those of one process with nothing unusual about them (an overlap, a loss, a refusal, an unknown end), when that
 * is not enough any. The page says so. Pure.
 *
 *     struct timeline_lanes lanes = timeline_lanes_of(&uses, 60, 3000);
 *     timeline_lanes_fini(&lanes); */

/* Bars that overlap lie in rows of their lane; from the last row on they lie over each other. */
enum { TIMELINE_ROWS_MAX = 4 };

struct timeline_bar {
    const struct history_use *use; /* the first of the holds */
    struct wall_time from, to;
    size_t holds, unusual;
    bool is_mixed; /* of several processes */
    unsigned row;
};

struct timeline_lane {
    const char *resource;
    size_t first_bar, bar_count;
    size_t holds, unusual;
    unsigned rows;
};

struct timeline_lanes {
    struct timeline_lane *lanes; /* by name */
    size_t lane_count;
    struct timeline_bar *bars;
    size_t bar_count;
    size_t lanes_left_out; /* resources with fewer holds, and nothing unusual */
    size_t merged;         /* holds that share a bar with others */
};

struct timeline_lanes timeline_lanes_of(const struct history_uses *uses, size_t lanes_max, size_t bars_max);
void timeline_lanes_fini(struct timeline_lanes *lanes);

void timeline_page_write(const struct history *history, const char *title, const char *about, struct buffer *out);

#endif
