/* Memory for one reply: allocated in pieces, freed all at once. Pieces never move. Between replies at most
 * ARENA_KEPT_MAX bytes stay allocated, whatever the largest reply was. Loop thread only. */
#ifndef REDIS_ARENA_H
#define REDIS_ARENA_H

#include <stddef.h>

enum { ARENA_BLOCK_MIN = 16 * 1024, ARENA_KEPT_MAX = 256 * 1024 };

struct arena_block;

struct arena {
    struct arena_block *newest; /* a zeroed struct is an empty arena */
    size_t used;                /* bytes taken from the newest block */
    size_t total;               /* bytes taken since the last reset */
};

/* Uninitialised memory, aligned for any type. */
void *arena_take(struct arena *arena, size_t size);
void arena_reset(struct arena *arena);
void arena_fini(struct arena *arena);

#endif
