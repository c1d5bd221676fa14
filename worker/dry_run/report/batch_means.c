/* See batch_means.h. What neighbouring batches still have in common makes the interval wider: their variance is
 * multiplied by (1 + r) / (1 - r), as for an autoregressive process with the correlation r of neighbours. */
#include "worker/dry_run/report/batch_means.h"

#include <math.h>

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
    const double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z;
    return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees);
}

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
