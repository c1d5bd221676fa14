#include "worker/dry_run/plan_about.h"

#include <math.h>
#include <stdlib.h>

#include "base/quantity.h"
#include "worker/commands/human.h"

static void threads_about(const struct dry_run_plan *plan, struct buffer *out)
{
    buffer_format(out, "%u process%s with %u thread%s each", plan->processes, plan->processes == 1 ? "" : "es",
                  plan->threads, human_plural(plan->threads));
    if (plan->hosts > 1)
        buffer_format(out, " on each of %u hosts", plan->hosts);
}

static void arrivals_about(const struct dry_run_plan *plan, struct buffer *out)
{
    char human[HUMAN_TEXT_MAX], text[QUANTITY_TEXT_MAX];
    if (plan->arrivals == DRY_RUN_CLOSED)
        buffer_format(out, ", %u tasks at a time", plan->population);
    else
        buffer_format(out, ", %s tasks/s", human_rate(plan->rate, human));
    buffer_format(out, " for %s", duration_print(plan->for_ns, text));
    if (plan->warm_up_ns > 0)
        buffer_format(out, " (the first %s do not count)", duration_print(plan->warm_up_ns, text));
}

static void popularity_about(const struct dry_run_plan *plan, struct buffer *out)
{
    const struct popularity *popularity = &plan->popularity;
    char human[HUMAN_TEXT_MAX];
    buffer_format(out, ", %u resource%s", popularity->count, human_plural(popularity->count));
    if (popularity->kind == POPULARITY_ZIPF)
        buffer_format(out, " by Zipf's law with %g", popularity->exponent);
    else if (popularity->kind == POPULARITY_HOT)
        buffer_format(out, " of which %u hot ones get %s of the tasks", popularity->hot,
                      human_share(popularity->hot_share, human));
    else if (popularity->kind == POPULARITY_WEIGHTS)
        buffer_append_text(out, " with given weights");
    else if (popularity->count > 1)
        buffer_append_text(out, " that are equally popular");
    if (plan->resources_per_task > 1)
        buffer_format(out, ", %u for each task", plan->resources_per_task);
}

static void hold_about(const struct dry_run_plan *plan, struct buffer *out)
{
    static const char *const kinds[] = {[DISTRIBUTION_FIXED] = "holds of ",
                                        [DISTRIBUTION_EXPONENTIAL] = "exponential holds of ",
                                        [DISTRIBUTION_LOGNORMAL] = "lognormal holds of ",
                                        [DISTRIBUTION_MEASURED] = "measured holds"};
    char human[HUMAN_TEXT_MAX], text[QUANTITY_TEXT_MAX];
    buffer_format(out, ", %s", kinds[plan->hold.kind]);
    if (plan->hold.kind != DISTRIBUTION_MEASURED)
        buffer_append_text(out, duration_print(llround(plan->hold.mean_s * (double)NS_PER_S), text));
    if (plan->hold.kind == DISTRIBUTION_LOGNORMAL)
        buffer_format(out, " (sigma %g)", plan->hold.sigma);
    if (plan->failures > 0)
        buffer_format(out, ", %s of the runs fail", human_share(plan->failures, human));
}

static void shadow_about(const struct dry_run_plan *plan, struct buffer *out)
{
    char human[HUMAN_TEXT_MAX], text[QUANTITY_TEXT_MAX];
    buffer_format(out, ", the tasks of the live fleet for %s", duration_print(plan->for_ns, text));
    if (plan->speed > 0 && plan->speed != 1)
        buffer_format(out, " at %g times its speed", plan->speed);
    buffer_format(out, ", at most %s of a node's time", human_share(plan->node_share, human));
}

void plan_about(const struct dry_run_plan *plan, struct buffer *out)
{
    buffer_append_text(out, plan->kind == DRY_RUN_SHADOW ? "a shadow" : "a rehearsal");
    if (plan->is_local)
        buffer_format(out, " on %u private lock node%s", plan->local_nodes, human_plural(plan->local_nodes));
    buffer_append_text(out, ": ");
    threads_about(plan, out);
    if (plan->kind == DRY_RUN_SHADOW) {
        shadow_about(plan, out);
        return;
    }
    arrivals_about(plan, out);
    popularity_about(plan, out);
    hold_about(plan, out);
    buffer_format(out, ", seed %llu", (unsigned long long)plan->seed);
}

void plan_fault_about(const struct dry_run_fault *fault, struct buffer *out)
{
    static const char *const verbs[] = {
        [DRY_RUN_FAULT_STOP] = "stopped",    [DRY_RUN_FAULT_KILL] = "killed",  [DRY_RUN_FAULT_WIPE] = "wiped",
        [DRY_RUN_FAULT_SLOW] = "slower by ", [DRY_RUN_FAULT_CLOCK] = "clock ", [DRY_RUN_FAULT_FREEZE] = "frozen"};
    char text[QUANTITY_TEXT_MAX];
    int64_t amount_ns = llabs(fault->amount_ns > -INT64_MAX ? fault->amount_ns : INT64_MAX);
    if (fault->at_worker)
        buffer_format(out, "worker process %u ", fault->number);
    else if (fault->number == 0)
        buffer_append_text(out, "queue node ");
    else
        buffer_format(out, "lock node %u ", fault->number);
    buffer_append_text(out, verbs[fault->kind]);
    if (fault->kind == DRY_RUN_FAULT_CLOCK)
        buffer_append_text(out, fault->amount_ns < 0 ? "back by " : "ahead by ");
    if (fault->kind == DRY_RUN_FAULT_CLOCK || fault->kind == DRY_RUN_FAULT_SLOW)
        buffer_append_text(out, duration_print(amount_ns, text));
    if (fault->lasts_ns > 0)
        buffer_format(out, " for %s", duration_print(fault->lasts_ns, text));
}
