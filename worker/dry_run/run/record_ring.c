#include "worker/dry_run/run/record_ring.h"

#include <stdatomic.h>
#include <string.h>

#include "base/invariant.h"

/* Far enough apart that the two sides do not take the same line of the cache from each other. */
enum { CACHE_LINE = 64 };

/* Positions count bytes from the beginning of time, and never wrap. */
struct record_ring {
    size_t capacity;                             /* written before the fork, and never again */
    _Alignas(CACHE_LINE) _Atomic uint64_t end;   /* the writer's */
    _Atomic uint64_t lost;                       /* the writer's */
    _Alignas(CACHE_LINE) _Atomic uint64_t begin; /* the reader's */
    _Alignas(CACHE_LINE) char bytes[];
};

size_t record_ring_size(size_t capacity)
{
    invariant(capacity >= CACHE_LINE && (capacity & (capacity - 1)) == 0);
    return sizeof(struct record_ring) + capacity;
}

struct record_ring *record_ring_place(void *memory, size_t capacity)
{
    struct record_ring *ring = memory;
    invariant((uintptr_t)memory % CACHE_LINE == 0 && record_ring_size(capacity) % CACHE_LINE == 0);
    ring->capacity = capacity;
    return ring;
}

/* Free space belongs to the writer alone. */
static void bytes_in(struct record_ring *ring, uint64_t position, const char *from, size_t length)
{
    size_t offset = (size_t)position & (ring->capacity - 1);
    size_t first = length < ring->capacity - offset ? length : ring->capacity - offset;
    memcpy(ring->bytes + offset, from, first);
    memcpy(ring->bytes, from + first, length - first);
}

bool record_ring_put(struct record_ring *ring, const void *bytes, size_t length)
{
    uint64_t end = atomic_load_explicit(&ring->end, memory_order_relaxed);
    uint64_t begin = atomic_load_explicit(&ring->begin, memory_order_acquire); /* what the reader has read, it has */
    if (length > ring->capacity - (size_t)(end - begin)) {
        atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
        return false;
    }
    bytes_in(ring, end, bytes, length);
    atomic_store_explicit(&ring->end, end + length, memory_order_release);
    return true;
}

size_t record_ring_take(struct record_ring *ring, struct buffer *out)
{
    uint64_t begin = atomic_load_explicit(&ring->begin, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&ring->end, memory_order_acquire);
    if (end < begin || end - begin > ring->capacity)
        return 0; /* it was overwritten */
    size_t length = (size_t)(end - begin), offset = (size_t)begin & (ring->capacity - 1);
    size_t first = length < ring->capacity - offset ? length : ring->capacity - offset;
    buffer_append(out, ring->bytes + offset, first);
    buffer_append(out, ring->bytes, length - first);
    atomic_store_explicit(&ring->begin, end, memory_order_release);
    return length;
}

uint64_t record_ring_lost(const struct record_ring *ring)
{
    return atomic_load_explicit(&ring->lost, memory_order_relaxed);
}
