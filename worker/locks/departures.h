/* Locks that a task has left and that are being released: nobody waits for that, but whoever waits for the lock may
 * have to be woken once more.
 *
 * The waiters were woken when the task was settled, at the same moment as the release left. Who was refused because
 * the release came to the lock nodes later than that looks again within milliseconds, for a tenth of a second
 * (queue/waiting.h). A release that takes longer than DEPARTURE_LATE_NS wakes them again when it has ended. When too
 * few nodes have answered it then, nobody knows when it will arrive: so they are woken again and again (remnants.h),
 * as they are after a lock that was refused, and may be in the way of others all the same (departures_doubt).
 *
 * On the loop. If the process dies, the lock runs out, and the oldest waiter comes back by time. */
#ifndef WORKER_DEPARTURES_H
#define WORKER_DEPARTURES_H

#include "queue/waiting.h"
#include "redlock/redlock_loop.h"

#define DEPARTURE_LATE_NS (50 * NS_PER_MS)

struct departures;

/* `terms` are read whenever something departs: what is left of a lock lasts for their ttl. */
struct departures *departures_create(struct loop *loop, struct queue *queue, const struct redlock_terms *terms);
/* What is under way is forgotten; before the lock group is destroyed. NULL is fine. */
void departures_destroy(struct departures *departures);

/* Takes over a lock whose release was asked for a moment ago, and destroys it when that has ended. The lists are those
 * that are freed by it; none when an heir has it. */
void departures_add(struct departures *departures, struct redlock_lock *lock, const char *const *lists,
                    unsigned list_count);
/* Something that nobody holds may be left at the lock nodes, of a lock with these lists. */
void departures_doubt(struct departures *departures, const char *const *lists, unsigned list_count);

#endif
