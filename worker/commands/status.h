/* What `holdfast status` shows: the fleet, the queues, the sets, the rates. Whether that is well: health.h.
 *
 *     struct status status;
 *     int code = status_read(&status, &console);
 *     status_free(&status);                      also after a failure */
#ifndef WORKER_STATUS_H
#define WORKER_STATUS_H

#include "worker/commands/backlog.h"
#include "worker/commands/fleet.h"
#include "worker/commands/top_nodes.h"
#include "worker/commands/waiting_lists.h"
#include "worker/nodes/node_probe.h"

/* A class that no living process serves, and for which tasks wait. */
struct status_class {
    char *name;
    long long tasks;
};

/* Of the lock nodes: how many vote, and what keeps the others from it. */
struct status_votes {
    unsigned nodes, voters; /* 0 when they were not asked */
    char reason[1200];      /* who does not vote, and why */
};

struct status {
    struct fleet fleet;
    struct backlog backlog;
    struct status_class *unserved; /* the one of most tasks first; STATUS_CLASSES_MAX are looked at */
    size_t unserved_count;
    struct waiting_lists waiting;              /* tasks that wait for locks */
    long long schedule, retry, dead;           /* entries, of schedule without those; -1: not known */
    int64_t overdue_us[2];                     /* the earliest entry of schedule, of retry, since it was due */
    long long processed, failed;               /* ever; these too: -1 = not known */
    long long processed_today, failed_today;   /* since midnight UTC */
    long long minute_processed, minute_failed; /* in the last full minute */
    char minute[32];                           /* which one: 2026-11-21T18:04Z */
    char server[16], version[32];              /* "" when the node does not say */
    bool is_lock_unknown;                      /* which lock nodes there are */
    struct status_votes votes;
    long long memory_used, memory_max, connections; /* bytes; max 0: no limit; -1: not known */
    bool has_failing_disk;                          /* so the queue node refuses writes */
};

enum { STATUS_CLASSES_MAX = 100 };

int status_read(struct status *status, struct console *console); /* console->code */
/* Afterwards, if you like. `nodes` looks at them meanwhile, NULL where there are none; here each is tried for a lock,
 * for a moment: a node that refuses to write has no vote. Takes no longer than the patience with one of them. */
int status_ask_locks(struct status *status, struct console *console, struct top_nodes *nodes) MUST_CHECK;
/* The same of what was asked already; `probes` may be NULL. */
void status_votes_take(struct status_votes *votes, const struct redlock_node_view *views,
                       const struct node_probe *probes, size_t count);
void status_free(struct status *status);

/* Processes that are alive and take tasks. */
long long status_serving(const struct status *status);

#endif
