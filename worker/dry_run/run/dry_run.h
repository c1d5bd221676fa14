/* A dry run on this host, from a plan to its result.
 *
 *     struct result result;
 *     if (dry_run_perform(&request, &result, &findings) == EXIT_CODE_OK)      or dry_run_explore: points of a what-if
 *         ... result_text_write, result_json_write, result_page_write ...
 *     result_fini(&result);
 *
 * Everything is checked before anything is started. Only a process with one thread and no loop may fork, hence the
 * order: private nodes, the cleanup process, the workers, then the loop of the trial. Nothing of the run is left when
 * these return; when the process is killed, the cleanup process removes it. */
#ifndef WORKER_DRY_RUN_DRY_RUN_H
#define WORKER_DRY_RUN_DRY_RUN_H

#include <stdio.h>

#include "worker/config/findings.h"
#include "worker/dry_run/nodes/cleanup.h"
#include "worker/dry_run/nodes/private_nodes.h"
#include "worker/dry_run/report/result.h"
#include "worker/dry_run/run/dry_config.h"
#include "worker/dry_run/run/shadow_holds.h"
#include "worker/dry_run/run/workforce.h"
#include "worker/print/exit_code.h"

struct dry_run_request {
    const struct dry_run_plan *plan; /* complete, with its id and seed */
    const char *config_path;         /* NULL = nothing is configured */
    FILE *says;                      /* sentences: troubles, and the id of the run; NULL = none */
    FILE *progress;                  /* a terminal, for numbers that are drawn again and again; NULL = none */
};

/* What a run on this host is made of, in the order in which it is made. */
struct dry_run {
    const struct dry_run_request *request;
    const struct dry_run_plan *plan;
    struct findings *findings;
    bool is_unreachable;   /* nodes are, so there is no run */
    bool leaves_names;     /* it ended before they were removed: the cleanup process goes on with them */
    struct config *live;   /* as configured */
    struct config *config; /* of the run */
    struct plugins *plugins;
    struct shadow_holds holds; /* of a shadow */
    char *directory;           /* of private nodes; NULL = there are none */
    struct private_nodes *nodes;
    pid_t cleanup;
    struct workforce *workforce;
    char key_space[DRY_CONFIG_SPACE_MAX];
    char host[256];
};

/* One run. EXIT_CODE_OK, or there was none: EXIT_CODE_TEMPORARY when nodes could not be reached. The errors are among
 * the findings. Warnings are there in any case. */
enum exit_code dry_run_perform(const struct dry_run_request *request, struct result *result,
                               struct findings *findings) MUST_CHECK;
/* A run for each point of the plan, in processes of their own, and what they gave beside one another: the result is
 * that of the point that is nearest to the plan's own threads, with all points in it. EXIT_CODE_OK unless there is
 * none; when an error or an interrupt was the end of it, the points until then are the result. */
enum exit_code dry_run_explore(const struct dry_run_request *request, struct result *result,
                               struct findings *findings) MUST_CHECK;

/* --- what these are made of --------------------------------------------------------------------------------------- */

/* From when everything is prepared and the workers wait (trial.c). False only when there could be no run at all;
 * `result` is then empty. The caller frees it with result_fini. */
bool trial_run(struct dry_run *run, struct result *result, struct error *error) MUST_CHECK;

#endif
