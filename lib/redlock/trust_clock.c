#include "redlock/trust_clock.h"

#include <math.h>
#include <string.h>

#include "base/invariant.h"
#include "redlock/lease.h"

/* Far beyond any clock, and far enough from the ends of int64_t that nothing below overflows. */
static const int64_t latest_us = INT64_MAX / 4 / NS_PER_US;

bool trust_reading_makes_sense(const struct trust_reading *reading)
{
    return reading->node_us > 0 && reading->node_us <= latest_us && !instant_before(reading->answered, reading->asked);
}

/* rate x ns, rounded down; never overflows. */
static int64_t rate_of(const struct trust_promise *promise, int64_t ns)
{
    int64_t part = 1000000;
    return ns / part * promise->rate_ppm + ns % part * promise->rate_ppm / part;
}

/* How far bounds have moved apart since their origin. What is forgiven, is forgiven once in a window. */
static int64_t spread(const struct trust_promise *promise, struct instant origin, struct instant at)
{
    int64_t apart = instant_since(origin, at);
    apart = apart < 0 ? -apart : apart;
    return rate_of(promise, apart) + 2 + (apart / promise->window_ns + 1) * LEASE_FORGIVEN_NS;
}

/* Before the last sample its own bounds are what is known. */
static int64_t before_heard(const struct trust_clock *clock, const struct trust_promise *promise, struct instant *at)
{
    int64_t before = instant_since(*at, clock->heard);
    if (before <= 0)
        return 0;
    *at = clock->heard;
    return rate_of(promise, before) + 1;
}

int64_t trust_clock_low(const struct trust_clock *clock, const struct trust_promise *promise, struct instant at)
{
    int64_t more = before_heard(clock, promise, &at), low = INT64_MIN;
    for (unsigned i = 0; i < clock->count; i++) {
        int64_t bound = clock->bounds[i].low - spread(promise, clock->bounds[i].origin, at);
        low = bound > low ? bound : low;
    }
    return low - more;
}

int64_t trust_clock_high(const struct trust_clock *clock, const struct trust_promise *promise, struct instant at)
{
    int64_t more = before_heard(clock, promise, &at), high = INT64_MAX;
    for (unsigned i = 0; i < clock->count; i++) {
        int64_t bound = clock->bounds[i].high + spread(promise, clock->bounds[i].origin, at);
        high = bound < high ? bound : high;
    }
    return high + more;
}

/* The node's time was cut to whole microseconds when it was told. The upper bound is that of a time that was read when
 * it was asked for, the lower one that of one that was read when it was answered. */
static struct trust_bounds bounds_of(const struct trust_promise *promise, const struct trust_reading *reading)
{
    int64_t trip_ns = instant_since(reading->asked, reading->answered);
    int64_t node_ns = reading->node_us * NS_PER_US;
    return (struct trust_bounds){.origin = reading->asked,
                                 .low = node_ns - reading->answered.ns + rate_of(promise, trip_ns),
                                 .high = node_ns + (NS_PER_US - 1) - reading->asked.ns};
}

/* Both as bounds from the origin of the first on. */
static void merge(struct trust_bounds *bounds, const struct trust_promise *promise, const struct trust_bounds *newer)
{
    int64_t moved = rate_of(promise, instant_since(bounds->origin, newer->origin));
    bounds->low = newer->low + moved > bounds->low ? newer->low + moved : bounds->low;
    bounds->high = newer->high - moved < bounds->high ? newer->high - moved : bounds->high;
}

static void append(struct trust_clock *clock, const struct trust_bounds *bounds)
{
    if (clock->count == TRUST_CLOCK_BUCKETS) {
        clock->count--;
        memmove(&clock->bounds[0], &clock->bounds[1], clock->count * sizeof clock->bounds[0]);
    }
    clock->bounds[clock->count++] = *bounds;
}

/* What was the newest sample goes to the others of its time. */
static void keep(struct trust_clock *clock, const struct trust_promise *promise, const struct trust_bounds *fresh)
{
    int64_t span_ns = promise->window_ns / (TRUST_CLOCK_BUCKETS - 2);
    struct trust_bounds *newest = clock->count > 0 ? &clock->bounds[clock->count - 1] : NULL;
    struct trust_bounds *others = clock->count > 1 ? newest - 1 : NULL;
    if (others == NULL || instant_since(others->origin, newest->origin) >= span_ns) {
        append(clock, fresh);
        return;
    }
    merge(others, promise, newest);
    *newest = *fresh;
}

/* The newest bounds that tell of the step by themselves: it was after them. */
static struct instant stepped_after(const struct trust_clock *clock, const struct trust_promise *promise,
                                    const struct trust_reading *reading, const struct trust_span *told)
{
    for (unsigned i = clock->count - 1; i > 0; i--) {
        const struct trust_bounds *bounds = &clock->bounds[i];
        int64_t apart = spread(promise, bounds->origin, reading->answered);
        if (told->least > bounds->high + apart || told->most < bounds->low - apart)
            return bounds->origin;
    }
    return clock->bounds[0].origin;
}

/* The newest sample may have been on its way when our clock stood, and hide the first part of the step in its width. */
static struct trust_span with_hidden_part(const struct trust_clock *clock, const struct trust_promise *promise,
                                          const struct trust_reading *reading, const struct trust_span *told,
                                          struct trust_span moved)
{
    struct trust_clock before = *clock;
    if (--before.count == 0)
        return moved;
    int64_t least = told->least - trust_clock_high(&before, promise, reading->answered);
    int64_t most = told->most - trust_clock_low(&before, promise, reading->asked);
    if (moved.least > 0 && most > moved.most)
        moved.most = most;
    if (moved.most < 0 && least < moved.least)
        moved.least = least;
    return moved;
}

struct trust_clock_news trust_clock_read(struct trust_clock *clock, const struct trust_promise *promise,
                                         const struct trust_reading *reading)
{
    invariant(trust_reading_makes_sense(reading));
    struct trust_clock_news news = {.is_first = !clock->is_known};
    struct trust_bounds fresh = bounds_of(promise, reading);
    struct trust_span told = {reading->node_us * NS_PER_US - reading->answered.ns, fresh.high};
    if (!news.is_first) {
        int64_t low = trust_clock_low(clock, promise, reading->asked);
        int64_t high = trust_clock_high(clock, promise, reading->answered);
        news.moved = (struct trust_span){told.least - high, told.most - low};
        news.blur_ns = (high - low) + (told.most - told.least);
        news.is_step = news.moved.least > 0 || news.moved.most < 0;
        news.from = clock->bounds[clock->count - 1].origin;
    }
    if (news.is_step) {
        news.from = stepped_after(clock, promise, reading, &told);
        news.moved = with_hidden_part(clock, promise, reading, &told, news.moved);
    }
    if (news.is_step || news.is_first)
        *clock = (struct trust_clock){.is_known = true, .steady_since = reading->asked};
    keep(clock, promise, &fresh);
    clock->heard = reading->answered;
    return news;
}

/* The double next to INT64_MAX is above it. */
static int64_t whole(double number)
{
    if (number >= (double)INT64_MAX)
        return INT64_MAX;
    return number <= (double)INT64_MIN ? INT64_MIN : (int64_t)number;
}

static double ppm_of(double node_ns, double our_ns)
{
    return (node_ns / our_ns - 1) * 1e6;
}

/* The node cut both times to whole microseconds. A time that went back is the lower a rate, the shorter ours was. */
struct trust_span trust_rate_ppm(const struct trust_reading *first, const struct trust_reading *second)
{
    double shortest = (double)instant_since(first->answered, second->asked);
    double longest = (double)instant_since(first->asked, second->answered);
    if (shortest <= 0 || !trust_reading_makes_sense(first) || !trust_reading_makes_sense(second))
        return (struct trust_span){INT64_MIN, INT64_MAX};
    double least = (double)((second->node_us - first->node_us - 1) * NS_PER_US);
    double most = (double)((second->node_us - first->node_us + 1) * NS_PER_US);
    return (struct trust_span){whole(floor(ppm_of(least, least < 0 ? shortest : longest))),
                               whole(ceil(ppm_of(most, most < 0 ? longest : shortest)))};
}

static void sort(int64_t *numbers, unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        for (unsigned j = i; j > 0 && numbers[j] < numbers[j - 1]; j--) {
            int64_t smaller = numbers[j];
            numbers[j] = numbers[j - 1];
            numbers[j - 1] = smaller;
        }
}

int64_t trust_median_low(int64_t *numbers, unsigned count)
{
    invariant(count > 0);
    sort(numbers, count);
    return numbers[(count - 1) / 2];
}
