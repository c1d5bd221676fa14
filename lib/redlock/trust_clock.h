/* What is known of one node's clock beside ours: offset = node's time - ours, somewhere between two bounds.
 *
 * The promise about clocks (lease.h): within any time W up to the window, the clock of a node and ours move apart by at
 * most rate x W + LEASE_FORGIVEN_NS. So each sample (the node's time, read there between `asked` and `answered` of our
 * clock) bounds the offset for all time after it. A sample that does not fit the bounds of the last window breaks the
 * promise: one of the two clocks has stepped, or runs at another rate (E36). Each sample is judged by the whole window,
 * because a creeping clock moves little from one sample to the next.
 *
 * All samples of some seconds are kept as one pair of bounds: lines of equal slope keep their order, so the lowest
 * upper one and the highest lower one say what all of them say. The newest sample is kept beside them, to date a step.
 *
 * Pure. Used by trust*.c, and for the clock of a single machine. */
#ifndef REDLOCK_TRUST_CLOCK_H
#define REDLOCK_TRUST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum { TRUST_CLOCK_BUCKETS = 9 }; /* one is for the newest sample alone */

struct trust_promise {
    int64_t rate_ppm;  /* by which the clocks may differ in rate */
    int64_t window_ns; /* within which LEASE_FORGIVEN_NS is forgiven once */
};

/* Bounds of the offset from `origin` on, which move apart by the rate. */
struct trust_bounds {
    struct instant origin;
    int64_t low, high; /* at origin */
};

struct trust_clock {
    bool is_known;
    unsigned count; /* the oldest first; the last is the newest sample alone */
    struct trust_bounds bounds[TRUST_CLOCK_BUCKETS];
    struct instant heard;        /* when the last one was answered */
    struct instant steady_since; /* no step from there on */
};

struct trust_reading {
    struct instant asked, answered; /* before the request was written; when the reply was read */
    int64_t node_us;                /* TIME */
};

/* A length of time, or a rate, between two bounds; forward is > 0. */
struct trust_span {
    int64_t least, most;
};

/* What a reading showed. */
struct trust_clock_news {
    bool is_first;           /* there was nothing to compare it with */
    bool is_step;            /* the promise is broken: `moved` is all forward, or all backward */
    struct trust_span moved; /* how far the node's clock moved against ours, beyond what is allowed */
    int64_t blur_ns;         /* a step of more than this would have shown */
    struct instant from;     /* a step was after this */
};

/* The reading must make sense. */
struct trust_clock_news trust_clock_read(struct trust_clock *clock, const struct trust_promise *promise,
                                         const struct trust_reading *reading);

/* How much faster the node's clock runs than ours, in ppm, as two readings of one run bound it. INT64_MIN and INT64_MAX
 * if they overlap, or make no sense. */
struct trust_span trust_rate_ppm(const struct trust_reading *first, const struct trust_reading *second);

/* The offset of a known clock at a moment. */
struct trust_span trust_clock_offset(const struct trust_clock *clock, const struct trust_promise *promise,
                                     struct instant at);

/* Sorts `count` >= 1 numbers and returns the middle one, the lower of two. */
int64_t trust_median_low(int64_t *numbers, unsigned count);

#endif
