/* The plain answer on top of a report: what is the bottleneck of the run, how close the load came to it, and what would
 * help, with numbers from the model. Never says what the data cannot: after too few tasks it says that. Pure. */
#ifndef WORKER_DRY_RUN_VERDICT_H
#define WORKER_DRY_RUN_VERDICT_H

#include "worker/dry_run/count/model.h"
#include "worker/dry_run/report/result.h"

/* What is not in the result. */
struct verdict_facts {
    unsigned processors; /* of this machine; 0 = not known */
    double machine_busy; /* share of all processors that were busy while it was measured; negative = not known */
    double load_behind;  /* share of the pushes that came later than the plan wanted by more than 50 ms; 0 = in time */
    double load_cpu;     /* share of one processor that the one that counts and pushes used */
};

/* Sets bottleneck, headroom (0 = nothing can be said of it), answer and advice of a result that is otherwise complete:
 * after stats_finish, its plan included. */
void verdict_make(struct result *result, const struct model_overheads *overheads, const struct verdict_facts *facts);

#endif
