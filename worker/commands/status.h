/* What `holdfast status` tells: the fleet, the queues, the sets, the rates, and whether that is healthy.
 *
 *     struct status status;
 *     int code = status_read(&status, &console);
 *     status_free(&status);                      also after a failure */
#ifndef WORKER_STATUS_H
#define WORKER_STATUS_H

#include "worker/commands/backlog.h"
#include "worker/commands/fleet.h"

struct status {
    struct fleet fleet;
    struct backlog backlog;
    long long schedule, retry, dead;                /* entries; -1: not known */
    int64_t overdue_us[2];                          /* the earliest entry of schedule, of retry, since it was due */
    long long processed, failed;                    /* ever; these too: -1 = not known */
    long long processed_today, failed_today;        /* since midnight UTC */
    long long minute_processed, minute_failed;      /* in the last full minute */
    char minute[32];                                /* which one: 2026-11-21T18:04Z */
    char server[16], version[32];                   /* "" when the node does not say */
    size_t lock_nodes, lock_nodes_away;             /* 0 when they were not asked */
    char lock_reason[300];                          /* why the first of those is away */
    long long memory_used, memory_max, connections; /* bytes; max 0: no limit; -1: not known */
};

int status_read(struct status *status, struct console *console) MUST_CHECK; /* an exit code; complains */
/* Afterwards, if you like: whether the lock nodes grant locks. Tries one on each, for a moment. */
int status_ask_locks(struct status *status, struct console *console) MUST_CHECK;
void status_free(struct status *status);

/* The bounds of what is healthy; -1 = not checked. */
struct status_bounds {
    int64_t max_latency_ns;
    long long max_dead, min_processes;
};

/* Appends why it is not healthy, one reason after the other with "; " between; nothing when it is. Pure. */
void status_judge(const struct status *status, const struct status_bounds *bounds, struct wall_time now,
                  struct buffer *out);

/* Processes that are alive and take tasks. */
long long status_serving(const struct status *status);

#endif
