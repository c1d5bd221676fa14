/* One look at everything that `holdfast top` shows of the queue node; laid out by top_screen.h.
 *
 *     struct top_facts facts = {0};
 *     int code = top_look(&facts, &console);      fills all but the rate, the lock nodes and `away`
 *     top_facts_free(&facts);                     also after a failure */
#ifndef WORKER_TOP_LOOK_H
#define WORKER_TOP_LOOK_H

#include "redlock/redlock_nodes.h"
#include "worker/commands/console.h"
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

/* Of how many processes the tasks are read, and how many tasks and resources are kept. */
enum { TOP_PROCESSES_MAX = 500, TOP_ROWS_MAX = 1000 };

int top_look(struct top_facts *facts, struct console *console) MUST_CHECK; /* an exit code; complains */
void top_facts_free(struct top_facts *facts);

#endif
