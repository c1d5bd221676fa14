/* Which tasks ended for good in this process lately, so that a second run can be logged: after a failover, or when the
 * queue node lost the end of its log, a task that was done is in its queue again.
 *
 *     ended_tasks_note(ended, "0123456789ab", now);
 *     if (ended_tasks_find(ended, "0123456789ab", now, &age_ns)) ...
 *
 * Bounded: of two jids that share a place the later one stays. So it may have forgotten one, and is never wrong about
 * another (but for one in 2^64). Pure; not thread-safe. */
#ifndef WORKER_ENDED_TASKS_H
#define WORKER_ENDED_TASKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum { ENDED_TASKS_MAX = 1 << 14 }; /* 256 KiB */

struct ended_tasks;

/* `seed`: producers choose the jids. */
struct ended_tasks *ended_tasks_create(uint64_t seed);
void ended_tasks_destroy(struct ended_tasks *ended);

void ended_tasks_note(struct ended_tasks *ended, const char *jid, struct instant now);
bool ended_tasks_find(const struct ended_tasks *ended, const char *jid, struct instant now, int64_t *age_ns);

#endif
