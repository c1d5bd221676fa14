/* What `holdfast top` shows, as one look found it; made by top_look.h, laid out by top_screen.h. */
#ifndef WORKER_TOP_FACTS_H
#define WORKER_TOP_FACTS_H

#include "redlock/redlock_nodes.h"
#include "worker/commands/status.h"

/* A running task, as its process shows it with its heartbeat. Texts are "" when they are not known. */
struct top_task {
    char *process, *queue, *class_name, *jid;
    char *resource; /* the first that it locks */
    char *token;    /* of its lock */
    int64_t age_us;
};

/* A lock that is waited for, or held by a running task. */
struct top_resource {
    const char *kind; /* "resource", or "class" for a share of the threads */
    char *name;       /* its own memory */
    long long waiters;
    const struct top_task *holder; /* NULL: not known */
};

struct top_facts {
    struct wall_time now; /* of the queue node */
    const char *away;     /* why the queue node could not be asked; NULL: it was. The rest is then of the look before */
    int64_t old_us;       /* then: since that look */
    bool has_rate;
    double processed_rate, failed_rate; /* a second */
    int64_t rate_us;                    /* over which time */
    struct status status;
    struct top_task *tasks; /* the oldest first */
    size_t task_count;
    struct top_resource *resources; /* most waiters first */
    size_t resource_count;
    const struct redlock_node_view *nodes; /* the lock nodes; not owned */
    unsigned node_count;
    const char *nodes_reason; /* why there are none to be seen; NULL */
};

#endif
