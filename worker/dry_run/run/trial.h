/* One dry run from its gate to its end. Everything is prepared and the workers wait; here the load is put in, records
 * are counted, remote hosts are heard, faults are done, and the result is made.
 *
 *     GATHERING ──────▶ STARTING ──────▶ LOADING ──────▶ DRAINING ─────▶ ENDING ──────▶ LOOKING ──▶ CLEANING ─▶ over
 *     workers, nodes,   they are told    warm-up, then   no new tasks;   workers stop,  the nodes'   all keys of
 *     others are there  to go, and are   measured        what is there   others too     own counts   the run are
 *                       up                               may end                                     removed
 *
 * SIGINT or SIGTERM ends the load, without draining; a second one ends the waiting for remote hosts and nodes too. The
 * result says what was found out so far. Runs a loop of its own on the calling thread, the only one. If the process
 * dies, the cleanup process tidies up (cleanup.h). trial_report.c has what it tells. */
#ifndef WORKER_DRY_RUN_TRIAL_H
#define WORKER_DRY_RUN_TRIAL_H

#include "worker/dry_run/run/dry_run.h"

/* What `run` is made of is prepared. False only when there could be no run at all; `result` is then empty. The caller
 * frees it with result_fini. */
bool trial_run(struct dry_run *run, struct result *result, struct error *error) MUST_CHECK;

#endif
