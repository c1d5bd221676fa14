/* How long a simulated hold lasts: fixed, exponential, lognormal, or as measured (from a file, or from the histogram of
 * a class). Mean and second moment are exact for what is drawn, so a queueing formula can be put beside it. Nothing is
 * cut: an exponential hold can be any length. Pure.
 *
 *     struct distribution hold = {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 0.005, .sigma = 0.8};
 *     distribution_measure(&hold, seconds, count);     or what was measured
 *     double one = distribution_at(&hold, uniform);
 *     distribution_fini(&hold); */
#ifndef WORKER_DRY_RUN_DISTRIBUTION_H
#define WORKER_DRY_RUN_DISTRIBUTION_H

#include <stddef.h>
#include <stdint.h>

enum distribution_kind { DISTRIBUTION_FIXED, DISTRIBUTION_EXPONENTIAL, DISTRIBUTION_LOGNORMAL, DISTRIBUTION_MEASURED };

enum { DISTRIBUTION_QUANTILES_MAX = 4096 };

struct distribution {
    enum distribution_kind kind;
    double mean_s;     /* not of MEASURED */
    double sigma;      /* LOGNORMAL: of the logarithm */
    double *quantiles; /* MEASURED: seconds, ascending, of equal weight, a straight line between two; its own */
    size_t quantile_count;
};

double distribution_mean(const struct distribution *hold);          /* seconds */
double distribution_second_moment(const struct distribution *hold); /* square seconds */
/* `uniform` in [0, 1): the hold in seconds below which that share of all holds lies. */
double distribution_at(const struct distribution *hold, double uniform);

/* As these durations were (seconds, at least one; they are put into order), kept as at most DISTRIBUTION_QUANTILES_MAX
 * quantiles of them. What the distribution owned before is freed. */
void distribution_measure(struct distribution *hold, double *seconds, size_t count);
void distribution_copy(struct distribution *copy, const struct distribution *hold);
/* Frees what it owns. */
void distribution_fini(struct distribution *hold);

#endif
