/* How long to wait for the answer of a server, as a pure function of its recent answer times. Private to lib/redis.
 *
 * The timeout is twice the longest answer time of the last half minute to minute, within bounds that the caller sets.
 * TCP's mean and variance would forget a pause within milliseconds: a server that answers thousands of times a second
 * nearly always answers at once. What matters here is the pause that recurs.
 *
 * Answers after their deadline count, because the timeout could not grow otherwise. Calls without an answer do not. */
#ifndef REDIS_ANSWER_TIMES_H
#define REDIS_ANSWER_TIMES_H

#include "base/clock.h"

#define ANSWER_WINDOW_NS (30 * NS_PER_S)

struct answer_times {
    struct instant since;          /* when the present window began */
    int64_t longest_ns, former_ns; /* of this window, and of the one before */
};

static inline void answer_times_note(struct answer_times *times, int64_t took_ns, struct instant now)
{
    int64_t age_ns = instant_since(times->since, now);
    if (age_ns >= ANSWER_WINDOW_NS) {
        bool follows = age_ns < 2 * ANSWER_WINDOW_NS;
        times->former_ns = follows ? times->longest_ns : 0;
        times->longest_ns = 0;
        times->since = follows ? instant_after(times->since, ANSWER_WINDOW_NS) : now;
    }
    if (took_ns > times->longest_ns)
        times->longest_ns = took_ns;
}

/* From `least_ns` to `most_ns`. */
static inline int64_t answer_timeout_ns(const struct answer_times *times, int64_t least_ns, int64_t most_ns,
                                        struct instant now)
{
    int64_t age_ns = instant_since(times->since, now), longest_ns = times->longest_ns;
    if (age_ns >= 2 * ANSWER_WINDOW_NS)
        longest_ns = 0;
    else if (age_ns < ANSWER_WINDOW_NS && times->former_ns > longest_ns)
        longest_ns = times->former_ns;
    int64_t wanted_ns = longest_ns > most_ns / 2 ? most_ns : 2 * longest_ns;
    return wanted_ns > least_ns ? wanted_ns : least_ns;
}

#endif
