/* How well a mean is known when what it is made of hangs together, as the waits of one line do: the values are put
 * into batches in the order in which they come, and the means of large batches are nearly independent (Conway 1963;
 * Law & Kelton, Simulation Modeling and Analysis, chapter 9). When all batches are full two and two become one, so that
 * any number of values takes the same room. Pure. */
#ifndef WORKER_DRY_RUN_BATCH_MEANS_H
#define WORKER_DRY_RUN_BATCH_MEANS_H

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
/* Half the width of the 95 % interval of the mean; 0 = there were too few values to tell. */
double batch_means_error(const struct batch_means *means);

#endif
