/* How long a simulated hold lasts: fixed, exponential, lognormal, or as measured (from a file, or from the histogram of
 * a class). Mean and second moment are exact for what is drawn, so a queueing formula can be put beside it. Pure. */
#ifndef WORKER_DRY_RUN_DISTRIBUTION_H
#define WORKER_DRY_RUN_DISTRIBUTION_H

#include <stddef.h>
#include <stdint.h>

enum distribution_kind { DISTRIBUTION_FIXED, DISTRIBUTION_EXPONENTIAL, DISTRIBUTION_LOGNORMAL, DISTRIBUTION_MEASURED };

struct distribution {
    enum distribution_kind kind;
    double mean_s;
    double sigma;      /* LOGNORMAL: of the logarithm */
    double *quantiles; /* MEASURED: seconds, ascending, of equal weight; its own */
    size_t quantile_count;
};

double distribution_mean(const struct distribution *hold);          /* seconds */
double distribution_second_moment(const struct distribution *hold); /* square seconds */
/* `uniform` in [0, 1): the hold in seconds below which that share of all holds lies. */
double distribution_at(const struct distribution *hold, double uniform);
/* Frees what it owns. */
void distribution_fini(struct distribution *hold);

#endif
