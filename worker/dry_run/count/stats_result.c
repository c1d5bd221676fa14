/* Sums up what was counted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/dry_run/count/expectation.h"
#include "worker/dry_run/count/stats_private.h"

/* --- seconds ------------------------------------------------------------------------------------------------------ */

void second_series_init(struct second_series *series, struct instant began)
{
    memset(series, 0, sizeof *series);
    series->began = series->closed = began;
}

void second_series_fini(struct second_series *series)
{
    free(series->lines);
}

static double quantile(const struct histogram *histogram, double share)
{
    return (double)histogram_quantile(histogram, share) / (double)US_PER_S;
}

static struct result_second line_of(const struct second_series *series, double seconds)
{
    return (struct result_second){
        .pushed = (double)series->pushed / seconds,
        .ended = (double)series->ended / seconds,
        .parked = (double)series->parked / seconds,
        .handed_over = (double)series->handed_over / seconds,
        .lost = (double)series->lost / seconds,
        .wait_p50 = quantile(&series->wait, 0.5),
        .wait_p99 = quantile(&series->wait, 0.99),
        .hold_p50 = quantile(&series->hold, 0.5),
        .hold_p99 = quantile(&series->hold, 0.99),
        .acquire_p50 = quantile(&series->acquire, 0.5),
        .acquire_p99 = quantile(&series->acquire, 0.99),
        .extend_p99 = quantile(&series->extend, 0.99),
    };
}

static void lines_make_room(struct second_series *series)
{
    if (series->count < series->capacity)
        return;
    series->capacity = series->capacity == 0 ? 64 : series->capacity * 2;
    series->lines = memory_resize(series->lines, series->capacity, sizeof series->lines[0]);
}

static double overlap(int64_t from_ns, int64_t until_ns, int64_t low_ns, int64_t high_ns)
{
    int64_t from = from_ns > low_ns ? from_ns : low_ns, until = until_ns < high_ns ? until_ns : high_ns;
    return until > from ? (double)(until - from) / (double)NS_PER_S : 0;
}

static int64_t line_end(const struct second_series *series, size_t line)
{
    return series->began.ns + llround(series->lines[line].at * (double)NS_PER_S);
}

void second_series_take(struct second_series *series, int64_t from_ns, int64_t until_ns)
{
    int64_t high = series->closed.ns;
    series->taken_s += overlap(from_ns, until_ns, high, INT64_MAX);
    for (size_t i = series->count; i-- > 0 && from_ns < high;) {
        int64_t low = i > 0 ? line_end(series, i - 1) : series->began.ns;
        series->lines[i].busy += overlap(from_ns, until_ns, low, line_end(series, i));
        high = low;
    }
}

void second_series_close(struct second_series *series, struct instant now, double waiting)
{
    double seconds = (double)instant_since(series->closed, now) / (double)NS_PER_S;
    if (seconds <= 0)
        return;
    if (series->count < SECOND_SERIES_MAX) {
        struct result_second line = line_of(series, seconds);
        line.at = (double)instant_since(series->began, now) / (double)NS_PER_S;
        line.waiting = waiting;
        line.busy = series->taken_s;
        lines_make_room(series);
        series->lines[series->count++] = line;
    }
    series->closed = now;
    series->pushed = series->ended = series->parked = series->handed_over = series->lost = 0;
    series->taken_s = 0;
    memset(&series->wait, 0, sizeof series->wait);
    memset(&series->hold, 0, sizeof series->hold);
    memset(&series->acquire, 0, sizeof series->acquire);
    memset(&series->extend, 0, sizeof series->extend);
}

struct result_second *second_series_finish(struct second_series *series, unsigned runners, size_t *count)
{
    struct result_second *lines = series->lines;
    *count = series->count;
    for (size_t i = series->count; i-- > 0;) {
        double all = (lines[i].at - (i > 0 ? lines[i - 1].at : 0)) * runners;
        lines[i].busy = all > 0 ? fmin(lines[i].busy / all, 1) : 0;
    }
    series->lines = NULL;
    series->count = series->capacity = 0;
    return lines;
}

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

/* --- what is still outstanding ------------------------------------------------------------------------------------ */

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
        .turns = count->turns,
        .load = share_of(count->arrived_measured, measured_for),
        .throughput = share_of(count->held_measured, measured_for),
        .share_held = share_of(count->held_time, measured_for),
        .waiters = share_of(count->waiting_time, measured_for),
        .hold_mean = share_of(count->hold_sum, count->held_measured),
        .hold_second_moment = share_of(count->hold_squares, count->held_measured),
        .wait_mean = share_of(count->wait_sum, count->waits),
        .turn_mean = share_of(count->turn_sum, count->turns),
        .turn_second_moment = share_of(count->turn_squares, count->turns),
    };
    if (count->detail != NULL) {
        resource.wait_p50 = of_us((uint64_t)histogram_quantile(&count->detail->waits, 0.5));
        resource.wait_p99 = of_us((uint64_t)histogram_quantile(&count->detail->waits, 0.99));
        resource.wait_error = batch_means_error(&count->detail->means);
        resource.lone_turns = count->detail->lone_turns;
        resource.lone_turn_mean = share_of(count->detail->lone_sum, count->detail->lone_turns);
        resource.lone_turn_second_moment = share_of(count->detail->lone_squares, count->detail->lone_turns);
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
    memcpy(node->name, count->name, sizeof node->name);
    memcpy(node->address, count->address, sizeof node->address);
    node->is_queue_node = count->is_queue_node;
    node->commands_counted = count->commands;
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

static void nodes_fill(const struct stats *stats, struct result *result)
{
    for (unsigned i = 0; i < RESULT_NODES_MAX; i++)
        if (stats->nodes[i].is_known || i < stats->sums.node_count)
            node_fill(stats, i, &result->nodes[result->node_count++]);
}

static void hosts_fill(const struct stats *stats, struct result *result)
{
    result->hosts = memory_zeroed(stats->host_count + 1, sizeof result->hosts[0]);
    for (unsigned i = 0; i < stats->host_count; i++) {
        const struct stats_host_count *count = stats->hosts[i];
        if (count == NULL)
            continue;
        struct result_host *host = &result->hosts[result->host_count++];
        memcpy(host->name, count->name, sizeof host->name);
        host->processes = count->processes;
        host->threads = count->threads;
        host->clock_error = seconds_of(count->clock_error_ns);
        host->records_lost = count->records_lost;
        host->cpu_share = share_of((double)count->cpu_ns, (double)count->cpu_over_ns) * count->processes;
    }
}

static void totals_fill(const struct stats *stats, struct result *result)
{
    const uint64_t *endings = stats->endings;
    result->pushed = stats->pushed;
    result->ended = stats->ended;
    result->done = endings[FLOW_DONE];
    result->failed = endings[FLOW_FAILED];
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
    return is_planned ? distribution_mean(&stats->plan->hold) : moments_mean(&stats->runs_measured);
}

/* What of all turn-overs was not to the only one that waited. */
static void crowd_turns_set(const struct stats *stats, struct model_overheads *overheads)
{
    struct moments crowd = {0};
    for (size_t i = 0; i < stats->resources.count; i++) {
        const struct resource_count *resource = &stats->resources.resources[i];
        const struct resource_detail *detail = resource->detail;
        if (detail == NULL)
            continue;
        crowd.count += resource->turns - detail->lone_turns;
        crowd.sum += resource->turn_sum - detail->lone_sum;
        crowd.squares += resource->turn_squares - detail->lone_squares;
    }
    overheads->crowd_turn = moments_mean(&crowd);
    overheads->crowd_turn_second_moment = moments_second(&crowd);
    overheads->crowd_turn_count = crowd.count;
}

/* Of the resources with too few turn-overs to speak for themselves, all together; of all, when these have too few. */
static void turns_set(const struct stats *stats, struct model_overheads *overheads)
{
    struct moments few = {0};
    for (size_t i = 0; i < stats->resources.count; i++) {
        const struct resource_count *resource = &stats->resources.resources[i];
        if (resource->turns >= MODEL_TURNS_MIN)
            continue;
        few.count += resource->turns;
        few.sum += resource->turn_sum;
        few.squares += resource->turn_squares;
    }
    crowd_turns_set(stats, overheads);
    const struct moments *turn = few.count >= MODEL_TURNS_MIN ? &few : &stats->turn;
    overheads->turn = moments_mean(turn);
    overheads->turn_second_moment = moments_second(turn);
    overheads->turn_count = turn->count;
}

static void overheads_set(struct stats *stats, double measured_for)
{
    struct model_overheads *overheads = &stats->overheads;
    double parks = (double)stats->parks.count / fmax((double)stats->holds_measured.count, 1);
    *overheads = (struct model_overheads){
        .arrivals = share_of((double)stats->pushed_measured, measured_for),
        .base = moments_mean(&stats->base),
        .base_second_moment = moments_second(&stats->base),
        .base_count = stats->base.count,
        .claim_extra = moments_mean(&stats->claim_extra),
        .park_cost = parks * moments_mean(&stats->parks),
        .runner_turn = fmax(share_of(stats->runner_idle_s, (double)stats->runner_turns), 0),
        .next_push = moments_mean(&stats->next_push),
        .tries = fmax(share_of((double)stats->holds, (double)stats->first_holds), 1),
    };
    turns_set(stats, overheads);
    if (stats->base.count == 0) { /* it was never calm: without what a task waits for its runner, then */
        overheads->base = overheads->claim_extra;
        overheads->base_second_moment = moments_second(&stats->claim_extra);
    }
    if (stats->holds_measured.count > 0)
        overheads->hold_extra = fmax(moments_mean(&stats->holds_measured) - planned_hold(stats), 0);
}

void stats_finish(struct stats *stats, struct instant now, struct result *result)
{
    if (instant_before(now, stats->load_until))
        stats->load_until = now;
    stats_turns_take(stats, INSTANT_NEVER);
    overlap_detector_end(stats->detector, now);
    outstanding_each(&stats->tasks, outstanding_settle, &(struct end){stats, now.ns});
    result->measured_for = stats_clip(stats, stats->measured_from.ns, stats->load_until.ns);
    overheads_set(stats, result->measured_for);

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
    nodes_fill(stats, result);
    hosts_fill(stats, result);
    expectation_fill(result, stats->plan, &stats->overheads);
}

const struct model_overheads *stats_overheads(const struct stats *stats)
{
    return &stats->overheads;
}
