/* Sharing a resource with other Redlock clients. They announce no release and hear of none: a waiter of theirs asks
 * again every 200 ms or so, and one that was refused leaves no trace.
 *
 *   - Their lock may end at any moment, so a waiter of ours looks again: at first after 50 ms, then less and less often
 *     while the same value is there. So the lock is free for at most about a quarter of the hold, or 50 ms, and never
 *     for much more than a second.
 *   - For a minute after one of their locks was seen, this process gives way. It has the resource, by
 *     hand-overs and in several holds, until it has had it for as long as they, but not beyond its budget. Then it
 *     leaves the resource free for the time in which such a waiter asks once: their turn. If nobody took it, the
 *     process has it for its whole budget. Each process counts its own holds, so that many leave no more turns than
 *     one.
 *   - Before one of them has had the lock, nobody knows of it. So a resource that is wanted without a break is left
 *     free for one such turn after about 10 s of our holds, and then every 20 s. While nobody takes them they cost 1 %.
 *     After some turns that nobody took, those who were known become as rare.
 *
 * Equal times are fair enough without knowing how many they are: of a resource that many of one side and few of the
 * other want, each side gets at least half of what it would get if all took turns.
 *
 * A table of the latest resources, by hash; two that collide only lose their memory. Pure; zeroed at first; one thread,
 * the loop's. */
#ifndef REDLOCK_OTHER_CLIENTS_H
#define REDLOCK_OTHER_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define OTHER_CLIENTS_LOOK_MIN_NS (50 * NS_PER_MS)
#define OTHER_CLIENTS_LOOK_MAX_NS (1 * NS_PER_S)
#define OTHER_CLIENTS_MEMORY_NS   (60 * NS_PER_S)
#define OTHER_CLIENTS_RARELY_NS   (20 * NS_PER_S)
enum { OTHER_CLIENTS_TABLE = 128, OTHER_CLIENTS_TURNS = 8 };

struct contested_resource {
    uint64_t key;                   /* a hash */
    uint64_t value;                 /* of their last lock: a hash */
    struct instant value_since;     /* when it was first seen */
    struct instant until;           /* remembered; {0} = empty */
    struct instant since;           /* their turn began */
    bool is_theirs;                 /* whose it is, as far as anybody knows */
    int64_t owed_ns;                /* for so long we have it before their next turn */
    unsigned missed;                /* turns in a row that they did not take */
    bool is_known;                  /* one of them was seen */
    struct instant left_free_until; /* nobody of ours may ask before then; {0} = it is not left to them */
};

struct other_clients {
    struct instant until; /* anything is remembered */
    struct contested_resource table[OTHER_CLIENTS_TABLE];
};

/* Whether a client of another library wrote the value: ours are 32 digits, a colon and the owner. */
bool other_clients_wrote(const char *value);

/* Notes that one of them holds the lock, with this value. */
void other_clients_seen(struct other_clients *others, uint64_t key, uint64_t value, struct instant now);
/* How long to wait before the next look at what other_clients_seen noted last. */
int64_t other_clients_look_ns(const struct other_clients *others, uint64_t key, struct instant now);
/* Notes that this process holds it. `budget_ns`: how long our waiters may have it in a row. */
void other_clients_passed(struct other_clients *others, uint64_t key, int64_t budget_ns, struct instant now);
/* Whether it is their turn, if the present hold ends now after `held_ns`. */
bool other_clients_are_next(const struct other_clients *others, uint64_t key, int64_t held_ns, struct instant now);
/* Notes that our hold has ended after `held_ns`. `was_wanted`: it began when another one had ended, so the resource was
 * not free before. */
void other_clients_had(struct other_clients *others, uint64_t key, int64_t held_ns, bool was_wanted,
                       struct instant now);
/* Leaves it free for them until then. */
void other_clients_let(struct other_clients *others, uint64_t key, struct instant now, struct instant until);
/* Until when it is left free; in the past if it is not. */
struct instant other_clients_let_until(const struct other_clients *others, uint64_t key);

#endif
