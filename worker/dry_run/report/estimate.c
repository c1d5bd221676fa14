#include "worker/dry_run/report/estimate.h"

#include <math.h>

#define Z_95 1.959964

/* How coarse the steps of a histogram are (histogram.h). */
#define STEP_SHARE (1.0 / 32)

struct estimate estimate_of_error(double value, double error)
{
    return (struct estimate){.is_known = error > 0, .value = value, .low = value - error, .high = value + error};
}

/* Those rates at which so large or so small a count is 1.96 standard deviations off: right for small counts, too. */
struct estimate estimate_of_rate(uint64_t count, double seconds)
{
    double middle = (double)count + Z_95 * Z_95 / 2, spread = Z_95 * sqrt((double)count + Z_95 * Z_95 / 4);
    if (!(seconds > 0))
        return (struct estimate){.is_known = false};
    return (struct estimate){.is_known = true,
                             .value = (double)count / seconds,
                             .low = fmax(middle - spread, 0) / seconds,
                             .high = (middle + spread) / seconds};
}

struct estimate estimate_of_share(double share, double holds, double second_moment, double seconds)
{
    return estimate_of_error(share, seconds > 0 ? Z_95 * sqrt(holds * second_moment) / seconds : 0);
}

static double middle_of(size_t step)
{
    double top = (double)histogram_step_top(step), below = step > 0 ? (double)histogram_step_top(step - 1) : -1;
    return (top + below + 1) / 2 / 1e6;
}

static double variance_of(const struct histogram *histogram)
{
    double mean = 0, squares = 0, count = (double)histogram->count;
    for (size_t step = 0; step < HISTOGRAM_STEPS; step++) {
        double share = (double)histogram->counts[step] / count, value = middle_of(step);
        mean += share * value;
        squares += share * value * value;
    }
    return fmax(squares - mean * mean, 0);
}

/* How much wider the interval of the mean is, squared, than it would be if the values had nothing to do with each
 * other; at least 1. */
static double inflation_of(const struct result_spread *spread)
{
    double independent = variance_of(spread->histogram) / (double)spread->count;
    double variance = spread->mean_error / Z_95 * spread->mean_error / Z_95;
    return independent > 0 ? fmax(variance / independent, 1) : 1;
}

struct estimate estimate_of_mean(const struct result_spread *spread)
{
    return estimate_of_error(spread->mean, spread->mean_error);
}

static double quantile_of(const struct histogram *histogram, double share)
{
    return (double)histogram_quantile(histogram, fmin(fmax(share, 0), 1)) / 1e6;
}

/* Where fewer than five independent values lie beyond it, nothing is known of it. */
struct estimate estimate_of_quantile(const struct result_spread *spread, double share)
{
    const struct histogram *histogram = spread->histogram;
    struct estimate estimate = {.is_known = false};
    if (histogram == NULL || histogram->count == 0)
        return estimate;
    estimate.value = quantile_of(histogram, share);
    if (spread->mean_error <= 0)
        return estimate;
    double count = (double)histogram->count / inflation_of(spread), width = Z_95 * sqrt(share * (1 - share) / count);
    estimate.is_known = count * fmin(share, 1 - share) >= 5;
    estimate.low = quantile_of(histogram, share - width) * (1 - STEP_SHARE);
    estimate.high = quantile_of(histogram, share + width) * (1 + STEP_SHARE);
    return estimate;
}

/* --- batch means ------------------------------------------------------------------------------------------------- */

enum { SIZE_MIN = 8 }; /* below that a batch says nothing */

static void halve(struct batch_means *means)
{
    for (unsigned i = 0; i < BATCH_MEANS_MAX / 2; i++)
        means->sums[i] = means->sums[2 * i] + means->sums[2 * i + 1];
    means->batches = BATCH_MEANS_MAX / 2;
    means->size *= 2;
}

void batch_means_add(struct batch_means *means, double value)
{
    if (means->size == 0)
        means->size = 1;
    means->open_sum += value;
    if (++means->open_count < means->size)
        return;
    means->sums[means->batches++] = means->open_sum;
    means->open_sum = 0;
    means->open_count = 0;
    if (means->batches == BATCH_MEANS_MAX)
        halve(means);
}

/* The value of Student's t that 2.5 % are beyond (Cornish & Fisher's expansion; within 0.1 % from 10 degrees on). */
static double student(double degrees)
{
    const double z = Z_95, z3 = z * z * z, z5 = z3 * z * z;
    return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees);
}

/* What neighbouring batches still have in common makes the interval wider: their variance is
 * multiplied by (1 + r) / (1 - r), as for an autoregressive process with the correlation r of neighbours. */
double batch_means_error(const struct batch_means *means)
{
    if (means->size < SIZE_MIN)
        return 0;
    double count = means->batches, mean = 0, squares = 0, products = 0, before = 0;
    for (unsigned i = 0; i < means->batches; i++)
        mean += means->sums[i] / (double)means->size / count;
    for (unsigned i = 0; i < means->batches; i++) {
        double off = means->sums[i] / (double)means->size - mean;
        squares += off * off;
        products += off * before;
        before = off;
    }
    double in_common = squares > 0 ? fmin(fmax(products / squares, 0), 0.9) : 0;
    double variance = squares / (count - 1) * (1 + in_common) / (1 - in_common);
    return student(count - 1) * sqrt(variance / count);
}
