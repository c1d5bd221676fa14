/* What cannot work is refused before anything is started. Options and JSON have checked each value by itself
 * (plan_parameters.h); what is here is what they mean together. */
#include <string.h>

#include "base/log.h"
#include "base/quantity.h"
#include "redlock/redlock.h"
#include "worker/config/suggest.h"
#include "worker/dry_run/plan/plan.h"

#define NEARLY_ALL    0.999 /* of the holds: what is longer happens once in a thousand runs */
#define HARDLY_ANY    0.01
#define US_PER_S_REAL 1e6

struct check {
    const struct dry_run_plan *plan;
    const struct config *config;      /* may be NULL */
    const struct config_class *entry; /* of the class of the plan; may be NULL */
    struct findings *findings;
};

#define LONG_TEXT ((char[QUANTITY_TEXT_MAX]){0})

/* --- what is counted -------------------------------------------------------------------------------------------- */

static void check_processes(const struct check *check)
{
    const struct dry_run_plan *plan = check->plan;
    if ((uint64_t)plan->threads * plan->processes > DRY_RUN_RUNNERS_MAX)
        findings_error(check->findings,
                       "%u processes with %u threads are more than %d threads on one host: use fewer, "
                       "or more hosts",
                       plan->processes, plan->threads, DRY_RUN_RUNNERS_MAX);
    if (plan->is_local && plan->hosts > 1)
        findings_error(check->findings,
                       "--hosts %u with --private: private nodes can be reached from this host only; "
                       "name a configuration with nodes that all hosts reach",
                       plan->hosts);
}

static void check_hosts(const struct check *check)
{
    const struct dry_run_plan *plan = check->plan;
    if ((plan->hosts > 1) != (plan->run_id[0] != '\0'))
        findings_error(check->findings, "--name and --hosts go together: hosts that say the same begin together");
    if (plan->hosts > 1 && plan->kind == DRY_RUN_SHADOW)
        findings_error(check->findings,
                       "--shadow with --hosts %u: each host would play the same tasks; use more --processes on one",
                       plan->hosts);
}

static void check_points(const struct check *check)
{
    const struct dry_run_plan *plan = check->plan;
    if (plan->point_count > 0 && plan->hosts > 1)
        findings_error(check->findings,
                       "--what-if with --hosts %u: each point is a run of its own, which the others do not know",
                       plan->hosts);
    for (unsigned i = 0; i < plan->point_count; i++)
        if ((uint64_t)plan->points[i] * plan->processes > DRY_RUN_RUNNERS_MAX)
            findings_error(check->findings, "--what-if threads=%u: with %u processes more than %d threads",
                           plan->points[i], plan->processes, DRY_RUN_RUNNERS_MAX);
}

/* --- the load --------------------------------------------------------------------------------------------------- */

static void check_arrivals(const struct check *check)
{
    const struct dry_run_plan *plan = check->plan;
    if (plan->arrivals == DRY_RUN_CLOSED)
        return;
    double tasks = plan->rate * (double)plan->for_ns / (double)NS_PER_S;
    if (!(plan->rate > 0 && plan->rate <= DRY_RUN_RATE_MAX))
        findings_error(check->findings, "--rate %g/s: must be more than 0 and at most %g tasks a second", plan->rate,
                       DRY_RUN_RATE_MAX);
    else if (tasks > DRY_RUN_TASKS_MAX)
        findings_error(check->findings,
                       "--rate %g/s for %s are %.0f million tasks, which are too many to remember: at "
                       "most %.0f million",
                       plan->rate, duration_print(plan->for_ns, LONG_TEXT), tasks / 1e6, DRY_RUN_TASKS_MAX / 1e6);
    else if (tasks < 1)
        findings_error(check->findings, "--rate %g/s for %s is less than one task: a higher rate, or a longer run",
                       plan->rate, duration_print(plan->for_ns, LONG_TEXT));
}

static void check_resources(const struct check *check)
{
    const struct dry_run_plan *plan = check->plan;
    const struct popularity *popularity = &plan->popularity;
    if (plan->resources_per_task > popularity->count)
        findings_error(check->findings, "--resources-per-task %u: there are only %u resources",
                       plan->resources_per_task, popularity->count);
    if (popularity->kind != POPULARITY_HOT)
        return;
    if (popularity->hot < 1 || popularity->hot >= popularity->count)
        findings_error(check->findings, "--hot: %u hot resources of %u: there must be others too", popularity->hot,
                       popularity->count);
    else if (popularity->hot_share * popularity->count < popularity->hot)
        findings_error(check->findings,
                       "--hot %g:%u: %u of %u resources would get more than that share if all were "
                       "equal; they are not hot",
                       popularity->hot_share, popularity->hot, popularity->hot, popularity->count);
}

/* --- the hold --------------------------------------------------------------------------------------------------- */

static const char *seconds_print(double seconds, char *out)
{
    double limit = (double)(DRY_RUN_HOLD_MAX_NS / NS_PER_US);
    double us = seconds * US_PER_S_REAL;
    return duration_print((int64_t)(us < limit ? us + 0.5 : limit) * NS_PER_US, out);
}

static const char *longest_name(const struct distribution *hold)
{
    return hold->kind == DISTRIBUTION_FIXED      ? "a hold"
           : hold->kind == DISTRIBUTION_MEASURED ? "the longest hold"
                                                 : "one hold in a thousand";
}

/* A lock is extended for as long as its task runs, so the ttl bounds no hold; max_hold does. */
static void check_hold_limits(const struct check *check)
{
    double longest = check->plan->hold.kind == DISTRIBUTION_MEASURED
                         ? check->plan->hold.quantiles[check->plan->hold.quantile_count - 1]
                         : distribution_at(&check->plan->hold, NEARLY_ALL);
    int64_t of_class = check->entry != NULL ? check->entry->max_hold_ns : 0;
    int64_t limit = of_class > 0 ? of_class : check->config->lock.max_hold_ns;
    if (limit > 0 && longest * (double)NS_PER_S > (double)limit)
        findings_error(check->findings,
                       "--hold: %s lasts %s, and %s ends it after %s however often it is extended: "
                       "shorter holds, or a longer max_hold",
                       longest_name(&check->plan->hold), seconds_print(longest, LONG_TEXT),
                       of_class > 0 ? "max_hold of the class" : "lock.max_hold", duration_print(limit, LONG_TEXT));
    int64_t timeout = check->entry != NULL ? check->entry->timeout_ns : 0;
    if (timeout > 0 && longest * (double)NS_PER_S > (double)timeout)
        findings_warn(check->findings,
                      "--hold: %s lasts %s; in production the class ends its runs after its timeout, "
                      "%s, which the simulated holds do not",
                      longest_name(&check->plan->hold), seconds_print(longest, LONG_TEXT),
                      duration_print(timeout, LONG_TEXT));
}

static void check_hold(const struct check *check)
{
    const struct dry_run_plan *plan = check->plan;
    double mean = distribution_mean(&plan->hold), run = (double)plan->for_ns / (double)NS_PER_S;
    if (!(mean >= 0 && mean <= (double)(DRY_RUN_HOLD_MAX_NS / NS_PER_S)))
        findings_error(check->findings, "--hold: a mean of %g s: at most %s", mean,
                       duration_print(DRY_RUN_HOLD_MAX_NS, LONG_TEXT));
    else if (distribution_at(&plan->hold, HARDLY_ANY) >= run)
        findings_error(check->findings,
                       "--hold: hardly any hold is shorter than the whole run of %s (the mean is %s): "
                       "no task would end; a longer --for, or shorter holds",
                       duration_print(plan->for_ns, LONG_TEXT), seconds_print(mean, LONG_TEXT));
    else if (mean * 5 > run)
        findings_warn(check->findings,
                      "--hold: the mean of %s is more than a fifth of the run of %s: few tasks will "
                      "end, and the numbers will be rough",
                      seconds_print(mean, LONG_TEXT), duration_print(plan->for_ns, LONG_TEXT));
    if (check->config != NULL)
        check_hold_limits(check);
}

/* --- locks and classes ------------------------------------------------------------------------------------------ */

static void unknown_class(const struct check *check)
{
    struct suggestion suggestion = suggestion_for(check->plan->class_name);
    for (size_t i = 0; check->config != NULL && i < check->config->class_count; i++)
        suggestion_offer(&suggestion, check->config->classes[i].name);
    findings_error(check->findings, "--class %s: %s%s; without --class the usual settings hold",
                   log_quote(check->plan->class_name, (char[LOG_QUOTE_MAX]){0}),
                   check->config != NULL ? "the configuration says nothing about such a class"
                                         : "there is no configuration that says something about it",
                   suggestion_hint(&suggestion, (char[SUGGEST_HINT_MAX]){0}));
}

static void check_class(const struct check *check)
{
    const struct config_class *entry = check->entry;
    if (entry == NULL && strcmp(check->plan->class_name, DRY_RUN_CLASS) != 0) {
        unknown_class(check);
    } else if (entry != NULL && (entry->mode == CONFIG_MODE_NONE || entry->lock == CONFIG_LOCK_NONE)) {
        findings_warn(check->findings, "--class %s: it takes no locks, so nothing will wait for one", entry->name);
    } else if (!check->plan->is_local && check->config != NULL && check->config->lock_node_count == 0) {
        findings_error(check->findings,
                       "the class %s takes locks and the configuration names no lock nodes: name "
                       "some, or use --private",
                       check->plan->class_name);
    }
}

static void check_nodes(const struct check *check)
{
    const struct dry_run_plan *plan = check->plan;
    if (!plan->is_local && check->config == NULL)
        findings_error(check->findings, "there is no configuration that names nodes: name one with --config, or use "
                                        "--private, which starts private ones");
    if (!plan->is_local)
        return;
    if (plan->local_nodes % 2 == 0)
        findings_error(check->findings,
                       "--private=%u: an even number of lock nodes survives no more failures than one "
                       "node less: use %u or %u",
                       plan->local_nodes, plan->local_nodes - 1, plan->local_nodes + 1);
}

static void check_shadow(const struct check *check)
{
    const struct dry_run_plan *plan = check->plan;
    if (plan->is_local)
        findings_error(check->findings, "--shadow with --private: a shadow plays what a live fleet has, on its nodes");
    if (check->config == NULL)
        findings_error(check->findings, "--shadow needs the configuration of the fleet: name it with --config");
    else if (check->config->lock_node_count == 0)
        findings_error(check->findings, "--shadow: the configuration names no lock nodes, so there are no locks that "
                                        "tasks could wait for");
    if (!(plan->node_share > 0 && plan->node_share <= 0.5))
        findings_error(check->findings,
                       "the share of a node's time that a shadow may use: %g is not more than 0 and "
                       "at most 0.5",
                       plan->node_share);
    if (plan->point_count > 0)
        findings_error(check->findings, "--shadow with --what-if: the fleet goes on between two points, so they would "
                                        "not be of the same load; use --recorded with what the shadow measured");
}

/* --- faults ----------------------------------------------------------------------------------------------------- */

static void fault_target_check(const struct check *check, const struct dry_run_fault *fault, const char *name)
{
    const struct dry_run_plan *plan = check->plan;
    char target[DRY_RUN_TARGET_MAX];
    dry_run_fault_target(fault, target);
    if (fault->at_worker) {
        if (fault->number < 1 || fault->number > plan->processes)
            findings_error(check->findings, "--fault %s:%s: the worker processes of this host are 1 to %u", name,
                           target, plan->processes);
    } else if (!plan->is_local) {
        findings_error(check->findings,
                       "--fault %s:%s: that is a node of others; only private nodes (--private) are "
                       "stopped, killed, wiped, slowed or given another time",
                       name, target);
    } else if (fault->number > plan->local_nodes) {
        findings_error(check->findings, "--fault %s:%s: the lock nodes are 1 to %u", name, target, plan->local_nodes);
    } else if (fault->number == 0 && (fault->kind == DRY_RUN_FAULT_KILL || fault->kind == DRY_RUN_FAULT_WIPE)) {
        findings_error(check->findings,
                       "--fault %s:queue: the tasks of the run are there, so nothing would be left to "
                       "measure; it can be stopped and slowed",
                       name);
    }
}

static void check_fault(const struct check *check, const struct dry_run_fault *fault)
{
    const struct dry_run_plan *plan = check->plan;
    const char *name = dry_run_fault_names[fault->kind];
    char target[DRY_RUN_TARGET_MAX];
    fault_target_check(check, fault, name);
    if (fault->at_ns < 0 || fault->at_ns >= plan->for_ns)
        findings_error(check->findings, "--fault %s:%s: at %s the load has ended, after %s", name,
                       dry_run_fault_target(fault, target), duration_print(fault->at_ns, LONG_TEXT),
                       duration_print(plan->for_ns, LONG_TEXT));
    else if (fault->lasts_ns > plan->for_ns - fault->at_ns)
        findings_warn(check->findings, "--fault %s:%s: it is undone when the load ends, not after %s", name,
                      dry_run_fault_target(fault, target), duration_print(fault->lasts_ns, LONG_TEXT));
}

/* --- all of it -------------------------------------------------------------------------------------------------- */

void plan_check(const struct dry_run_plan *plan, const struct config *config, struct findings *findings)
{
    struct check check = {.plan = plan, .config = config, .findings = findings};
    if (config != NULL)
        check.entry = config_class_find(config, plan->class_name);
    if (plan->warm_up_ns >= plan->for_ns)
        findings_error(check.findings, "--warm-up %s: it is part of --for %s, and what is left of that is measured",
                       duration_print(plan->warm_up_ns, LONG_TEXT), duration_print(plan->for_ns, LONG_TEXT));
    check_processes(&check);
    check_hosts(&check);
    check_points(&check);
    for (unsigned i = 0; i < plan->fault_count; i++)
        check_fault(&check, &plan->faults[i]);
    if (plan->kind == DRY_RUN_SHADOW) {
        check_shadow(&check);
        return;
    }
    check_nodes(&check);
    check_class(&check);
    check_arrivals(&check);
    check_resources(&check);
    check_hold(&check);
}

void plan_check_group(const struct dry_run_plan *plan, const struct config *config, int64_t max_ttl_ns,
                      unsigned reachable, unsigned count, struct findings *findings)
{
    const struct config_class *entry = config_class_find(config, plan->class_name);
    if (count > 0 && reachable <= count / 2)
        findings_error(findings,
                       "no quorum: only %u of the %u lock nodes can be asked now, and a lock needs %u; "
                       "\"holdfast nodes\" says what is wrong with the others",
                       reachable, count, count / 2 + 1);
    if (max_ttl_ns <= 0)
        return;
    if (config->lock.ttl_ns > max_ttl_ns)
        findings_error(findings,
                       "lock.ttl is %s, and the lock nodes keep no lock for longer than the max_ttl of their "
                       "group, %s",
                       duration_print(config->lock.ttl_ns, LONG_TEXT), duration_print(max_ttl_ns, LONG_TEXT));
    if (entry != NULL && entry->hold_at_least_ns > max_ttl_ns)
        findings_error(findings,
                       "hold_at_least of the class %s is %s, which nobody extends, and the lock nodes keep no "
                       "lock for longer than the max_ttl of their group, %s",
                       entry->name, duration_print(entry->hold_at_least_ns, LONG_TEXT),
                       duration_print(max_ttl_ns, LONG_TEXT));
}
