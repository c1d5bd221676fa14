#include "redlock/trust_clock.h"

#include "base/invariant.h"

enum { RATE_DIVISOR = 100 }; /* 1 % */

/* What time services correct in one go without being asked; the drift that every validity allows for covers it. */
#define SMALL_STEP_NS (5 * NS_PER_MS)

/* Far beyond any clock, and far enough from the ends of int64_t that nothing below overflows. */
static const int64_t latest_us = INT64_MAX / 4 / NS_PER_US;

bool trust_reading_makes_sense(const struct trust_reading *reading)
{
    return reading->node_us > 0 && reading->node_us <= latest_us && !instant_before(reading->answered, reading->asked);
}

static int64_t spread(const struct trust_clock *clock, struct instant at)
{
    int64_t apart = instant_since(clock->sampled, at);
    return (apart < 0 ? -apart : apart) / RATE_DIVISOR + 1;
}

int64_t trust_clock_low(const struct trust_clock *clock, struct instant at)
{
    return clock->low - spread(clock, at);
}

int64_t trust_clock_high(const struct trust_clock *clock, struct instant at)
{
    return clock->high + spread(clock, at);
}

/* The node's time was cut to whole microseconds when it was told. */
static struct trust_clock clock_of(const struct trust_reading *reading)
{
    return (struct trust_clock){.is_known = true,
                                .low = reading->node_us * NS_PER_US - reading->answered.ns,
                                .high = reading->node_us * NS_PER_US + (NS_PER_US - 1) - reading->asked.ns,
                                .sampled = reading->asked,
                                .heard = reading->answered,
                                .steady_since = reading->asked};
}

struct trust_clock_news trust_clock_read(struct trust_clock *clock, const struct trust_reading *reading)
{
    invariant(trust_reading_makes_sense(reading));
    struct trust_clock fresh = clock_of(reading);
    struct trust_clock_news news = {.is_first = !clock->is_known, .from = clock->sampled};
    if (news.is_first) {
        *clock = fresh;
        return news;
    }
    int64_t low = trust_clock_low(clock, reading->answered), high = trust_clock_high(clock, reading->answered);
    news.blur_ns = (high - low) + (fresh.high - fresh.low) + 2 * SMALL_STEP_NS;
    bool fits = fresh.low <= high && fresh.high >= low;
    news.moved = (struct trust_span){fresh.low - high - SMALL_STEP_NS, fresh.high - low + SMALL_STEP_NS};
    news.is_step = news.moved.least > 0 || news.moved.most < 0;
    if (!news.is_step)
        fresh.steady_since = clock->steady_since;
    if (!fits || fresh.high - fresh.low <= high - low)
        *clock = fresh;
    else
        clock->heard = reading->answered;
    return news;
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
