/* A worker process as others see and call it: its heartbeat at the queue node (queue/heartbeat.h), and what dashboards
 * and our own commands call to it (queue/control.h). Runs on the loop. */
#ifndef WORKER_PRESENCE_H
#define WORKER_PRESENCE_H

#include "queue/control.h"
#include "queue/heartbeat.h"
#include "queue/queue.h"
#include "worker/config/config.h"
#include "worker/events/tally.h"

struct presence;

/* What it points to outlives it. */
struct presence_options {
    struct loop *loop;
    struct queue *queue;
    const struct config *config;
    const char *identity;
    struct tally *tally; /* its heartbeats take what is counted */
    unsigned runner_count, run_max;
    /* Completes the facts: whether it is quiet, its classes, and its runs, of which at most run_max are written to
     * `runs`. */
    void (*look)(void *context, struct heartbeat_facts *facts, struct heartbeat_run *runs);
    void (*called)(void *context, enum control_call call, const char *jid);
    void *context;
};

struct presence *presence_create(const struct presence_options *options);
/* Before the queue is destroyed; no handler runs any more. */
void presence_destroy(struct presence *presence);

/* Gives a heartbeat what it takes; for its `take`. */
void presence_counts_take(struct tally *tally, struct heartbeat *heartbeat, struct wall_time at);
/* Something changed that people wait to see. */
void presence_tell(struct presence *presence);
/* Writes the last counts and takes the process off the lists, until the deadline at most. */
void presence_leave(struct presence *presence, struct instant deadline);
bool presence_is_leaving(const struct presence *presence);

#endif
