/* Moves tasks whose time has come from `schedule` and `retry` to their queues.
 *
 * Every process looks, at its own jittered moments, about once a second; the script moves an entry only if it is the
 * one that removes it, so any number of processes may do so at once. The time is the queue node's. An entry is moved
 * with `enqueued_at` set and otherwise as it is; one that is no task goes to `dead` in a form that dashboards can
 * show. As long as more is due than one look takes, the next look follows at once. Runs on the loop. */
#ifndef QUEUE_PROMOTER_H
#define QUEUE_PROMOTER_H

#include "queue/envelope.h"
#include "queue/queue.h"

struct promoter;

/* `limits` must live as long as the promoter; they may change. */
struct promoter *promoter_create(struct loop *loop, struct queue *queue, const struct envelope_limits *limits,
                                 int64_t timeout_ns);
void promoter_destroy(struct promoter *promoter);
uint64_t promoter_moved(const struct promoter *promoter);

#endif
