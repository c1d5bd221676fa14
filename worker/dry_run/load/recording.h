/* What was seen of a load: how long tasks held, which resources they wanted how often, and how many came in a second,
 * so that a rehearsal can repeat it. From the log of workers, in which no task may have been added up, or from the
 * result of an earlier dry run.
 *
 *     if (recorded_read_file(&recorded, path, &error)) {
 *         recorded_apply(&recorded, &plan);
 *         recorded_fini(&recorded);
 *     }
 *
 * What failed leaves nothing to free. */
#ifndef WORKER_DRY_RUN_RECORDING_H
#define WORKER_DRY_RUN_RECORDING_H

#include "worker/dry_run/plan/plan.h"
#include "worker/dry_run/report/result.h"
#include "worker/history/history.h"

struct recorded {
    struct distribution hold;
    struct popularity popularity; /* WEIGHTS, with names; the DRY_RUN_NAMED_MAX most wanted */
    unsigned resources_per_task;  /* as most tasks, rounded */
    double rate;                  /* tasks a second; 0 = too few to know */
    unsigned population;          /* of a closed loop; 0 = it was none */
    uint64_t tasks;               /* that it is made of */
    uint64_t left_out;            /* resources that were wanted least */
};

/* From ordered holds: those that were locked and ended. False when there are none. Pure. */
bool recorded_from_history(struct recorded *recorded, const struct history *history, struct error *error) MUST_CHECK;
/* False when nothing was held in it, or nothing of its resources is known. Pure. */
bool recorded_from_result(struct recorded *recorded, const struct result *result, struct error *error) MUST_CHECK;
/* The file of that name, "-" for standard input: a result when it begins with a brace, else a log. Blocks. */
bool recorded_read_file(struct recorded *recorded, const char *path, struct error *error) MUST_CHECK;

/* Makes it the load of a plan: holds, resources, how many a task takes, and the rate or the population if there is one.
 * What it had of these is freed; what is in `recorded` goes over, and is empty then. */
void recorded_apply(struct recorded *recorded, struct dry_run_plan *plan);
void recorded_fini(struct recorded *recorded);

#endif
