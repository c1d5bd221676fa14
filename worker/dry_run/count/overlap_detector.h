/* The overlap detector: finds whether handlers of all processes were at one resource at the same time, from the times
 * at which they entered and left it. It knows nothing of locks.
 *
 *     overlap_detector_entered(detector, &visit);  overlap_detector_left(detector, &visit);
 *     overlap_detector_died(detector, process, at);
 *     overlap_detector_tidy(detector);   once a second
 *     overlap_detector_end(detector, at);
 *
 * Two visits of one resource overlap when they intersect. A visit that was not left goes on until its process has died,
 * or the run has ended. Each pair counts once, when both ends are known.
 *
 * A fence refusal: a visit is left after one with a larger token had begun; a store that compares tokens refuses its
 * late writes. An overlap is fenced when both have tokens, and different ones.
 *
 * Records of different processes come in any order. A visit is remembered until all processes have reported a time
 * a second after its end; at most OVERLAP_MEMORY_NS. Pure; one thread. */
#ifndef WORKER_DRY_RUN_OVERLAP_DETECTOR_H
#define WORKER_DRY_RUN_OVERLAP_DETECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define OVERLAP_MEMORY_NS (120 * NS_PER_S)

struct overlap_detector;

/* What is reported of overlaps as they are found; `resource` is the number that was given. */
struct overlap_told {
    void (*overlap)(void *context, unsigned resource, bool is_fenced);
    void (*refusal)(void *context, unsigned resource);
    void *context;
};

struct overlap_detector *overlap_detector_create(const struct overlap_told *told);
void overlap_detector_destroy(struct overlap_detector *detector); /* NULL is fine */

struct overlap_visit {
    unsigned process;  /* from 0 on, below DRY_RUN_PROCESSES_MAX */
    unsigned resource; /* a number of the caller's, from 0 on */
    const char *jid;
    uint64_t token; /* 0 = none */
    struct instant at;
};

void overlap_detector_entered(struct overlap_detector *detector, const struct overlap_visit *visit);
/* Of a visit that is not known (its record was lost) nothing is made. */
void overlap_detector_left(struct overlap_detector *detector, const struct overlap_visit *visit);
/* The worker reports that the handler of the visit had returned by then: so the visit ends there when the record of its
 * leaving was lost. */
void overlap_detector_returned(struct overlap_detector *detector, const struct overlap_visit *visit);
/* A sign of life of the process: it has reported all that lies before. */
void overlap_detector_heard(struct overlap_detector *detector, unsigned process, struct instant at);
/* It is dead since `at` at the latest, and all its records were read. */
void overlap_detector_died(struct overlap_detector *detector, unsigned process, struct instant at);
/* The run is over: what is still open ends here, by no act of its own. */
void overlap_detector_end(struct overlap_detector *detector, struct instant at);

/* Forgets what can matter no more. Cheap; about once a second. */
void overlap_detector_tidy(struct overlap_detector *detector);
uint64_t overlap_detector_remembered(const struct overlap_detector *detector); /* visits, for tests of its memory */

#endif
