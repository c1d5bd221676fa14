#include "worker/dry_run/plan/distribution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"

/* --- the normal distribution -------------------------------------------------------------------------------------- */

/* The x below which the share `lower`, at most one half, of a standard normal variable lies. The logarithm of its
 * distribution function rises and is concave, so Newton's method from a point left of the solution comes nearer with
 * every step and cannot overshoot; sqrt(-2 ln(2p)) is such a point, because the tail beyond t is less than
 * exp(-t*t/2)/2. */
static double normal_tail(double lower)
{
    enum { STEPS_MAX = 60 };
    double x = -sqrt(-2 * log(2 * lower));
    for (int i = 0; i < STEPS_MAX; i++) {
        double below = erfc(-x * M_SQRT1_2) / 2;
        double density = exp(-x * x / 2) * M_2_SQRTPI * M_SQRT1_2 / 2;
        double step = (log(lower) - log(below)) * below / density;
        x += step;
        if (fabs(step) < 1e-14 * (1 + fabs(x)))
            break;
    }
    return x;
}

/* A uniform number of 53 bits that is 0 stands for what lies before the next: there is no x for 0 itself. */
static double normal_at(double uniform)
{
    if (uniform <= 0)
        uniform = 0x1p-54;
    return uniform <= 0.5 ? normal_tail(uniform) : -normal_tail(1 - uniform);
}

/* --- measured ----------------------------------------------------------------------------------------------------- */

static double measured_at(const struct distribution *hold, double uniform)
{
    double position = uniform * (double)(hold->quantile_count - 1);
    size_t low = (size_t)position;
    if (low + 1 >= hold->quantile_count)
        return hold->quantiles[hold->quantile_count - 1];
    double from = hold->quantiles[low], to = hold->quantiles[low + 1];
    return from + (to - from) * (position - (double)low);
}

/* What is drawn between two quantiles is uniform there, and each such stretch is as likely as the others. */
static double measured_mean(const struct distribution *hold)
{
    const double *at = hold->quantiles;
    double sum = 0;
    for (size_t i = 0; i + 1 < hold->quantile_count; i++)
        sum += (at[i] + at[i + 1]) / 2;
    return hold->quantile_count > 1 ? sum / (double)(hold->quantile_count - 1) : at[0];
}

static double measured_second_moment(const struct distribution *hold)
{
    const double *at = hold->quantiles;
    double sum = 0;
    for (size_t i = 0; i + 1 < hold->quantile_count; i++)
        sum += (at[i] * at[i] + at[i] * at[i + 1] + at[i + 1] * at[i + 1]) / 3;
    return hold->quantile_count > 1 ? sum / (double)(hold->quantile_count - 1) : at[0] * at[0];
}

static int by_length(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

void distribution_measure(struct distribution *hold, double *seconds, size_t count)
{
    invariant(count > 0);
    qsort(seconds, count, sizeof *seconds, by_length);
    struct distribution all = {.kind = DISTRIBUTION_MEASURED, .quantiles = seconds, .quantile_count = count};
    size_t kept = count < DISTRIBUTION_QUANTILES_MAX ? count : DISTRIBUTION_QUANTILES_MAX;
    double *quantiles = memory_zeroed(kept, sizeof *quantiles);
    for (size_t i = 0; i < kept; i++)
        quantiles[i] = kept == count ? seconds[i] : measured_at(&all, (double)i / (double)(kept - 1));
    distribution_fini(hold);
    *hold = (struct distribution){.kind = DISTRIBUTION_MEASURED, .quantiles = quantiles, .quantile_count = kept};
}

/* --- all kinds ---------------------------------------------------------------------------------------------------- */

double distribution_mean(const struct distribution *hold)
{
    return hold->kind == DISTRIBUTION_MEASURED ? measured_mean(hold) : hold->mean_s;
}

double distribution_second_moment(const struct distribution *hold)
{
    double square = hold->mean_s * hold->mean_s;
    switch (hold->kind) {
    case DISTRIBUTION_FIXED:
        return square;
    case DISTRIBUTION_EXPONENTIAL:
        return 2 * square;
    case DISTRIBUTION_LOGNORMAL:
        return square * exp(hold->sigma * hold->sigma);
    case DISTRIBUTION_MEASURED:
        return measured_second_moment(hold);
    }
    invariant_unreachable("a kind that does not exist");
}

double distribution_at(const struct distribution *hold, double uniform)
{
    invariant(uniform >= 0 && uniform < 1);
    switch (hold->kind) {
    case DISTRIBUTION_FIXED:
        return hold->mean_s;
    case DISTRIBUTION_EXPONENTIAL:
        return -hold->mean_s * log1p(-uniform);
    case DISTRIBUTION_LOGNORMAL:
        /* The median lies below the mean by exp(sigma^2 / 2). */
        return hold->mean_s * exp(hold->sigma * normal_at(uniform) - hold->sigma * hold->sigma / 2);
    case DISTRIBUTION_MEASURED:
        return measured_at(hold, uniform);
    }
    invariant_unreachable("a kind that does not exist");
}

void distribution_copy(struct distribution *copy, const struct distribution *hold)
{
    *copy = *hold;
    if (hold->quantiles == NULL)
        return;
    copy->quantiles = memory_zeroed(hold->quantile_count, sizeof *copy->quantiles);
    memcpy(copy->quantiles, hold->quantiles, hold->quantile_count * sizeof *copy->quantiles);
}

void distribution_fini(struct distribution *hold)
{
    free(hold->quantiles);
    hold->quantiles = NULL;
    hold->quantile_count = 0;
}
