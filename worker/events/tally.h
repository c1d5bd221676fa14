/* What a worker process counts of its tasks: the one accumulator behind heartbeats, metrics and --report. Its facts are
 * those of observer.h: each task that leaves its slot is counted once, then.
 *
 *     tally = tally_create(&setup);                  tally_class_add for each class that is loaded
 *     tally_task(tally, &task);                      a task left its slot
 *
 *     tally_class(tally, number), tally_endings      since the start, by class: for metrics
 *     tally_total(tally, &total)                     the same of all classes together: for --report
 *     tally_runs, tally_locks, then tally_taken      since the last tally_taken, by name: for a heartbeat
 *     tally_destroy(tally);
 *
 * A row has numbers and histograms (base/histogram.h). There are three kinds of rows:
 *
 *     by class            each that a plugin serves, and the others together; all that is counted
 *     by shown class      runs for dashboards: TALLY_RUNS, TALLY_FAILED, and TALLY_RUN of the runs that succeeded
 *     by class and kind   the counts of locks, and in coarse steps TALLY_WAIT and TALLY_HOLD; "CLASS|PREFIX|"
 *                         (docs/data-model.md)
 *
 * The kind of a resource is its prefix: the text up to and including its first ':' ("acct:"); of one without ':' the
 * whole text, cut after 64 bytes. A task with several resources is counted once, under the first.
 *
 * Memory is bounded, whatever names producers invent: of the second and third kind there are NAME_SET_MAX rows, the
 * first for all others. The names of the third stay until the UTC day is over, also without counts, so that the names
 * that one process brings to the queue node are bounded, too. A histogram takes 8 KiB, a coarse one 1 KiB, from its
 * first value on.
 *
 * Pure: no clock, no I/O. Not thread-safe; the worker's is the loop's. If the process dies, what was not taken is lost:
 * the counts of the last seconds. */
#ifndef WORKER_TALLY_H
#define WORKER_TALLY_H

#include "base/histogram.h"
#include "queue/envelope.h"
#include "worker/events/name_set.h"
#include "worker/events/observer.h"

enum tally_count {
    TALLY_ACQUIRED,    /* a task had its lock */
    TALLY_WAITED,      /* ... after it had been parked, or not at the first pass over the lock nodes */
    TALLY_PARKED,      /* a task was put aside because it could not have its lock */
    TALLY_HANDED_OVER, /* the lock came from the task before, without being free in between */
    TALLY_SKIPPED,     /* a task ended because its lock was held */
    TALLY_LOST,        /* a lock was lost while its task ran */
    TALLY_FENCED_OFF,  /* a fence refused a write of the task: a later holder had been there */
    TALLY_LOCK_COUNTS,
    TALLY_RUNS = TALLY_LOCK_COUNTS, /* of a handler, to their end */
    TALLY_FAILED,                   /* of them, by shown class only */
    TALLY_DISCARDED_FAILURES,       /* of the endings FLOW_DISCARDED, those of tasks that failed */
    TALLY_COUNTS
};

/* How a count of locks is called in fields and in JSON: "acquired", ..., "fenced_off". */
const char *tally_count_name(enum tally_count count);

enum tally_time {
    TALLY_QUEUED, /* from the push of a task to its run */
    TALLY_RUN,    /* of a handler */
    TALLY_LOCK,   /* from asking for a lock to having it, without the time that the task was parked */
    TALLY_WAIT,   /* the same from when the task was parked for the first time */
    TALLY_HOLD,   /* of a lock, by its task */
    TALLY_TIMES
};

struct tally_row {
    const char *name;
    bool is_counted; /* there is anything */
    uint64_t counts[TALLY_COUNTS];
    struct histogram *times[TALLY_TIMES];         /* NULL = none; by class, and by shown class */
    struct histogram_coarse *coarse[TALLY_TIMES]; /* NULL = none; by class and kind */
};

struct tally;

struct tally_setup {
    const char *const *queues; /* copied; what comes from another counts with the first */
    unsigned queue_count;
    unsigned class_max; /* that are ever loaded; those beyond count with the others */
};

struct tally *tally_create(const struct tally_setup *setup);
void tally_destroy(struct tally *tally);                           /* NULL is fine */
void tally_class_add(struct tally *tally, const char *class_name); /* may be repeated */
void tally_task(struct tally *tally, const struct observed_task *task);

/* --- since the start ---------------------------------------------------------------------------------------------- */

/* Numbers of classes in the order of tally_class_add; NAME_SET_OTHERS are the others. */
unsigned tally_class_count(const struct tally *tally);
const struct tally_row *tally_class(const struct tally *tally, unsigned number);
/* FLOW_ENDINGS counts. */
const uint64_t *tally_endings(const struct tally *tally, unsigned class_number, unsigned queue);

enum { TALLY_RESOURCE_MAX = 160 };

struct tally_total {
    struct instant first_claim, last_ending; /* 0 = none */
    uint64_t endings[FLOW_ENDINGS];          /* a failure that was discarded is among the failed */
    uint64_t counts[TALLY_COUNTS];
    struct histogram times[TALLY_TIMES];
    int64_t slowest_lock_us; /* the longest of TALLY_LOCK */
    char slowest_resource[TALLY_RESOURCE_MAX];
};
void tally_total(const struct tally *tally, struct tally_total *total);

/* --- since they were taken ---------------------------------------------------------------------------------------- */

struct tally_rows {
    const struct tally_row *rows; /* pass over those that are not counted */
    unsigned count;
};
struct tally_rows tally_runs(const struct tally *tally);
struct tally_rows tally_locks(const struct tally *tally);
/* Begins both anew. `at` is the time that they counted for. */
void tally_taken(struct tally *tally, struct wall_time at);

/* "CLASS|PREFIX|", with what the fields of the counts of locks begin. */
enum { TALLY_PREFIX_BYTES = 64, TALLY_LOCK_NAME_SIZE = ENVELOPE_CLASS_BYTES_MAX + TALLY_PREFIX_BYTES + 3 };
#define TALLY_LOCK_OTHERS NAME_SET_OTHERS_NAME "||"
void tally_lock_name(const char *class_name, const char *resource, char out[TALLY_LOCK_NAME_SIZE]);

#endif
