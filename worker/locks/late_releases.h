/* Releases in progress of locks that tasks have left. No task waits for the release itself, but waiters for the lock
 * may have to be woken again.
 *
 * Settling the task woke the waiters, at the moment when the release was sent. A waiter that was refused because the
 * release reached the lock nodes later looks again within milliseconds, for a tenth of a second (queue/waiting.h). A
 * release that takes longer than LATE_RELEASE_NS wakes the waiters again when it has ended. If too few nodes
 * have answered by then, its time of arrival is unknown, so the waiters are woken repeatedly (stale_grants.h). The same
 * happens after a refused lock that may still block others (late_releases_doubt).
 *
 * Runs on the loop. If the process dies, the lock expires, and the oldest waiter comes back by time. */
#ifndef WORKER_LATE_RELEASES_H
#define WORKER_LATE_RELEASES_H

#include "queue/waiting.h"
#include "redlock/redlock_loop.h"

#define LATE_RELEASE_NS (50 * NS_PER_MS)

struct late_releases;

/* Reads `terms` at every release: remains of a lock last for their ttl. */
struct late_releases *late_releases_create(struct loop *loop, struct queue *queue, const struct redlock_terms *terms);
/* Drops the releases in progress. Call it before the lock group is destroyed. NULL is harmless. */
void late_releases_destroy(struct late_releases *late);

/* Takes over a lock that is being released, and destroys it afterwards. `lists` are those that the release frees;
 * none if a successor has the lock. */
void late_releases_add(struct late_releases *late, struct redlock_lock *lock, const char *const *lists,
                       unsigned list_count);
/* The lock nodes may keep remains of a lock with these lists, which no task holds. */
void late_releases_doubt(struct late_releases *late, const char *const *lists, unsigned list_count);

#endif
