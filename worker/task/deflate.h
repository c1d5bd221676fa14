/* The format of zlib (RFC 1950), in which tasks keep their backtraces. It is there twice: deflate.c is zlib, and
 * deflate_stored.c is for the core, which needs no zlib. That one writes without compressing, which all can read, and
 * reads only what was written so. Pure; any thread. */
#ifndef WORKER_DEFLATE_H
#define WORKER_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

enum { DEFLATE_BYTES_MAX = 65535 };

/* At most DEFLATE_BYTES_MAX. */
void deflate_append(const char *bytes, size_t length, struct buffer *out);
/* False if it cannot be read, or gives more than `most` bytes; `out` is then unchanged. */
bool inflate_append(const char *bytes, size_t length, size_t most, struct buffer *out) MUST_CHECK;

#endif
