/* Removes from one node all keys that begin with certain bytes, and such members of a set that others use too: walks
 * through both with SCAN and ZSCAN in small steps and deletes what it finds, again and again until it finds none. It
 * rests between the steps, so that it takes no more than a share of the node's time. What fails is tried again until
 * the deadline, or until nothing was answered for too long. A node that does not let us look (its user has no right to
 * SCAN) ends it at once. Runs on the loop. */
#ifndef WORKER_DRY_RUN_KEY_DELETION_H
#define WORKER_DRY_RUN_KEY_DELETION_H

#include "base/loop.h"
#include "redis/node.h"

enum { KEY_DELETION_TROUBLE_MAX = 256 };

struct key_deletion_options {
    struct loop *loop;
    struct redis_node_options node; /* `changed`, `context` and limits are set here */
    const char *prefix;             /* copied */
    const char *set;                /* a sorted set, whose members that begin so go as well; NULL = none */
    bool unlinks;                   /* with UNLINK, for large values; else with DEL */
    double share;                   /* of the node's time, above 0, at most 1 */
    struct instant deadline;
    int64_t silence_ns;          /* so long without an answer ends it too; 0 = the deadline alone does */
    void (*done)(void *context); /* once, at the end of a cycle; key_deletion_close may be called from inside */
    void *context;
};

struct key_deletion_state {
    const char *name;                       /* of the node */
    bool is_over, is_clean;                 /* clean: it was walked through, and there was nothing more */
    bool is_refused;                        /* the node does not let us look: to try again is of no use */
    uint64_t deleted;                       /* keys and members */
    uint64_t left;                          /* about so many: see key_deletion_estimate */
    char trouble[KEY_DELETION_TROUBLE_MAX]; /* why it is not clean, for people */
};

struct key_deletion;

struct key_deletion *key_deletion_open(const struct key_deletion_options *options);
void key_deletion_close(struct key_deletion *deletion); /* NULL is fine */
const struct key_deletion_state *key_deletion_state(const struct key_deletion *deletion);

/* How many keys are left when a walk that stands at `cursor` has found and deleted so many: those that it found and did
 * not delete, and as many more as are to be expected in the part of the node that it has not seen. Pure. */
uint64_t key_deletion_estimate(uint64_t found, uint64_t deleted, const char *cursor);

#endif
