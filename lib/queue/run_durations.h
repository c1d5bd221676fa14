/* How long runs took that succeeded, by class, in fine histograms: counted in memory until a heartbeat takes them to
 * the queue node, into one hash a day (docs/data-model.md, hf:2:runtimes), and read back from there. A dry run plays a
 * fleet's tasks with these.
 *
 *     run_durations_count(durations, "transfer", ns);
 *     pairs = run_durations_take(durations, at, &arguments);    by a heartbeat
 *
 *     struct run_durations_read read = {0};
 *     run_durations_read_add(&read, reply);                       the HGETALL of each day that is to count
 *     const struct run_durations_class *class = run_durations_read_find(&read, "transfer");
 *     if (class != NULL)
 *         run_durations_quantiles(class, seconds, 100);
 *     run_durations_read_fini(&read);
 *
 * An octave has four buckets of equal width, from 1 microsecond to 2^36 (19 hours): what is read is off by an eighth of
 * the value at most, and far less on the average. Shorter runs are in the first bucket, longer ones in the last.
 * Memory is bounded as class_names.h says, by UTC day: a name keeps its place also when there is nothing to count.
 * Pure: no clock, no I/O. Not thread-safe. If the process dies, what was not taken is lost: the last seconds. */
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

/* Moves what was counted into the arguments of a request, two for each class with any count: "CLASS|", and "BUCKET
 * NUMBER BUCKET NUMBER ...". Returns the number of classes. `at` is the time that they count for. */
unsigned run_durations_take(struct run_durations *run_durations, struct wall_time at, struct buffer *arguments);
/* What stands for the class when the day has too many fields. */
#define RUN_DURATIONS_OTHERS_NAME "hf.others|"

unsigned run_durations_bucket(int64_t ns);
/* The shortest duration of the bucket, 0 for the first; for RUN_DURATIONS_BUCKETS the end of the last. */
int64_t run_durations_bucket_ns(unsigned bucket);

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct run_durations_class {
    char *name; /* as fields call it */
    uint64_t runs;
    uint64_t buckets[RUN_DURATIONS_BUCKETS];
};

/* Begins zeroed; run_durations_read_fini frees. */
struct run_durations_read {
    struct run_durations_class **classes; /* by name */
    size_t count, capacity;
};

/* Adds fields and numbers in turn, as HGETALL answers them (HSCAN: its second element). What has not the form of a
 * field is left out. The hash of a day may have 20,000 fields, and some more: a connection has to allow for that
 * (element_limit), or to read by HSCAN. */
void run_durations_read_add(struct run_durations_read *read, const struct redis_reply *fields);
/* NULL when no run of it is there. */
const struct run_durations_class *run_durations_read_find(const struct run_durations_read *read,
                                                          const char *class_name);
void run_durations_read_fini(struct run_durations_read *read);

/* `count` durations in seconds, ascending, each of which stands for the same share of the runs; within a bucket they
 * are spread evenly. */
void run_durations_quantiles(const struct run_durations_class *class_read, double *seconds, size_t count);

#endif
