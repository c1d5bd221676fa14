/* The facts of a worker, as one stream: each task that leaves its slot, with all that became of it there. What a
 * process counts of its tasks is counted from it (tally.h), and a dry run records it.
 *
 * Told on the loop thread, at the moment it happens. An observer must not block, and must copy what it wants to keep.
 * It changes nothing of what the worker does. */
#ifndef WORKER_OBSERVER_H
#define WORKER_OBSERVER_H

#include "base/clock.h"
#include "base/histogram.h"
#include "redlock/redlock_loop.h"
#include "worker/flow.h"

/* A task leaves its slot: it was parked, it ended, it was given back. Texts are valid during the call. A task that was
 * reported as ended may be reported once more, as FLOW_CLAIM_LOST and with `claimed` 0: its end came too late, another
 * process has it.
 *
 * With an observer, instants are read when it happens; else they are those of the cycle of the loop, which may be a
 * millisecond older, and cost nothing. Durations are exact. Of a lock that was requested twice (the waiting list sent
 * the task back to it), all are those of the last time. */
struct observed_task {
    const char *jid, *class_name, *queue;
    const char *shown_class;      /* by which dashboards count its run; NULL = they count none of it */
    const char *const *resources; /* what it locks, or would lock, sorted by bytes */
    unsigned resource_count;
    enum flow_ending ending;
    struct instant claimed; /* the claim's answer was there; 0 = it was reported as ended before */
    struct instant asked;   /* its lock was requested, also in the process's own line; 0 = it was not */
    struct instant locked;  /* it had its lock; 0 = it had none */
    struct instant started; /* its handler, as its runner saw it; 0 = it did not run */
    struct instant ended;   /* the handler returned; 0 = it did not run, or was abandoned */
    struct instant left;    /* now; its lock is being released */
    /* From its push to `started`, by the queue node's clock; -1 = not known, or there is neither an observer nor a
     * monitor that asks. */
    int64_t waited_ns;
    int64_t lock_took_ns;   /* from asking to having it; with `locked` */
    int64_t lock_waited_ns; /* the same from when it was parked for the first time */
    int64_t held_ns;        /* its lock, once it was left; -1 = it was not */
    bool is_failure;        /* it counts as failed: also when it is discarded for that */
    bool has_failed;        /* its run, with `shown_class` */
    bool wants_lock;        /* of `resources` */
    bool had_to_wait;       /* for its lock: it had been parked, or it took more than one pass over the lock nodes */
    bool handed_over;       /* its lock came from the task before without being free */
    bool had_refusal;       /* its lock was requested and refused; it may have had it later */
    bool was_lost;          /* its lock, while it had it */
    bool was_fenced_off;    /* a fence refused its write */
};

/* Twice a second, and when the worker ends: how the process stands. Counters count from its start. */
struct observed_process {
    struct instant at;
    unsigned runners, busy; /* threads, and those of them that run a handler now */
    int64_t cpu_ns;         /* of the process, user and system */
    uint64_t claim_calls;
    const struct histogram *extensions; /* how long the rounds took that extend; NULL = no lock nodes */
    const struct redlock_node_counters *const *nodes;
    unsigned node_count;
};

struct worker_observer {
    void (*task_left)(void *context, const struct observed_task *task);
    void (*looked)(void *context, const struct observed_process *process);
    void *context;
};

#endif
