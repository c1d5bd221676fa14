/* A rate from totals that are looked at again and again: of the last RATE_WINDOW_US, because workers write what they
 * have done every 5 s, in one piece. Pure. */
#ifndef WORKER_RATE_WINDOW_H
#define WORKER_RATE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define RATE_WINDOW_US (15 * US_PER_S)
/* What is shorter tells more about when workers write than about what they do. */
#define RATE_LEAST_US (5 * US_PER_S)

enum { RATE_SAMPLES = 32 };

struct rate_sample {
    struct wall_time at;
    long long processed, failed;
};

struct rate_window {
    struct rate_sample samples[RATE_SAMPLES]; /* the oldest first */
    unsigned count;
};

/* Totals that are smaller than before, or a clock that went back, begin a new window. */
void rate_window_add(struct rate_window *window, struct wall_time at, long long processed, long long failed);
/* How far apart the first and the last sample are. */
int64_t rate_window_span_us(const struct rate_window *window);
/* A second, over the window; false when it is shorter than RATE_LEAST_US. */
bool rate_window_read(const struct rate_window *window, double *processed, double *failed);

#endif
