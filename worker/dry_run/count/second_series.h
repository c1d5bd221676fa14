/* The lines of a run, one a second: counts and percentiles of what happened since the line before. One thread. */
#ifndef WORKER_DRY_RUN_SECOND_SERIES_H
#define WORKER_DRY_RUN_SECOND_SERIES_H

#include "base/clock.h"
#include "base/histogram.h"
#include "worker/dry_run/result/result.h"

enum { SECOND_SERIES_MAX = 24 * 60 * 60 }; /* what comes then is not kept */

struct second_series {
    struct instant began, closed; /* the run; the last line */
    /* since then */
    uint64_t pushed, ended, parked, handed_over, lost;
    struct histogram wait, hold, acquire, extend;
    double taken_s; /* of the runners, by tasks */
    /* closed lines; their `busy` is in seconds until they are taken */
    struct result_second *lines;
    size_t count, capacity;
};

void second_series_init(struct second_series *series, struct instant began);
void second_series_fini(struct second_series *series);
/* A task took a runner for this time, which may lie in lines that are closed. */
void second_series_take(struct second_series *series, int64_t from_ns, int64_t until_ns);
/* Makes a line of what came since the last one; `waiting` as now. A line of no time is none. */
void second_series_close(struct second_series *series, struct instant now, double waiting);
/* The lines, which are the caller's from now on, with shares of so many runners. */
struct result_second *second_series_finish(struct second_series *series, unsigned runners, size_t *count);

#endif
