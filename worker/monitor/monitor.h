/* What a worker reports to monitoring systems over HTTP: /metrics, /healthz and /readyz (docs/operations.md).
 *
 *     monitor = monitor_create(&options, &error);         listens, and starts its thread
 *     monitor_publish(monitor, &state)                    the loop, twice a second
 *     monitor_destroy(monitor);
 *
 * The loop publishes a copy of what it has counted. A thread with a loop of its own answers from the copy:
 * so a scraper, however slow, costs the worker's loop nothing, and a worker whose loop is stuck can say so. */
#ifndef WORKER_MONITOR_H
#define WORKER_MONITOR_H

#include "base/error.h"
#include "queue/queue.h"
#include "redlock/redlock_loop.h"
#include "worker/config/config.h"
#include "worker/events/tally.h"

struct monitor;

struct monitor_options {
    const struct config *config;
    unsigned class_max; /* as of the tally */
    unsigned process;   /* its number under a supervisor, from 1; 0 = it is alone */
};

/* NULL, with a reason, if it cannot listen. */
struct monitor *monitor_create(const struct monitor_options *options, struct error *error) MUST_CHECK;
void monitor_destroy(struct monitor *monitor); /* NULL is fine; the loop's thread */

/* Records the cycles of the loop; for loop_measure_cycles. */
struct histogram *monitor_cycles(struct monitor *monitor);
/* After a reload. `token` is copied; for a monitor that has one. */
void monitor_change_token(struct monitor *monitor, const char *token);

enum { MONITOR_REASON_MAX = 160 };

struct monitor_state {
    struct instant at;
    bool is_ready;
    char reason[MONITOR_REASON_MAX]; /* why it is or is not ready, in words */
    bool queue_is_up;
    const struct queue_counters *queue;
    const struct redlock_group *locks; /* NULL = none */
    unsigned runners, busy;
    int64_t cpu_ns;
    const struct tally *tally; /* the same one each time */
};

/* Never waits. */
void monitor_publish(struct monitor *monitor, const struct monitor_state *state);

/* How long a loop may be silent before /healthz says that it is stuck. */
#define MONITOR_SILENT_NS (5 * NS_PER_S)

#endif
