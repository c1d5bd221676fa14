#include "worker/dry_run/run/node_clock.h"

/* Two good clocks drift apart by less than 100 us a second: so fast an old reading loses its worth. */
#define DRIFT_PARTS 10000

int64_t node_clock_error(const struct node_clock *clock, struct instant now)
{
    return clock->error_ns + instant_since(clock->noted, now) / DRIFT_PARTS;
}

void node_clock_note(struct node_clock *clock, struct instant asked, struct instant answered, int64_t node_us)
{
    int64_t error_ns = instant_since(asked, answered) / 2;
    if (clock->is_known && node_clock_error(clock, answered) < error_ns)
        return;
    *clock = (struct node_clock){.is_known = true,
                                 .offset_ns = node_us * NS_PER_US - (asked.ns + error_ns),
                                 .error_ns = error_ns,
                                 .noted = answered};
}
