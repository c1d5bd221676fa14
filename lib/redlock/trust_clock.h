/* What is known of one node's clock beside ours: offset = node's time - ours, somewhere between two bounds.
 *
 * A sample is the node's time, read by the node at some moment between `asked` and `answered` of our clock. Two clocks
 * differ in rate by at most 1 %, so the bounds move apart by 1 % of the time since the sample. If the bounds of a new
 * sample and the old ones cannot both be true, one of the two clocks has stepped (E36). Of two samples that can both be
 * true the sharper one is kept: an answer that was long on its way tells little and spoils nothing.
 *
 * Pure. Used by trust.c only. */
#ifndef REDLOCK_TRUST_CLOCK_H
#define REDLOCK_TRUST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct trust_clock {
    bool is_known;
    int64_t low, high;           /* bounds of the offset in ns, as of `sampled` */
    struct instant sampled;      /* when that sample was asked for */
    struct instant heard;        /* when the last one was answered, kept or not */
    struct instant steady_since; /* no step from there on */
};

struct trust_reading {
    struct instant asked, answered;
    int64_t node_us;
};

/* A length of time that is known to lie between two bounds; forward is > 0. */
struct trust_span {
    int64_t least, most;
};

/* What a reading showed. */
struct trust_clock_news {
    bool is_first;           /* there was nothing to compare it with */
    bool is_step;            /* one of the two clocks stepped: `moved` is all forward, or all backward */
    struct trust_span moved; /* how far the node's clock moved against ours, beyond what is allowed */
    int64_t blur_ns;         /* a step of more than this would have shown */
    struct instant from;     /* when the sample was asked for with which it was compared */
};

/* False for a time that no clock shows, and for one that was not read between two moments. */
bool trust_reading_makes_sense(const struct trust_reading *reading);
struct trust_clock_news trust_clock_read(struct trust_clock *clock, const struct trust_reading *reading);

/* Bounds of the offset at another moment. */
int64_t trust_clock_low(const struct trust_clock *clock, struct instant at);
int64_t trust_clock_high(const struct trust_clock *clock, struct instant at);

/* The middle of `count` >= 1 numbers, which are sorted; of an even count the lower of the two. */
int64_t trust_median_low(int64_t *numbers, unsigned count);

#endif
