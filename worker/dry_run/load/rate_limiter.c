#include "worker/dry_run/load/rate_limiter.h"

#include <math.h>

/* Never so slow that nothing is learned from it. */
#define RATE_MIN 1.0
/* A second with less than this much of the share has room for more. */
#define ROOM   0.8
#define LET_UP 1.25
#define CUT    0.5

struct rate_limiter rate_limiter_begin(double share, double rate_max)
{
    return (struct rate_limiter){.share = share, .rate = rate_max, .rate_max = rate_max};
}

double rate_limiter_judge(struct rate_limiter *limiter, double taken, double told)
{
    limiter->worst = fmax(limiter->worst, taken);
    if (taken > limiter->share) {
        /* what was let in, not what might have been, is what took so much */
        double from = fmin(limiter->rate, fmax(told, RATE_MIN));
        limiter->rate = from * fmax(limiter->share / taken, CUT);
        limiter->cuts++;
    } else if (taken < ROOM * limiter->share) {
        limiter->rate = limiter->rate * LET_UP + 1;
    }
    limiter->rate = fmin(fmax(limiter->rate, RATE_MIN), limiter->rate_max);
    return limiter->rate;
}
