/* Sums up what was counted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/dry_run/count/expectation.h"
#include "worker/dry_run/count/stats_private.h"

/* --- sums --------------------------------------------------------------------------------------------------------- */

static double share_of(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double of_us(uint64_t us)
{
    return (double)us / (double)US_PER_S;
}

static struct result_spread spread_of(const struct histogram *histogram)
{
    struct result_spread spread = {.count = histogram->count, .max = of_us(histogram->max_us)};
    spread.mean = share_of(of_us(histogram->sum_us), (double)histogram->count);
    spread.p50 = of_us((uint64_t)histogram_quantile(histogram, 0.5));
    spread.p90 = of_us((uint64_t)histogram_quantile(histogram, 0.9));
    spread.p99 = of_us((uint64_t)histogram_quantile(histogram, 0.99));
    spread.p999 = of_us((uint64_t)histogram_quantile(histogram, 0.999));
    spread.histogram = memory_new(struct histogram);
    *spread.histogram = *histogram;
    return spread;
}

struct end {
    struct stats *stats;
    int64_t at;
};

/* What has not ended waited until now, or until it got in. */
static void outstanding_settle(void *context, struct outstanding *task)
{
    const struct end *end = context;
    bool is_inside = task->state == OUTSTANDING_INSIDE;
    stats_task_waited(end->stats, task, is_inside ? task->inside_since : end->at);
    if (is_inside)
        stats_runner_taken(end->stats, task->inside_since, end->at);
    for (unsigned i = 0; is_inside && i < task->resource_count; i++) {
        struct resource_count *resource = resource_table_at(&end->stats->resources, task->resources[i]);
        if (resource != NULL)
            resource->held_time += stats_clip(end->stats, task->inside_since, end->at);
    }
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static struct result_resource resource_result(const struct resource_count *count, double measured_for)
{
    struct result_resource resource = {
        .name = memory_text(count->name),
        .arrived = count->arrived,
        .held = count->held,
        .parks = count->parks,
        .hand_overs = count->hand_overs,
        .lost = count->lost,
        .fence_refusals = count->fence_refusals,
        .overlaps = count->overlaps,
        .refusals = count->refusals,
        .waiters_max = count->waiting_max,
        .changeovers = count->changeovers.count,
        .load = share_of(count->arrived_measured, measured_for),
        .throughput = share_of((double)count->holds.count, measured_for),
        .share_held = share_of(count->held_time, measured_for),
        .waiters = share_of(count->waiting_time, measured_for),
        .hold_mean = moments_time(&count->holds).mean,
        .hold_second_moment = moments_time(&count->holds).second_moment,
        .wait_mean = moments_time(&count->waits).mean,
        .changeover_mean = moments_time(&count->changeovers).mean,
        .changeover_second_moment = moments_time(&count->changeovers).second_moment,
    };
    if (count->detail != NULL) {
        resource.wait_p50 = of_us((uint64_t)histogram_quantile(&count->detail->waits, 0.5));
        resource.wait_p99 = of_us((uint64_t)histogram_quantile(&count->detail->waits, 0.99));
        resource.wait_error = batch_means_error(&count->detail->means);
        resource.lone_changeovers = count->detail->lone_changeovers.count;
        resource.lone_changeover_mean = moments_time(&count->detail->lone_changeovers).mean;
        resource.lone_changeover_second_moment = moments_time(&count->detail->lone_changeovers).second_moment;
    }
    return resource;
}

/* By load, the greatest first; by name where it is the same. */
static int by_load(const void *left, const void *right)
{
    const struct resource_count *a = *(const struct resource_count *const *)left,
                                *b = *(const struct resource_count *const *)right;
    if (a->arrived_measured != b->arrived_measured)
        return a->arrived_measured < b->arrived_measured ? 1 : -1;
    if (a->arrived != b->arrived)
        return a->arrived < b->arrived ? 1 : -1;
    return strcmp(a->name, b->name);
}

static void resources_fill(const struct stats *stats, struct result *result)
{
    size_t count = stats->resources.count;
    size_t reported = count < RESULT_RESOURCES_MAX ? count : RESULT_RESOURCES_MAX;
    const struct resource_count **order = memory_zeroed(count + 1, sizeof order[0]);
    for (size_t i = 0; i < count; i++)
        order[i] = &stats->resources.resources[i];
    qsort(order, count, sizeof order[0], by_load);
    result->resources = memory_zeroed(reported + 1, sizeof result->resources[0]);
    for (size_t i = 0; i < reported; i++)
        result->resources[i] = resource_result(order[i], result->measured_for);
    result->resource_count = reported;
    result->resources_left_out = count - reported;
    free(order);
}

static void node_fill(const struct stats *stats, unsigned number, struct result_node *node)
{
    const struct stats_node_count *count = &stats->nodes[number];
    *node = count->told;
    node->cpu_share = share_of(count->cpu_s, count->cpu_over_s);
    if (number >= stats->sums.node_count)
        return;
    const struct redlock_node_counters *asked = &stats->sums.nodes[number];
    node->requests = asked->requests;
    node->granted = asked->granted;
    node->refused = asked->refused;
    node->errors = asked->errors;
    node->timeouts = asked->timeouts;
    node->split_votes = asked->split_votes;
    node->commands_sent = asked->requests;
    node->latency = spread_of(&asked->latency);
}

static void host_fill(const struct stats *stats, struct result *result)
{
    result->hosts = memory_zeroed(1, sizeof result->hosts[0]);
    result->host_count = 1;
    result->hosts[0] = stats->host;
    result->hosts[0].cpu_share = share_of((double)stats->cpu_ns, (double)stats->cpu_over_ns) * stats->host.processes;
}

static void end_tell(const struct crash_count *count, struct buffer *out)
{
    const char *name = sigabbrev_np(count->signal);
    if (count->hangs)
        buffer_append_text(out, "it hangs");
    else if (count->signal == 0)
        buffer_append_text(out, "it ended its process");
    else if (name != NULL)
        buffer_format(out, "SIG%s", name);
    else
        buffer_format(out, "signal %d", count->signal);
}

/* "transfer (SIGSEGV) for 12 tasks, render (it hangs) for 1 task"; nothing when there are none. */
static void crash_list_tell(const struct crash_list *list, char *text, size_t size)
{
    struct buffer out = {0};
    for (unsigned i = 0; i < list->count; i++) {
        const struct crash_count *count = &list->classes[i];
        buffer_format(&out, "%s%s (", i > 0 ? ", " : "", count->class_name);
        end_tell(count, &out);
        buffer_format(&out, ") for %" PRIu64 " task%s", count->count, count->count == 1 ? "" : "s");
    }
    if (list->others > 0)
        buffer_format(&out, ", and more classes for %" PRIu64, list->others);
    snprintf(text, size, "%s", buffer_text(&out));
    buffer_fini(&out);
}

static void totals_fill(const struct stats *stats, struct result *result)
{
    const uint64_t *endings = stats->endings;
    result->pushed = stats->pushed;
    result->ended = stats->ended;
    result->done = endings[FLOW_DONE];
    /* Simulated handlers discard nothing themselves: these failed, and have no retry. */
    result->failed = endings[FLOW_FAILED] + endings[FLOW_DISCARDED];
    result->dead = endings[FLOW_DEAD] + endings[FLOW_REFUSED] + endings[FLOW_INVALID] + endings[FLOW_NO_RESOURCE];
    result->parked = endings[FLOW_PARKED];
    result->skipped = endings[FLOW_SKIPPED];
    result->dropped = endings[FLOW_DROPPED];
    result->given_back = endings[FLOW_GIVEN_BACK];
    result->lost = stats->lost;
    result->overlaps = stats->overlaps;
    result->overlaps_unfenced = stats->overlaps_unfenced;
    result->fence_refusals = stats->fence_refusals;
    crash_list_tell(&stats->crashes, result->crashed_checks, sizeof result->crashed_checks);
    result->twice = stats->twice;
    result->left = stats->tasks.count;
    result->is_drained = stats->tasks.count == 0;
}

static void rates_fill(const struct stats *stats, struct result *result)
{
    uint64_t requests = 0;
    for (unsigned i = 0; i < stats->sums.node_count; i++)
        requests += stats->sums.nodes[i].requests;
    double holds = (double)stats->holds, runners = stats_runners(stats);
    result->throughput = share_of((double)stats->ended_measured, result->measured_for);
    result->tries_per_hold = share_of((double)stats->asks, holds);
    result->commands_per_hold = share_of((double)requests, holds * stats->sums.node_count);
    result->utilisation = share_of(stats->taken_s, runners * result->measured_for);
}

/* --- overheads ---------------------------------------------------------------------------------------------------- */

/* What the plan says that a hold lasts; what was measured where it says nothing. */
static double planned_hold(const struct stats *stats)
{
    bool is_planned = stats->plan->kind == DRY_RUN_REHEARSAL;
    return is_planned ? distribution_mean(&stats->plan->hold) : moments_time(&stats->runs_measured).mean;
}

static void moments_join(struct moments *into, const struct moments *from, int sign)
{
    into->count += sign > 0 ? from->count : -from->count;
    into->sum += sign * from->sum;
    into->squares += sign * from->squares;
}

/* The changeovers of the resources with too few to speak for themselves, all together (of all, when these have too
 * few); and what of all changeovers was not to the only one that waited. */
static void changeovers_set(const struct stats *stats, struct result_overheads *overheads)
{
    struct moments few = {0}, crowd = {0};
    for (size_t i = 0; i < stats->resources.count; i++) {
        const struct resource_count *resource = &stats->resources.resources[i];
        if (resource->changeovers.count < MODEL_CHANGEOVERS_MIN)
            moments_join(&few, &resource->changeovers, 1);
        if (resource->detail == NULL)
            continue;
        moments_join(&crowd, &resource->changeovers, 1);
        moments_join(&crowd, &resource->detail->lone_changeovers, -1);
    }
    overheads->changeover = few.count >= MODEL_CHANGEOVERS_MIN ? few : stats->changeover;
    overheads->crowd_changeover = crowd;
}

static void overheads_fill(const struct stats *stats, struct result *result)
{
    struct result_overheads *overheads = &result->overheads;
    double measured_for = result->measured_for;
    double parks = (double)stats->parks.count / fmax((double)stats->holds_measured.count, 1);
    *overheads = (struct result_overheads){
        .arrivals = share_of((double)stats->pushed_measured, measured_for),
        .together = share_of((double)stats->arrived_measured, (double)stats->pushed_measured),
        .base =
            stats->base.count > 0 ? stats->base : stats->claim_extra, /* never calm: without the wait for a runner */
        .claim_extra = moments_time(&stats->claim_extra).mean,
        .park_cost = parks * moments_time(&stats->parks).mean,
        .runner_changeover = fmax(share_of(stats->runner_idle_s, (double)stats->runner_changeovers), 0),
        .next_push = moments_time(&stats->next_push).mean,
        .tries = fmax(share_of((double)stats->holds, (double)stats->first_holds), 1),
    };
    changeovers_set(stats, overheads);
    if (stats->holds_measured.count > 0)
        overheads->hold_extra = fmax(moments_time(&stats->holds_measured).mean - planned_hold(stats), 0);
}

void stats_finish(struct stats *stats, struct instant now, struct result *result)
{
    if (instant_before(now, stats->load_until))
        stats->load_until = now;
    stats_events_take(stats, INSTANT_NEVER);
    overlap_detector_end(stats->detector, now);
    outstanding_each(&stats->tasks, outstanding_settle, &(struct end){stats, now.ns});
    result->measured_for = stats_clip(stats, stats->measured_from.ns, stats->load_until.ns);
    overheads_fill(stats, result);

    totals_fill(stats, result);
    rates_fill(stats, result);
    result->wait = spread_of(&stats->wait);
    result->hold = spread_of(&stats->hold);
    result->acquire = spread_of(&stats->acquire);
    result->extend = spread_of(&stats->sums.extensions);
    result->wait.mean_error = batch_means_error(&stats->wait_means);
    result->hold.mean_error = batch_means_error(&stats->hold_means);
    result->acquire.mean_error = batch_means_error(&stats->acquire_means);
    result->seconds = second_series_finish(&stats->series, stats_runners(stats), &result->second_count);
    resources_fill(stats, result);
    for (unsigned i = 0; i < RESULT_NODES_MAX; i++)
        if (stats->nodes[i].is_known || i < stats->sums.node_count)
            node_fill(stats, i, &result->nodes[result->node_count++]);
    host_fill(stats, result);
    expectation_fill(result);
}
