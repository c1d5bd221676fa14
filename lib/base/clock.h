/* Two clocks, two types, so that they cannot be mixed up.
 *
 * struct instant    a point on CLOCK_BOOTTIME: never set back, and counting while the machine is suspended. Everything
 *                   that decides whether a lock is still held uses it (edge case E35: CLOCK_MONOTONIC stops in suspend,
 *                   so a lock would look younger than it is). struct wall_time a point on CLOCK_REALTIME: what people
 *                   and other programs read. It may jump, so no validity depends on it. Task records and log lines
 *                   contain it.
 *
 * Durations are plain int64_t with their unit in the name (timeout_ns, ttl_ms). Any thread may call these. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)
#define US_PER_S  INT64_C(1000000)
#define MS_PER_S  INT64_C(1000)

struct instant {
    int64_t ns;
};

struct wall_time {
    int64_t us;
};

/* Later than every deadline: "no deadline". */
#define INSTANT_NEVER ((struct instant){INT64_MAX})

struct instant instant_now(void);
struct wall_time wall_now(void);

/* `ns` may be negative: a moment before `from`. Returns INSTANT_NEVER on overflow. */
static inline struct instant instant_after(struct instant from, int64_t ns)
{
    struct instant after;
    return __builtin_add_overflow(from.ns, ns, &after.ns) ? INSTANT_NEVER : after;
}

static inline bool instant_before(struct instant a, struct instant b)
{
    return a.ns < b.ns;
}

/* True once `now` has reached `deadline`. */
static inline bool instant_reached(struct instant now, struct instant deadline)
{
    return now.ns >= deadline.ns;
}

static inline struct instant instant_earlier(struct instant a, struct instant b)
{
    return a.ns < b.ns ? a : b;
}

/* The largest durations stay so: "for ever". */
static inline int64_t ns_from_ms(int64_t ms)
{
    return ms > INT64_MAX / NS_PER_MS ? INT64_MAX : ms < INT64_MIN / NS_PER_MS ? INT64_MIN : ms * NS_PER_MS;
}

/* Rounds up, so that only no time becomes 0. */
static inline int64_t ms_from_ns(int64_t ns)
{
    return ns / NS_PER_MS + (ns % NS_PER_MS > 0);
}

/* Nanoseconds from `from` to `to`; negative when `to` lies before `from`. */
static inline int64_t instant_since(struct instant from, struct instant to)
{
    return to.ns - from.ns;
}

#endif
