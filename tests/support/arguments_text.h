/* What counters hand to a request, as text for comparisons: pairs of arguments in the wire format as "NAME=COUNTS;". */
#ifndef SUPPORT_ARGUMENTS_TEXT_H
#define SUPPORT_ARGUMENTS_TEXT_H

#include "base/buffer.h"

/* All of them; empties the buffer. Fails the test when there are not exactly so many. Valid until the next call. */
const char *arguments_text(struct buffer *arguments, unsigned pairs);

#endif
