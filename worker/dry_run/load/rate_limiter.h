/* How fast a shadow may be played, so that it takes no more of the nodes' time than its share: once a second the rate
 * follows what was measured, cut at once when it was too much, raised slowly when there is room. Pure. */
#ifndef WORKER_DRY_RUN_RATE_LIMITER_H
#define WORKER_DRY_RUN_RATE_LIMITER_H

#include <stdbool.h>

struct rate_limiter {
    double share;    /* of a node's time, that is allowed; 0 to 1 */
    double rate;     /* tasks a second, now */
    double rate_max; /* never more */
    double worst;    /* the largest share that was taken in any second */
    unsigned cuts;   /* how often it was too much */
};

struct rate_limiter rate_limiter_begin(double share, double rate_max);
/* `taken`: the share of its time that the run took of the node of which it took most, in the last second; `told`: tasks
 * that were let in meanwhile. Returns the rate from now on. */
double rate_limiter_judge(struct rate_limiter *limiter, double taken, double told);

#endif
