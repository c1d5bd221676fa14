#include "tests/support/dry_run_sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define HOLD_S 0.005

struct shape {
    unsigned resources, seconds, nodes, hosts;
    double rate; /* tasks a second, of all */
};

/* --- chance ------------------------------------------------------------------------------------------------------- */

static uint64_t state_of_chance;

/* splitmix64; in (0, 1). */
static double chance(void)
{
    uint64_t bits = (state_of_chance += 0x9e3779b97f4a7c15U);
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
    return ((double)((bits ^ (bits >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double exponential(double mean)
{
    return -mean * log(chance());
}

/* About `value`, give or take some percents. */
static double around(double value)
{
    return value * (0.94 + 0.12 * chance());
}

/* --- durations ---------------------------------------------------------------------------------------------------- */

static void spread_end(struct result_spread *spread)
{
    const struct histogram *histogram = spread->histogram;
    spread->count = histogram->count;
    spread->mean = histogram->count > 0 ? (double)histogram->sum_us / (double)histogram->count / 1e6 : 0;
    spread->p50 = (double)histogram_quantile(histogram, 0.5) / 1e6;
    spread->p90 = (double)histogram_quantile(histogram, 0.9) / 1e6;
    spread->p99 = (double)histogram_quantile(histogram, 0.99) / 1e6;
    spread->p999 = (double)histogram_quantile(histogram, 0.999) / 1e6;
    spread->max = (double)histogram->max_us / 1e6;
    spread->mean_error = spread->count > 0 ? spread->mean * 4 / sqrt((double)spread->count) : 0;
}

/* `least` and something exponential on top, which a share of them has not. */
static void spread_make(struct result_spread *spread, uint64_t count, double least, double mean, double share)
{
    spread->histogram = memory_new(struct histogram);
    for (uint64_t i = 0; i < count; i++)
        histogram_record(spread->histogram,
                         llround(1e6 * (least + (chance() < share ? exponential(mean) : exponential(least / 4)))));
    spread_end(spread);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static void resource_make(struct result_resource *resource, unsigned number, double load, double seconds)
{
    char name[32];
    double utilisation = fmin(load * HOLD_S * 1.06, 0.97), wait = 0.0011 + utilisation * HOLD_S / (1 - utilisation);
    snprintf(name, sizeof name, "r%u", number);
    *resource = (struct result_resource){.name = memory_text(name),
                                         .arrived = (uint64_t)(load * seconds),
                                         .held = (uint64_t)(around(load) * seconds),
                                         .parks = (uint64_t)(load * seconds * utilisation * 0.8),
                                         .hand_overs = (uint64_t)(load * seconds * utilisation * 0.7),
                                         .refusals = (uint64_t)(load * seconds * utilisation),
                                         .load = load,
                                         .throughput = around(load),
                                         .share_held = fmin(around(utilisation), 0.99),
                                         .waiters = around(load * wait),
                                         .waiters_max = (unsigned)(8 * load * wait),
                                         .hold_mean = HOLD_S,
                                         .hold_second_moment = 2 * HOLD_S * HOLD_S,
                                         .wait_mean = around(wait),
                                         .wait_p50 = wait * 0.7,
                                         .wait_p99 = wait * 4.6,
                                         .wait_error = wait * 0.08,
                                         .changeover_mean = 0.0004,
                                         .changeovers = (uint64_t)(load * seconds * utilisation),
                                         .expected = {load * seconds > 20, utilisation, wait, load}};
}

static void resources_make(struct result *result, const struct shape *shape)
{
    double all = 0;
    for (unsigned i = 0; i < shape->resources; i++)
        all += pow(i + 1, -1.1);
    result->resources = memory_zeroed(shape->resources, sizeof *result->resources);
    result->resource_count = shape->resources;
    for (unsigned i = 0; i < shape->resources; i++)
        resource_make(&result->resources[i], i, shape->rate * pow(i + 1, -1.1) / all, result->measured_for);
}

static void seconds_make(struct result *result, const struct shape *shape)
{
    result->seconds = memory_zeroed(shape->seconds, sizeof *result->seconds);
    result->second_count = shape->seconds;
    for (unsigned i = 0; i < shape->seconds; i++) {
        bool is_bad = shape->seconds == 20 && i >= 8 && i < 11; /* a node is down */
        double wait = around(is_bad ? 0.06 : 0.012);
        result->seconds[i] = (struct result_second){.at = i,
                                                    .pushed = around(shape->rate),
                                                    .ended = around(is_bad ? shape->rate * 0.7 : shape->rate),
                                                    .parked = around(shape->rate * 0.2),
                                                    .handed_over = around(shape->rate * 0.17),
                                                    .lost = is_bad && i == 9 ? 2 : 0,
                                                    .wait_p50 = wait,
                                                    .wait_p99 = wait * 9,
                                                    .hold_p50 = around(HOLD_S * 0.7),
                                                    .hold_p99 = around(HOLD_S * 4.6),
                                                    .acquire_p50 = around(0.0006),
                                                    .acquire_p99 = around(is_bad ? 0.05 : 0.003),
                                                    .extend_p99 = around(0.002),
                                                    .waiting = around(is_bad ? 260 : 20),
                                                    .busy = fmin(around(0.6), 1)};
    }
}

static void nodes_make(struct result *result, const struct shape *shape)
{
    result->node_count = shape->nodes;
    for (unsigned i = 0; i < shape->nodes; i++) {
        struct result_node *node = &result->nodes[i];
        uint64_t requests = i == 0 ? 0 : (uint64_t)(result->measured_for * shape->rate * 2.1);
        *node = (struct result_node){.is_queue_node = i == 0,
                                     .requests = requests,
                                     .granted = requests - requests / 9,
                                     .refused = requests / 9,
                                     .errors = i == 3 ? 12 : 0,
                                     .timeouts = i == 3 ? 41 : 0,
                                     .split_votes = i == 3 ? 7 : 0,
                                     .commands_sent = i == 0 ? 91234 : requests,
                                     .commands_counted = (i == 0 ? 91234 : requests) + 8,
                                     .cpu_share = i == 0 ? 0.21 : 0.06};
        snprintf(node->name, sizeof node->name, i == 0 ? "queue" : "lock%u", i);
        snprintf(node->address, sizeof node->address, "127.0.0.1:%u", 40100 + i);
        spread_make(&node->latency, i == 0 ? 0 : 4000, 0.00018, i == 3 ? 0.004 : 0.0004, 0.3);
    }
}

static void hosts_make(struct result *result, const struct shape *shape)
{
    result->hosts = memory_zeroed(shape->hosts, sizeof *result->hosts);
    result->host_count = shape->hosts;
    for (unsigned i = 0; i < shape->hosts; i++) {
        struct result_host *host = &result->hosts[i];
        *host = (struct result_host){.processes = 2, .threads = 16, .cpu_share = 0.43, .records_lost = i == 1 ? 3 : 0};
        snprintf(host->name, sizeof host->name, "host-%c", 'a' + (int)i);
    }
}

static void faults_make(struct result *result)
{
    result->fault_count = 3;
    result->faults[0] = (struct result_fault){
        .fault = {.kind = DRY_RUN_FAULT_STOP, .at_ns = 8 * NS_PER_S, .lasts_ns = 3 * NS_PER_S, .number = 3},
        .text = "lock3 stood still for 3.0 s: 41 requests were not answered in time, 2 locks were lost, none twice",
        .at = 8.004,
        .was_done = true};
    result->faults[1] = (struct result_fault){
        .fault = {.kind = DRY_RUN_FAULT_KILL, .at_ns = 14 * NS_PER_S, .at_worker = true, .number = 2},
        .text = "worker process 2 was killed: its 11 tasks were taken over after 1.9 s",
        .at = 14.001,
        .was_done = true};
    result->faults[2] =
        (struct result_fault){.fault = {.kind = DRY_RUN_FAULT_WIPE, .at_ns = 60 * NS_PER_S, .number = 1},
                              .text = "the run was over before its time came",
                              .at = 60};
}

static void points_make(struct result *result)
{
    static const unsigned threads[] = {4, 8, 16, 32, 64};
    result->point_count = sizeof threads / sizeof threads[0];
    for (unsigned i = 0; i < result->point_count; i++) {
        double throughput = 790 * (1 - exp(-(double)threads[i] / 11.0)),
               wait = 0.012 + 1.9 * exp(-(double)threads[i] / 6.0);
        result->points[i] = (struct result_point){.threads = threads[i],
                                                  .processes = 2,
                                                  .throughput = around(throughput),
                                                  .wait_mean = around(wait),
                                                  .wait_p99 = around(5 * wait),
                                                  .share_busy = fmin(1, 12.0 / threads[i]),
                                                  .expected = {true, 0.9, wait, throughput}};
    }
}

static void totals_make(struct result *result, const struct shape *shape)
{
    uint64_t all = (uint64_t)(shape->rate * result->measured_for);
    result->pushed = all + 12;
    result->ended = all;
    result->done = all - all / 100;
    result->failed = all / 100;
    result->parked = all / 5;
    result->given_back = 11;
    result->left = 12;
    result->throughput = shape->rate * 0.998;
    result->tries_per_hold = 1.04;
    result->commands_per_hold = 2.2;
    result->utilisation = 0.61;
    result->overhead_share = 0.08;
    result->observation_ns = 1900;
    result->headroom = 1.08;
    spread_make(&result->wait, all < 40000 ? all : 40000, 0.0011, 0.021, 0.45);
    spread_make(&result->hold, all < 40000 ? all : 40000, 0.0001, HOLD_S, 1);
    spread_make(&result->acquire, all < 40000 ? all : 40000, 0.0005, 0.003, 0.2);
    spread_make(&result->extend, all < 3000 ? all : 3000, 0.0004, 0.002, 0.2);
    result->expected = (struct result_expected){true, 0.9, 0.0101, shape->rate};
    snprintf(result->formula, sizeof result->formula,
             "M/G/1 with the mean and second moment of the holds that were measured (Pollaczek and Khinchine)");
}

static void answer_make(struct result *result)
{
    result->bottleneck = RESULT_RESOURCE;
    snprintf(
        result->answer, sizeof result->answer,
        "The resource r0 is the bottleneck: it is held 90 %% of the time, and a load 1.08 times as great would fill "
        "it. Tasks wait 10.3 ms for their locks on the average, one of a hundred longer than 96 ms.");
    static const char *const advice[] = {
        "More threads would not help: runners are busy 61 % of the time, and r0 serves one task at a time.",
        "Holds of r0 that are half as long would bring its share to 45 % and its mean wait from 45 ms to 2.0 ms.",
        "Splitting r0 in two would bring the mean wait of its tasks to 2.1 ms."};
    for (; result->advice_count < 3; result->advice_count++)
        snprintf(result->advice[result->advice_count], RESULT_TEXT_MAX, "%s", advice[result->advice_count]);
}

/* --- kinds -------------------------------------------------------------------------------------------------------- */

static void plan_make(struct dry_run_plan *plan, const struct shape *shape)
{
    plan_init(plan);
    snprintf(plan->id, sizeof plan->id, "3f9a0c21bb7e");
    plan->seed = 42;
    if (shape->seconds > 0) {
        plan->is_local = true;
        plan->local_nodes = 5;
        plan->warm_up_ns = 2 * NS_PER_S;
        plan->for_ns = (int64_t)(shape->seconds + 2) * NS_PER_S;
        plan->processes = 2;
        plan->threads = 16;
        plan->hosts = shape->hosts;
        plan->arrivals = DRY_RUN_OPEN;
        plan->rate = shape->rate;
        plan->popularity = (struct popularity){.kind = POPULARITY_ZIPF, .count = shape->resources, .exponent = 1.1};
        plan->hold = (struct distribution){.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = HOLD_S};
    }
    plan_complete(plan);
}

static void break_text(char *text, size_t size)
{
    size_t length = strnlen(SAMPLE_HOSTILE_TEXT, size - 1);
    memcpy(text, SAMPLE_HOSTILE_TEXT, length);
    text[length] = '\0';
}

static void hostile_make(struct result *result)
{
    break_text(result->version, sizeof result->version);
    break_text(result->began, sizeof result->began);
    break_text(result->answer, sizeof result->answer);
    break_text(result->formula, sizeof result->formula);
    break_text(result->shadowed, sizeof result->shadowed);
    break_text(result->crashed_checks, sizeof result->crashed_checks);
    for (unsigned i = 0; i < result->advice_count; i++)
        break_text(result->advice[i], RESULT_TEXT_MAX);
    for (unsigned i = 0; i < result->node_count; i++) {
        break_text(result->nodes[i].name, sizeof result->nodes[i].name);
        break_text(result->nodes[i].address, sizeof result->nodes[i].address);
    }
    for (unsigned i = 0; i < result->host_count; i++)
        break_text(result->hosts[i].name, sizeof result->hosts[i].name);
    for (unsigned i = 0; i < result->fault_count; i++)
        break_text(result->faults[i].text, RESULT_TEXT_MAX);
    for (size_t i = 0; i < result->resource_count; i++) {
        free(result->resources[i].name);
        result->resources[i].name = memory_text(SAMPLE_HOSTILE_TEXT);
    }
}

void dry_run_sample(enum sample_kind kind, struct result *result)
{
    static const struct shape shapes[SAMPLE_KINDS] = {[SAMPLE_FULL] = {100, 20, 6, 2, 770},
                                                      [SAMPLE_ONE] = {1, 10, 1, 1, 120},
                                                      [SAMPLE_MANY] = {1000, 3600, 6, 1, 900},
                                                      [SAMPLE_STOPPED] = {100, 3, 6, 1, 770},
                                                      [SAMPLE_HOSTILE] = {3, 20, 4, 2, 90}};
    const struct shape *shape = &shapes[kind];
    state_of_chance = 7;
    *result = (struct result){.measured_for = shape->seconds};
    snprintf(result->version, sizeof result->version, "0.1.0");
    snprintf(result->began, sizeof result->began, "2026-11-22T08:00:00Z");
    plan_make(&result->plan, shape);
    if (kind == SAMPLE_EMPTY)
        return;
    totals_make(result, shape);
    resources_make(result, shape);
    seconds_make(result, shape);
    nodes_make(result, shape);
    hosts_make(result, shape);
    answer_make(result);
    if (kind == SAMPLE_FULL || kind == SAMPLE_HOSTILE) {
        faults_make(result);
        points_make(result);
        result->lost = 2;
    }
    if (kind == SAMPLE_HOSTILE)
        hostile_make(result);
    result->was_interrupted = kind == SAMPLE_STOPPED;
    result->is_drained = kind != SAMPLE_STOPPED;
    result->resources_left_out = kind == SAMPLE_MANY ? 4321 : 0;
}
