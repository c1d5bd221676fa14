/* A part of a history, added up by class and resource.
 *
 *     struct history_sums sums = history_sums_of(history, part);
 *     history_sums_fini(&sums);
 *
 * A hold of several resources counts in each of their rows, and once in the total. Pure; one thread at a time. */
#ifndef WORKER_HISTORY_SUMS_H
#define WORKER_HISTORY_SUMS_H

#include "base/buffer.h"
#include "worker/history/history.h"
#include "worker/print/json_writer.h"

/* One use of one resource: by one hold, or by a run without a lock. */
struct history_use {
    const struct history_hold *hold;
    const char *resource; /* "" = it names none */
    /* Another task was at the same resource when it began: a lock is to prevent that. A hold goes on here until its
     * task has ended, also when its lock was lost before: fences are for what such a task writes late. */
    bool overlaps;
};

/* In the order of resources, then of time. */
struct history_uses {
    struct history_use *items;
    size_t count;
};

struct history_sum {
    const char *class_name, *resource; /* "" = not known; both NULL in the total */
    uint64_t holds;                    /* of locks, or runs without one */
    uint64_t unlocked;                 /* those of them that had none */
    int64_t held_us;
    uint64_t waits; /* how many said how long they waited: the quantiles are of these */
    int64_t wait_p50_us, wait_p99_us;
    uint64_t handed_over, skipped, lost, refused, overlaps;
    int64_t parked; /* -1 = not known: no log tells of any, as with log_tasks = "auto" */
};

struct history_sums {
    struct history_sum *rows; /* by class, then resource */
    size_t count;
    struct history_sum total;
    struct history_uses uses; /* what they are sums of */
};

struct history_sums history_sums_of(const struct history *history, size_t part);
void history_sums_fini(struct history_sums *sums);
/* What the overlaps of these sums mean, in words for a reader who sees their number; NULL when there are none. */
const char *history_overlaps_meaning(const struct history_sums *sums);

/* A table and what explains it, and the members "rows" and "total" of an object: at most so many rows. */
void history_sums_text(const struct history_sums *sums, size_t rows_max, bool has_colour, struct buffer *out);
void history_sums_json(struct json_writer *json, const struct history_sums *sums, size_t rows_max);

#endif
