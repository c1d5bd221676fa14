/* Removes from one node all keys that begin with certain bytes: walks through all its keys with SCAN in small steps and
 * deletes those that it finds, again and again until it finds none. It rests between the steps, so that the node spends
 * no more than a share of its time on it. A connection of its own; what fails is tried again until the deadline, or
 * until nothing was answered for too long. A node that does not let us look (its user has no right to SCAN) ends it at
 * once.
 *
 * Runs on the loop. */
#ifndef WORKER_DRY_RUN_SWEEP_H
#define WORKER_DRY_RUN_SWEEP_H

#include "base/loop.h"
#include "redis/node.h"

enum { SWEEP_PREFIXES_MAX = 2, SWEEP_TROUBLE_MAX = 256 };

struct sweep_options {
    struct loop *loop;
    struct redis_node_options node; /* `changed`, `context` and limits are set here */
    /* Each is copied. The second one, if there is one, ends with the first. */
    const char *prefixes[SWEEP_PREFIXES_MAX];
    bool unlinks; /* with UNLINK, for large values; else with DEL */
    double share; /* of the node's time, above 0, at most 1 */
    struct instant deadline;
    int64_t silence_ns;          /* so long without an answer ends it too; 0 = the deadline alone does */
    void (*done)(void *context); /* once, at the end of a turn; sweep_close may be called from inside */
    void *context;
};

struct sweep_state {
    bool is_over, is_clean;
    uint64_t deleted;
    uint64_t left; /* about so many: see sweep_estimate */
    char trouble[SWEEP_TROUBLE_MAX];
};

struct sweep;

struct sweep *sweep_open(const struct sweep_options *options);
void sweep_close(struct sweep *sweep); /* NULL is fine */
const struct sweep_state *sweep_state(const struct sweep *sweep);

/* How many keys are left when a walk that stands at `cursor` has found and deleted so many: those that it found and did
 * not delete, and as many more as are to be expected in the part of the node that it has not seen. Pure. */
uint64_t sweep_estimate(uint64_t found, uint64_t deleted, const char *cursor);

#endif
