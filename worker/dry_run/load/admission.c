#include "worker/dry_run/load/admission.h"

#include <math.h>

/* Never so slow that nothing is learned from it. */
#define RATE_MIN 1.0
/* A second with less than this much of the share has room for more. */
#define ROOM   0.8
#define LET_UP 1.25
#define CUT    0.5

struct admission admission_begin(double share, double rate_max)
{
    return (struct admission){.share = share, .rate = rate_max, .rate_max = rate_max};
}

double admission_judge(struct admission *admission, double taken, double told)
{
    admission->worst = fmax(admission->worst, taken);
    if (taken > admission->share) {
        /* what was let in, not what might have been, is what took so much */
        double from = fmin(admission->rate, fmax(told, RATE_MIN));
        admission->rate = from * fmax(admission->share / taken, CUT);
        admission->cuts++;
    } else if (taken < ROOM * admission->share) {
        admission->rate = admission->rate * LET_UP + 1;
    }
    admission->rate = fmin(fmax(admission->rate, RATE_MIN), admission->rate_max);
    return admission->rate;
}
