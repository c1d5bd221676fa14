/* Text in a page of HTML. What comes from outside goes through here and stays text: in an element, and in an attribute
 * in double quotes. Bytes that are not valid UTF-8, and controls, become question marks. Pure. */
#ifndef WORKER_MARKUP_H
#define WORKER_MARKUP_H

#include "base/buffer.h"

void markup_text(struct buffer *out, const char *text);
/* The same, formatted first; at most 1023 bytes of it. */
void markup_format(struct buffer *out, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
