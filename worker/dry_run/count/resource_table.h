/* What is counted of each resource of a dry run. A resource gets a number when it is first seen, from 0 on; the numbers
 * go up to a limit, and what comes then has none. One thread. */
#ifndef WORKER_DRY_RUN_RESOURCE_TABLE_H
#define WORKER_DRY_RUN_RESOURCE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "worker/dry_run/count/batch_means.h"

#define RESOURCE_NONE UINT32_MAX

/* Of those that had some load. */
struct resource_detail {
    struct histogram waits;
    struct batch_means means;
    unsigned lone_turns; /* of the turn-overs, those for which only one waited */
    double lone_sum, lone_squares;
};

/* "measured": in the measured part of the run. Seconds; instants are nanoseconds. */
struct resource_count {
    char *name;          /* its own */
    uint32_t next, hash; /* private */
    unsigned arrived, arrived_measured, held, held_measured, parks, hand_overs, lost, refusals, fence_refusals,
        overlaps;
    unsigned outstanding;          /* tasks of it that have not ended */
    unsigned waiting, waiting_max; /* of them, those that wait now, and the most that ever did */
    unsigned waits, turns;
    double waiting_time;           /* measured: of all tasks together */
    double held_time;              /* measured */
    double hold_sum, hold_squares; /* of held_measured */
    double wait_sum;               /* of waits */
    double turn_sum, turn_squares;
    /* As it was at the time up to which things are in order. */
    unsigned there, behind; /* tasks that want it; that the last holder left behind */
    int64_t first_came;     /* when somebody came and nobody was there */
    bool first_found_runner;
    bool is_broken;                 /* who held it last did not leave */
    int64_t last_left;              /* of the last holder, in order; 0 = not known */
    struct resource_detail *detail; /* its own; NULL = too little load, or too many others */
};

struct resource_table {
    struct resource_count *resources;
    size_t count, capacity, limit;
    uint32_t *buckets;
    size_t bucket_count;
    unsigned detailed, detailed_max;
    unsigned detailed_from; /* arrivals that it takes */
    uint64_t left_out;      /* arrivals at what got no number */
};

/* At most `limit` resources, `detailed_max` with details, which one gets with its arrival number `detailed_from`. */
void resource_table_init(struct resource_table *table, size_t limit, unsigned detailed_max, unsigned detailed_from);
void resource_table_fini(struct resource_table *table);
/* Its number, a new one when it was not seen before. RESOURCE_NONE when the table is full. */
uint32_t resource_table_number(struct resource_table *table, const char *name);
/* One more arrival; RESOURCE_NONE is left out. */
void resource_table_arrive(struct resource_table *table, uint32_t number, bool is_measured);
/* NULL for RESOURCE_NONE. Valid until the next resource_table_number. */
struct resource_count *resource_table_at(const struct resource_table *table, uint32_t number);

#endif
