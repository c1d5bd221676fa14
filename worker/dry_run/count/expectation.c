/* See expectation.h. */
#include "worker/dry_run/count/expectation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

enum {
    HOLDS_MIN = 200, /* of a resource, before its own times say more than those of all */
    TASKS_MIN = 100, /* before a run says anything */
};

#define FAR_FROM_FULL 0.8

/* --- what the model is given -------------------------------------------------------------------------------------- */

struct inputs {
    const struct result *result;
    const struct dry_run_plan *plan;
    const struct result_overheads *overheads;
    struct expectation_change change;
    struct model_service service; /* of all resources together */
    struct model_time taken;      /* of a runner by a task */
    double hold_then;             /* the mean hold of all, without the change */
    double runners;
};

/* Of all resources that are reported, by how often they were held. */
static struct model_time holds_together(const struct result *result)
{
    struct model_time sum = {0, 0};
    double count = 0;
    for (size_t i = 0; i < result->resource_count; i++) {
        const struct result_resource *resource = &result->resources[i];
        sum.mean += resource->throughput * resource->hold_mean;
        sum.second_moment += resource->throughput * resource->hold_second_moment;
        count += resource->throughput;
    }
    return count > 0 ? (struct model_time){sum.mean / count, sum.second_moment / count} : sum;
}

static struct model_time hold_of_all(const struct inputs *inputs, double factor)
{
    const struct dry_run_plan *plan = inputs->plan;
    if (plan->kind != DRY_RUN_REHEARSAL)
        return model_time_scaled(holds_together(inputs->result), factor);
    struct model_time planned = {distribution_mean(&plan->hold), distribution_second_moment(&plan->hold)};
    planned = model_time_scaled(planned, factor);
    return model_time_moved(planned, planned.mean + inputs->overheads->hold_extra);
}

static unsigned runners_of(const struct result *result)
{
    unsigned runners = 0;
    for (unsigned i = 0; i < result->host_count; i++)
        runners += result->hosts[i].processes * result->hosts[i].threads;
    return runners;
}

static struct inputs inputs_make(const struct result *result, const struct expectation_change *change)
{
    const struct result_overheads *overheads = &result->overheads;
    struct inputs inputs = {.result = result, .plan = &result->plan, .overheads = overheads, .change = *change};
    inputs.service.hold = hold_of_all(&inputs, 1);
    inputs.hold_then = inputs.service.hold.mean;
    inputs.service.hold = hold_of_all(&inputs, change->holds);
    inputs.service.base = moments_time(&overheads->base);
    inputs.service.changeover = moments_time(&overheads->changeover);
    if (overheads->changeover.count == 0) /* no task ever waited: as long as a request when it is free */
        inputs.service.changeover =
            (struct model_time){overheads->claim_extra, overheads->claim_extra * overheads->claim_extra};
    double extra = overheads->claim_extra + overheads->park_cost + overheads->runner_changeover;
    inputs.taken = model_time_moved(inputs.service.hold, inputs.service.hold.mean + extra);
    inputs.runners = fmax(round(runners_of(result) * change->runners), 1);
    return inputs;
}

static double together_of(const struct inputs *inputs)
{
    return fmax(inputs->overheads->together, 1);
}

/* Arrivals at resources that are not in the report, all together. */
static double load_left_out(const struct inputs *inputs)
{
    const struct result *result = inputs->result;
    double load = inputs->overheads->arrivals * together_of(inputs);
    for (size_t i = 0; i < result->resource_count; i++)
        load -= result->resources[i].load;
    return result->resources_left_out > 0 ? fmax(load, 0) : 0;
}

/* --- open --------------------------------------------------------------------------------------------------------- */

/* All its changeovers, however many waited. */
static struct model_time changeover_of(const struct inputs *inputs, const struct result_resource *resource)
{
    if (resource->changeovers < MODEL_CHANGEOVERS_MIN)
        return inputs->service.changeover;
    return (struct model_time){resource->changeover_mean, resource->changeover_second_moment};
}

/* Those to the only one that waited, and those in a crowd: its own where there were enough, else in a crowd as
 * anywhere. */
static void changeovers_set(const struct inputs *inputs, const struct result_resource *resource,
                            struct model_service *service)
{
    const struct result_overheads *overheads = inputs->overheads;
    struct model_time changeover = changeover_of(inputs, resource);
    double lones = (double)resource->lone_changeovers, crowds = (double)resource->changeovers - lones;
    service->changeover = service->lone = changeover;
    if (lones >= MODEL_CHANGEOVERS_MIN)
        service->lone = (struct model_time){resource->lone_changeover_mean, resource->lone_changeover_second_moment};
    if (crowds >= MODEL_CHANGEOVERS_MIN && lones >= MODEL_CHANGEOVERS_MIN) {
        double all = (double)resource->changeovers;
        service->changeover.mean = (changeover.mean * all - service->lone.mean * lones) / crowds;
        service->changeover.second_moment =
            (changeover.second_moment * all - service->lone.second_moment * lones) / crowds;
    } else if (crowds < MODEL_CHANGEOVERS_MIN && overheads->crowd_changeover.count >= MODEL_CHANGEOVERS_MIN) {
        service->changeover = moments_time(&overheads->crowd_changeover);
    }
}

/* Its own holds and changeovers where there were enough: of a rehearsal with the plan's spread around their own mean,
 * for what stops a machine for a moment lengthens the holds of what is always held more than others. Faults do, too: a
 * run with some has the holds of all. Each of several resources of a task has its part of the base latency, which there
 * is once. */
static struct model_service service_of(const struct inputs *inputs, const struct result_resource *resource)
{
    struct model_service service = inputs->service;
    bool has_own = resource->held >= HOLDS_MIN && resource->hold_mean > 0 && inputs->plan->fault_count == 0;
    if (has_own && inputs->plan->kind != DRY_RUN_REHEARSAL)
        service.hold = model_time_scaled((struct model_time){resource->hold_mean, resource->hold_second_moment},
                                         inputs->change.holds);
    else if (has_own)
        service.hold = model_time_moved(service.hold, service.hold.mean + resource->hold_mean - inputs->hold_then);
    changeovers_set(inputs, resource, &service);
    service.base = model_time_scaled(service.base, 1 / together_of(inputs));
    return service;
}

/* Tasks that come again hold again. */
static struct model_outcome resource_outcome(const struct inputs *inputs, const struct result_resource *resource,
                                             double load)
{
    struct model_service service = service_of(inputs, resource);
    return model_resource(&service, load * inputs->overheads->tries);
}

/* Sums over resources. */
struct sums {
    double load, wait, throughput; /* `wait` is weighted by load */
    bool grows;
};

/* So many resources with the same outcome. */
static void sums_add(struct sums *sums, const struct model_outcome *outcome, double load, double count)
{
    sums->load += load * count;
    sums->throughput += outcome->throughput * count;
    if (outcome->wait < 0)
        sums->grows = true;
    else
        sums->wait += load * count * outcome->wait;
}

/* The resource with the greatest load may be several. What is left out of the report is like its last line. */
static struct sums open_sums(const struct inputs *inputs)
{
    const struct result *result = inputs->result;
    struct sums sums = {0};
    for (size_t i = 0; i < result->resource_count; i++) {
        const struct result_resource *resource = &result->resources[i];
        unsigned parts = i == 0 ? inputs->change.spread : 1;
        struct model_outcome outcome = resource_outcome(inputs, resource, resource->load / parts);
        sums_add(&sums, &outcome, resource->load / parts, parts);
    }
    double others = load_left_out(inputs), count = (double)result->resources_left_out;
    if (others > 0 && result->resource_count > 0) {
        const struct result_resource *last = &result->resources[result->resource_count - 1];
        struct model_outcome outcome = resource_outcome(inputs, last, others / count);
        sums_add(&sums, &outcome, others / count, count);
    }
    return sums;
}

static struct result_expected open_expected(const struct inputs *inputs, double *for_runner)
{
    struct sums sums = open_sums(inputs);
    double holds = sums.throughput / together_of(inputs);
    struct model_outcome runners = model_runners((unsigned)inputs->runners, inputs->taken, holds);
    struct result_expected expected = {.is_known = sums.load > 0,
                                       .utilisation = runners.utilisation,
                                       .wait = MODEL_GROWS,
                                       .throughput = runners.throughput / inputs->overheads->tries};
    if (!sums.grows && runners.wait >= 0 && sums.load > 0)
        expected.wait = sums.wait / sums.load * together_of(inputs) + runners.wait;
    *for_runner = runners.wait;
    return expected;
}

static void open_fill(const struct inputs *inputs, struct result *result)
{
    double for_runner;
    result->expected = open_expected(inputs, &for_runner);
    for (size_t i = 0; i < result->resource_count; i++) {
        struct result_resource *resource = &result->resources[i];
        struct model_outcome outcome = resource_outcome(inputs, resource, resource->load);
        bool grows = outcome.wait < 0 || for_runner < 0;
        resource->expected = (struct result_expected){.is_known = resource->load > 0,
                                                      .utilisation = outcome.utilisation,
                                                      .wait = grows ? MODEL_GROWS : outcome.wait + for_runner,
                                                      .throughput = outcome.throughput};
    }
}

/* --- closed ------------------------------------------------------------------------------------------------------- */

/* Holds are alike at all stations of a loop: by what those of one are longer, its changeovers are. */
static struct model_time station_changeover(const struct inputs *inputs, const struct result_resource *resource)
{
    struct model_service service = service_of(inputs, resource);
    struct model_time changeover = changeover_of(inputs, resource);
    return model_time_moved(changeover, fmax(changeover.mean + service.hold.mean - inputs->service.hold.mean, 1e-9));
}

/* The stations of the loop: the resources of the report, in their order, and those left out. */
static size_t stations_make(const struct inputs *inputs, struct model_stations *stations)
{
    const struct result *result = inputs->result;
    double others = load_left_out(inputs), total = others;
    size_t count = 0;
    for (size_t i = 0; i < result->resource_count; i++)
        total += result->resources[i].load;
    for (size_t i = 0; i < result->resource_count; i++) {
        double parts = i == 0 ? inputs->change.spread : 1;
        stations[count].count = parts;
        stations[count].changeover = station_changeover(inputs, &result->resources[i]);
        stations[count++].visits = result->resources[i].load / total * together_of(inputs) / parts;
    }
    if (others > 0) {
        stations[count].count = (double)result->resources_left_out;
        stations[count++].visits = others / total * together_of(inputs) / (double)result->resources_left_out;
    }
    return count;
}

/* Outcomes of the resources go to `each`, which has room for one more than there are. */
static struct result_expected closed_expected(const struct inputs *inputs, struct model_outcome *each)
{
    struct model_stations *stations = memory_zeroed(inputs->result->resource_count + 1, sizeof stations[0]);
    struct model_loop loop = {.service = inputs->service,
                              .stations = stations,
                              .station_count = stations_make(inputs, stations),
                              .population = inputs->plan->population,
                              .pause = inputs->overheads->next_push,
                              .runners = (unsigned)inputs->runners,
                              .taken = inputs->taken.mean};
    loop.service.base = model_time_scaled(loop.service.base, 1 / together_of(inputs));
    struct model_outcome outcome = model_closed_loop(&loop, each);
    free(stations);
    return (struct result_expected){
        .is_known = true, .utilisation = outcome.utilisation, .wait = outcome.wait, .throughput = outcome.throughput};
}

/* To a resource that is far from full the tasks of a loop come nearly by chance, and then more is known of it: what its
 * changeovers depend on. */
static double wait_at(const struct inputs *inputs, const struct result_resource *resource,
                      const struct model_outcome *in_loop, bool is_runner_free)
{
    struct model_outcome by_chance = resource_outcome(inputs, resource, in_loop->throughput);
    return is_runner_free && by_chance.utilisation < FAR_FROM_FULL ? by_chance.wait : in_loop->wait;
}

static void closed_fill(const struct inputs *inputs, struct result *result)
{
    struct model_outcome *each = memory_zeroed(result->resource_count + 1, sizeof each[0]);
    result->expected = closed_expected(inputs, each);
    bool is_runner_free = result->expected.utilisation < 1;
    for (size_t i = 0; i < result->resource_count; i++)
        result->resources[i].expected =
            (struct result_expected){.is_known = result->resources[i].load > 0,
                                     .utilisation = each[i].utilisation,
                                     .wait = wait_at(inputs, &result->resources[i], &each[i], is_runner_free),
                                     .throughput = each[i].throughput};
    free(each);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

/* Of a loop in which tasks fail the formulas do not know where they are meanwhile: they come again by a clock. Of some
 * hosts of a run they know a part of what comes. */
static bool is_beyond(const struct inputs *inputs)
{
    double load = 0;
    if (result_is_part(inputs->result))
        return true;
    for (size_t i = 0; i < inputs->result->resource_count; i++)
        load += inputs->result->resources[i].load;
    return inputs->result->wait.count < TASKS_MIN || inputs->service.hold.mean <= 0 || load <= 0 ||
           runners_of(inputs->result) == 0 || (plan_is_closed(inputs->plan) && inputs->overheads->tries > 1.01);
}

static void formula_tell(struct result *result, double together)
{
    const char *formula =
        plan_is_closed(&result->plan)
            ? "closed loop: mean value analysis (Reiser & Lavenberg 1980), holds that are not exponential by "
              "their residual time; the runners as an upper limit"
            : "each resource: M/G/1 (Pollaczek 1930, Khinchine 1932) with changeovers and a first service of "
              "its own (Welch 1964); the runners: M/G/c (Allen & Cunneen, from Erlang's C)";
    const char *several =
        together > 1 ? "; several resources a task: the sum of their waits, as if they were independent, which "
                       "is too little when they are busy"
                     : "";
    snprintf(result->formula, sizeof result->formula, "%s%s", formula, several);
}

void expectation_fill(struct result *result)
{
    struct expectation_change change = EXPECTATION_AS_IT_WAS;
    struct inputs inputs = inputs_make(result, &change);
    if (result_is_part(result))
        return;
    formula_tell(result, together_of(&inputs));
    if (is_beyond(&inputs))
        return;
    if (plan_is_closed(&result->plan))
        closed_fill(&inputs, result);
    else
        open_fill(&inputs, result);
}

struct result_expected expectation_of(const struct result *result, const struct expectation_change *change)
{
    struct inputs inputs = inputs_make(result, change);
    double for_runner;
    if (is_beyond(&inputs))
        return (struct result_expected){.is_known = false};
    return plan_is_closed(&result->plan) ? closed_expected(&inputs, NULL) : open_expected(&inputs, &for_runner);
}
