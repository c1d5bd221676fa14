/* What dashboards see of a worker process, written every few seconds: its state, its running tasks, and its counts.
 *
 *     heartbeat_create     -> the first heartbeat as soon as the node is up, then one each interval
 *     heartbeat_count      what was counted since, when it is asked for
 *     heartbeat_soon       something changed that people wait to see (quiet, for example)
 *     heartbeat_leave      writes the counts and unlists the process
 *
 * The data is that of Sidekiq 6.4 to 8.1, in one form that the dashboards of all of these show right
 * (docs/data-model.md): the process in `processes` and a hash of its own, its running tasks under the old and the new
 * name, totals, totals of the day, and runs by class and minute in the forms of Sidekiq 7 and 8. A heartbeat is one
 * script call, so it is all or nothing.
 *
 * What was counted is taken into a heartbeat, and stays here until that is answered. Each has a number, which the node
 * keeps: one that is repeated after a lost reply carries the same counts under the same number, and the node adds them
 * once. Later counts go into the next heartbeat. The node may be unreachable for any time, and nothing is lost. Runs
 * count for the minute and the day in which they are written, as in Sidekiq.
 *
 * What became of locks is added once as well, by name, to one hash a day (docs/data-model.md, hf:2:locks).
 *
 * The size of a heartbeat is bounded: a task of more than a few KiB is shown without its arguments, and when all tasks
 * together are large, the remaining ones are shown by class, queue and jid only.
 *
 * Threads: the loop's only. If the process dies, the counts of the last seconds are lost, and the node forgets the
 * process after a minute. */
#ifndef QUEUE_HEARTBEAT_H
#define QUEUE_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/histogram.h"
#include "base/loop.h"
#include "queue/envelope.h"
#include "queue/keys.h"
#include "redis/node.h"

struct heartbeat_run {
    unsigned slot;
    const char *queue;
    const struct envelope *envelope;
    struct wall_time started;
    const char *fence;            /* the token of its lock; NULL or "" = none */
    const char *const *resources; /* what it locks */
    unsigned resource_count;
};

enum heartbeat_mode { HEARTBEAT_STRICT, HEARTBEAT_WEIGHTED, HEARTBEAT_RANDOM };

struct heartbeat_queue {
    const char *name;
    unsigned weight; /* 0 in strict order, 1 in random order */
};

/* All that a heartbeat says about the process. Texts and arrays are the caller's; they are read before the next call
 * of `look`. */
struct heartbeat_facts {
    const char *hostname, *tag, *version; /* version: "holdfast 0.1" */
    long pid;
    struct wall_time started;
    unsigned concurrency;
    bool quiet;
    unsigned unreceived; /* requests whose answers are lost again and again */
    long rss_kb;
    enum heartbeat_mode mode;
    const struct heartbeat_queue *queues;
    size_t queue_count;
    const char *const *classes; /* those it serves */
    size_t class_count;
    const char *const *labels;
    size_t label_count;
    const struct heartbeat_run *runs;
    size_t run_count;
};

struct heartbeat;

struct heartbeat_options {
    struct redis_node *node;       /* has the scripts of this layer; outlives the heartbeat */
    const struct queue_keys *keys; /* of this process; outlive the heartbeat */
    const char *identity;
    int64_t timeout_ns;                                         /* for one call */
    int64_t interval_ns;                                        /* 0 = 5 s */
    struct wall_time (*now)(void);                              /* NULL = wall_now */
    void (*look)(void *context, struct heartbeat_facts *facts); /* fills in the zeroed facts */
    /* Calls heartbeat_count_runs and heartbeat_count_locks with all that was counted until `at`, once. It must bound
     * the number of names. NULL = nothing is counted. */
    void (*take)(void *context, struct heartbeat *heartbeat, struct wall_time at);
    const char *others; /* of locks: the name for all new names once the day has HEARTBEAT_FIELDS_MAX fields */
    void *context;
};

struct heartbeat *heartbeat_create(struct loop *loop, const struct heartbeat_options *options);
/* Without heartbeat_leave before, the process is shown for another minute, and counts may be lost. */
void heartbeat_destroy(struct heartbeat *heartbeat);

/* Within `take`. Runs of a class, as dashboards show it (of a wrapped job, the inner one), and how long those that
 * succeeded took; NULL = none did. */
void heartbeat_count_runs(struct heartbeat *heartbeat, const char *class_name, uint64_t runs, uint64_t failed,
                          const struct histogram *succeeded);
/* "END NUMBER END NUMBER ...": `name` followed by END is the field to which NUMBER is added. */
void heartbeat_count_locks(struct heartbeat *heartbeat, const char *name, const struct buffer *counts);
/* Sends a heartbeat at once, or as soon as the outstanding one is answered. */
void heartbeat_soon(struct heartbeat *heartbeat);

/* Writes the counts and unlists the process; then calls `done`, once, by the deadline. left = false means that the
 * node did not answer in time, and the last counts may be lost. */
void heartbeat_leave(struct heartbeat *heartbeat, struct instant deadline, void (*done)(void *context, bool left));

struct heartbeat_counters {
    uint64_t answered; /* heartbeats */
    uint64_t repeats;  /* heartbeats that were sent again */
    int64_t rtt_us;    /* of the last heartbeat; before the first, of a PING */
};
const struct heartbeat_counters *heartbeat_counters(const struct heartbeat *heartbeat);

/* Fields of one day on the node, for the whole fleet; a heartbeat that reaches the bound may add some more. */
enum { HEARTBEAT_FIELDS_MAX = 20000 };

/* --- the texts; pure, for tests ------------------------------------------------------------------------------ */

/* The member `info` of the process's hash. */
void heartbeat_info_write(const struct heartbeat_facts *facts, const char *identity, struct buffer *out);
/* "BUCKET NUMBER BUCKET NUMBER ..." of the 26 buckets in which Sidekiq counts durations: the first is below 20 ms, the
 * last from 335 s on. To within a step of the histogram. */
void heartbeat_buckets_write(const struct histogram *histogram, struct buffer *out);
/* Writes a running task. `budget` is the room for its payload and resources; the bytes used are subtracted. */
void heartbeat_run_write(const struct heartbeat_run *run, size_t *budget, struct buffer *out);

/* Limits for payloads that are shown whole, in bytes: of one task, and of all tasks of a heartbeat. */
enum { HEARTBEAT_TASK_BYTES = 4 * 1024, HEARTBEAT_BYTES = 256 * 1024 };

#endif
