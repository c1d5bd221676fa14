/* Locks that a task has left and that are being released: nobody waits for that, but whoever waits for the lock may
 * have to be woken once more.
 *
 * The waiters were woken when the task was settled, at the same moment as the release left. Who was refused because
 * the release came to the lock nodes later than that looks again within milliseconds, for a tenth of a second
 * (queue/waiting.h). A release that takes longer than PENDING_RELEASE_LATE_NS wakes them again when it has ended. When
 * too few nodes have answered it then, nobody knows when it will arrive: so they are woken again and again
 * (stale_grants.h), as they are after a lock that was refused, and may be in the way of others all the same
 * (late_releases_doubt).
 *
 * On the loop. If the process dies, the lock runs out, and the oldest waiter comes back by time. */
#ifndef WORKER_PENDING_RELEASES_H
#define WORKER_PENDING_RELEASES_H

#include "queue/waiting.h"
#include "redlock/redlock_loop.h"

#define PENDING_RELEASE_LATE_NS (50 * NS_PER_MS)

struct late_releases;

/* `terms` are read whenever a lock is released: what is left of a lock lasts for their ttl. */
struct late_releases *late_releases_create(struct loop *loop, struct queue *queue, const struct redlock_terms *terms);
/* What is under way is forgotten; before the lock group is destroyed. NULL is fine. */
void late_releases_destroy(struct late_releases *pending);

/* Takes over a lock whose release was asked for a moment ago, and destroys it when that has ended. The lists are those
 * that are freed by it; none when a successor has it. */
void late_releases_add(struct late_releases *pending, struct redlock_lock *lock, const char *const *lists,
                       unsigned list_count);
/* Something that nobody holds may be left at the lock nodes, of a lock with these lists. */
void late_releases_doubt(struct late_releases *pending, const char *const *lists, unsigned list_count);

#endif
