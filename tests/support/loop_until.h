/* Runs a loop until a condition holds: what tests of the loop's users have instead of sleeping. */
#ifndef SUPPORT_LOOP_UNTIL_H
#define SUPPORT_LOOP_UNTIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

/* Looks every two milliseconds. False when it does not hold within `limit_ns`. */
bool loop_until(struct loop *loop, bool (*condition)(void *context), void *context, int64_t limit_ns);
/* Runs it for a while; only for showing that something does not happen. */
void loop_for(struct loop *loop, int64_t duration_ns);

#endif
