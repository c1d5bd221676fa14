/* Puts the tasks of a dry run into its queues: a producer (queue/push.h) in the run's key space.
 *
 *     struct feeder *feeder = feeder_create(loop, &options);
 *     feeder_add(feeder, &task);     any number in one turn of the loop leave together
 *     feeder_destroy(feeder);
 *
 * Runs on the loop. A slice that could not be pushed is counted and told once; its tasks are told by `refused`. */
#ifndef WORKER_DRY_RUN_FEEDER_H
#define WORKER_DRY_RUN_FEEDER_H

#include "queue/push.h"
#include "worker/config/config.h"

struct feeder_options {
    const struct config_node *node;
    const char *space;
    /* So many tasks are not in their queues, and why not. */
    void (*refused)(void *context, uint64_t count, const char *reason);
    void *context;
};

struct feeder;

struct feeder *feeder_create(struct loop *loop, const struct feeder_options *options);
void feeder_destroy(struct feeder *feeder); /* NULL is fine */

/* Complete: with a jid and its times. The bytes are copied. */
void feeder_add(struct feeder *feeder, const struct intake_task *task);

#endif
