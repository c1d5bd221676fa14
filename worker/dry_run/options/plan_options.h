/* The parts of a plan as texts: what the options of `holdfast dry-run` take. Each function reads one text into the
 * plan; when it cannot, the plan is as it was and the error says what is wrong and which forms there are (without the
 * name of the option, which the caller puts before it).
 *
 *     plan_init(&plan);
 *     if (!plan_take_hold(&plan, "exp:5ms", &error)) ...
 *
 * The later option wins: --uniform, --zipf, --hot and --popularity replace each other, so do --rate and --closed;
 * --recorded sets resources, holds and rate, which what comes after it changes. Whether the parts fit together is
 * judged by plan_check, when all are there. Those that take a FILE read it, and block meanwhile; "-" is standard
 * input. */
#ifndef WORKER_DRY_RUN_PLAN_OPTIONS_H
#define WORKER_DRY_RUN_PLAN_OPTIONS_H

#include "worker/dry_run/plan/plan.h"

/* [NODES], an odd number; NULL = the usual number. On private nodes. */
bool plan_take_local(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
/* Twelve hexadecimal digits: the id of a run. */
bool plan_take_id(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
bool plan_take_seed(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;

/* A duration each. */
bool plan_take_for(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
bool plan_take_warm_up(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;

/* A number each. */
bool plan_take_threads(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
bool plan_take_processes(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
bool plan_take_hosts(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
bool plan_take_closed(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
bool plan_take_resources(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
bool plan_take_per_task(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;

/* 200/s, 12000/m, 40/h */
bool plan_take_rate(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;

/* `text` is not looked at. */
bool plan_take_uniform(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
/* The exponent, from 0 to 20. */
bool plan_take_zipf(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
/* 0.9:10 or 90%:10 */
bool plan_take_hot(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
/* FILE: see plan_files.h. */
bool plan_take_popularity(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;

/* fixed:5ms, exp:5ms, lognormal:5ms,0.8 (the mean, and sigma of the logarithm) or file:PATH */
bool plan_take_hold(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
/* 0.05 or 5% */
bool plan_take_failures(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
bool plan_take_class(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
/* FILE: see recorded.h. */
bool plan_take_recorded(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;

/* Of a shadow: a share, a rate, a factor. */
bool plan_take_node_share(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
bool plan_take_copy_rate(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
bool plan_take_speed(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;

/* WHEN:WHAT:WHOM[:HOW]; one more fault:
 *
 *     5s:stop:lock2:3s   5s:kill:lock2:3s   6s:wipe:lock1   5s:slow:lock3:20ms:4s   5s:clock:lock2:+5s
 *     5s:freeze:worker1:4s   5s:kill:worker2
 *
 * The node `queue` can be stopped, slowed and given another time. */
bool plan_take_fault(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;
/* threads=8,16,32 */
bool plan_take_what_if(struct dry_run_plan *plan, const char *text, struct error *error) MUST_CHECK;

#endif
