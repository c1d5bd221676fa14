/* Removes all keys of one dry run from all nodes of a configuration: on the queue node what is below hf:2:dry:RUN:, on
 * the lock nodes its locks and their counters of fencing tokens. Each node is walked through with SCAN in small steps,
 * on all nodes at the same time, and walked through again until nothing is found: see sweep.h.
 *
 *     removal = removal_start(&options);     `done` runs once, never from inside this call
 *     removal_cancel(removal);               before that; afterwards it is gone
 *
 * Nobody may write below these names any more. Runs on the loop. If the process dies, some keys are removed. */
#ifndef WORKER_DRY_RUN_REMOVAL_H
#define WORKER_DRY_RUN_REMOVAL_H

#include "base/loop.h"
#include "redlock/redlock.h"
#include "worker/config/config.h"

/* What became of one node. */
struct removal_node {
    const char *name;
    bool is_clean;          /* it was walked through, and there was nothing more */
    uint64_t deleted, left; /* left: about so many */
    const char *trouble;    /* why it is not clean, for people; NULL = it is */
};

struct removal_end {
    unsigned count; /* the queue node, then the lock nodes in the order of the configuration */
    struct removal_node nodes[1 + REDLOCK_NODES_MAX];
    bool is_clean; /* all of them are */
    uint64_t deleted;
};

struct removal_options {
    struct loop *loop;
    const struct config *config; /* its nodes; must live as long */
    const char *run;
    const char *lock_prefix; /* what stands before all its resources: lock.prefix, then dry:RUN: */
    double node_share;       /* of a node's time, 0 to 1 */
    struct instant deadline;
    int64_t silence_ns; /* a node that answers nothing for so long is given up; 0 = not before the deadline */
    void (*done)(void *context, const struct removal_end *end);
    void *context;
};

struct removal;

struct removal *removal_start(const struct removal_options *options);
void removal_cancel(struct removal *removal); /* NULL is fine */

#endif
