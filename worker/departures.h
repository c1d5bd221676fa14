/* Locks that a task has left and that are being released: nobody waits for that, but whoever waits for the lock may
 * have to be woken once more.
 *
 * The waiters were woken when the task was settled, at the same moment as the release left. Who was refused because
 * the release came to the lock nodes later than that looks again within milliseconds, for a tenth of a second
 * (queue/waiting.h). A release that takes longer than DEPARTURE_LATE_NS wakes them again when it has ended.
 *
 * On the loop. If the process dies, the lock runs out, and the oldest waiter comes back by time. */
#ifndef WORKER_DEPARTURES_H
#define WORKER_DEPARTURES_H

#include "queue/waiting.h"
#include "redlock/redlock_loop.h"

#define DEPARTURE_LATE_NS (50 * NS_PER_MS)

struct departures;

struct departures *departures_create(struct loop *loop, struct queue *queue);
/* What is under way is forgotten; before the lock group is destroyed. NULL is fine. */
void departures_destroy(struct departures *departures);

/* Takes over a lock whose release was asked for a moment ago, and destroys it when that has ended. The lists are those
 * that are freed by it; none when an heir has it. */
void departures_add(struct departures *departures, struct redlock_lock *lock, const char *const *lists,
                    unsigned list_count);

#endif
