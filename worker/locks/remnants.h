/* What may be left of locks at the lock nodes after they were given up, and that nobody can see from here: the release
 * of a lock had no answer, or a majority may have granted one that was refused all the same (answers came too late). It
 * refuses everybody until its release has arrived, and whoever it refused takes it for a holder, and sleeps until the
 * ttl is over: no end of a task will wake him.
 *
 * So what waits for such a lock is told again and again that it is free: REMNANTS_FIRST_NS after it was given up, and
 * after twice the pause each time, but no more than REMNANTS_PAUSE_MAX_NS, until the ttl of what is left is over. Who
 * waits sleeps about as long again as the release was late, or that much longer, and never longer than if nobody had
 * told him.
 *
 *     remnants_note(table, list, now, ttl)
 *     at remnants_next(table): while ((list = remnants_due(table, now)) != NULL) tell
 *
 * A list is in the table once. Noted again it stays for longer, and its pauses go on as they were: where the nodes
 * give nobody an answer, whoever is woken here is refused so, too, and nobody is to be woken ever faster by that. A
 * table has REMNANTS_MAX lists, the latest ones.
 *
 * Pure; one thread, the loop's. */
#ifndef WORKER_REMNANTS_H
#define WORKER_REMNANTS_H

#include <stdint.h>

#include "base/clock.h"

enum { REMNANTS_MAX = 1024 };
#define REMNANTS_FIRST_NS     (100 * NS_PER_MS)
#define REMNANTS_PAUSE_MAX_NS (1 * NS_PER_S)

struct remnants;

struct remnants *remnants_create(void);
void remnants_destroy(struct remnants *table); /* NULL is fine */
/* Something of a lock may be left for `lasts_ns` from now. */
void remnants_note(struct remnants *table, const char *list, struct instant now, int64_t lasts_ns);
/* When remnants_due has something; INSTANT_NEVER when nothing is noted. */
struct instant remnants_next(const struct remnants *table);
/* A list of which it is to be told that it is free, and which counts as told then; valid until the next call. NULL:
 * none. */
const char *remnants_due(struct remnants *table, struct instant now);

#endif
