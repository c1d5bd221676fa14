/* The witness: from when handlers of all processes and hosts said that they entered and left what only one at a time
 * may be in, it tells whether that was so. It knows nothing of locks.
 *
 *     witness_entered(witness, &visit);  witness_left(witness, &visit);  witness_died(witness, host, process, at);
 *     witness_tidy(witness);   once a second
 *     witness_end(witness, at);
 *
 * Two visits of one resource overlap when they intersect, for different hosts by more than the error of their clocks
 * (told by witness_host) as it was when their times were told: what is known better later makes older times no
 * better. So the times of one host compare exactly only if the same was added to them. A visit that was not left
 * goes on until its process has died or the run has ended. Each pair counts once, when both ends are known. A fence
 * refusal: a visit is left, and one with a larger token had begun before. A store that compares tokens refuses what
 * such a visit writes. An overlap is fenced when both have tokens, and different ones: then such a store lets only
 * one of them write.
 *
 * Records of different processes come in any order. A visit is remembered until nothing can come any more that lies
 * before its end: until all processes have been heard later than it, and one second more; at most WITNESS_MEMORY_NS.
 * Pure; one thread. */
#ifndef WORKER_DRY_RUN_WITNESS_H
#define WORKER_DRY_RUN_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define WITNESS_MEMORY_NS (120 * NS_PER_S)

struct witness;

/* What is told of overlaps as they are found; `resource` is the number that was given. */
struct witness_told {
    void (*overlap)(void *context, unsigned resource, bool is_fenced);
    void (*refusal)(void *context, unsigned resource);
    void *context;
};

struct witness *witness_create(const struct witness_told *told);
void witness_destroy(struct witness *witness); /* NULL is fine */

struct witness_visit {
    unsigned host, process;
    unsigned resource; /* a number of the caller's, from 0 on */
    const char *jid;
    uint64_t token; /* 0 = none */
    struct instant at;
    int64_t moved_ns; /* was added to the host's own time to have `at` */
};

/* How far the times of a host may be off; 0 unless told. Numbers of hosts are below 256, of processes below 64. */
void witness_host(struct witness *witness, unsigned host, int64_t clock_error_ns);
void witness_entered(struct witness *witness, const struct witness_visit *visit);
/* Of a visit that is not known (its record was lost) nothing is made. */
void witness_left(struct witness *witness, const struct witness_visit *visit);
/* Somebody else says that the handler of the visit had returned by then: so the visit ends there when the record of its
 * leaving was lost. */
void witness_returned(struct witness *witness, const struct witness_visit *visit);
/* The process was heard: it has told all that lies before. */
void witness_heard(struct witness *witness, unsigned host, unsigned process, struct instant at);
/* It is dead since `at` at the latest, and all its records were told. */
void witness_died(struct witness *witness, unsigned host, unsigned process, struct instant at);
/* The run is over: what is still open ends here, by no act of its own. */
void witness_end(struct witness *witness, struct instant at);

/* Forgets what can matter no more. Cheap; about once a second. */
void witness_tidy(struct witness *witness);
uint64_t witness_remembered(const struct witness *witness); /* visits, for tests of its memory */

#endif
