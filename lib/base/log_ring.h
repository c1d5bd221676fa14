/* Lines on their way to the log thread, in a ring of bytes. A line is never split over the end of the ring, so
 * write(2) takes whole lines from the ring. Private to the log, whose lock guards the ring. What log_ring_peek
 * returned may be read without the lock: nothing changes it before log_ring_drop. */
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
/* The oldest lines, as many as are contiguous and fit into `limit` bytes. No line is longer than `limit`. */
const char *log_ring_peek(const struct log_ring *ring, size_t limit, size_t *length);
/* Removes the first `length` bytes that log_ring_peek returned. */
void log_ring_drop(struct log_ring *ring, size_t length);

#endif
