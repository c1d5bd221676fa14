/* Worker hosts, lock hosts and a queue host on a network of their own, and what can happen to them. The queue node and
 * the workers are those of a fleet (fleet.h), so everything that can be asked of a fleet can be asked here.
 *
 *     hosts_start(&hosts, 3, 5);
 *     hosts_work(&hosts, 0, &setup);                     a worker process on the first worker host
 *     hosts_cut(&hosts, 0, 4, HOSTS_FROM_NODE);          it hears nothing any more from the fifth lock node
 *     ...
 *     hosts_heal(&hosts);
 *     hosts_stop(&hosts);
 *
 * Without the right to make networks (private_network.h) the hosts are addresses of this machine; then nothing can be
 * cut, and the rest works. Ask hosts_can_cut. */
#ifndef SUPPORT_HOSTS_H
#define SUPPORT_HOSTS_H

#include "tests/support/fleet.h"
#include "tests/support/private_network.h"

enum { HOSTS_WORKERS_MAX = 4, HOSTS_NODES_MAX = 5, HOSTS_LOCK_NODES_TEXT = 800 };

enum hosts_way { HOSTS_TO_NODE = 1, HOSTS_FROM_NODE = 2, HOSTS_BOTH_WAYS = 3 };

struct hosts {
    struct fleet fleet; /* without lock nodes */
    struct private_network *network;
    unsigned workers, nodes;
    struct redis_server *servers[HOSTS_NODES_MAX];
    unsigned ports[HOSTS_NODES_MAX];
    struct redis_server *spare;             /* empty, and up since the start; NULL once it was needed */
    int64_t *clocks[HOSTS_NODES_MAX];       /* what is added to the wall clock of each, in nanoseconds */
    char lock_nodes[HOSTS_LOCK_NODES_TEXT]; /* the list for a configuration */
};

/* `lock_node` are more settings of each lock node; the queue node keeps a history (account.h wants one). */
void hosts_start(struct hosts *hosts, unsigned workers, unsigned nodes, const char *lock_node);
/* Ends everything that runs there. */
void hosts_stop(struct hosts *hosts);
/* False: why is private_network_reason(hosts->network). */
bool hosts_can_cut(const struct hosts *hosts);

/* Makes the lock nodes a lock group (redlock/marker.h) that is trusted at once, before the first lock is taken. */
void hosts_form_group(struct hosts *hosts, int64_t max_ttl_ms);
/* Whether its marker says that this run of the server may vote. */
bool hosts_node_is_trusted(struct hosts *hosts, unsigned node);

/* Starts a worker process on a worker host (fleet_work); lock_nodes of the setup is filled in. */
unsigned hosts_work(struct hosts *hosts, unsigned worker_host, const struct fleet_setup *setup);
/* What a lock node answers; to be freed. */
char *hosts_ask(struct hosts *hosts, unsigned node, const char *command);

/* What one side sends the other is lost silently, or both; only where hosts_can_cut. */
void hosts_cut(struct hosts *hosts, unsigned worker_host, unsigned node, enum hosts_way way);
/* The lock node stops answering; connections to it are still accepted. */
void hosts_hang(struct hosts *hosts, unsigned node);
/* Ends all cuts and hangs. */
void hosts_heal(struct hosts *hosts);

/* The lock node forgets everything and goes on; or dies, and comes back empty. */
void hosts_wipe(struct hosts *hosts, unsigned node);
void hosts_restart(struct hosts *hosts, unsigned node);
/* Another server, empty and up for as long as the rest, answers at the address of this lock node, which is no more.
 * Once. */
void hosts_replace(struct hosts *hosts, unsigned node);
/* The wall clock of the lock node is so far from the true one from now on. */
void hosts_set_clock(struct hosts *hosts, unsigned node, int64_t seconds);

#endif
