/* The plain answer on top of a report, in this order:
 *
 *   0. Of some hosts of a run without the others it says that, and nothing else.
 *   1. A run with faults tells what tasks waited with them, and nothing of the load.
 *   2. Where nothing ran, or too little to judge by, it says that.
 *   3. Where tasks waited much longer than the model expects, it says that first, and gives no advice of the model.
 *   4. The bottleneck, when something is nearly full, or that the dry run itself did not keep up.
 *   5. Else what is the fullest. How much the load could grow it says when others left processors to the run.
 *
 * Then what would help, with numbers from the model. Pure. */
#ifndef WORKER_DRY_RUN_VERDICT_H
#define WORKER_DRY_RUN_VERDICT_H

#include "worker/dry_run/report/result.h"

/* Sets bottleneck, headroom, answer and advice of a result that is otherwise complete:
 * after stats_finish or result_merge, its plan, host and faults included. */
void verdict_make(struct result *result);

#endif
