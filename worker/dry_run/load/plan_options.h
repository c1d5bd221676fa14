/* What the options of `holdfast dry-run` do to a plan: rows (worker/config/command_options.h) whose struct is the plan.
 * What cannot be read leaves the plan as it was, and the error says which forms there are.
 *
 * The later option wins: --zipf and --hot replace each other, so do --rate and --closed;
 * --recorded sets resources, holds and rate, which later options change. plan_check judges whether the parts fit
 * together. Options with a FILE block while it is read; "-" is standard input. */
#ifndef WORKER_DRY_RUN_PLAN_OPTIONS_H
#define WORKER_DRY_RUN_PLAN_OPTIONS_H

#include "worker/config/command_options.h"
#include "worker/dry_run/plan/plan.h"

extern const struct option_row plan_options[];

/* The whole command line. */
struct dry_run_line {
    struct dry_run_plan plan;
    const char *path, *html, *save;
    bool as_json, is_quiet;
};

#endif
