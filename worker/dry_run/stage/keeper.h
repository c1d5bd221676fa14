/* Sees to it that the keys of a dry run on the queue node go by themselves: every few seconds gives all those that have
 * no ttl of their own one, anew.
 *
 * Redis has no ttl for a name, only for a key that is there: a list that becomes empty is gone, and comes back without
 * a ttl. So it has to be done again and again, and what is made after the last time has none. What has to be kept is
 * found by what names it: the set of queues, the processes, the lists in which somebody waits; a database is never
 * walked through for it. Keys that their scripts give a ttl (docs/data-model.md) are left alone, but for what is
 * counted for a day, whose ttl is weeks or years.
 *
 * All that costs one PEXPIRE a key, in steps of some hundred keys, between which it rests, so that the node spends no
 * more than a share of its time on it.
 *
 * Runs on the loop. */
#ifndef WORKER_DRY_RUN_KEEPER_H
#define WORKER_DRY_RUN_KEEPER_H

#include "base/loop.h"
#include "redis/node.h"

struct keeper_options {
    struct loop *loop;
    struct redis_node *node; /* has dry_runs_scripts; must live as long */
    const char *space;       /* copied */
    int64_t ttl_ns;          /* that keys get */
    int64_t interval_ns;     /* between the end of a walk through the names and the next one */
    double share;            /* of the node's time, above 0, at most 1 */
};

struct keeper;

/* The first walk begins at once. */
struct keeper *keeper_start(const struct keeper_options *options);
void keeper_stop(struct keeper *keeper); /* NULL is fine */

#endif
