/* The host that leads a dry run serves those that join: a few times a second, in one call to the queue node
 * (queue/dry_runs.h), it writes the state of the run, learns which hosts are there, and takes their records.
 *
 *     struct coordinator *coordinator = coordinator_create(loop, &options);
 *     coordinator_tell(coordinator, RUN_GOES_ON);
 *     coordinator_destroy(coordinator);
 *
 * Runs on the loop. A remote host that is silent for HOST_SILENCE_NS is gone: what it has brought counts. */
#ifndef WORKER_DRY_RUN_COORDINATOR_H
#define WORKER_DRY_RUN_COORDINATOR_H

#include "base/loop.h"
#include "worker/config/config.h"
#include "worker/dry_run/run/host_heartbeat.h"

#define HOST_SILENCE_NS (10 * NS_PER_S)
enum { REMOTE_HOSTS_MAX = 63 };

struct remote_host {
    char *name; /* its own */
    struct host_heartbeat beat;
    struct instant heard; /* when its heartbeat last changed */
    bool is_gone;
};

struct coordinator_options {
    const struct config_node *node;
    const char *space;
    const struct dry_run_plan *plan;
    /* Marked records of a remote host; `host` is its place in the table, from 0 on. */
    void (*brought)(void *context, unsigned host, struct text_span records);
    /* No sign of life from it for HOST_SILENCE_NS, and it had not said that it ends. Once, unless it comes back. */
    void (*missed)(void *context, unsigned host);
    void *context;
};

struct coordinator;

struct coordinator *coordinator_create(struct loop *loop, const struct coordinator_options *options);
void coordinator_destroy(struct coordinator *coordinator); /* NULL is fine */

void coordinator_tell(struct coordinator *coordinator, enum run_state state);
/* From now on nothing is asked or written; what was read stays. */
void coordinator_stop(struct coordinator *coordinator);
/* True once the node has the last state that was given. */
bool coordinator_is_heard(const struct coordinator *coordinator);
unsigned coordinator_host_count(const struct coordinator *coordinator);
const struct remote_host *coordinator_host(const struct coordinator *coordinator, unsigned host);
/* The first remote host that is there and whose processes do not all claim yet; NULL = there is none. */
const struct remote_host *coordinator_laggard(const struct coordinator *coordinator);
/* No remote host is at work any more, and all that they brought was taken. */
bool coordinator_is_over(const struct coordinator *coordinator);
/* This host's view of the queue node's clock. */
const struct node_clock *coordinator_clock(const struct coordinator *coordinator);

#endif
