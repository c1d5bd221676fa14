/* The one table of what workers and `holdfast serve` give monitoring systems: names, kinds, labels and meanings.
 * /metrics, the store of their values and docs/metrics.md are loops over it.
 *
 * To add a metric: a name here, a row in metric_table.c, its value (monitor.c, or commands/command_serve.c), then `make
 * docs`. */
#ifndef WORKER_METRIC_TABLE_H
#define WORKER_METRIC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum metric {
    METRIC_TASKS,
    METRIC_TASK_WAIT,
    METRIC_TASK_RUN,
    METRIC_RUNNERS,
    METRIC_RUNNERS_BUSY,
    METRIC_READY,
    METRIC_CLAIMS,
    METRIC_CLAIM_CALLS,
    METRIC_RECOVERED,
    METRIC_QUEUE_NODE_UP,
    METRIC_LOCK_REQUESTS,
    METRIC_LOCK_TRIES,
    METRIC_LOCK_QUORUM,
    METRIC_LOCK_HOLD,
    METRIC_LOCK_HANDED_OVER,
    METRIC_LOCK_EXTENSIONS,
    METRIC_LOCK_EXTENSION,
    METRIC_LOCK_DANGERS,
    METRIC_LOCK_LOST,
    METRIC_LOCK_RELEASES,
    METRIC_FENCED_OFF,
    METRIC_NODES,
    METRIC_NODES_VOTING,
    METRIC_NODE_UP,
    METRIC_NODE_VOTES,
    METRIC_NODE_REQUESTS,
    METRIC_NODE_ANSWERS,
    METRIC_NODE_LATENCY,
    METRIC_NODE_CLOCK,
    METRIC_NODE_QUARANTINE,
    METRIC_NODE_SILENCE,
    METRIC_LOOP_CYCLE,
    METRIC_LOG_DROPPED,
    METRIC_AGE,
    METRIC_INFO,
    METRIC_CPU,
    METRIC_MEMORY,
    METRIC_OPEN_FDS,
    METRIC_MAX_FDS,
    METRIC_START_TIME,
    /* Of the whole fleet, from `holdfast serve`; the others come from each worker. */
    METRIC_FLEET_PROCESSES,
    METRIC_FLEET_BUSY,
    METRIC_FLEET_PROCESSED,
    METRIC_FLEET_FAILED,
    METRIC_FLEET_QUEUE_TASKS,
    METRIC_FLEET_QUEUE_LATENCY,
    METRIC_FLEET_QUEUE_PAUSED,
    METRIC_FLEET_SCHEDULED,
    METRIC_FLEET_RETRIES,
    METRIC_FLEET_DEAD,
    METRIC_FLEET_WAITING,
    METRIC_FLEET_NODE_UP,
    METRIC_FLEET_NODE_VOTES,
    METRIC_FLEET_QUEUE_NODE_UP,
    METRIC_FLEET_AGE,
    METRICS,
    METRICS_OF_WORKER = METRIC_FLEET_PROCESSES
};

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* A label, whose values are numbered from 0. */
enum metric_label {
    LABEL_NONE,
    LABEL_QUEUE,
    LABEL_CLASS,     /* METRIC_CLASS_OTHER, then those that are loaded */
    LABEL_OUTCOME,   /* enum flow_ending */
    LABEL_ANSWER,    /* enum redlock_answer, as metric_answers lists them */
    LABEL_RELEASE,   /* metric_releases */
    LABEL_NODE,      /* lock nodes, in the order of the configuration */
    LABEL_NODE_SAID, /* metric_node_answers */
    LABEL_PROCESS,   /* one value, of several labels: which process this is */
    METRIC_LABELS
};

enum { METRIC_LABELS_MAX = 3, METRIC_CLASS_OTHER = 0, METRIC_BOUNDS = 19 };

/* Upper bounds of the buckets of every histogram, in microseconds; one more bucket has no bound. */
extern const int64_t metric_bounds_us[METRIC_BOUNDS];
/* End with NULL. */
extern const char *const metric_answers[], *const metric_releases[], *const metric_node_answers[];

struct metric_row {
    const char *name; /* without the _total of a counter */
    enum metric_kind kind;
    enum metric_label labels[METRIC_LABELS_MAX];
    const char *unit; /* the end of the name, as OpenMetrics wants it; NULL = none */
    int64_t per_unit; /* the store counts in this part of the unit; histograms in microseconds */
    bool is_sparse;   /* what is 0 is left out; of METRIC_TASKS only the endings that no alert looks at */
    const char *help; /* one sentence, without its stop */
};

extern const struct metric_row metric_table[METRICS];
/* "queue", "class", ...; NULL for LABEL_NONE, and for LABEL_PROCESS, which has several. */
const char *metric_label_name(enum metric_label label);
/* docs/metrics.md. */
void metric_manual_print(struct buffer *out);

#endif
