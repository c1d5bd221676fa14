/* The progress of a dry run, for a terminal: a block of lines that is drawn over itself once a second.
 *
 *     struct live_block block = {.width = 100, .has_colour = true};
 *     live_block_draw(&block, &numbers, &out);       once a second: write `out` to the terminal
 *     live_block_end(&block, &out);                  before anything else is printed: the block is gone
 *
 * Pure. */
#ifndef WORKER_DRY_RUN_LIVE_BLOCK_H
#define WORKER_DRY_RUN_LIVE_BLOCK_H

#include <stdbool.h>

#include "base/buffer.h"
#include "worker/dry_run/count/stats.h"

enum { LIVE_HOT_ROWS = 5 };

struct live_numbers {
    const char *phase;     /* "measuring", ... */
    bool has_begun;        /* the load: before that there are no numbers */
    double elapsed, total; /* seconds of the load; a total of 0 = not known */
    double rate_wanted;    /* pushes a second by the plan; 0 = as they come */
    uint64_t records_lost;
    struct stats_live stats;
};

struct live_block {
    unsigned width; /* of the terminal; may change between two calls */
    bool has_colour;
    unsigned lines; /* that stand there; 0 at first */
};

/* The lines alone, each with a line end and at most `width` wide. Returns how many. */
unsigned live_block_write(const struct live_numbers *numbers, unsigned width, bool has_colour, struct buffer *out);

void live_block_draw(struct live_block *block, const struct live_numbers *numbers, struct buffer *out);
void live_block_end(struct live_block *block, struct buffer *out);

#endif
