/* Joins what several hosts of one run have measured. Each of them counted its own tasks, and wrote its result to a
 * file; together they are the result of the run.
 *
 *     result_merge(&result, &of_another_host, &error)     once for each
 *     result_merge_end(&result);                          what the model expects, and the answer
 *
 * Counts, rates and loads are added, means and spreads joined. Of what has no sum the larger one is taken: percentiles
 * of a resource and of a second, the processors of a node, what it counted itself. Pure. */
#ifndef WORKER_DRY_RUN_MERGE_H
#define WORKER_DRY_RUN_MERGE_H

#include "base/error.h"
#include "worker/dry_run/report/result.h"

/* Takes everything of `from`, which is empty then. False when it is no other part of the same run: then nothing was
 * changed. */
bool result_merge(struct result *into, struct result *from, struct error *error) MUST_CHECK;
void result_merge_end(struct result *result);

#endif
