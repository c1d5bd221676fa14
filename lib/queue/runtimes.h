/* How long runs took that succeeded, by class, in fine histograms: counted in memory until a heartbeat takes them to
 * the queue node, into one hash a day (docs/data-model.md, hf:2:runtimes), and read back from there. A dry run plays a
 * fleet's tasks with these.
 *
 *     runtimes_count(runtimes, "transfer", ns);              ... runtimes_take(runtimes, at, &arguments), by a beat
 *
 *     struct runtimes_read read = {0};
 *     runtimes_read_add(&read, reply);                       the HGETALL of each day that is to count
 *     const struct runtimes_class *class = runtimes_read_find(&read, "transfer");
 *     if (class != NULL)
 *         runtimes_quantiles(class, seconds, 100);
 *     runtimes_read_fini(&read);
 *
 * An octave has four buckets of equal width, from 1 microsecond to 2^36 (19 hours): what is read is off by an eighth of
 * the value at most, and far less on the average. Shorter runs are in the first bucket, longer ones in the last.
 * Memory is bounded as class_names.h says, by UTC day: a name keeps its place also when there is nothing to count.
 * Pure: no clock, no I/O. Not thread-safe. If the process dies, what was not taken is lost: the last seconds. */
#ifndef QUEUE_RUNTIMES_H
#define QUEUE_RUNTIMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "redis/reply.h"

enum { RUNTIMES_OCTAVES = 36, RUNTIMES_BUCKETS = 4 * RUNTIMES_OCTAVES };

/* --- counting ----------------------------------------------------------------------------------------------------- */

struct runtimes;

struct runtimes *runtimes_create(void);
void runtimes_destroy(struct runtimes *runtimes);
void runtimes_count(struct runtimes *runtimes, const char *class_name, int64_t ns);

/* Moves what was counted into the arguments of a request, two for each class with any count: "CLASS|", and "BUCKET
 * NUMBER BUCKET NUMBER ...". Returns the number of classes. `at` is the time that they count for. */
unsigned runtimes_take(struct runtimes *runtimes, struct wall_time at, struct buffer *arguments);
/* What stands for the class when the day has too many fields. */
#define RUNTIMES_OTHERS_NAME "hf.others|"

unsigned runtimes_bucket(int64_t ns);
/* The shortest duration of the bucket, 0 for the first; for RUNTIMES_BUCKETS the end of the last. */
int64_t runtimes_bucket_ns(unsigned bucket);

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct runtimes_class {
    char *name; /* as fields call it */
    uint64_t runs;
    uint64_t buckets[RUNTIMES_BUCKETS];
};

/* Begins zeroed; runtimes_read_fini frees. */
struct runtimes_read {
    struct runtimes_class **classes; /* by name */
    size_t count, capacity;
};

/* Adds fields and numbers in turn, as HGETALL answers them (HSCAN: its second element). What has not the form of a
 * field is left out. The hash of a day may have 20,000 fields, and some more: a connection has to allow for that
 * (element_limit), or to read by HSCAN. */
void runtimes_read_add(struct runtimes_read *read, const struct redis_reply *fields);
/* NULL when no run of it is there. */
const struct runtimes_class *runtimes_read_find(const struct runtimes_read *read, const char *class_name);
void runtimes_read_fini(struct runtimes_read *read);

/* `count` durations in seconds, ascending, each of which stands for the same share of the runs; within a bucket they
 * are spread evenly. */
void runtimes_quantiles(const struct runtimes_class *class_read, double *seconds, size_t count);

#endif
