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

/* Runs the loop until the condition holds; fails the test when it never does. For those that include test.h: this
 * header does not, because benchmarks use it, and have a fail() of their own. */
#define loop_await(loop, condition)                                                                                    \
    do {                                                                                                               \
        struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);                                      \
        while (!(condition)) {                                                                                         \
            if (instant_reached(instant_now(), patience))                                                              \
                fail_msg("never came true: %s", #condition);                                                           \
            loop_for(loop, NS_PER_MS);                                                                                 \
        }                                                                                                              \
    } while (0)

#endif
