/* A stats with a plan, and short words for what it is told. Times are milliseconds after a beginning. */
#ifndef TESTS_UNIT_STATS_FIXTURE_H
#define TESTS_UNIT_STATS_FIXTURE_H

#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

#include "worker/dry_run/count/stats.h"
#include "worker/dry_run/report/result.h"

#define assert_near(value, wanted, share)                                                                              \
    do {                                                                                                               \
        double is = (value), should = (wanted);                                                                        \
        if (!(fabs(is - should) <= (share)*fabs(should) + 1e-9))                                                       \
            fail_msg("%s is %g and not %g", #value, is, should);                                                       \
    } while (0)

#define ROUNDED 0.04 /* histograms */

static const int64_t BEGIN_NS = 1000 * NS_PER_S;

static struct dry_run_plan plan;
static struct stats *stats;
static struct result result;

static inline struct instant at(double ms)
{
    return (struct instant){BEGIN_NS + (int64_t)llround(ms * (double)NS_PER_MS)};
}

static inline void begin(double measured_from_ms)
{
    stats = stats_create(&plan, "here", at(0), at(measured_from_ms));
}

static inline void setup(void)
{
    plan = (struct dry_run_plan){.kind = DRY_RUN_REHEARSAL,
                                 .arrivals = DRY_RUN_OPEN,
                                 .rate = 100,
                                 .processes = 2,
                                 .threads = 4,
                                 .popularity = {.kind = POPULARITY_UNIFORM, .count = 10},
                                 .resources_per_task = 1,
                                 .hold = {.kind = DISTRIBUTION_FIXED, .mean_s = 0.005}};
    memset(&result, 0, sizeof result);
    begin(0);
}

static inline void teardown(void)
{
    stats_destroy(stats);
    result_fini(&result);
}

static inline void finish(double load_until_ms, double ms)
{
    stats_load_ended(stats, at(load_until_ms));
    result.plan = plan;
    stats_finish(stats, at(ms), &result);
    memset(&result.plan, 0, sizeof result.plan);
}

static inline void push(const char *jid, const char *resource, double ms)
{
    stats_pushed(stats, jid, &resource, 1, at(ms));
}

/* One stay of a task in a slot. 0 = it did not happen. */
struct stay {
    const char *jid, *resource;
    enum flow_ending ending;
    double claimed, asked, locked, left;
    unsigned process;
    bool handed_over, had_refusal, was_lost;
};

static inline bool stays(struct stay stay)
{
    struct record record = {.kind = RECORD_TASK,
                            .task = {.jid = stay.jid,
                                     .resources = &stay.resource,
                                     .resource_count = 1,
                                     .ending = stay.ending,
                                     .claimed = at(stay.claimed),
                                     .asked = stay.asked > 0 ? at(stay.asked) : (struct instant){0},
                                     .locked = stay.locked > 0 ? at(stay.locked) : (struct instant){0},
                                     .started = stay.locked > 0 ? at(stay.locked) : (struct instant){0},
                                     .ended = stay.locked > 0 ? at(stay.left) : (struct instant){0},
                                     .left = at(stay.left),
                                     .handed_over = stay.handed_over,
                                     .had_refusal = stay.had_refusal,
                                     .was_lost = stay.was_lost}};
    uint64_t outstanding = stats_outstanding(stats);
    stats_record(stats, stay.process, &record);
    return stats_outstanding(stats) < outstanding;
}

static inline bool done(const char *jid, const char *resource, double asked, double locked, double left)
{
    return stays(
        (struct stay){jid, resource, FLOW_DONE, .claimed = asked, .asked = asked, .locked = locked, .left = left});
}

static inline void event(enum record_kind kind, const char *jid, const char *resource, uint64_t token, unsigned process,
                         double ms)
{
    struct record record = {
        .kind = kind, .event = {.at = at(ms), .jid = jid, .resources = &resource, .resource_count = 1, .token = token}};
    stats_record(stats, process, &record);
}

static inline const struct result_resource *resource_named(const char *name)
{
    for (size_t i = 0; i < result.resource_count; i++)
        if (strcmp(result.resources[i].name, name) == 0)
            return &result.resources[i];
    fail_msg("no resource %s", name);
    return NULL;
}

#endif
