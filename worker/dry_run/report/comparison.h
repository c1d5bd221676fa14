/* What changed from one dry run to another, and whether it is more than noise (estimate.h).
 *
 *     comparison_make(&before, &after, &comparison);
 *     comparison_text_write(&comparison, 100, has_colour, &out);   or comparison_json_write(&comparison, &out)
 *     comparison_fini(&comparison);
 *
 * All numbers of the runs as a whole are judged together, and so are those of all resources and nodes: two runs of the
 * same plan, on a machine that does nothing else, differ in one of twenty cases at most. Pure. */
#ifndef WORKER_DRY_RUN_COMPARISON_H
#define WORKER_DRY_RUN_COMPARISON_H

#include "base/buffer.h"
#include "worker/dry_run/report/estimate.h"

enum comparison_verdict {
    COMPARISON_UNKNOWN, /* there was too little to decide */
    COMPARISON_SAME,    /* not more than noise */
    COMPARISON_MAYBE,   /* alone it would be more, but among so many some are */
    COMPARISON_CHANGED,
};

enum comparison_unit { COMPARISON_TIME, COMPARISON_RATE, COMPARISON_SHARE, COMPARISON_COUNT };
enum comparison_taste { COMPARISON_NEITHER, COMPARISON_MORE_IS_BETTER, COMPARISON_LESS_IS_BETTER };

struct comparison_row {
    const char *kind; /* "run", "resource", "node" */
    char *name;       /* of the resource or node, its own; "" of the run */
    const char *what;
    enum comparison_unit unit;
    enum comparison_taste taste;
    double before, after;
    struct difference difference;
    enum comparison_verdict verdict;
};

struct comparison {
    char **plan; /* what differs in the plans, a text each; its own */
    size_t plan_count;
    struct comparison_row *rows; /* of the run, then of resources, then of nodes */
    size_t row_count, run_row_count;
    size_t resources_before, resources_after; /* that only one of them has */
};

void comparison_make(const struct result *before, const struct result *after, struct comparison *comparison);
void comparison_fini(struct comparison *comparison);

/* 1 = better, -1 = worse, 0 = neither, or not known. */
int comparison_judgement(const struct comparison_row *row);

/* Of resources and nodes the text shows what changed or may have; the JSON has all. */
void comparison_text_write(const struct comparison *comparison, unsigned width, bool has_colour, struct buffer *out);
void comparison_json_write(const struct comparison *comparison, struct buffer *out);

#endif
