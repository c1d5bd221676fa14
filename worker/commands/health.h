/* What is not well in what `status` has read, each described once: for `status`, its --check, `doctor` and `top`. Pure.
 *
 *     struct health health;
 *     health_judge(&health, &status, &bounds, now);
 *     health_line(&health, &status, &out);            "well: 3 workers, ..." or "not well: ..."
 *     health_free(&health); */
#ifndef WORKER_HEALTH_H
#define WORKER_HEALTH_H

#include "worker/commands/status.h"

/* The worst first. */
enum health_kind {
    HEALTH_WRITES,
    HEALTH_KEY, /* one without which workers cannot go on holds something else */
    HEALTH_WORKERS,
    HEALTH_LOCKS,
    HEALTH_TERMS, /* of two processes break exclusion */
    HEALTH_CLAIMS,
    HEALTH_ANSWERS, /* that a worker does not receive */
    HEALTH_QUEUE_KEY,
    HEALTH_PAUSED, /* a queue with tasks */
    HEALTH_QUEUE,
    HEALTH_CLASS,
    HEALTH_DEAD,
    HEALTH_GROWTH,
    HEALTH_BOUND, /* that an option has set */
    HEALTH_KINDS
};

struct health_finding {
    enum health_kind kind;
    char *text; /* names in it are quoted for a terminal */
};

struct health {
    struct health_finding *items; /* by kind */
    size_t count;
    char *warning; /* what is well, but probably not meant: the first; NULL = nothing */
};

/* The bounds of what is well; -1 = not checked. */
struct health_bounds {
    int64_t max_latency_ns;
    long long max_dead, min_processes;
};

extern const struct health_bounds health_bounds_usual; /* that some worker takes tasks */

void health_judge(struct health *health, const struct status *status, const struct health_bounds *bounds,
                  struct wall_time now);
void health_free(struct health *health);

/* Appends the answer to "is it well?" in one line, without a line end. */
void health_line(const struct health *health, const struct status *status, struct buffer *out);

#endif
