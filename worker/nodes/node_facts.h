/* What a Redis server says about itself in INFO, and whether it will do as a node. Pure. */
#ifndef WORKER_NODE_FACTS_H
#define WORKER_NODE_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/config/findings.h"

struct node_facts {
    char run_id[48];
    char server[16];       /* "redis" or "valkey" */
    char version[32];      /* of that server */
    unsigned major, minor; /* of the Redis version that it is compatible with */
    char role[16];         /* "master", "slave" */
    char eviction[32];     /* maxmemory_policy; "" when it does not say */
    bool is_cluster;
    bool has_aof;
    unsigned replicas;   /* that are connected to it */
    bool needs_replicas; /* min-replicas-to-write is set: without them it takes no writes */
};

/* The value of one field of INFO, printable bytes only; "" when there is none. Returns `out`. */
const char *node_facts_field(const char *info, size_t length, const char *field, char *out, size_t size);

enum node_use { NODE_FOR_QUEUES, NODE_FOR_LOCKS };

/* False when the text is no INFO of a Redis server. */
bool node_facts_parse(struct node_facts *facts, const char *info, size_t length);
/* Without a run_id nothing is known. */
void node_facts_judge(const struct node_facts *facts, const char *name, enum node_use use, struct findings *findings);

/* What has to be true beside it of a server whose sentinels may put another one in its place. */
void node_facts_judge_failover(const struct node_facts *facts, const char *name, struct findings *findings);

#endif
