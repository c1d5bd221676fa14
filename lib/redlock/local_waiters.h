/* Who of this process may ask the lock nodes for a resource. Of all that want one only one at a time asks; the others
 * wait here, in the order in which they came, where waiting costs nobody anything.
 *
 *     struct local_waiters *waiters = local_waiters_create(seed);
 *     local_waiter_init(&waiter, has_turns);
 *     if (local_waiters_want(waiters, &waiter, keys, count))
 *         ... it is its turn for all keys at once; else has_turns(&waiter) later
 *     local_waiters_leave(waiters, &waiter);   while it waits, or when done: each key goes to the next in line
 *
 * A waiter wants 1 to 16 keys, sorted and different. It stands in the line of one key after the other, and keeps those
 * that it has; because everybody goes through the keys in the same order, those who wait for each other never form a
 * circle. Every call costs as much as there are keys in it, however many wait.
 *
 * Pure: no clock, no I/O. The bytes of the keys are the caller's and must stay where they are until it leaves. One
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

/* One who wants turns. Private but for the functions below; zeroed by local_waiter_init. */
struct local_waiter {
    void (*ready)(struct local_waiter *claim);
    const struct local_key *keys;
    unsigned count;   /* 0: neither waits nor has turns */
    unsigned had;     /* the first so many keys are its own */
    struct list link; /* in the line of keys[had], or among those that are about to be told */
    struct turn *turns[LOCAL_KEYS_MAX];
};

/* `seed` spreads the keys, so that nobody can choose names that collide. */
struct local_waiters *local_waiters_create(uint64_t seed);
/* Whoever is still in it is forgotten, and must not leave any more. NULL is harmless. */
void local_waiters_destroy(struct local_waiters *waiters);

/* `ready` runs inside the local_waiters_leave of somebody else, once a local_waiters_want that answered false, when it
 * has all its turns. It may want and leave for any claim. */
void local_waiter_init(struct local_waiter *claim, void (*ready)(struct local_waiter *claim));

/* True when it has all its turns already; `ready` is then not called. The claim must have left before. */
bool local_waiters_want(struct local_waiters *waiters, struct local_waiter *claim, const struct local_key *keys,
                        unsigned count);
/* Harmless when it has left already. */
void local_waiters_leave(struct local_waiters *waiters, struct local_waiter *claim);

static inline bool local_waiter_has_all(const struct local_waiter *claim)
{
    return claim->count > 0 && claim->had == claim->count;
}

/* Who has the turn of the key; it may still be waiting for others. NULL when nobody has. */
struct local_waiter *local_waiters_owner(const struct local_waiters *waiters, struct local_key key);
/* Who has the turn that it waits for; NULL when it waits for none. */
struct local_waiter *local_waiter_blocker(const struct local_waiter *claim);
/* How often in a row its turns were handed on from one to the next, this time included; of several the most. 0 when it
 * waited for none. */
unsigned local_waiter_handed(const struct local_waiter *claim);
/* Counts from 0 again, for the turns that it has. */
void local_waiter_restart(struct local_waiter *claim);

#endif
