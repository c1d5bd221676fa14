#include "worker/commands/pretended_lock.h"

static struct instant after(const struct pretended_lock *lock, int64_t ns, bool is_given)
{
    return is_given ? instant_after(lock->taken, ns) : INSTANT_NEVER;
}

struct instant pretended_lock_end(const struct pretended_lock *lock)
{
    return instant_earlier(after(lock, lock->lose_after_ns, lock->lose_after_ns >= 0),
                           after(lock, lock->max_hold_ns, lock->max_hold_ns > 0));
}

/* A real lock is in danger for the last third of its ttl. One that is lost before it was once extended is in danger for
 * the second half of its life, so that there is something to see. */
static struct instant danger_begin(const struct pretended_lock *lock, struct instant end)
{
    if (lock->danger_after_ns >= 0)
        return after(lock, lock->danger_after_ns, true);
    if (end.ns == INSTANT_NEVER.ns)
        return INSTANT_NEVER;
    struct instant last_third = instant_after(end, -lock->ttl_ns / 3);
    struct instant half = instant_after(lock->taken, instant_since(lock->taken, end) / 2);
    return last_third.ns > half.ns ? last_third : half;
}

struct pretended_view pretended_lock_at(const struct pretended_lock *lock, struct instant now)
{
    struct instant end = pretended_lock_end(lock);
    struct instant danger = danger_begin(lock, end);
    struct pretended_view view = {
        .until = instant_earlier(instant_after(now, lock->ttl_ns), end),
        .danger_from = instant_earlier(instant_after(now, lock->ttl_ns / 3 * 2), danger),
        .next = instant_earlier(instant_after(now, lock->ttl_ns / 10), end),
        .lost = HF_NOT_CANCELLED,
    };
    if (instant_before(now, danger))
        view.next = instant_earlier(view.next, danger);
    if (!instant_reached(now, end))
        return view;
    view.lost = lock->max_hold_ns > 0 && end.ns == instant_after(lock->taken, lock->max_hold_ns).ns ? HF_HELD_TOO_LONG
                                                                                                    : HF_LOCK_LOST;
    view.next = INSTANT_NEVER;
    return view;
}
