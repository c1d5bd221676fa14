/* A ring of bytes in shared memory: one thread of one process writes records into it, one of another process reads
 * them.
 *
 *     struct record_ring *ring = record_ring_place(memory, 1 << 20);      before the fork; MAP_SHARED | MAP_ANONYMOUS
 *     record_ring_put(ring, bytes, length);                       the writer: never waits; full = it is counted
 *     record_ring_take(ring, &buffer);                            the reader: all that is there
 *
 * What is put becomes visible as a whole: the writer copies the bytes and then moves the end, in one store, so a writer
 * that is killed leaves nothing half. A reader that dies leaves a ring that fills up. A writer that runs wild may write
 * anything: the reader believes the positions only as far as they can be right, and record_read believes no byte. */
#ifndef WORKER_DRY_RUN_RECORD_RING_H
#define WORKER_DRY_RUN_RECORD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct record_ring; /* opaque */

/* So much memory takes a ring with room for `capacity` bytes, a power of two from 64 on. */
size_t record_ring_size(size_t capacity);
/* Makes one of fresh memory, which is zero, begins at a multiple of 64 bytes, and stays the caller's. Rings may lie one
 * behind the other. Once, before another process looks. */
struct record_ring *record_ring_place(void *memory, size_t capacity);

/* False when there is no room: then nothing was written, and it counts as one record that was lost. */
bool record_ring_put(struct record_ring *ring, const void *bytes, size_t length);
/* Appends all that was put and not taken yet; returns how many bytes. */
size_t record_ring_take(struct record_ring *ring, struct buffer *out);
/* Any thread of any process. */
uint64_t record_ring_lost(const struct record_ring *ring);

#endif
