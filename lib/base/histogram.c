/* Values below 32 have a step each. From there on a power of two has 32 steps: the step is found from the place of
 * the highest bit (which power) and the five bits below it (which step in the power).
 *
 *     value       0 .. 31   32 .. 63   64 .. 127   128 .. 255   ...   2^35 .. 2^36 - 1
 *     width          1          1          2            4                   2^30
 *     steps from     0         32         64           96                    992           */
#include "base/histogram.h"

#include "base/invariant.h"

enum { STEP_BITS = 5, STEPS_PER_POWER = 1 << STEP_BITS };

#define VALUE_MAX ((UINT64_C(1) << 36) - 1)

static size_t step_of(uint64_t value)
{
    if (value < STEPS_PER_POWER)
        return (size_t)value;
    int shift = 63 - __builtin_clzll(value) - STEP_BITS; /* width of the step = 2^shift */
    uint64_t in_power = (value >> shift) - STEPS_PER_POWER;
    return (size_t)(shift + 1) * STEPS_PER_POWER + (size_t)in_power;
}

/* The largest value that is counted in the step. */
static uint64_t step_top(size_t step)
{
    if (step < STEPS_PER_POWER)
        return step;
    size_t shift = step / STEPS_PER_POWER - 1;
    uint64_t in_power = step % STEPS_PER_POWER;
    return ((STEPS_PER_POWER + in_power + 1) << shift) - 1;
}

static uint64_t counted_as(int64_t value_us)
{
    uint64_t value = value_us < 0 ? 0 : (uint64_t)value_us;
    return value > VALUE_MAX ? VALUE_MAX : value;
}

int64_t histogram_step_top(size_t step)
{
    invariant(step < HISTOGRAM_STEPS);
    return (int64_t)step_top(step);
}

size_t histogram_step_of(int64_t value_us)
{
    return step_of(counted_as(value_us));
}

void histogram_record(struct histogram *histogram, int64_t value_us)
{
    uint64_t value = counted_as(value_us);
    histogram->counts[step_of(value)]++;
    histogram->count++;
    histogram->sum_us += value;
    if (value > histogram->max_us)
        histogram->max_us = value;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (size_t step = 0; step < HISTOGRAM_STEPS; step++)
        into->counts[step] += from->counts[step];
    into->count += from->count;
    into->sum_us += from->sum_us;
    if (from->max_us > into->max_us)
        into->max_us = from->max_us;
}

/* The number of records, from the smallest, in the share: rounded up, from 1 to `count`. */
static uint64_t rank_of(uint64_t count, double share)
{
    if (!(share > 0))
        return 1;
    if (share >= 1)
        return count;
    double exact = share * (double)count;
    uint64_t rank = (uint64_t)exact;
    if ((double)rank < exact)
        rank++;
    return rank < 1 ? 1 : rank > count ? count : rank;
}

int64_t histogram_quantile(const struct histogram *histogram, double share)
{
    if (histogram->count == 0)
        return 0;

    uint64_t rank = rank_of(histogram->count, share);
    uint64_t seen = 0;
    for (size_t step = 0; step < HISTOGRAM_STEPS; step++) {
        seen += histogram->counts[step];
        if (seen >= rank) {
            uint64_t top = step_top(step);
            return (int64_t)(top < histogram->max_us ? top : histogram->max_us);
        }
    }
    return (int64_t)histogram->max_us;
}

void histogram_spread(const struct histogram *histogram, const int64_t *bounds_us, size_t bounds, uint64_t *counts)
{
    size_t bound = 0;
    for (size_t step = 0; step < HISTOGRAM_STEPS; step++) {
        if (histogram->counts[step] == 0)
            continue; /* most are */
        while (bound < bounds && (int64_t)step_top(step) > bounds_us[bound])
            bound++;
        counts[bound] += histogram->counts[step];
    }
}

/* --- coarse steps ------------------------------------------------------------------------------------------------- */

enum { STEPS_TOGETHER = HISTOGRAM_STEPS / HISTOGRAM_COARSE_STEPS };

void histogram_coarse_record(struct histogram_coarse *histogram, int64_t value_us)
{
    histogram->counts[histogram_step_of(value_us) / STEPS_TOGETHER]++;
}

static void step_restore(struct histogram *histogram, size_t step, uint64_t count)
{
    uint64_t top = step_top(step), below = step > 0 ? step_top(step - 1) : 0;
    histogram->counts[step] += count;
    histogram->count += count;
    histogram->sum_us += count * (below + (top - below + 1) / 2);
    if (count > 0 && top > histogram->max_us)
        histogram->max_us = top;
}

void histogram_restore(struct histogram *histogram, size_t coarse_step, uint64_t count)
{
    invariant(coarse_step < HISTOGRAM_COARSE_STEPS);
    uint64_t rest = count % STEPS_TOGETHER; /* is in the upper ones */
    for (size_t i = 0; i < STEPS_TOGETHER; i++)
        step_restore(histogram, coarse_step * STEPS_TOGETHER + i,
                     count / STEPS_TOGETHER + (STEPS_TOGETHER - i <= rest ? 1 : 0));
}

int64_t histogram_coarse_end(size_t coarse_step)
{
    invariant(coarse_step < HISTOGRAM_COARSE_STEPS);
    return (int64_t)step_top((coarse_step + 1) * STEPS_TOGETHER - 1) + 1;
}
