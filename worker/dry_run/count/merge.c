#include "worker/dry_run/count/merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/dry_run/count/expectation.h"
#include "worker/dry_run/count/verdict.h"

/* --- numbers ------------------------------------------------------------------------------------------------------ */

#define ADD(member) into->member += from->member
#define MORE(member)                                                                                                   \
    do {                                                                                                               \
        if (from->member > into->member)                                                                               \
            into->member = from->member;                                                                               \
    } while (0)
/* A mean of so many here and so many there. */
#define MEAN(member, here, there) into->member = mean_of(into->member, here, from->member, there)

static double mean_of(double a, double a_weight, double b, double b_weight)
{
    double weight = a_weight + b_weight;
    return weight > 0 ? (a * a_weight + b * b_weight) / weight : 0;
}

/* Of the mean of both; unknown when one of them is. */
static double error_of(double a, double a_weight, double b, double b_weight)
{
    double weight = a_weight + b_weight;
    bool is_known = (a > 0 || a_weight <= 0) && (b > 0 || b_weight <= 0);
    return is_known && weight > 0 ? hypot(a * a_weight, b * b_weight) / weight : 0;
}

static double quantile_of(const struct histogram *histogram, double share)
{
    return (double)histogram_quantile(histogram, share) / 1e6;
}

static void spread_merge(struct result_spread *into, const struct result_spread *from)
{
    double here = (double)into->count, there = (double)from->count;
    into->mean_error = error_of(into->mean_error, here, from->mean_error, there);
    MEAN(mean, here, there);
    ADD(count);
    MORE(max);
    if (into->histogram == NULL || from->histogram == NULL)
        return;
    histogram_merge(into->histogram, from->histogram);
    into->p50 = quantile_of(into->histogram, 0.5);
    into->p90 = quantile_of(into->histogram, 0.9);
    into->p99 = quantile_of(into->histogram, 0.99);
    into->p999 = quantile_of(into->histogram, 0.999);
}

static void moments_merge(struct moments *into, const struct moments *from)
{
    ADD(count);
    ADD(sum);
    ADD(squares);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static void resource_merge(struct result_resource *into, const struct result_resource *from)
{
    double here = into->throughput, there = from->throughput;
    into->wait_error = error_of(into->wait_error, here, from->wait_error, there);
    MEAN(hold_mean, here, there);
    MEAN(hold_second_moment, here, there);
    MEAN(wait_mean, here, there);
    MEAN(changeover_mean, (double)into->changeovers, (double)from->changeovers);
    MEAN(changeover_second_moment, (double)into->changeovers, (double)from->changeovers);
    MEAN(lone_changeover_mean, (double)into->lone_changeovers, (double)from->lone_changeovers);
    MEAN(lone_changeover_second_moment, (double)into->lone_changeovers, (double)from->lone_changeovers);
    MORE(wait_p50);
    MORE(wait_p99);
    ADD(arrived), ADD(held), ADD(parks), ADD(hand_overs), ADD(lost), ADD(fence_refusals), ADD(overlaps);
    ADD(refusals), ADD(load), ADD(throughput), ADD(share_held), ADD(waiters), ADD(waiters_max);
    ADD(changeovers), ADD(lone_changeovers);
}

static struct result_resource *resource_find(struct result *result, const char *name)
{
    for (size_t i = 0; i < result->resource_count; i++)
        if (strcmp(result->resources[i].name, name) == 0)
            return &result->resources[i];
    return NULL;
}

/* By load, the greatest first; by name where it is the same. */
static int by_load(const void *left, const void *right)
{
    const struct result_resource *a = left, *b = right;
    if (a->load != b->load)
        return a->load < b->load ? 1 : -1;
    return strcmp(a->name, b->name);
}

static void resources_merge(struct result *into, struct result *from)
{
    size_t all = into->resource_count + from->resource_count, known = into->resource_count;
    into->resources = memory_resize(into->resources, all + 1, sizeof into->resources[0]);
    for (size_t i = 0; i < from->resource_count; i++) {
        struct result_resource *same = resource_find(into, from->resources[i].name);
        if (same != NULL) {
            resource_merge(same, &from->resources[i]);
            continue;
        }
        into->resources[known++] = from->resources[i];
        from->resources[i].name = NULL; /* it has another owner now */
        into->resource_count = known;
    }
    qsort(into->resources, into->resource_count, sizeof into->resources[0], by_load);
    while (into->resource_count > RESULT_RESOURCES_MAX) {
        free(into->resources[--into->resource_count].name);
        into->resources_left_out++;
    }
    MORE(resources_left_out);
}

static void node_merge(struct result_node *into, const struct result_node *from)
{
    spread_merge(&into->latency, &from->latency);
    ADD(requests), ADD(granted), ADD(refused), ADD(errors), ADD(timeouts), ADD(split_votes), ADD(commands_sent);
    MORE(commands_counted);
    MORE(cpu_share);
    MORE(keys_at_end);
}

static void nodes_merge(struct result *into, const struct result *from)
{
    for (unsigned i = 0; i < into->node_count; i++)
        for (unsigned j = 0; j < from->node_count; j++)
            if (strcmp(into->nodes[i].name, from->nodes[j].name) == 0)
                node_merge(&into->nodes[i], &from->nodes[j]);
}

static void second_merge(struct result_second *into, const struct result_second *from, double here, double there)
{
    MEAN(busy, here, there);
    ADD(pushed), ADD(ended), ADD(parked), ADD(handed_over), ADD(lost), ADD(waiting);
    MORE(wait_p50);
    MORE(wait_p99);
    MORE(hold_p50);
    MORE(hold_p99);
    MORE(acquire_p50);
    MORE(acquire_p99);
    MORE(extend_p99);
}

static unsigned runners_of(const struct result *result)
{
    unsigned runners = 0;
    for (size_t i = 0; i < result->host_count; i++)
        runners += result->hosts[i].processes * result->hosts[i].threads;
    return runners;
}

static void overheads_merge(struct result *all, const struct result *one)
{
    struct result_overheads *into = &all->overheads;
    const struct result_overheads *from = &one->overheads;
    double here = (double)all->hold.count, there = (double)one->hold.count;
    MEAN(together, into->arrivals, from->arrivals);
    MEAN(hold_extra, here, there);
    MEAN(claim_extra, here, there);
    MEAN(park_cost, here, there);
    MEAN(runner_changeover, here, there);
    MEAN(next_push, here, there);
    MEAN(tries, here, there);
    ADD(arrivals);
    moments_merge(&into->base, &from->base);
    moments_merge(&into->changeover, &from->changeover);
    moments_merge(&into->crowd_changeover, &from->crowd_changeover);
}

static void totals_merge(struct result *into, const struct result *from)
{
    double here = (double)into->hold.count, there = (double)from->hold.count;
    MEAN(tries_per_hold, here, there);
    MEAN(commands_per_hold, here, there);
    MEAN(utilisation, runners_of(into), runners_of(from));
    MORE(measured_for);
    MORE(overhead_share);
    MORE(observation_ns);
    ADD(pushed), ADD(ended), ADD(done), ADD(failed), ADD(dead), ADD(parked), ADD(skipped), ADD(dropped);
    ADD(given_back), ADD(lost), ADD(fence_refusals), ADD(overlaps), ADD(overlaps_unfenced), ADD(twice), ADD(left);
    ADD(throughput), ADD(plan.rate), ADD(plan.population);
    into->was_interrupted |= from->was_interrupted;
    into->is_drained &= from->is_drained;
    if (into->crashed_checks[0] == '\0')
        memcpy(into->crashed_checks, from->crashed_checks, sizeof into->crashed_checks);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static bool is_other_part(const struct result *into, const struct result *from, struct error *error)
{
    if (into->plan.hosts <= 1 || from->plan.hosts != into->plan.hosts ||
        strcmp(into->plan.run_id, from->plan.run_id) != 0 || into->began_us != from->began_us)
        return error_set(error, "these are not of one run: only results of hosts that began together are joined, with "
                                "the same --name and --hosts");
    for (size_t i = 0; i < into->host_count; i++)
        for (size_t j = 0; j < from->host_count; j++)
            if (strcmp(into->hosts[i].id, from->hosts[j].id) == 0)
                return error_set(error, "the result of the host %.100s is there twice", into->hosts[i].name);
    return true;
}

static void hosts_merge(struct result *into, const struct result *from)
{
    into->hosts = memory_resize(into->hosts, into->host_count + from->host_count + 1, sizeof into->hosts[0]);
    memcpy(into->hosts + into->host_count, from->hosts, from->host_count * sizeof from->hosts[0]);
    into->host_count += from->host_count;
    for (unsigned i = 0; i < from->fault_count && into->fault_count < DRY_RUN_FAULTS_MAX; i++)
        into->faults[into->fault_count++] = from->faults[i];
}

bool result_merge(struct result *into, struct result *from, struct error *error)
{
    if (!is_other_part(into, from, error))
        return false;
    overheads_merge(into, from);
    totals_merge(into, from);
    spread_merge(&into->wait, &from->wait);
    spread_merge(&into->hold, &from->hold);
    spread_merge(&into->acquire, &from->acquire);
    spread_merge(&into->extend, &from->extend);
    for (size_t i = 0; i < into->second_count && i < from->second_count; i++)
        second_merge(&into->seconds[i], &from->seconds[i], runners_of(into), runners_of(from));
    resources_merge(into, from);
    nodes_merge(into, from);
    hosts_merge(into, from);
    result_fini(from);
    return true;
}

void result_merge_end(struct result *result)
{
    expectation_fill(result);
    verdict_make(result);
}
