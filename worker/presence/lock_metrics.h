/* What became of locks, counted by class and by kind of resource, until a heartbeat takes it to the queue node.
 *
 *     lock_metrics_acquired(metrics, "transfer", "acct:7", 1200);
 *     lock_metrics_count(metrics, "transfer", "acct:7", LOCK_EVENT_HANDED_OVER);
 *     lock_metrics_hold(metrics, "transfer", "acct:7", 35000);
 *
 * The kind of a resource is its prefix: the text up to and including its first ':' ("acct:"); of one without ':' the
 * whole text, cut after 64 bytes. A task with several resources is counted once, under the first.
 *
 * Memory is bounded: what comes after LOCK_METRICS_PAIRS - 1 pairs of class and prefix in one UTC day is counted
 * together, as class LOCK_METRICS_OTHERS with an empty prefix. Names come from producers; in them '|', which separates
 * the parts of a field, and control characters become '_'.
 *
 * Pure: no clock, no I/O. Not thread-safe; the worker's is the loop's. If the process dies, what was not taken is lost:
 * the counts of the last seconds. */
#ifndef WORKER_LOCK_METRICS_H
#define WORKER_LOCK_METRICS_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "queue/envelope.h"

enum { LOCK_METRICS_PAIRS = 128, LOCK_METRICS_PREFIX_BYTES = 64 };

#define LOCK_METRICS_OTHERS      "hf.others"
#define LOCK_METRICS_OTHERS_NAME LOCK_METRICS_OTHERS "||"

enum lock_event {
    LOCK_EVENT_ACQUIRED,    /* a task had its lock */
    LOCK_EVENT_WAITED,      /* ... after it had been parked, or not at the first pass over the lock nodes */
    LOCK_EVENT_PARKED,      /* a task was put aside because it could not have its lock */
    LOCK_EVENT_HANDED_OVER, /* the lock came from the task before, without being free in between */
    LOCK_EVENT_SKIPPED,     /* a task ended because its lock was held */
    LOCK_EVENT_LOST,        /* a lock was lost while its task ran */
    LOCK_EVENT_FENCED_OFF,  /* a fence refused a write of the task: a later holder had been there */
    LOCK_EVENTS
};

/* How the count of an event is called in fields and in JSON: "acquired", ..., "fenced_off". */
const char *lock_event_name(enum lock_event event);

struct lock_metrics;

struct lock_metrics *lock_metrics_create(void);
void lock_metrics_destroy(struct lock_metrics *metrics);

void lock_metrics_count(struct lock_metrics *metrics, const char *class_name, const char *resource,
                        enum lock_event event);
/* Counts LOCK_EVENT_ACQUIRED, and how long the task waited: from when it was parked for the first time, else from when
 * the lock was requested, until it was held. */
void lock_metrics_acquired(struct lock_metrics *metrics, const char *class_name, const char *resource,
                           int64_t waited_us);
/* How long it was held. */
void lock_metrics_hold(struct lock_metrics *metrics, const char *class_name, const char *resource, int64_t us);

/* "CLASS|PREFIX|": with what the fields of their counts begin. */
enum { LOCK_METRICS_NAME_SIZE = ENVELOPE_CLASS_BYTES_MAX + LOCK_METRICS_PREFIX_BYTES + 3 };
void lock_metrics_name(const char *class_name, const char *resource, char out[LOCK_METRICS_NAME_SIZE]);

/* Moves what was counted into the arguments of a request, two for each pair with any count: "CLASS|PREFIX|", and
 * "NAME NUMBER NAME NUMBER ..." with the names of the events, and "wait.B" and "hold.B" for the B-th coarse step of the
 * histograms (HISTOGRAM_COARSE_STEPS). Returns the number of pairs. `at` is the time that they count for. */
unsigned lock_metrics_take(struct lock_metrics *metrics, struct wall_time at, struct buffer *arguments);

#endif
