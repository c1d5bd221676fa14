/* The requests of a connection whose replies are still to come, in the order in which the replies will come: a ring
 * that grows by doubling and never shrinks. A request is named by its sequence number, which counts up for the whole
 * life of the node; pointers into the ring do not survive a push. Private to lib/redis. Loop thread only. */
#ifndef REDIS_PENDING_H
#define REDIS_PENDING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/memory.h"

struct redis_call;

enum pending_kind {
    PENDING_CALL,
    PENDING_RELOAD, /* SCRIPT LOAD after a NOSCRIPT */
    PENDING_PULSE,
    /* The handshake. */
    PENDING_AUTH,
    PENDING_SELECT,
    PENDING_CLIENT_NAME,
    PENDING_ROLE,
    PENDING_SCRIPT,
    PENDING_PING,
    PENDING_MASTER, /* the question to a sentinel */
};

struct pending {
    struct redis_call *call; /* NULL: nobody waits (any more), the reply is discarded */
    struct instant deadline;
    struct instant queued_at;
    uint32_t length; /* bytes of the request */
    uint16_t script; /* of PENDING_SCRIPT */
    uint8_t kind;    /* enum pending_kind */
    bool expired : 1;
    bool resent : 1; /* after NOSCRIPT: once at most */
};

struct pending_ring {
    struct pending *entries;
    size_t capacity;     /* a power of two, or 0 */
    uint64_t head, tail; /* sequence numbers: head <= entry < tail */
};

static inline bool pending_is_empty(const struct pending_ring *ring)
{
    return ring->head == ring->tail;
}

static inline struct pending *pending_at(const struct pending_ring *ring, uint64_t sequence)
{
    invariant(sequence >= ring->head && sequence < ring->tail);
    return &ring->entries[sequence & (ring->capacity - 1)];
}

static inline struct pending pending_pop(struct pending_ring *ring)
{
    struct pending first = *pending_at(ring, ring->head);
    ring->head++;
    return first;
}

static inline void pending_grow(struct pending_ring *ring)
{
    size_t capacity = ring->capacity > 0 ? ring->capacity * 2 : 64;
    struct pending *entries = memory_resize(NULL, capacity, sizeof *entries);
    for (uint64_t sequence = ring->head; sequence < ring->tail; sequence++)
        entries[sequence & (capacity - 1)] = *pending_at(ring, sequence);
    free(ring->entries);
    ring->entries = entries;
    ring->capacity = capacity;
}

/* Returns the sequence number of the new entry. */
static inline uint64_t pending_push(struct pending_ring *ring, struct pending entry)
{
    if (ring->tail - ring->head == ring->capacity)
        pending_grow(ring);
    ring->entries[ring->tail & (ring->capacity - 1)] = entry;
    return ring->tail++;
}

#endif
