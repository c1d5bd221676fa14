/* What a live fleet has and gets, for a dry run that plays it: its running tasks, its queues, what its schedule has for
 * the time of the run, and what comes meanwhile. Only read: LRANGE, LLEN, ZRANGE, ZRANGEBYSCORE, HGETALL and GET are
 * all that the queue node is asked.
 *
 *     shadow = shadow_create(&options);
 *     shadow_begin(shadow);            `found` is called for each task from now on, also from inside timers
 *     shadow_end(shadow);              nothing more is read or passed on
 *     shadow_destroy(shadow);
 *
 * First come running tasks, then each queue in the order in which it will be emptied, then tasks that wait for their
 * time or for a lock; `copied` says that this is done. Then the shadow looks every 100 ms at the left end of each queue
 * until it finds what it knows, at the claims, and at the schedule. A task that is pushed, run and gone between two
 * looks is missed; shadow_counts has how many that may have been.
 *
 * It reads at most DRY_RUN_COPY_RATE entries a second, and passes on at most as many tasks a second as shadow_limit
 * says, so that what they cause stays within its share of the nodes (rate_limiter.h).
 *
 * Memory: 16 bytes for each task that was seen, and the tasks that were read and not passed on yet, at most
 * SHADOW_QUEUE_MAX of a queue. Runs on the loop. If the process dies, nothing is left anywhere. */
#ifndef WORKER_DRY_RUN_SHADOW_H
#define WORKER_DRY_RUN_SHADOW_H

#include "base/loop.h"
#include "queue/task_builder.h"
#include "worker/config/config.h"
#include "worker/dry_run/plan/plan.h"
#include "worker/plugin/plugin.h"

/* Of a longer queue those that come first are copied. */
enum { SHADOW_QUEUE_MAX = 100000, SHADOW_SEEN_MAX = 4000000 };

struct shadow_task {
    struct built_task task;       /* as it is there; `at_us` is set when it is scheduled */
    struct instant due;           /* when it comes: now, or as it is scheduled */
    const char *const *resources; /* what it locks, as the workers will find it */
    unsigned resource_count;
};

struct shadow_options {
    struct loop *loop;
    const struct config *live;     /* its queue node and its queues; must live as long, as all of this */
    const struct plugins *plugins; /* that serve its classes */
    const struct dry_run_plan *plan;
    int64_t node_us;        /* the time of the queue node's clock */
    struct instant node_at; /* then */
    void (*found)(void *context, const struct shadow_task *task);
    void (*copied)(void *context); /* all that was there has been read; what is found from now on came meanwhile */
    void *context;
};

struct shadow;

struct shadow *shadow_create(const struct shadow_options *options);
void shadow_destroy(struct shadow *shadow); /* NULL is fine */
void shadow_begin(struct shadow *shadow);
void shadow_end(struct shadow *shadow);

/* The most tasks a second that it passes on, from now on. */
void shadow_limit(struct shadow *shadow, double rate);

struct shadow_counts {
    uint64_t running, queued, scheduled, followed; /* tasks that were passed on */
    uint64_t waiting;                              /* were read, and are not passed on yet */
    uint64_t invalid;                              /* are no tasks, or of a class or queue that is not served here */
    uint64_t missed;                               /* may have come and gone unseen: by the fleet's own count of runs */
};
struct shadow_counts shadow_counts(const struct shadow *shadow);

#endif
