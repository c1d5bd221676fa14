/* How fast a shadow may be played, so that it takes no more of the nodes' time than its share: once a second what it
 * took is measured, and the rate follows. Cut at once when it was too much, let up slowly when there is room. Pure. */
#ifndef WORKER_DRY_RUN_ADMISSION_H
#define WORKER_DRY_RUN_ADMISSION_H

#include <stdbool.h>

struct admission {
    double share;    /* of a node's time, that is allowed; 0 to 1 */
    double rate;     /* tasks a second, now */
    double rate_max; /* never more */
    double worst;    /* the largest share that was taken in any second */
    unsigned cuts;   /* how often it was too much */
};

struct admission admission_begin(double share, double rate_max);
/* `taken`: the share of its time that the run took of the node of which it took most, in the last second; `told`: tasks
 * that were let in meanwhile. Returns the rate from now on. */
double admission_judge(struct admission *admission, double taken, double told);

#endif
