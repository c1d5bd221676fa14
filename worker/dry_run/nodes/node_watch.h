/* The nodes' own account of themselves during a dry run: INFO of each as soon as it is connected, and once a second,
 * over a connection of its own. It is independent of what workers count, with which it is compared.
 *
 *     struct node_watch *watch = node_watch_create(loop, config, sampled, context);
 *     node_watch_look(watch);          an extra look; `sampled` follows for every node that answers
 *
 * Runs on the loop. Node 0 is the queue node, the others are the lock nodes in the order of the configuration. */
#ifndef WORKER_DRY_RUN_NODE_WATCH_H
#define WORKER_DRY_RUN_NODE_WATCH_H

#include "base/loop.h"
#include "worker/config/config.h"

struct node_sample {
    struct instant at;
    uint64_t scripts;   /* calls of scripts since its start */
    uint64_t script_us; /* that these took */
    double cpu_seconds; /* user and system, of all its threads */
};

struct node_watch;

struct node_watch *node_watch_create(struct loop *loop, const struct config *config,
                                     void (*sampled)(void *context, unsigned node, const struct node_sample *sample),
                                     void *context);
void node_watch_destroy(struct node_watch *watch); /* NULL is fine */
void node_watch_look(struct node_watch *watch);
/* Whether each node that is up has answered the last look. */
bool node_watch_is_answered(const struct node_watch *watch);
unsigned node_watch_nodes_up(const struct node_watch *watch); /* lock nodes that it is connected to */
bool node_watch_queue_is_up(const struct node_watch *watch);

#endif
