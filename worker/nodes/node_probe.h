/* Asks all nodes of a configuration at the same time for their facts, and lock nodes also for a lock. */
#ifndef WORKER_NODE_PROBE_H
#define WORKER_NODE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "worker/config/config.h"
#include "worker/nodes/node_facts.h"

enum probe_state {
    PROBE_SKIPPED,     /* its configuration is wrong, it was not asked */
    PROBE_UNREACHABLE, /* may be there later */
    PROBE_REFUSED,     /* it is there, but does not let us in, or is no Redis server */
    PROBE_ANSWERED,
};

struct node_probe {
    const struct config_node *node;
    enum node_use use;
    const char *lock_prefix; /* of a lock node: a lock with a random name below it is taken, for a moment */
    enum probe_state state;
    char reason[256];        /* of PROBE_UNREACHABLE and PROBE_REFUSED */
    char address[300];       /* of PROBE_ANSWERED: where it is; tells more than the configuration with sentinels */
    struct node_facts facts; /* of PROBE_ANSWERED; a queue node without the command INFO has no run_id here */
    int64_t answer_ns;       /* how long one INFO took */
    char refusal[256];       /* of PROBE_ANSWERED: why it did not give or take back that lock; "" = it did both */
};

/* Fills in all but `node`, `use` and `lock_prefix`. Runs a loop of its own; returns when each node has answered or
 * failed, at the latest after its connect_timeout, and the time for its sentinels, plus one second. False when there
 * can be no loop. */
bool node_probe_all(struct node_probe *probes, size_t count, struct error *error) MUST_CHECK;

/* Of a lock node: whether its vote for a lock can be had. */
static inline bool node_probe_grants(const struct node_probe *probe)
{
    return probe->state == PROBE_ANSWERED && probe->refusal[0] == '\0';
}

#endif
