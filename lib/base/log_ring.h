/* Lines on their way to the log thread: bytes in a ring. A line is never split over the end of the ring, so that
 * whole lines can be handed to write(2) as they lie there. Private to the log; its lock guards the ring, but what
 * log_ring_peek returned may be read without it, because nothing touches it before log_ring_drop. */
#ifndef BASE_LOG_RING_H
#define BASE_LOG_RING_H

#include <stdbool.h>
#include <stddef.h>

enum { LOG_RING_BYTES = 256 * 1024 };

/* A zeroed one is empty. In order: bytes[head..tail); or, once the tail has wrapped, bytes[head..end) and then
 * bytes[0..tail). */
struct log_ring {
    size_t head, tail, end;
    bool wrapped;
    char bytes[LOG_RING_BYTES];
};

bool log_ring_is_empty(const struct log_ring *ring);
size_t log_ring_filled(const struct log_ring *ring); /* bytes of lines in it */
/* False when there is no room. The line ends with its newline. */
bool log_ring_add(struct log_ring *ring, const char *line, size_t length);
/* The oldest lines, as many as lie together and fit into `limit` bytes; no line is longer than that. */
const char *log_ring_peek(const struct log_ring *ring, size_t limit, size_t *length);
void log_ring_drop(struct log_ring *ring, size_t length); /* the first `length` bytes of what was peeked at */

#endif
