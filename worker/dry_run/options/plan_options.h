/* What the options of `holdfast dry-run` do to a plan: a table of rows (worker/options.h) whose struct is the plan.
 * What cannot be read leaves the plan as it was, and the error says which forms there are.
 *
 * The later option wins: --uniform, --zipf, --hot and --popularity replace each other, so do --rate and --closed;
 * --recorded sets resources, holds and rate, which what comes after it changes. Whether the parts fit together is
 * judged by plan_check, when all are there. Those that take a FILE read it, and block meanwhile; "-" is standard
 * input (plan_files.h, recorded.h). */
#ifndef WORKER_DRY_RUN_PLAN_OPTIONS_H
#define WORKER_DRY_RUN_PLAN_OPTIONS_H

#include "worker/dry_run/plan/plan.h"
#include "worker/options.h"

extern const struct option_row plan_options[];

/* Those of plan_fault.c. WHEN:WHAT:WHOM[:HOW], one more fault; the node `queue` can be stopped, slowed and given
 * another time:
 *
 *     5s:stop:lock2:3s   5s:kill:lock2:3s   6s:wipe:lock1   5s:slow:lock3:20ms:4s   5s:clock:lock2:+5s
 *     5s:freeze:worker1:4s   5s:kill:worker2 */
bool plan_fault_take(void *target, const char *text, struct error *error) MUST_CHECK;
/* threads=8,16,32 */
bool plan_what_if_take(void *target, const char *text, struct error *error) MUST_CHECK;

#endif
