/* What queueing theory expects of waits and throughput, to stand beside what is measured. Seconds and tasks a second.
 *
 * A resource, tasks arriving by chance: one server, first come first served, any distribution of holds (M/G/1;
 * Pollaczek 1930, Khinchine 1932). Between two holders that follow each other it is idle for a changeover, and a task
 * that finds it free needs its base latency before it has it, and others wait for it meanwhile: so the first service
 * of a busy period differs from the others (Welch, On a generalized M/G/1 queuing process in which the first customer
 * of each busy period receives exceptional service, Operations Research 12, 1964). A changeover to the only one that
 * waits may take longer than one in a crowd, which goes on from holder to holder: so that service is another one, too,
 * and the mean comes from the Markov chain of what holders leave behind (Kendall, Annals of Mathematical Statistics 24,
 * 1953).
 * The runners: c servers (M/G/c), by the approximation of Allen and Cunneen from Erlang's C formula (Allen,
 * Probability, Statistics and Queueing Theory, 1978): exact for exponential holds, and for 16 runners up to a quarter
 * off for others. A closed loop: mean value analysis (Reiser & Lavenberg, Journal of the ACM 27, 1980) with the
 * resources as stations and one delay, corrected for holds that are not exponential by their mean residual time
 * (Reiser, Performance Evaluation 1, 1981: the correction is an approximation; without it the analysis is exact).
 * Both limits of a closed loop, resources and runners, are taken one by one, and the lower one counts; where both are
 * nearly full at the same time that is too much by some percent.
 * Several resources a task: its wait is the sum of the waits for each, as if they did not depend on each other, and it
 * holds all of them once. That is too little when several are busy, for a task can lose its turn at the first while it
 * waits for the second.
 *
 * Pure. */
#ifndef WORKER_DRY_RUN_MODEL_H
#define WORKER_DRY_RUN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/dry_run/report/result.h"

/* Of a wait: it grows for as long as the load lasts. */
#define MODEL_GROWS (-1.0)

/* Mean and second moment of a duration. */
struct model_time {
    double mean, second_moment;
};

static inline void moments_add(struct moments *moments, double value)
{
    moments->count++;
    moments->sum += value;
    moments->squares += value * value;
}

static inline struct model_time moments_time(const struct moments *moments)
{
    double count = moments->count > 0 ? (double)moments->count : 1;
    return (struct model_time){moments->sum / count, moments->squares / count};
}

/* The sum of two that are independent. */
struct model_time model_time_sum(struct model_time a, struct model_time b);
/* With the same shape: every one of them is `factor` times as long. */
struct model_time model_time_scaled(struct model_time time, double factor);
/* With the same spread around another mean. */
struct model_time model_time_moved(struct model_time time, double mean);

/* What holds at every resource. */
struct model_service {
    struct model_time hold;       /* from locked to left */
    struct model_time base;       /* from push to locked when no other task is in the way */
    struct model_time changeover; /* from left to the next one's locked, when that one waits and others do */
    struct model_time lone;       /* the same, when only that one waits */
};

struct model_outcome {
    double utilisation; /* the demand as a share of what it can do: 1 and more is full */
    double wait;        /* mean, from push to locked; or MODEL_GROWS */
    double throughput;
};

/* A resource at which `rate` tasks a second arrive by chance. */
struct model_outcome model_resource(const struct model_service *service, double rate);

/* The share of arrivals that find all `servers` busy, when so many of them on average are: `load`, less than all. */
double model_erlang_c(unsigned servers, double load);
/* Runners, each taken for `taken` by a task. `wait` is that for a runner alone. */
struct model_outcome model_runners(unsigned runners, struct model_time taken, double rate);

/* Resources that are alike. */
struct model_stations {
    double visits; /* of each of them, by one task, on average */
    double count;
    struct model_time changeover; /* of their own; a mean of 0 = as that of all */
};

struct model_loop {
    struct model_service service;
    const struct model_stations *stations;
    size_t station_count;
    unsigned population;
    double pause;     /* from a task's end to the push of its successor */
    unsigned runners; /* 0 = no limit */
    double taken;     /* of a runner by a task, mean */
};

/* Throughput and mean wait of the loop; `each`, if not NULL, has room for the outcome at one resource of each of
 * the stations. `utilisation` of the loop is that of its runners. */
struct model_outcome model_closed_loop(const struct model_loop *loop, struct model_outcome *each);

enum { MODEL_CHANGEOVERS_MIN = 30 };

#endif
