/* What a run shows of a number: an estimate is the number and its interval of 95 %, which need not lie evenly around
 * it. Pure.
 *
 * Means of what hangs together (waits) come with an interval from batch means (below). Quantiles: the ranks
 * between which the quantile lies by the binomial distribution, with as many independent values as the interval of the
 * mean says that there are (so many values, divided by how much wider it is than that of independent ones). Counts: a
 * Poisson distribution. */
#ifndef WORKER_DRY_RUN_ESTIMATE_H
#define WORKER_DRY_RUN_ESTIMATE_H

#include <stdbool.h>

#include "worker/dry_run/report/result.h"

struct estimate {
    bool is_known; /* the interval */
    double value, low, high;
};

struct estimate estimate_of_error(double value, double error); /* half the width; 0 = not known */
struct estimate estimate_of_rate(uint64_t count, double seconds);
struct estimate estimate_of_mean(const struct result_spread *spread);
struct estimate estimate_of_quantile(const struct result_spread *spread, double share);
/* Share of the time that a resource is held: as many holds as there were, of that second moment. */
struct estimate estimate_of_share(double share, double holds, double second_moment, double seconds);

/* --- batch means ------------------------------------------------------------------------------------------------- */

/* How well a mean is known when its values hang together, as the waits of one line do: they are put into batches in the
 * order in which they come, and the means of large batches are nearly independent (Conway 1963; Law & Kelton,
 * Simulation Modeling and Analysis, chapter 9). When all batches are full two become one, so that any number of values
 * takes the same room. */
enum { BATCH_MEANS_MAX = 32 };

/* Zeroed = empty. */
struct batch_means {
    double sums[BATCH_MEANS_MAX]; /* of full batches */
    unsigned batches;
    unsigned long size; /* values of a batch; 0 = none came yet */
    double open_sum;    /* of the batch that is being filled */
    unsigned long open_count;
};

void batch_means_add(struct batch_means *means, double value);
/* Half the width of the 95 % interval of the mean; 0 = too few values. */
double batch_means_error(const struct batch_means *means);

#endif
