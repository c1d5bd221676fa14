/* What worker processes say of themselves a few times a second, as differences: their counters count from the start of
 * a process, and a process that was killed begins anew. One thread. */
#ifndef WORKER_DRY_RUN_PROCESS_COUNT_H
#define WORKER_DRY_RUN_PROCESS_COUNT_H

#include "worker/dry_run/crew/record.h"
#include "worker/dry_run/result/result.h"

/* The last that one process said. */
struct process_count {
    struct instant heard; /* 0 = nothing yet, of this life */
    unsigned runners, busy;
    int64_t cpu_ns;
    struct histogram extensions;
    struct redlock_node_counters nodes[RECORD_NODES_MAX];
};

/* Sums of what all said. */
struct process_sums {
    struct histogram extensions;                          /* measured */
    struct redlock_node_counters nodes[RECORD_NODES_MAX]; /* counts of the whole run, latency measured */
    unsigned node_count;
};

/* What came since the last time goes into `sums` (the histograms of it only when `is_measured`), and into `extensions`
 * of the current second. Returns the processor time since then. */
int64_t process_count_add(struct process_count *count, const struct observed_process *said, struct instant at,
                          bool is_measured, struct process_sums *sums, struct histogram *extensions);
/* It died: the next of its number begins from nothing. */
void process_count_end(struct process_count *count);

#endif
