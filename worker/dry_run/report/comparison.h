/* Two dry runs beside each other: the numbers of both, each with the interval in which it lies with 95 % (estimate.h).
 *
 *     comparison_make(&before, &after, &comparison);
 *     comparison_text_write(&comparison, 100, has_colour, &out);   or comparison_json_write(&comparison, &out)
 *     comparison_fini(&comparison);
 *
 * Pure. */
#ifndef WORKER_DRY_RUN_COMPARISON_H
#define WORKER_DRY_RUN_COMPARISON_H

#include "base/buffer.h"
#include "worker/dry_run/report/estimate.h"

enum comparison_unit { COMPARISON_TIME, COMPARISON_RATE, COMPARISON_SHARE, COMPARISON_COUNT };

struct comparison_row {
    const char *kind; /* "run", "node", "resource" */
    char *name;       /* of the resource or node, its own; "" of the run */
    const char *what;
    enum comparison_unit unit;
    struct estimate before, after;
};

struct comparison {
    char **plan; /* what differs in the plans, a text each; its own */
    size_t plan_count;
    struct comparison_row *rows; /* of the run, then of nodes, then of resources */
    size_t row_count, run_row_count;
    size_t resources_before, resources_after; /* that only one of them has */
};

void comparison_make(const struct result *before, const struct result *after, struct comparison *comparison);
void comparison_fini(struct comparison *comparison);

/* The JSON has every resource, the text those with the greatest load. */
void comparison_text_write(const struct comparison *comparison, unsigned width, bool has_colour, struct buffer *out);
void comparison_json_write(const struct comparison *comparison, struct buffer *out);

#endif
