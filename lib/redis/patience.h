/* How long to wait for the answer of a server: as a pure function of what its answers took of late.
 *
 * Twice the longest of the last half minute to minute, within bounds that the caller sets. A mean with its variance, as
 * TCP keeps it, would forget a pause within milliseconds, because a server that is asked thousands of times a second
 * answers nearly all of it at once. What is looked for is the pause that comes again.
 *
 * Answers that came after their deadline count: a patience that only learned from those in time would never grow. What
 * was never answered does not. Private to lib/redis. */
#ifndef REDIS_PATIENCE_H
#define REDIS_PATIENCE_H

#include "base/clock.h"

#define PATIENCE_WINDOW_NS (30 * NS_PER_S)

struct patience {
    struct instant since;          /* when the present window began */
    int64_t longest_ns, former_ns; /* of this window, and of the one before */
};

static inline void patience_note(struct patience *patience, int64_t took_ns, struct instant now)
{
    int64_t age_ns = instant_since(patience->since, now);
    if (age_ns >= PATIENCE_WINDOW_NS) {
        bool follows = age_ns < 2 * PATIENCE_WINDOW_NS;
        patience->former_ns = follows ? patience->longest_ns : 0;
        patience->longest_ns = 0;
        patience->since = follows ? instant_after(patience->since, PATIENCE_WINDOW_NS) : now;
    }
    if (took_ns > patience->longest_ns)
        patience->longest_ns = took_ns;
}

/* From `least_ns` to `most_ns`. */
static inline int64_t patience_of(const struct patience *patience, int64_t least_ns, int64_t most_ns,
                                  struct instant now)
{
    int64_t age_ns = instant_since(patience->since, now), longest_ns = patience->longest_ns;
    if (age_ns >= 2 * PATIENCE_WINDOW_NS)
        longest_ns = 0;
    else if (age_ns < PATIENCE_WINDOW_NS && patience->former_ns > longest_ns)
        longest_ns = patience->former_ns;
    int64_t wanted_ns = longest_ns > most_ns / 2 ? most_ns : 2 * longest_ns;
    return wanted_ns > least_ns ? wanted_ns : least_ns;
}

#endif
