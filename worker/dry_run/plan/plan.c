#include "worker/dry_run/plan/plan.h"

#include <stdio.h>

#define USUAL_FOR_NS          (20 * NS_PER_S)
#define USUAL_WARM_UP_NS      (2 * NS_PER_S)
#define USUAL_HOLD_S          0.010
#define NOT_SAID_NS           INT64_C(-1)
#define FOR_PER_WARM_UP       10
#define POPULATION_PER_THREAD 2

void plan_init(struct dry_run_plan *plan)
{
    *plan = (struct dry_run_plan){
        .kind = DRY_RUN_REHEARSAL,
        .local_nodes = 5,
        .warm_up_ns = NOT_SAID_NS,
        .for_ns = USUAL_FOR_NS,
        .processes = 1,
        .threads = 16,
        .hosts = 1,
        .arrivals = DRY_RUN_CLOSED,
        .popularity = {.kind = POPULARITY_UNIFORM, .count = 100},
        .resources_per_task = 1,
        .hold = {.kind = DISTRIBUTION_FIXED, .mean_s = USUAL_HOLD_S},
        .class_name = DRY_RUN_CLASS,
        .node_share = 0.1,
        .speed = 1,
    };
}

void plan_fini(struct dry_run_plan *plan)
{
    popularity_fini(&plan->popularity);
    distribution_fini(&plan->hold);
}

void plan_copy(struct dry_run_plan *copy, const struct dry_run_plan *plan)
{
    *copy = *plan;
    distribution_copy(&copy->hold, &plan->hold);
    popularity_copy(&copy->popularity, &plan->popularity);
}

static int64_t usual_warm_up(int64_t for_ns)
{
    int64_t part = for_ns / FOR_PER_WARM_UP;
    return part < USUAL_WARM_UP_NS ? part : USUAL_WARM_UP_NS;
}

/* Twice the threads: as many wait as run, so a thread that ends a task finds the next. */
static unsigned usual_population(const struct dry_run_plan *plan)
{
    uint64_t runners = (uint64_t)plan->threads * plan->processes * POPULATION_PER_THREAD;
    return runners < DRY_RUN_POPULATION_MAX ? (unsigned)runners : DRY_RUN_POPULATION_MAX;
}

/* What is in the queues of a fleet comes at once to its shadow: a warm-up would leave all of it out. */
void plan_complete(struct dry_run_plan *plan)
{
    if (plan->warm_up_ns < 0)
        plan->warm_up_ns = plan->kind == DRY_RUN_REHEARSAL ? usual_warm_up(plan->for_ns) : 0;
    if (!plan->is_population_given)
        plan->population = usual_population(plan);
    popularity_prepare(&plan->popularity);
}

void plan_at_point(struct dry_run_plan *point, const struct dry_run_plan *plan, unsigned threads)
{
    plan_copy(point, plan);
    point->point_count = 0;
    point->threads = threads;
    plan_complete(point);
}

const char *const dry_run_fault_names[] = {
    [DRY_RUN_FAULT_STOP] = "stop", [DRY_RUN_FAULT_KILL] = "kill",   [DRY_RUN_FAULT_WIPE] = "wipe",
    [DRY_RUN_FAULT_SLOW] = "slow", [DRY_RUN_FAULT_CLOCK] = "clock", [DRY_RUN_FAULT_FREEZE] = "freeze",
    [DRY_RUN_FAULT_KINDS] = NULL};

const char *dry_run_fault_target(const struct dry_run_fault *fault, char *out)
{
    if (!fault->at_worker && fault->number == 0)
        snprintf(out, DRY_RUN_TARGET_MAX, "queue");
    else
        snprintf(out, DRY_RUN_TARGET_MAX, "%s%u", fault->at_worker ? "worker" : "lock", fault->number);
    return out;
}
