/* Stale grants: remains of locks that the lock nodes may still have, unseen from here. Either the release of a lock had
 * no answer, or a majority granted a lock too late to count. A stale grant refuses every task until its release
 * arrives. A refused task takes it for a holder and sleeps until the ttl is over, because no end of a task wakes it.
 *
 * So the waiters of such a lock are woken repeatedly: first after STALE_GRANTS_FIRST_NS, then after twice the pause
 * each time (at most STALE_GRANTS_PAUSE_MAX_NS), until the ttl is over. A waiter therefore sleeps at most about twice
 * as long as the release was late, or STALE_GRANTS_PAUSE_MAX_NS longer than that, and never beyond the ttl.
 *
 *     stale_grants_note(table, list, now, ttl)
 *     at stale_grants_next(table): while ((list = stale_grants_due(table, now)) != NULL) wake
 *
 * A list is in the table once. Noting it again prolongs its stay, but does not reset its pauses: while the nodes do not
 * answer, each woken task fails the same way and notes the list again, which must not accelerate the wakes. A table
 * keeps the latest STALE_GRANTS_MAX lists.
 *
 * Pure; one thread, the loop's. */
#ifndef WORKER_STALE_GRANTS_H
#define WORKER_STALE_GRANTS_H

#include <stdint.h>

#include "base/clock.h"

enum { STALE_GRANTS_MAX = 1024 };
#define STALE_GRANTS_FIRST_NS     (100 * NS_PER_MS)
#define STALE_GRANTS_PAUSE_MAX_NS (1 * NS_PER_S)

struct stale_grants;

struct stale_grants *stale_grants_create(void);
void stale_grants_destroy(struct stale_grants *table); /* NULL is fine */
/* A grant of a lock may remain for `lasts_ns` from now. */
void stale_grants_note(struct stale_grants *table, const char *list, struct instant now, int64_t lasts_ns);
/* When stale_grants_due next has a list; INSTANT_NEVER if nothing is noted. */
struct instant stale_grants_next(const struct stale_grants *table);
/* A list whose waiters must be woken now; it then counts as woken. Valid until the next call. NULL: none. */
const char *stale_grants_due(struct stale_grants *table, struct instant now);

#endif
