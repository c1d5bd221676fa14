/* What other threads may know about a lock: two words that are compared with the clock, and a descriptor for poll.
 *
 * The loop publishes, anybody reads. The descriptor is a timerfd on CLOCK_BOOTTIME that the kernel makes readable at
 * the end of the validity, so that it tells also when the loop is stuck. It is made by the thread that first asks for
 * it; whoever changes the end, or makes the descriptor, sets it from the word and looks at the word again, so that the
 * last setting is always that of the last word. */
#include "redlock/validity.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

/* At once for what is not held: a timer set to zero would never fire. */
static void timer_arm(int descriptor, int64_t until)
{
    int64_t at = until > 0 ? until : 1;
    struct itimerspec when = {.it_value = {.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S}};
    (void)timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &when, NULL);
}

static void timer_follow(struct redlock_validity *validity, int descriptor)
{
    int64_t until = 0;
    do {
        until = atomic_load(&validity->until);
        timer_arm(descriptor, until);
    } while (atomic_load(&validity->until) != until);
}

/* Stored as one more than it is, so that zeroed memory has none. */
static int descriptor_of(const struct redlock_validity *validity)
{
    return atomic_load(&validity->descriptor) - 1;
}

void validity_publish(struct redlock_validity *validity, struct instant until, struct instant danger_from)
{
    if (atomic_load_explicit(&validity->danger_from, memory_order_relaxed) != danger_from.ns)
        atomic_store_explicit(&validity->danger_from, danger_from.ns, memory_order_release);
    if (atomic_load_explicit(&validity->until, memory_order_relaxed) == until.ns)
        return;
    atomic_store(&validity->until, until.ns);
    if (descriptor_of(validity) >= 0)
        timer_follow(validity, descriptor_of(validity));
}

void validity_end(struct redlock_validity *validity)
{
    int descriptor = atomic_exchange(&validity->descriptor, 0) - 1;
    if (descriptor >= 0)
        close(descriptor);
}

int64_t redlock_validity_left_ns(const struct redlock_validity *validity)
{
    if (validity == NULL)
        return 0;
    int64_t left = atomic_load_explicit(&validity->until, memory_order_acquire) - instant_now().ns;
    return left > 0 ? left : 0;
}

bool redlock_validity_in_danger(const struct redlock_validity *validity)
{
    return validity == NULL || atomic_load_explicit(&validity->danger_from, memory_order_acquire) <= instant_now().ns;
}

int redlock_validity_descriptor(struct redlock_validity *validity)
{
    if (validity == NULL)
        return -1;
    if (descriptor_of(validity) >= 0)
        return descriptor_of(validity);
    int made = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC), none = 0;
    if (made < 0)
        return -1;
    if (!atomic_compare_exchange_strong(&validity->descriptor, &none, made + 1))
        close(made);
    timer_follow(validity, descriptor_of(validity));
    return descriptor_of(validity);
}
