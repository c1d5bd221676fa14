/* What a dry run has on the nodes of a configuration: its names, and that they are gone when it is over.
 *
 *     space = name_space_open(&options);
 *     name_space_begin(space, begun);      removes what dead runs have left, and writes this host of the run down
 *     ...                                  its lease is renewed every few seconds, while the loop runs
 *     name_space_ready(space);             until name_space_begins: all hosts of the run are ready
 *     name_space_delete(space, patience_ns, deleted);
 *     name_space_close(space);
 *
 * Every key of a run on the queue node is below hf:2:dry:RUN:, every lock below lock.prefix dry:RUN:. Locks and their
 * counters of fencing tokens have a ttl (dry_config.h). When the run and its cleanup process are killed at once, what
 * is on the queue node stays until the next dry run, which finds it in the index of runs (queue/dry_runs.h). Of several
 * hosts the last one that leaves removes all.
 *
 * Runs on a loop, of the trial or of the cleanup process. Nothing blocks. Of the callbacks only `deleted` may
 * close the name space. */
#ifndef WORKER_DRY_RUN_NAME_SPACE_H
#define WORKER_DRY_RUN_NAME_SPACE_H

#include "base/loop.h"
#include "queue/dry_runs.h"
#include "redlock/redlock.h"
#include "worker/config/config.h"
#include "worker/dry_run/nodes/key_deletion.h"

#define NAME_SPACE_SHARE 0.25

struct name_space;

/* For lock.prefix of the workers; `prefix` is that of production. */
void name_space_lock_prefix(const char *prefix, const char *run, struct buffer *out);

struct name_space_options {
    struct loop *loop;
    const struct config *config; /* its nodes, and lock.prefix of production; must live as long */
    const char *run, *host;      /* as it is called among the hosts of the run */
    unsigned hosts;              /* of how many the run is */
    double node_share;           /* of a node's time that removing may take, up to 1; 0 = NAME_SPACE_SHARE */
    int64_t silence_ns;          /* so long a node may be silent while the run is removed; 0 = until the timeout */
    /* Another process took the run for dead, because this one was stopped for a minute: it has to end. */
    void (*lost)(void *context);
    void *context;
};

/* Connects in the background. */
struct name_space *name_space_open(const struct name_space_options *options);
/* Stops what goes on. NULL is fine. */
void name_space_close(struct name_space *space);

/* `begun` runs once: `trouble` is NULL when the run is written down. Dead runs are removed first, for at most a minute;
 * `removed` of them. Until name_space_delete, the lease is renewed. */
void name_space_begin(struct name_space *space, void (*begun)(void *context, const char *trouble, unsigned removed));

/* This host has everything that it needs: asks until all hosts have said so. */
void name_space_ready(struct name_space *space);
/* When the load begins, by the queue node's clock (in us; the same at all hosts) and by that of this host; 0 = not all
 * are ready. */
int64_t name_space_begins(const struct name_space *space, struct instant *at);
/* Hosts that are there, this one included. */
unsigned name_space_hosts(const struct name_space *space);

struct removal_end {
    /* The queue node, then the lock nodes in the order of the configuration. None: other hosts of the run are still at
     * work and remove its keys later; or, when it is not clean, the queue node was not reached to ask for them. */
    unsigned count;
    struct key_deletion_state nodes[1 + REDLOCK_NODES_MAX];
    bool is_clean; /* all of them are */
    uint64_t deleted;
};

/* After the last process of this host has ended; a beginning that is underway is given up, and `begun` does not run
 * then. The last host removes everything of the run from all nodes, within `patience_ns`, and forgets the run when
 * nothing is left. `deleted` runs once; the end is valid during the call. */
void name_space_delete(struct name_space *space, int64_t patience_ns,
                       void (*deleted)(void *context, const struct removal_end *end));

#endif
