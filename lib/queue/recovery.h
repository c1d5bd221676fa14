/* Private to lib/queue: recovers what dead processes left at the queue node.
 *
 * The node tells a process with its beat whose leases have ended. One after the other their claims are fetched (a
 * bounded number of bytes at a time), read for their jid, and put back to the head of their queues by a script that
 * checks each claim once more; all processes may try, one succeeds. The script counts from how many processes a task
 * was recovered; the third time it needs a record and buries the task (poison: it kills who runs it). When the process
 * has left its culprit (culprit.h), only that task counts; those beside it are buried the twentieth time. A process
 * that was away and comes back takes its count off again (queue_absolve).
 *
 * What fails is left to the next beat. Runs on the loop. */
#ifndef QUEUE_RECOVERY_H
#define QUEUE_RECOVERY_H

#include "redis/reply.h"

/* The processes of a few hosts, and those that are looked at again: with their beat all of them are recovered. */
enum { RECOVERY_DEAD_MAX = 64 };

struct queue;
struct recovery;

struct recovery *recovery_create(struct queue *queue);
void recovery_destroy(struct recovery *recovery);
/* `dead` is an array of identities; nothing happens while a recovery is under way. */
void recovery_start(struct recovery *recovery, const struct redis_reply *dead);
void recovery_stop(struct recovery *recovery);

#endif
