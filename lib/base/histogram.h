/* Log-linear histogram of durations: 32 steps in each power of two, so a quantile is at most 3.1 % off; from
 * 1 microsecond to 2^36 microseconds (19 hours), larger values count as the largest. One writer; merge to read
 * several. 8 KiB each. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_STEPS = 1024 };

struct histogram {
    uint64_t counts[HISTOGRAM_STEPS];
    uint64_t count;
    uint64_t sum_us;
    uint64_t max_us;
};

void histogram_record(struct histogram *histogram, int64_t value_us); /* negative counts as 0 */
void histogram_merge(struct histogram *into, const struct histogram *from);
/* The value below which `share` (0..1) of the records lie, in microseconds; 0 when there are none. */
int64_t histogram_quantile(const struct histogram *histogram, double share);

/* For each of the ascending bounds adds to `counts` how many records lie above the bound before it and, to within the
 * width of a step, not above it; the last count is of those beyond all bounds, so there is one more. */
void histogram_spread(const struct histogram *histogram, const int64_t *bounds_us, size_t bounds, uint64_t *counts);

/* For many names, and where it is stored: eight steps are one, a quarter of a power of two each, and eight microseconds
 * below 32. 1 KiB each. Restoring records so many values of one of them again, spread evenly over its steps. */
enum { HISTOGRAM_COARSE_STEPS = HISTOGRAM_STEPS / 8 };
struct histogram_coarse {
    uint64_t counts[HISTOGRAM_COARSE_STEPS];
};
void histogram_coarse_record(struct histogram_coarse *histogram, int64_t value_us);
void histogram_restore(struct histogram *histogram, size_t coarse_step, uint64_t count);
/* The smallest value beyond it. */
int64_t histogram_coarse_end(size_t coarse_step);

/* For restoring a histogram that was saved step by step: the largest value of a step in microseconds, and the step
 * of a value. */
int64_t histogram_step_top(size_t step);
size_t histogram_step_of(int64_t value_us);

#endif
