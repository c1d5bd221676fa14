/* Base64 (RFC 4648, section 4): with padding, without line breaks. Pure; any thread. */
#ifndef QUEUE_BASE64_H
#define QUEUE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

void base64_encode(const char *bytes, size_t length, struct buffer *out);

/* False if base64_encode writes this text for no bytes; `out` is then unchanged. */
bool base64_decode(const char *text, size_t length, struct buffer *out) MUST_CHECK;

#endif
