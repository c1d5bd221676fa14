/* Who of this process may ask the lock nodes for a resource. Of all that want one only one at a time asks; the others
 * wait here, in the order in which they came, where waiting costs nobody anything.
 *
 *     struct turns *turns = turns_create(seed);
 *     turn_claim_init(&claim, has_turns);
 *     if (turns_want(turns, &claim, keys, count)) ... all its turns are its own, at once; else has_turns(&claim) later
 *     turns_leave(turns, &claim);          while it waits, or when it is done: each key goes to the next in its line
 *
 * A claim is for 1 to 16 keys, sorted and different. It stands in the line of one key after the other, and keeps those
 * that it has; because everybody goes through the keys in the same order, those who wait for each other never form a
 * circle. Every call costs as much as there are keys in it, however many wait.
 *
 * Pure: no clock, no I/O. The bytes of the keys are the caller's and must stay where they are until it leaves. One
 * thread, the loop's. */
#ifndef REDLOCK_TURNS_H
#define REDLOCK_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

enum { TURN_KEYS_MAX = 16 };

struct turns;
struct turn;

struct turn_key {
    const char *bytes;
    size_t length;
};

/* One who wants turns. Private but for the functions below; zeroed by turn_claim_init. */
struct turn_claim {
    void (*ready)(struct turn_claim *claim);
    const struct turn_key *keys;
    unsigned count;   /* 0: neither waits nor has turns */
    unsigned had;     /* the first so many keys are its own */
    struct list link; /* in the line of keys[had], or among those that are about to be told */
    struct turn *turns[TURN_KEYS_MAX];
};

/* `seed` spreads the keys, so that nobody can choose names that collide. */
struct turns *turns_create(uint64_t seed);
/* Whoever is still in it is forgotten, and must not leave any more. NULL is harmless. */
void turns_destroy(struct turns *turns);

/* `ready` runs inside the turns_leave of somebody else, once a turns_want that answered false, when it has all its
 * turns. It may want and leave for any claim. */
void turn_claim_init(struct turn_claim *claim, void (*ready)(struct turn_claim *claim));

/* True when it has all its turns already; `ready` is then not called. The claim must have left before. */
bool turns_want(struct turns *turns, struct turn_claim *claim, const struct turn_key *keys, unsigned count);
/* Harmless when it has left already. */
void turns_leave(struct turns *turns, struct turn_claim *claim);

static inline bool turn_claim_has_all(const struct turn_claim *claim)
{
    return claim->count > 0 && claim->had == claim->count;
}

/* Who has the turn of the key; it may still be waiting for others. NULL when nobody has. */
struct turn_claim *turns_owner(const struct turns *turns, struct turn_key key);
/* Who has the turn that it waits for; NULL when it waits for none. */
struct turn_claim *turn_claim_blocker(const struct turn_claim *claim);
/* How often in a row its turns were handed on from one to the next, this time included; of several the most. 0 when it
 * waited for none. */
unsigned turn_claim_handed(const struct turn_claim *claim);
/* Counts from 0 again, for the turns that it has. */
void turn_claim_restart(struct turn_claim *claim);

#endif
