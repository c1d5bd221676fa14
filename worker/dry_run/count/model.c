/* See model.h. */
#include "worker/dry_run/count/model.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

struct model_time model_time_sum(struct model_time a, struct model_time b)
{
    return (struct model_time){a.mean + b.mean, a.second_moment + 2 * a.mean * b.mean + b.second_moment};
}

struct model_time model_time_scaled(struct model_time time, double factor)
{
    return (struct model_time){time.mean * factor, time.second_moment * factor * factor};
}

struct model_time model_time_moved(struct model_time time, double mean)
{
    double variance = fmax(time.second_moment - time.mean * time.mean, 0);
    return (struct model_time){mean, variance + mean * mean};
}

/* --- open --------------------------------------------------------------------------------------------------------- */

/* The chance that no task arrives during it: of a gamma distribution with these moments. */
static double nobody_in(struct model_time time, double rate)
{
    double variance = time.second_moment - time.mean * time.mean;
    if (variance <= 1e-9 * time.mean * time.mean)
        return exp(-rate * time.mean);
    return pow(1 + rate * variance / time.mean, -time.mean * time.mean / variance);
}

/* The chain of how many a holder leaves behind. The next service is g after it left none, l after it left one, and b
 * after it left more. With p0 and p1 the shares of holders that leave none and one, and N(g) the chance that no task
 * arrives during g, the chain gives
 *
 *     p0 = p0 N(g) + p1 N(l)
 *     p0 (1 + r(g) - r(b)) + p1 (r(l) - r(b)) = 1 - r(b)                        with r(x) = rate E[x]
 *     E[left behind] = (p0 (2 r(g) + v(g) - v(b)) + p1 (2 (r(l) - r(b)) + v(l) - v(b)) + v(b)) / (2 (1 - r(b)))
 *                                                                               with v(x) = rate^2 E[x^2]
 *
 * and by Little's law a stay is E[left behind] / rate, the hold at its end included. When l is as b this is Welch's
 * result, and when g is, too, Pollaczek's and Khinchine's. */
struct model_outcome model_resource(const struct model_service *service, double rate)
{
    struct model_time next = model_time_sum(service->changeover, service->hold);
    struct model_time lone = model_time_sum(service->lone, service->hold);
    struct model_time first = model_time_sum(service->base, service->hold);
    double full = rate * next.mean;
    if (full >= 1)
        return (struct model_outcome){.utilisation = full, .wait = MODEL_GROWS, .throughput = 1 / next.mean};
    double first_load = rate * first.mean, lone_load = rate * lone.mean, square = rate * rate;
    double per_none = (1 - nobody_in(first, rate)) / fmax(nobody_in(lone, rate), 1e-9); /* p1 / p0 */
    double none = (1 - full) / (1 + first_load - full + per_none * (lone_load - full));
    double one = none * per_none;
    double behind = (none * (2 * first_load + square * (first.second_moment - next.second_moment)) +
                     one * (2 * (lone_load - full) + square * (lone.second_moment - next.second_moment)) +
                     square * next.second_moment) /
                    (2 * (1 - full));
    return (struct model_outcome){.utilisation = full, .wait = behind / rate - service->hold.mean, .throughput = rate};
}

/* By Erlang's B, which has a recursion that does not overflow. */
double model_erlang_c(unsigned servers, double load)
{
    double blocked = 1;
    for (unsigned i = 1; i <= servers; i++)
        blocked = load * blocked / (i + load * blocked);
    return blocked / (1 - load / servers * (1 - blocked));
}

struct model_outcome model_runners(unsigned runners, struct model_time taken, double rate)
{
    double load = rate * taken.mean;
    struct model_outcome outcome = {.utilisation = load / runners, .throughput = rate};
    if (load >= runners) {
        outcome.wait = MODEL_GROWS;
        outcome.throughput = runners / taken.mean;
        return outcome;
    }
    if (load <= 0)
        return outcome;
    double variation = taken.second_moment / (taken.mean * taken.mean) - 1;
    double exponential = model_erlang_c(runners, load) * taken.mean / (runners - load);
    outcome.wait = exponential * (1 + variation) / 2;
    return outcome;
}

/* --- closed ------------------------------------------------------------------------------------------------------- */

/* Stations as they are with so many tasks in the loop. */
struct station {
    double there;    /* tasks at it, waiting or holding */
    double busy;     /* share of time */
    double response; /* from push to left */
};

/* What an arriving task finds is what is there with one task less. Those that wait before it take a hold and a
 * changeover each, the holder needs the mean residual of its service, which began with a changeover or with nothing
 * before it, and then it is the task's own turn.
 *
 * The residual of a hold is that of an arrival by chance. The more of the loop's `others` are at this very resource,
 * the less they come by chance: then the plain analysis is nearer to the truth, in which a hold begins anew. */
static double response_of(const struct model_service *service, const struct station *found, double others)
{
    struct model_time next = model_time_sum(service->changeover, service->hold);
    struct model_time first = model_time_sum(service->base, service->hold);
    double mean = found->busy * next.mean + (1 - found->busy) * first.mean;
    double second_moment = found->busy * next.second_moment + (1 - found->busy) * first.second_moment;
    double by_chance = mean > 0 ? second_moment / (2 * mean) : 0;
    double here = others > 0 ? fmin(found->there / others, 1) : 0;
    double residual = (1 - here) * by_chance + here * mean;
    double in_list = fmax(found->there - found->busy, 0) * next.mean + found->busy * residual;
    double start = (1 - found->busy) * service->base.mean + found->busy * service->changeover.mean;
    return in_list + start + service->hold.mean;
}

static struct model_service service_at(const struct model_loop *loop, size_t station)
{
    struct model_service service = loop->service;
    if (loop->stations[station].changeover.mean > 0)
        service.changeover = loop->stations[station].changeover;
    return service;
}

/* One more task in the loop. Returns the throughput; no resource does more than it can. */
static double loop_step(const struct model_loop *loop, struct station *stations, unsigned tasks)
{
    double cycle = loop->pause + loop->service.hold.mean, fullest = 0;
    for (size_t i = 0; i < loop->station_count; i++) {
        struct model_service service = service_at(loop, i);
        stations[i].response = response_of(&service, &stations[i], tasks - 1.0);
        double waits = stations[i].response - service.hold.mean;
        cycle += loop->stations[i].count * loop->stations[i].visits * waits;
        fullest = fmax(fullest, loop->stations[i].visits * (service.changeover.mean + service.hold.mean));
    }
    double throughput = fmin(tasks / cycle, 1 / fullest);
    for (size_t i = 0; i < loop->station_count; i++) {
        struct model_service service = service_at(loop, i);
        struct station *station = &stations[i];
        double visits = throughput * loop->stations[i].visits;
        double start = (1 - station->busy) * service.base.mean + station->busy * service.changeover.mean;
        station->busy = fmin(visits * (start + service.hold.mean), 1);
        station->there = visits * station->response;
    }
    return throughput;
}

static double waits_of(const struct model_loop *loop, const struct station *stations)
{
    double wait = 0;
    for (size_t i = 0; i < loop->station_count; i++)
        wait += loop->stations[i].count * loop->stations[i].visits * (stations[i].response - loop->service.hold.mean);
    return wait;
}

/* Whatever limits the throughput, a task is either paused, waiting or holding (Little's law). */
struct model_outcome model_closed_loop(const struct model_loop *loop, struct model_outcome *each)
{
    struct station *stations = memory_zeroed(loop->station_count + 1, sizeof stations[0]);
    double most = loop->runners > 0 && loop->taken > 0 ? loop->runners / loop->taken : INFINITY;
    double throughput = 0;
    for (unsigned tasks = 1; tasks <= loop->population && throughput < most; tasks++)
        throughput = fmin(loop_step(loop, stations, tasks), most);

    struct model_outcome outcome = {.throughput = throughput};
    outcome.wait = fmax(loop->population / throughput - loop->pause - loop->service.hold.mean, 0);
    outcome.utilisation = isfinite(most) ? throughput / most : 0;
    double for_runner = fmax(outcome.wait - waits_of(loop, stations), 0);
    for (size_t i = 0; each != NULL && i < loop->station_count; i++) {
        each[i].throughput = throughput * loop->stations[i].visits;
        each[i].wait = stations[i].response - loop->service.hold.mean + for_runner;
        each[i].utilisation = stations[i].busy;
    }
    free(stations);
    return outcome;
}
