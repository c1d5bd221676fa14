#include "base/log_ring.h"

#include <string.h>

#include "base/invariant.h"

bool log_ring_is_empty(const struct log_ring *ring)
{
    return ring->head == ring->tail && !ring->wrapped;
}

size_t log_ring_filled(const struct log_ring *ring)
{
    return ring->wrapped ? ring->end - ring->head + ring->tail : ring->tail - ring->head;
}

/* Moves the tail to where `length` bytes fit. */
static bool room_find(struct log_ring *ring, size_t length)
{
    if (ring->wrapped)
        return ring->head - ring->tail >= length;
    if (sizeof ring->bytes - ring->tail >= length)
        return true;
    if (ring->head < length)
        return false;
    ring->end = ring->tail;
    ring->tail = 0;
    ring->wrapped = true;
    return true;
}

bool log_ring_add(struct log_ring *ring, const char *line, size_t length)
{
    if (!room_find(ring, length))
        return false;
    memcpy(ring->bytes + ring->tail, line, length);
    ring->tail += length;
    return true;
}

const char *log_ring_peek(const struct log_ring *ring, size_t limit, size_t *length)
{
    const char *first = ring->bytes + ring->head;
    size_t together = (ring->wrapped ? ring->end : ring->tail) - ring->head;
    if (together > limit) {
        const char *newline = memrchr(first, '\n', limit);
        invariant(newline != NULL);
        together = (size_t)(newline - first) + 1;
    }
    *length = together;
    return first;
}

void log_ring_drop(struct log_ring *ring, size_t length)
{
    ring->head += length;
    if (ring->wrapped && ring->head == ring->end) {
        ring->head = 0;
        ring->wrapped = false;
    }
    /* starting at the front again keeps a quiet log within few pages */
    if (log_ring_is_empty(ring))
        ring->head = ring->tail = 0;
}
