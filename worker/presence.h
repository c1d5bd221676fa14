/* A worker process as others see and call it: its heartbeat at the queue node (queue/heartbeat.h), and what dashboards
 * and our own commands call to it (queue/control.h). Runs on the loop. */
#ifndef WORKER_PRESENCE_H
#define WORKER_PRESENCE_H

#include <stdbool.h>

#include "base/clock.h"

struct presence;
struct slot;
struct worker;

/* After the queue and the slots. */
struct presence *presence_create(struct worker *worker);
/* Before the queue is destroyed; no handler runs any more. */
void presence_destroy(struct presence *presence);

/* The handler of this slot ran; `failed`: the task failed by it. */
void presence_count(struct presence *presence, const struct slot *slot, bool failed);
/* Something changed that people wait to see. */
void presence_tell(struct presence *presence);
/* Writes the last counts and takes the process off the lists, until the deadline at most. */
void presence_leave(struct presence *presence, struct instant deadline);
bool presence_is_leaving(const struct presence *presence);

#endif
