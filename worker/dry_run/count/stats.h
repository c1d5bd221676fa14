/* Counts what a dry run does, from each push and the records of all workers, and makes the result of it. Pure: all
 * times are given, as CLOCK_BOOTTIME. One thread.
 *
 *     stats = stats_create(&plan, host, load_from, measured_from);
 *     stats_pushed(stats, jid, names, count, now);             before the push leaves, so that no record overtakes it
 *     stats_record(stats, process, &record);
 *     for (... stats_missing(stats) ...)                       a closed loop pushes so many
 *     stats_node(stats, node, &sample);                        when measuring begins, and when the load has ended
 *     stats_second(stats, now);                                once a second
 *     stats_load_ended(stats, now);                            what comes then counts in totals, and not in rates
 *     stats_finish(stats, now, &result); verdict_make(&result); stats_destroy(stats);
 *
 * Counts are of the whole run; rates, shares, waits and holds are of the measured part: from `measured_from` to the end
 * of the load. A wait counts where its push lies, a hold where it ends.
 *
 * Memory: a few hundred bytes for each outstanding task and each of STATS_RESOURCES_MAX resources (of the others only
 * totals are kept), a histogram for each of the STATS_DETAILED_MAX first with some load, and a line a second. */
#ifndef WORKER_DRY_RUN_STATS_H
#define WORKER_DRY_RUN_STATS_H

#include "worker/dry_run/count/model.h"
#include "worker/dry_run/count/record.h"
#include "worker/dry_run/report/result.h"

enum {
    STATS_RESOURCES_MAX = DRY_RUN_RESOURCES_MAX,
    STATS_DETAILED_MAX = 2048,
    STATS_HOT_MAX = 8,
};

struct stats;

/* `plan` must outlive it; `host` is the name of this one. Waits, holds and rates are measured from `measured_from`
 * on. */
struct stats *stats_create(const struct dry_run_plan *plan, const char *host, struct instant load_from,
                           struct instant measured_from);
void stats_destroy(struct stats *stats); /* NULL is fine */

/* So many records were lost, all together so far. */
void stats_records_lost(struct stats *stats, uint64_t count);

/* The task is about to be pushed. What is in the queues of a shadow when it begins counts as pushed then. */
void stats_pushed(struct stats *stats, const char *jid, const char *const *resources, unsigned resource_count,
                  struct instant at);

/* Processes are numbered from 0 on, below DRY_RUN_PROCESSES_MAX; the records of one come in the order in which it wrote
 * them. */
void stats_record(struct stats *stats, unsigned process, const struct record *record);
/* The process is gone, and all its records were read. What it held is over; its counters begin anew. */
void stats_process_died(struct stats *stats, unsigned process, struct instant at);

/* A node as it says it is. Nodes are numbered as the lock nodes of the configuration, and a queue node that is none of
 * them after these; numbers are below RESULT_NODES_MAX. */
struct stats_node_sample {
    const char *name, *address;
    bool is_queue_node;
    struct instant at;
    uint64_t commands; /* that it processed since it was started, by its own account */
    double cpu_s;      /* of the process, user and system, since it was started */
};
void stats_node(struct stats *stats, unsigned node, const struct stats_node_sample *sample);

/* A fault was done. What comes from then on is not given to the model: it is no cost of a task. */
void stats_disturbed(struct stats *stats, struct instant at);

/* Closes a line of the series. */
void stats_second(struct stats *stats, struct instant now);
void stats_load_ended(struct stats *stats, struct instant at);

/* For the progress display. */
struct stats_hot {
    const char *name; /* valid until the next call of anything here */
    double share_held;
    unsigned waiters; /* now */
};
struct stats_live {
    uint64_t pushed, ended, outstanding, parked, lost, overlaps;
    struct result_second last; /* the second that was closed last */
    double wait_p50, wait_p99; /* of the measured part so far */
    double busy;               /* share of the runners that run a handler now */
    unsigned runners;
    struct stats_hot hot[STATS_HOT_MAX]; /* by waiters and by the share of time held, the hottest first */
    unsigned hot_count;
};
void stats_live(struct stats *stats, struct instant now, struct stats_live *live);
uint64_t stats_outstanding(const struct stats *stats);
/* So many tasks a closed loop lacks of its population: what failed and comes again by a clock is not there meanwhile. 0
 * without a closed loop, and while too many are outstanding to remember more. */
uint64_t stats_missing(const struct stats *stats);
/* How often all processes have asked a node so far: 0 is the queue node, which gets claims, then come the lock
 * nodes. */
uint64_t stats_asked(const struct stats *stats, unsigned node);

/* Fills what counting yields: all but plan, version, began, was_interrupted, verdict, faults, points,
 * overhead_share, observation_ns, keys_at_end and what the host itself knows. `result` has its plan set. */
void stats_finish(struct stats *stats, struct instant now, struct result *result);

#endif
