/* What may be left of locks at the lock nodes after they were given up, and that nobody can see from here: the release
 * of a lock had no answer, or a majority may have granted one that was refused all the same (answers came too late). It
 * refuses everybody until its release has arrived, and whoever it refused takes it for a holder, and sleeps until the
 * ttl is over: no end of a task will wake him.
 *
 * So what waits for such a lock is told again and again that it is free: STALE_GRANTS_FIRST_NS after it was given up,
 * and after twice the pause each time, but no more than STALE_GRANTS_PAUSE_MAX_NS, until the ttl of what is left is
 * over. Who waits sleeps about as long again as the release was late, or that much longer, and never longer than if
 * nobody had told him.
 *
 *     stale_grants_note(table, list, now, ttl)
 *     at stale_grants_next(table): while ((list = stale_grants_due(table, now)) != NULL) tell
 *
 * A list is in the table once. Noted again it stays for longer, and its pauses go on as they were: where the nodes
 * give nobody an answer, whoever is woken here is refused so, too, and nobody is to be woken ever faster by that. A
 * table has STALE_GRANTS_MAX lists, the latest ones.
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
/* Something of a lock may be left for `lasts_ns` from now. */
void stale_grants_note(struct stale_grants *table, const char *list, struct instant now, int64_t lasts_ns);
/* When stale_grants_due has something; INSTANT_NEVER when nothing is noted. */
struct instant stale_grants_next(const struct stale_grants *table);
/* A list of which it is to be told that it is free, and which counts as told then; valid until the next call. NULL:
 * none. */
const char *stale_grants_due(struct stale_grants *table, struct instant now);

#endif
