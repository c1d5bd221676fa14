/* Private to lib/queue: a request that is repeated until the queue node has answered it.
 *
 * Every script that changes the queue node may be repeated after a lost reply and then answers the same. So one rule
 * covers all failures: try again when the connection is back, or a moment later if the node refused (LOADING, BUSY,
 * READONLY, OOM, ...). Meanwhile the call waits here. A process has at most a few for each slot, so claims and
 * results wait in bounded memory, nothing is lost, and nothing is done twice. Runs on the loop.
 *
 * After a connection that ended before its answers came, fewer are asked for at once (answer_window.h). A call whose
 * answer was lost again and again, though it was the only one, is told and repeated rarely, so that the others get
 * through between. */
#ifndef QUEUE_RETRIED_CALL_H
#define QUEUE_RETRIED_CALL_H

#include "base/list.h"
#include "base/loop.h"
#include "queue/answer_window.h"
#include "redis/node.h"

struct retried_calls {
    struct loop *loop;
    struct redis_node *node;
    int64_t timeout_ns;
    struct list waiting;
    struct loop_timer retry;
    struct answer_window window;
    unsigned outstanding;      /* what the calls on their way bring */
    unsigned unreceived;       /* calls whose answers are lost again and again */
    struct instant complained; /* when a refusal was last logged */
    uint64_t *repeats;         /* counts repeated calls */
    /* The node refused a call, which will be repeated; may be NULL. May start other calls. */
    void (*refused)(struct retried_calls *retried_calls, const struct redis_result *result);
};

struct retried_call {
    struct list link;
    struct retried_calls *retried_calls;
    struct redis_call call;
    struct buffer request;
    unsigned brings;        /* the tasks that its answer may bring; 0 counts as 1 */
    unsigned lost_alone;    /* times that the answer was lost without any other */
    struct instant lost_at; /* the last of them */
    /* The answer that would bring several tasks was lost: the retried call is the owner's again, to ask for less. */
    void (*divide)(struct retried_call *retried_call);
    /* Once, with the node's answer; the retried call is the owner's again. */
    void (*done)(struct retried_call *retried_call, const struct redis_reply *reply);
};

void retried_calls_init(struct retried_calls *retried_calls, struct loop *loop, int64_t timeout_ns, uint64_t *repeats);
void retried_calls_fini(struct retried_calls *retried_calls);
/* Logs refusals of the node, at a limited rate; WRONGTYPE with the keys of the request. */
void retried_calls_log_refusal(struct retried_calls *retried_calls, const struct redis_result *result,
                               const char *keys);
/* The connection came up: sends all waiting calls. */
void retried_calls_connected(struct retried_calls *retried_calls);

void retried_call_init(struct retried_call *retried_call, struct retried_calls *retried_calls,
                       void (*done)(struct retried_call *retried_call, const struct redis_reply *reply));
void retried_call_fini(struct retried_call *retried_call);
/* Sends what the owner encoded into `request`. */
void retried_call_start(struct retried_call *retried_call);
/* Stops repeating the call; `done` does not run. */
void retried_call_cancel(struct retried_call *retried_call);

#endif
