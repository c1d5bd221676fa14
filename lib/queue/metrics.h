/* Counts runs by class in memory, until a heartbeat writes the counts to the queue node.
 *
 * Dashboards show for a class the numbers of runs and of failed runs, the time of successful runs, and a histogram
 * of their durations. Memory is bounded, and names are cleaned, as class_names.h says. Not thread-safe. */
#ifndef QUEUE_METRICS_H
#define QUEUE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "queue/class_names.h"
#include "queue/keys.h"

enum { METRICS_CLASSES = CLASS_NAMES_MAX, METRICS_BUCKETS = 26 };

struct metrics;

struct metrics *metrics_create(void);
void metrics_destroy(struct metrics *metrics);

void metrics_count(struct metrics *metrics, const char *class_name, bool failed, int64_t duration_ns);

/* The bucket of a duration: the first whose bound is greater. */
unsigned metrics_bucket(int64_t duration_ms);

/* That bound, in milliseconds; INT64_MAX for the last bucket, which has none. */
int64_t metrics_bucket_bound(unsigned bucket);

/* Moves the counts into the parts of a request for the period that contains `time`: for each class two keys (its
 * histograms in the names of Sidekiq 7 and 8) and METRICS_ARGUMENTS arguments (name, milliseconds, runs, failed
 * runs, and pairs of bucket and number, separated by blanks). Returns the number of classes. */
enum { METRICS_ARGUMENTS = 5 };
unsigned metrics_take(struct metrics *metrics, const struct queue_keys *keys, struct wall_time time,
                      struct buffer *key_parts, struct buffer *argument_parts);

#endif
