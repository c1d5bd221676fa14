/* Counts runs by class in memory, until a heartbeat writes the counts to the queue node.
 *
 * Dashboards show for a class the numbers of runs and of failed runs, the time of successful runs, and a histogram
 * of their durations. Memory is bounded, and names are cleaned, as class_names.h says. Not thread-safe. */
#ifndef QUEUE_RUN_COUNTS_H
#define QUEUE_RUN_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "queue/class_names.h"
#include "queue/keys.h"

enum { RUN_COUNTS_CLASSES = CLASS_NAMES_MAX, RUN_COUNTS_BUCKETS = 26 };

struct run_counts;

struct run_counts *run_counts_create(void);
void run_counts_destroy(struct run_counts *counts);

void run_counts_count(struct run_counts *counts, const char *class_name, bool failed, int64_t duration_ns);

/* The bucket of a duration: the first whose bound is greater. */
unsigned run_counts_bucket(int64_t duration_ms);

/* That bound, in milliseconds; INT64_MAX for the last bucket, which has none. */
int64_t run_counts_bucket_bound(unsigned bucket);

/* Moves the counts into the parts of a request for the period that contains `time`: for each class two keys (its
 * histograms in the names of Sidekiq 7 and 8) and RUN_COUNTS_ARGUMENTS arguments (name, milliseconds, runs, failed
 * runs, and pairs of bucket and number, separated by blanks). Returns the number of classes. */
enum { RUN_COUNTS_ARGUMENTS = 5 };
unsigned run_counts_take(struct run_counts *counts, const struct queue_keys *keys, struct wall_time time,
                         struct buffer *key_parts, struct buffer *argument_parts);

#endif
