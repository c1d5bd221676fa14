/* What the options of `holdfast dry-run` do to a plan: a table of rows (worker/config/options.h) whose struct is the
 * plan. What cannot be read leaves the plan as it was, and the error says which forms there are.
 *
 * The later option wins: --uniform, --zipf, --hot and --popularity replace each other, so do --rate and --closed;
 * --recorded sets resources, holds and rate, which what comes after it changes. Whether the parts fit together is
 * judged by plan_check, when all are there. Those that take a FILE read it, and block meanwhile; "-" is standard
 * input (plan_files.h, recorded.h). */
#ifndef WORKER_DRY_RUN_PLAN_OPTIONS_H
#define WORKER_DRY_RUN_PLAN_OPTIONS_H

#include "worker/dry_run/plan/plan.h"
#include "worker/config/options.h"

extern const struct option_row plan_options[];

#endif
