/* Fine histograms of the durations of successful runs, by class: counted in memory until a heartbeat writes them to the
 * queue node, into one hash a day (docs/data-model.md, hf:2:runtimes), and read back from there. A dry run uses them to
 * imitate a fleet's tasks.
 *
 *     run_durations_count(durations, "transfer", ns);
 *     pairs = run_durations_take(durations, at, &arguments);    by a heartbeat
 *
 *     struct run_durations_read read = {0};
 *     run_durations_read_add(&read, reply);                       the HGETALL of each day
 *     const struct run_durations_class *class = run_durations_read_find(&read, "transfer");
 *     if (class != NULL)
 *         run_durations_quantiles(class, seconds, 100);
 *     run_durations_read_fini(&read);
 *
 * An octave has four buckets of equal width, from 1 microsecond to 2^36 (19 hours): the error is at most an eighth
 * of the value, and far less on average. Shorter runs are in the first bucket, longer ones in the last. Memory is
 * bounded as class_names.h says, for each UTC day: a name keeps its number even without counts. Pure: no clock, no
 * I/O. Not thread-safe. If the process dies, the counts of the last seconds are lost. */
#ifndef QUEUE_RUN_DURATIONS_H
#define QUEUE_RUN_DURATIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "redis/reply.h"

enum { RUN_DURATIONS_OCTAVES = 36, RUN_DURATIONS_BUCKETS = 4 * RUN_DURATIONS_OCTAVES };

/* --- counting ----------------------------------------------------------------------------------------------------- */

struct run_durations;

struct run_durations *run_durations_create(void);
void run_durations_destroy(struct run_durations *run_durations);
void run_durations_count(struct run_durations *run_durations, const char *class_name, int64_t ns);

/* Moves the counts into the arguments of a request, two for each class that has any: "CLASS|", and "BUCKET NUMBER
 * BUCKET NUMBER ...". Returns the number of classes. `at` is the time of the counts. */
unsigned run_durations_take(struct run_durations *run_durations, struct wall_time at, struct buffer *arguments);
/* Replaces the class once the day has too many fields. */
#define RUN_DURATIONS_OTHERS_NAME "hf.others|"

unsigned run_durations_bucket(int64_t ns);
/* The shortest duration of the bucket, 0 for the first; for RUN_DURATIONS_BUCKETS the end of the last. */
int64_t run_durations_bucket_ns(unsigned bucket);

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct run_durations_class {
    char *name; /* its name in fields */
    uint64_t runs;
    uint64_t buckets[RUN_DURATIONS_BUCKETS];
};

/* Begins zeroed; run_durations_read_fini frees. */
struct run_durations_read {
    struct run_durations_class **classes; /* by name */
    size_t count, capacity;
};

/* Adds alternating fields and numbers, as HGETALL answers them (HSCAN: its second element). Skips what is no valid
 * field. The hash of a day may have slightly more than 20,000 fields: set element_limit of the connection
 * accordingly, or read by HSCAN. */
void run_durations_read_add(struct run_durations_read *read, const struct redis_reply *fields);
/* NULL if the class has no runs. */
const struct run_durations_class *run_durations_read_find(const struct run_durations_read *read,
                                                          const char *class_name);
void run_durations_read_fini(struct run_durations_read *read);

/* Writes `count` ascending durations in seconds, each for the same share of the runs, spread evenly within a bucket. */
void run_durations_quantiles(const struct run_durations_class *class_read, double *seconds, size_t count);

#endif
