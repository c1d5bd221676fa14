/* The clock of a Redis node as seen from this machine, so that times of several hosts can be compared: each measures
 * how far its own CLOCK_BOOTTIME is from the node's TIME, by the round trip that took least (Cristian, "Probabilistic
 * clock synchronization", 1989). Pure.
 *
 *     node_clock_note(&clock, asked, answered, node_us);
 *     here = theirs.ns + node_clock_between(&of_their_host, &of_this_host)        */
#ifndef WORKER_DRY_RUN_NODE_CLOCK_H
#define WORKER_DRY_RUN_NODE_CLOCK_H

#include <stdbool.h>

#include "base/clock.h"

struct node_clock {
    bool is_known;
    int64_t offset_ns; /* the node's time since 1970 less CLOCK_BOOTTIME here */
    int64_t error_ns;  /* at most, when it was noted */
    struct instant noted;
};

/* `answered` came to a question that was sent at `asked`; both of this host. */
void node_clock_note(struct node_clock *clock, struct instant asked, struct instant answered, int64_t node_us);

/* How far the offset may be off by now, with what the clocks may have drifted since. */
int64_t node_clock_error(const struct node_clock *clock, struct instant now);

/* What has to be added to an instant of the one host to have that of the other. */
static inline int64_t node_clock_between(const struct node_clock *from, const struct node_clock *to)
{
    return from->offset_ns - to->offset_ns;
}

#endif
