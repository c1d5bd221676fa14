/* Puts what the model (model.h) expects beside what was measured: for each resource of a result, for the whole run,
 * and for runs that would be a little different.
 *
 * What the model is given: of an open load the arrivals as they came, of a closed loop its population, and which
 * resource how often. Of a rehearsal the plan's holds, longer by what a hold costs more than its handler; of a shadow
 * the holds as they were. And the overheads of the run (model.h). It is not given any wait that it is to
 * predict. Pure. */
#ifndef WORKER_DRY_RUN_EXPECTATION_H
#define WORKER_DRY_RUN_EXPECTATION_H

#include "worker/dry_run/count/model.h"
#include "worker/dry_run/report/result.h"

/* Sets `expected` of the result and of its resources, and `formula`. The rest of the result is complete. Nothing is
 * expected of some hosts of a run without the others. */
void expectation_fill(struct result *result);

/* What is different in a run that did not take place. 1 = as it was. */
struct expectation_change {
    double holds;    /* their lengths */
    double runners;  /* how many */
    unsigned spread; /* the resource with the greatest load is so many, alike */
};
#define EXPECTATION_AS_IT_WAS ((struct expectation_change){.holds = 1, .runners = 1, .spread = 1})

/* Of all: utilisation of the runners, mean wait, throughput. The result has its resources. */
struct result_expected expectation_of(const struct result *result, const struct expectation_change *change);

#endif
