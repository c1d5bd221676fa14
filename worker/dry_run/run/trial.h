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

#include <stdio.h>

#include "worker/dry_run/nodes/name_space.h"
#include "worker/dry_run/nodes/private_nodes.h"
#include "worker/dry_run/report/result.h"
#include "worker/dry_run/run/workforce.h"

struct trial_terms {
    const struct dry_run_plan *plan; /* complete */
    const struct config *live;       /* before it was turned into that of the run: the same nodes */
    const struct config *config;     /* of the run */
    const char *key_space;
    const struct plugins *plugins; /* that serve the classes of a shadow; NULL in a rehearsal without any */
    struct workforce *workforce;
    struct private_nodes *nodes; /* NULL = the configured ones */
    FILE *says;                  /* sentences: troubles, and the id of the run; NULL = none */
    FILE *progress;              /* a terminal, for numbers that are drawn again and again; NULL = none */
    const char *host;            /* this one's name */
    bool *leaves_names;   /* set when it ended before its names were removed: by a further interrupt, or there was
                           no time for all of them */
    bool *is_unreachable; /* set when there is no run because nodes could not be reached */
};

/* False only when there could be no run at all; `result` is then empty. The caller frees it with result_fini. */
bool trial_run(const struct trial_terms *terms, struct result *result, struct error *error) MUST_CHECK;

#endif
