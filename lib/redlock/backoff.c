#include "redlock/backoff.h"

#include <math.h>

#include "base/clock.h"

/* Of an attempt, with the news of its success. */
#define SLOT_MIN_NS ((int64_t)2500 * NS_PER_US)
#define SLOT_MAX_NS (50 * NS_PER_MS)

enum { FEW = 40, SLOTS_MIN = 4, SPLITS_MAX = 5 };

/* The number of those who ask grows e-fold in so many slots. */
#define SLOTS_TO_GROW 4.0

int64_t backoff_attempt_ns(int64_t usual_ns, int64_t took_ns)
{
    return usual_ns == 0 ? took_ns : usual_ns + (took_ns - usual_ns) / 4;
}

static double slot_ns(int64_t attempt_ns)
{
    int64_t ns = 2 * attempt_ns;
    return (double)(ns < SLOT_MIN_NS ? SLOT_MIN_NS : ns > SLOT_MAX_NS ? SLOT_MAX_NS : ns);
}

int64_t backoff_after_release_ns(int64_t listeners, int64_t attempt_ns, double draw)
{
    double count = (double)listeners;
    double slots = listeners > FEW         ? SLOTS_TO_GROW * log(1 + draw * (count - 1))
                   : listeners > SLOTS_MIN ? draw * count
                                           : draw * SLOTS_MIN;
    return (int64_t)(slots * slot_ns(attempt_ns));
}

int64_t backoff_after_split_ns(unsigned splits, int64_t attempt_ns, double draw)
{
    unsigned doublings = splits < SPLITS_MAX ? splits : SPLITS_MAX;
    return (int64_t)(draw * slot_ns(attempt_ns) * (double)(1u << doublings));
}
