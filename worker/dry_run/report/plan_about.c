#include "worker/dry_run/report/plan_about.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/quantity.h"
#include "worker/print/human.h"

static int64_t size_of(int64_t amount_ns)
{
    return llabs(amount_ns > -INT64_MAX ? amount_ns : INT64_MAX);
}

static void arrivals_about(const struct dry_run_plan *plan, struct buffer *out)
{
    char human[HUMAN_TEXT_MAX], text[QUANTITY_TEXT_MAX];
    if (plan->arrivals == DRY_RUN_CLOSED)
        buffer_format(out, ", %u task%s at a time", plan->population, human_plural(plan->population));
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

void plan_about(const struct dry_run_plan *plan, struct buffer *out)
{
    buffer_append_text(out, plan->kind == DRY_RUN_SHADOW ? "a shadow" : "a rehearsal");
    if (plan->is_local)
        buffer_format(out, " on %u private lock node%s", plan->local_nodes, human_plural(plan->local_nodes));
    buffer_append_text(out, ": ");
    buffer_format(out, "%u process%s with %u thread%s%s", plan->processes, plan->processes == 1 ? "" : "es",
                  plan->threads, human_plural(plan->threads), plan->processes == 1 ? "" : " each");
    if (plan->hosts > 1)
        buffer_format(out, " on each of %u hosts", plan->hosts);
    if (plan->kind == DRY_RUN_SHADOW) {
        char human[HUMAN_TEXT_MAX], text[QUANTITY_TEXT_MAX];
        buffer_format(out, ", the tasks of the live fleet for %s", duration_print(plan->for_ns, text));
        if (plan->speed > 0 && plan->speed != 1)
            buffer_format(out, " at %g times its speed", plan->speed);
        buffer_format(out, ", at most %s of a node's time", human_share(plan->node_share, human));
        return;
    }
    arrivals_about(plan, out);
    popularity_about(plan, out);
    hold_about(plan, out);
    buffer_format(out, ", seed %llu", (unsigned long long)plan->seed);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static void popularity_options(const struct popularity *popularity, struct buffer *out)
{
    if (popularity->kind == POPULARITY_WEIGHTS) {
        buffer_append_text(out, " --recorded FILE");
        return;
    }
    buffer_format(out, " --resources %u", popularity->count);
    if (popularity->kind == POPULARITY_ZIPF)
        buffer_format(out, " --zipf %g", popularity->exponent);
    else if (popularity->kind == POPULARITY_HOT)
        buffer_format(out, " --hot %g:%u", popularity->hot_share, popularity->hot);
}

static void hold_options(const struct distribution *hold, struct buffer *out)
{
    static const char *const kinds[] = {
        [DISTRIBUTION_FIXED] = "fixed", [DISTRIBUTION_EXPONENTIAL] = "exp", [DISTRIBUTION_LOGNORMAL] = "lognormal"};
    char text[QUANTITY_TEXT_MAX];
    if (hold->kind == DISTRIBUTION_MEASURED) {
        buffer_append_text(out, " --hold file:FILE");
        return;
    }
    buffer_format(out, " --hold %s:%s", kinds[hold->kind],
                  duration_print(llround(hold->mean_s * (double)NS_PER_S), text));
    if (hold->kind == DISTRIBUTION_LOGNORMAL)
        buffer_format(out, ",%g", hold->sigma);
}

static void load_options(const struct dry_run_plan *plan, struct buffer *out)
{
    if (plan->arrivals == DRY_RUN_OPEN)
        buffer_format(out, " --rate %g/s", plan->rate);
    else
        buffer_format(out, " --closed %u", plan->population);
    popularity_options(&plan->popularity, out);
    if (plan->resources_per_task > 1)
        buffer_format(out, " --resources-per-task %u", plan->resources_per_task);
    hold_options(&plan->hold, out);
    if (plan->failures > 0)
        buffer_format(out, " --failures %g", plan->failures);
    buffer_format(out, " --seed %llu", (unsigned long long)plan->seed);
}

static void fault_option(const struct dry_run_fault *fault, struct buffer *out)
{
    char text[QUANTITY_TEXT_MAX], target[DRY_RUN_TARGET_MAX];
    buffer_format(out, " --fault %s:%s:%s", duration_print(fault->at_ns, text), dry_run_fault_names[fault->kind],
                  dry_run_fault_target(fault, target));
    if (fault->kind == DRY_RUN_FAULT_CLOCK)
        buffer_append_text(out, fault->amount_ns < 0 ? ":-" : ":+");
    else if (fault->kind == DRY_RUN_FAULT_SLOW)
        buffer_append_text(out, ":");
    if (fault->kind == DRY_RUN_FAULT_CLOCK || fault->kind == DRY_RUN_FAULT_SLOW)
        buffer_append_text(out, duration_print(size_of(fault->amount_ns), text));
    if (fault->lasts_ns > 0)
        buffer_format(out, ":%s", duration_print(fault->lasts_ns, text));
}

void plan_command(const struct dry_run_plan *plan, struct buffer *out)
{
    char text[QUANTITY_TEXT_MAX];
    buffer_append_text(out, "holdfast dry-run");
    if (plan->is_local)
        buffer_format(out, " --private=%u", plan->local_nodes);
    else
        buffer_append_text(out, " -c FILE");
    if (plan->kind == DRY_RUN_SHADOW)
        buffer_format(out, " --shadow --speed %g --node-share %g", plan->speed, plan->node_share);
    buffer_format(out, " --for %s", duration_print(plan->for_ns, text));
    buffer_format(out, " --warm-up %s", duration_print(plan->warm_up_ns, text));
    buffer_format(out, " --processes %u --threads %u", plan->processes, plan->threads);
    if (plan->hosts > 1)
        buffer_format(out, " --name NAME --hosts %u", plan->hosts);
    if (plan->kind == DRY_RUN_REHEARSAL)
        load_options(plan, out);
    if (strcmp(plan->class_name, DRY_RUN_CLASS) != 0)
        buffer_format(out, " --class %s", log_quote(plan->class_name, (char[LOG_QUOTE_MAX]){0}));
    for (unsigned i = 0; i < plan->fault_count; i++)
        fault_option(&plan->faults[i], out);
    for (unsigned i = 0; i < plan->point_count; i++)
        buffer_format(out, "%s%u", i == 0 ? " --what-if threads=" : ",", plan->points[i]);
}

void plan_fault_about(const struct dry_run_fault *fault, struct buffer *out)
{
    static const char *const verbs[] = {
        [DRY_RUN_FAULT_STOP] = "stopped",    [DRY_RUN_FAULT_KILL] = "killed",  [DRY_RUN_FAULT_WIPE] = "wiped",
        [DRY_RUN_FAULT_SLOW] = "slower by ", [DRY_RUN_FAULT_CLOCK] = "clock ", [DRY_RUN_FAULT_FREEZE] = "frozen"};
    char text[QUANTITY_TEXT_MAX];
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
        buffer_append_text(out, duration_print(size_of(fault->amount_ns), text));
    if (fault->lasts_ns > 0)
        buffer_format(out, " for %s", duration_print(fault->lasts_ns, text));
}
