/* Private to lib/queue: a request that is repeated until the queue node has answered it.
 *
 * Every script that changes something on the queue node may be repeated after a lost reply and then answers the same,
 * so the rule for trouble is one: try again when the connection is back, or a moment later when the node refused
 * (LOADING, BUSY, READONLY, OOM, ...). Meanwhile the errand waits here, and a process has at most a few a slot: claims
 * and results wait in bounded memory, nothing is lost and nothing is done twice. Runs on the loop. */
#ifndef QUEUE_ERRAND_H
#define QUEUE_ERRAND_H

#include "base/list.h"
#include "base/loop.h"
#include "redis/node.h"

struct errands {
    struct loop *loop;
    struct redis_node *node;
    int64_t timeout_ns;
    struct list waiting;
    struct loop_timer retry;
    struct instant complained; /* when a refusal was last logged */
    uint64_t *repeats;         /* counts the calls that have to be repeated */
    /* The node refused a call, which will be repeated; may be NULL. May start other errands. */
    void (*refused)(struct errands *errands, const struct redis_result *result);
};

struct errand {
    struct list link;
    struct errands *errands;
    struct redis_call call;
    struct buffer request;
    /* Once, with the node's answer; the errand is the owner's again. */
    void (*done)(struct errand *errand, const struct redis_reply *reply);
};

void errands_init(struct errands *errands, struct loop *loop, int64_t timeout_ns, uint64_t *repeats);
void errands_fini(struct errands *errands);
/* Logs that the node refuses something, now and then; a WRONGTYPE with the keys that the request had. */
void errands_log_refusal(struct errands *errands, const struct redis_result *result, const char *keys);
/* The connection came up: everything that waits goes out. */
void errands_connected(struct errands *errands);

void errand_init(struct errand *errand, struct errands *errands,
                 void (*done)(struct errand *errand, const struct redis_reply *reply));
void errand_fini(struct errand *errand);
/* Sends what the owner encoded into `request`. */
void errand_start(struct errand *errand);
/* It is not repeated any more and has no end. */
void errand_cancel(struct errand *errand);

#endif
