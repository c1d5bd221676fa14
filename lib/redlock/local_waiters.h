/* Which user in this process may ask the lock nodes for a resource: one at a time. The others wait here, in the order
 * in which they came, where waiting costs nobody anything.
 *
 *     struct local_waiters *waiters = local_waiters_create(seed);
 *     local_waiter_init(&waiter, ready);
 *     if (local_waiters_want(waiters, &waiter, keys, count))
 *         ... it has the turn of all keys at once; else ready(&waiter) runs later
 *     local_waiters_leave(waiters, &waiter);   while it waits, or when done: each key passes to the next waiter
 *
 * A waiter wants 1 to 16 keys, sorted and different. It waits for one key after another and keeps those
 * that it has. Because all go through the keys in the same order, they never wait for each other in a circle. A call
 * takes time for its keys only, however many wait.
 *
 * Pure: no clock, no I/O. The bytes of the keys are the caller's and must stay in place until the waiter leaves. One
 * thread, the loop's. */
#ifndef REDLOCK_LOCAL_WAITERS_H
#define REDLOCK_LOCAL_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

enum { LOCAL_KEYS_MAX = 16 };

struct local_waiters;
struct turn;

struct local_key {
    const char *bytes;
    size_t length;
};

/* Private; zeroed by local_waiter_init. */
struct local_waiter {
    void (*ready)(struct local_waiter *waiter);
    const struct local_key *keys;
    unsigned count;   /* 0: neither waits nor has turns */
    unsigned had;     /* the first so many keys are its own */
    struct list link; /* among the waiters of keys[had], or among those that are about to be ready */
    struct turn *turns[LOCAL_KEYS_MAX];
};

/* A random `seed` prevents names that were chosen to collide. */
struct local_waiters *local_waiters_create(uint64_t seed);
/* Waiters that have not left must not leave any more. NULL is harmless. */
void local_waiters_destroy(struct local_waiters *waiters);

/* `ready` runs once after a local_waiters_want that returned false, inside another waiter's local_waiters_leave, when
 * this one has all its turns. It may want and leave for any waiter. NULL: nobody has to know. */
void local_waiter_init(struct local_waiter *waiter, void (*ready)(struct local_waiter *waiter));

/* True if it has all its turns at once; `ready` then does not run. The waiter must have left before. */
bool local_waiters_want(struct local_waiters *waiters, struct local_waiter *waiter, const struct local_key *keys,
                        unsigned count);
/* Harmless when it has left already. */
void local_waiters_leave(struct local_waiters *waiters, struct local_waiter *waiter);

/* The waiter that has the turn of the key, perhaps still waiting for other keys; NULL = none. */
struct local_waiter *local_waiters_owner(const struct local_waiters *waiters, struct local_key key);
/* The waiter that has the turn for which this one waits; NULL = it waits for none. */
struct local_waiter *local_waiter_blocker(const struct local_waiter *waiter);
/* The one behind it, where it is the first, or waits. It wants one key; NULL = none. */
struct local_waiter *local_waiter_behind(const struct local_waiter *waiter);
/* How often in a row its turns were handed on, this time included; of several the most. 0 = it waited for none. */
unsigned local_waiter_handed(const struct local_waiter *waiter);
/* Resets that count for the turns that it has. */
void local_waiter_restart(struct local_waiter *waiter);

#endif
