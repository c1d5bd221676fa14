/* What became of locks, as the queue node has counted it (docs/data-model.md, hf:2:locks), folded by class and kind of
 * resource.
 *
 *     struct lock_counts counts = {0};
 *     lock_counts_read(&counts, reply);                           the HGETALL of each day
 *     lock_counts_fold(&counts);                                  now rows[0 .. row_count) can be read
 *     lock_counts_free(&counts);
 *
 * Pure; not thread-safe. */
#ifndef WORKER_LOCK_COUNTS_H
#define WORKER_LOCK_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "redis/reply.h"
#include "worker/events/tally.h"

/* A number that is larger was written by another program, and counts as 0. */
#define LOCK_COUNT_MAX INT64_C(1000000000000000)

struct lock_histogram {
    uint64_t steps[HISTOGRAM_COARSE_STEPS];
};

struct lock_counts_row {
    const char *class_name, *prefix;
    long long events[TALLY_LOCK_COUNTS];
    struct lock_histogram wait, hold;
};

struct lock_count; /* one field */

struct lock_counts {
    struct lock_count *fields;
    size_t field_count, field_capacity;
    struct lock_counts_row *rows; /* the most contended first: by tasks that did not have their lock at once */
    size_t row_count;
};

/* Alternating fields and numbers. */
void lock_counts_read(struct lock_counts *counts, const struct redis_reply *fields);
/* One field. What is none of that form is passed over. */
void lock_counts_add(struct lock_counts *counts, const char *field, size_t length, long long number);
void lock_counts_fold(struct lock_counts *counts);
void lock_counts_free(struct lock_counts *counts);

uint64_t lock_histogram_total(const struct lock_histogram *histogram);
/* The coarse step in which a share of the values, from 0 to 1, is reached; -1 when there are no values. */
int lock_histogram_quantile(const struct lock_histogram *histogram, double share);

#endif
