#include "worker/dry_run/report/result.h"

#include <stdlib.h>

#include "worker/dry_run/report/result_fields.h"

static void spread_fini(struct result_spread *spread)
{
    free(spread->histogram);
}

void result_fini(struct result *result)
{
    plan_fini(&result->plan);
    spread_fini(&result->wait);
    spread_fini(&result->hold);
    spread_fini(&result->acquire);
    spread_fini(&result->extend);
    for (unsigned i = 0; i < result->node_count; i++)
        spread_fini(&result->nodes[i].latency);
    for (size_t i = 0; i < result->resource_count; i++)
        free(result->resources[i].name);
    free(result->seconds);
    free(result->resources);
    free(result->hosts);
    *result = (struct result){0};
}

enum result_tone result_tone(const struct result *result)
{
    bool is_wrong =
        result->overlaps_unfenced > 0 || result->bottleneck == RESULT_TROUBLE || result->crashed_checks[0] != '\0';
    if (is_wrong || (result->headroom > 0 && result->headroom < 1))
        return RESULT_BAD;
    return result->bottleneck == RESULT_NONE && result->ended > 0 ? RESULT_GOOD : RESULT_FAIR;
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

/* The tables of what is in a result. A new member of a struct is a new line here, and nothing else. */
/* The kind follows from the type, so the two cannot differ. */
#define KIND_OF(value)                                                                                                 \
    _Generic((value), double                                                                                           \
             : FIELD_REAL, uint64_t                                                                                    \
             : FIELD_COUNT, int64_t                                                                                    \
             : FIELD_SIGNED, unsigned                                                                                  \
             : FIELD_NUMBER, bool                                                                                      \
             : FIELD_TRUTH, struct result_spread                                                                       \
             : FIELD_SPREAD, struct result_expected                                                                    \
             : FIELD_EXPECTED)

#define NAMED(owner, member, json_name)                                                                                \
    {                                                                                                                  \
        .name = json_name, .kind = KIND_OF(((struct owner *)0)->member), .offset = offsetof(struct owner, member)      \
    }
#define PLAIN(owner, member) NAMED(owner, member, #member)
#define TEXT(owner, member)                                                                                            \
    {                                                                                                                  \
        .name = #member, .kind = FIELD_TEXT, .offset = offsetof(struct owner, member),                                 \
        .size = sizeof((struct owner *)0)->member                                                                      \
    }
#define LATER_TEXT(owner, member)                                                                                      \
    {                                                                                                                  \
        .name = #member, .kind = FIELD_TEXT, .offset = offsetof(struct owner, member),                                 \
        .size = sizeof((struct owner *)0)->member, .came_later = true                                                  \
    }
#define NAME(owner, member)                                                                                            \
    {                                                                                                                  \
        .name = #member, .kind = FIELD_NAME, .offset = offsetof(struct owner, member)                                  \
    }
#define CHOICE(owner, member, json_name, names)                                                                        \
    {                                                                                                                  \
        .name = json_name, .kind = FIELD_CHOICE, .offset = offsetof(struct owner, member), .choices = (names)          \
    }

static const char *const bottleneck_names[] = {[RESULT_NONE] = "none",
                                               [RESULT_RESOURCE] = "resource",
                                               [RESULT_RUNNERS] = "runners",
                                               [RESULT_WORKER_CPU] = "worker-cpu",
                                               [RESULT_QUEUE_NODE] = "queue-node",
                                               [RESULT_LOCK_NODES] = "lock-nodes",
                                               [RESULT_MACHINE] = "machine",
                                               [RESULT_LOAD] = "load",
                                               [RESULT_TROUBLE] = "trouble",
                                               NULL};

_Static_assert(sizeof(enum result_bottleneck) == sizeof(int) && sizeof(enum dry_run_fault_kind) == sizeof(int),
               "a choice is read and written as an int");

const struct result_field result_fields[] = {TEXT(result, version),
                                             TEXT(result, began),
                                             PLAIN(result, measured_for),
                                             NAMED(result, was_interrupted, "interrupted"),
                                             NAMED(result, is_drained, "drained"),
                                             CHOICE(result, bottleneck, "bottleneck", bottleneck_names),
                                             PLAIN(result, headroom),
                                             TEXT(result, answer),
                                             PLAIN(result, pushed),
                                             PLAIN(result, ended),
                                             PLAIN(result, done),
                                             PLAIN(result, failed),
                                             PLAIN(result, dead),
                                             PLAIN(result, parked),
                                             PLAIN(result, skipped),
                                             PLAIN(result, dropped),
                                             PLAIN(result, given_back),
                                             PLAIN(result, lost),
                                             PLAIN(result, fence_refusals),
                                             PLAIN(result, overlaps),
                                             PLAIN(result, overlaps_unfenced),
                                             PLAIN(result, twice),
                                             PLAIN(result, left),
                                             PLAIN(result, throughput),
                                             PLAIN(result, tries_per_hold),
                                             PLAIN(result, commands_per_hold),
                                             PLAIN(result, utilisation),
                                             PLAIN(result, overhead_share),
                                             PLAIN(result, observation_ns),
                                             PLAIN(result, wait),
                                             PLAIN(result, hold),
                                             PLAIN(result, acquire),
                                             PLAIN(result, extend),
                                             PLAIN(result, expected),
                                             TEXT(result, formula),
                                             TEXT(result, shadowed),
                                             LATER_TEXT(result, crashed_checks),
                                             PLAIN(result, resources_left_out),
                                             {.name = NULL}};

const struct result_field result_spread_fields[] = {
    PLAIN(result_spread, count), PLAIN(result_spread, mean), PLAIN(result_spread, mean_error),
    PLAIN(result_spread, p50),   PLAIN(result_spread, p90),  PLAIN(result_spread, p99),
    PLAIN(result_spread, p999),  PLAIN(result_spread, max),  {.name = NULL}};

const struct result_field result_expected_fields[] = {NAMED(result_expected, is_known, "known"),
                                                      PLAIN(result_expected, utilisation),
                                                      PLAIN(result_expected, wait),
                                                      PLAIN(result_expected, throughput),
                                                      {.name = NULL}};

const struct result_field result_second_fields[] = {
    PLAIN(result_second, at),          PLAIN(result_second, pushed),
    PLAIN(result_second, ended),       PLAIN(result_second, parked),
    PLAIN(result_second, handed_over), PLAIN(result_second, lost),
    PLAIN(result_second, wait_p50),    PLAIN(result_second, wait_p99),
    PLAIN(result_second, hold_p50),    PLAIN(result_second, hold_p99),
    PLAIN(result_second, acquire_p50), PLAIN(result_second, acquire_p99),
    PLAIN(result_second, extend_p99),  PLAIN(result_second, waiting),
    PLAIN(result_second, busy),        {.name = NULL}};

const struct result_field result_resource_fields[] = {NAME(result_resource, name),
                                                      PLAIN(result_resource, arrived),
                                                      PLAIN(result_resource, held),
                                                      PLAIN(result_resource, parks),
                                                      PLAIN(result_resource, hand_overs),
                                                      PLAIN(result_resource, lost),
                                                      PLAIN(result_resource, fence_refusals),
                                                      PLAIN(result_resource, overlaps),
                                                      PLAIN(result_resource, refusals),
                                                      PLAIN(result_resource, load),
                                                      PLAIN(result_resource, throughput),
                                                      PLAIN(result_resource, share_held),
                                                      PLAIN(result_resource, waiters),
                                                      PLAIN(result_resource, waiters_max),
                                                      PLAIN(result_resource, hold_mean),
                                                      PLAIN(result_resource, hold_second_moment),
                                                      PLAIN(result_resource, wait_mean),
                                                      PLAIN(result_resource, wait_p50),
                                                      PLAIN(result_resource, wait_p99),
                                                      PLAIN(result_resource, wait_error),
                                                      PLAIN(result_resource, turn_mean),
                                                      PLAIN(result_resource, turn_second_moment),
                                                      PLAIN(result_resource, lone_turn_mean),
                                                      PLAIN(result_resource, lone_turn_second_moment),
                                                      PLAIN(result_resource, lone_turns),
                                                      PLAIN(result_resource, turns),
                                                      PLAIN(result_resource, expected),
                                                      {.name = NULL}};

const struct result_field result_node_fields[] = {TEXT(result_node, name),
                                                  TEXT(result_node, address),
                                                  NAMED(result_node, is_queue_node, "queue_node"),
                                                  PLAIN(result_node, requests),
                                                  PLAIN(result_node, granted),
                                                  PLAIN(result_node, refused),
                                                  PLAIN(result_node, errors),
                                                  PLAIN(result_node, timeouts),
                                                  PLAIN(result_node, split_votes),
                                                  PLAIN(result_node, latency),
                                                  PLAIN(result_node, commands_counted),
                                                  PLAIN(result_node, commands_sent),
                                                  PLAIN(result_node, cpu_share),
                                                  PLAIN(result_node, keys_at_end),
                                                  {.name = NULL}};

const struct result_field result_host_fields[] = {TEXT(result_host, name),
                                                  PLAIN(result_host, processes),
                                                  PLAIN(result_host, threads),
                                                  PLAIN(result_host, cpu_share),
                                                  PLAIN(result_host, clock_error),
                                                  PLAIN(result_host, records_lost),
                                                  {.name = NULL}};

const struct result_field result_fault_fields[] = {CHOICE(result_fault, fault.kind, "kind", dry_run_fault_names),
                                                   NAMED(result_fault, fault.at_ns, "planned_at_ns"),
                                                   NAMED(result_fault, fault.lasts_ns, "lasts_ns"),
                                                   NAMED(result_fault, fault.amount_ns, "amount_ns"),
                                                   NAMED(result_fault, fault.at_worker, "at_worker"),
                                                   NAMED(result_fault, fault.number, "number"),
                                                   TEXT(result_fault, text),
                                                   PLAIN(result_fault, at),
                                                   NAMED(result_fault, was_done, "done"),
                                                   {.name = NULL}};

const struct result_field result_point_fields[] = {PLAIN(result_point, threads),    PLAIN(result_point, processes),
                                                   PLAIN(result_point, throughput), PLAIN(result_point, wait_mean),
                                                   PLAIN(result_point, wait_p99),   PLAIN(result_point, share_busy),
                                                   PLAIN(result_point, expected),   {.name = NULL}};
