/* One line of progress on a terminal: label, bar, count, rate, time left. Nothing at all is written when the
 * descriptor is no terminal or a dumb one; without colours when NO_COLOR is set. Redrawn at most ten times a second.
 *
 *     struct progress progress;
 *     progress_start(&progress, 2, "pushing", total);       total 0: not known
 *     progress_update(&progress, done) ... as often as one likes
 *     progress_end(&progress);                              removes the line
 *
 * Not thread-safe. Writing to the terminal may block: not on the loop thread of a worker. */
#ifndef WORKER_PROGRESS_BAR_H
#define WORKER_PROGRESS_BAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"

struct progress {
    int fd;
    bool is_on, has_colour;
    const char *label;
    uint64_t total;
    struct instant started, next_draw;
};

void progress_start(struct progress *progress, int fd, const char *label, uint64_t total);
void progress_update(struct progress *progress, uint64_t done);
void progress_end(struct progress *progress);

/* The line for a terminal of that width, without moving the cursor. Pure. */
void progress_render(const struct progress *progress, uint64_t done, int64_t elapsed_ns, unsigned width,
                     struct buffer *out);

#endif
