/* A hash table of the keys that locks of this process want, each with a list of waiters.
 *
 * A turn exists while it has an owner and borrows the bytes of its key from the owner, so handing it on borrows them
 * anew. The last owner frees it, which also resets its count. */
#include "redlock/local_waiters.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/memory.h"

enum { BUCKETS_MIN = 64 };

struct turn {
    struct turn *next; /* in its bucket */
    uint64_t hash;
    struct local_key key;
    struct local_waiter *owner;
    struct list waiters;
    unsigned handed;
};

struct local_waiters {
    uint64_t seed;
    struct turn **buckets;
    size_t bucket_count; /* a power of two */
    size_t count;
    struct turn *idle; /* as many as there were at once */
};

struct local_waiters *local_waiters_create(uint64_t seed)
{
    struct local_waiters *waiters = memory_new(struct local_waiters);
    waiters->seed = seed;
    waiters->bucket_count = BUCKETS_MIN;
    waiters->buckets = memory_zeroed(BUCKETS_MIN, sizeof(struct turn *));
    return waiters;
}

/* --- the table ------------------------------------------------------------------------------------------------ */

static uint64_t key_hash(const struct local_waiters *waiters, struct local_key key)
{
    uint64_t hash = hash_words(waiters->seed, key.bytes, key.length);
    return hash ^ hash >> 32;
}

static struct turn **bucket_of(const struct local_waiters *waiters, uint64_t hash)
{
    return &waiters->buckets[hash & (waiters->bucket_count - 1)];
}

static struct turn *turn_find(const struct local_waiters *waiters, struct local_key key, uint64_t hash)
{
    struct turn *turn = *bucket_of(waiters, hash);
    while (turn != NULL && (turn->hash != hash || turn->key.length != key.length ||
                            memcmp(turn->key.bytes, key.bytes, key.length) != 0))
        turn = turn->next;
    return turn;
}

static void table_grow(struct local_waiters *waiters)
{
    struct turn **old = waiters->buckets;
    size_t old_count = waiters->bucket_count;
    waiters->bucket_count *= 2;
    waiters->buckets = memory_zeroed(waiters->bucket_count, sizeof(struct turn *));
    for (size_t i = 0; i < old_count; i++) {
        for (struct turn *turn = old[i], *next = NULL; turn != NULL; turn = next) {
            struct turn **bucket = bucket_of(waiters, turn->hash);
            next = turn->next;
            turn->next = *bucket;
            *bucket = turn;
        }
    }
    free(old);
}

static struct turn *turn_make(struct local_waiters *waiters, struct local_key key, uint64_t hash,
                              struct local_waiter *owner)
{
    if (waiters->count == waiters->bucket_count)
        table_grow(waiters);
    struct turn **bucket = bucket_of(waiters, hash);
    struct turn *turn = waiters->idle;
    if (turn != NULL)
        waiters->idle = turn->next;
    else
        turn = memory_new(struct turn);
    *turn = (struct turn){.next = *bucket, .hash = hash, .key = key, .owner = owner};
    list_init(&turn->waiters);
    *bucket = turn;
    waiters->count++;
    return turn;
}

static void turn_drop(struct local_waiters *waiters, struct turn *turn)
{
    struct turn **place = bucket_of(waiters, turn->hash);
    while (*place != turn)
        place = &(*place)->next;
    *place = turn->next;
    waiters->count--;
    turn->next = waiters->idle;
    waiters->idle = turn;
}

void local_waiters_destroy(struct local_waiters *waiters)
{
    if (waiters == NULL)
        return;
    for (size_t i = 0; i < waiters->bucket_count; i++)
        while (waiters->buckets[i] != NULL)
            turn_drop(waiters, waiters->buckets[i]);
    for (struct turn *turn; (turn = waiters->idle) != NULL; free(turn))
        waiters->idle = turn->next;
    free(waiters->buckets);
    free(waiters);
}

/* --- waiters --------------------------------------------------------------------------------------------------- */

void local_waiter_init(struct local_waiter *waiter, void (*ready)(struct local_waiter *waiter))
{
    *waiter = (struct local_waiter){.ready = ready};
    list_init(&waiter->link);
}

/* Takes one key after another until it meets one with an owner; true when it has them all. */
static bool waiter_go_on(struct local_waiters *waiters, struct local_waiter *waiter)
{
    while (waiter->had < waiter->count) {
        struct local_key key = waiter->keys[waiter->had];
        uint64_t hash = key_hash(waiters, key);
        struct turn *turn = turn_find(waiters, key, hash);
        waiter->turns[waiter->had] = turn != NULL ? turn : turn_make(waiters, key, hash, waiter);
        if (turn != NULL) {
            invariant(turn->owner != waiter);
            list_append(&turn->waiters, &waiter->link);
            return false;
        }
        waiter->had++;
    }
    return true;
}

bool local_waiters_want(struct local_waiters *waiters, struct local_waiter *waiter, const struct local_key *keys,
                        unsigned count)
{
    invariant(waiter->count == 0 && count >= 1 && count <= LOCAL_KEYS_MAX);
    waiter->keys = keys;
    waiter->count = count;
    waiter->had = 0;
    return waiter_go_on(waiters, waiter);
}

/* To the first waiter, which may now have all its turns. */
static void turn_hand_on(struct local_waiters *waiters, struct turn *turn, struct list *completed)
{
    struct list *first = list_take_first(&turn->waiters);
    if (first == NULL) {
        turn_drop(waiters, turn);
        return;
    }
    struct local_waiter *next = list_owner(first, struct local_waiter, link);
    turn->owner = next;
    turn->key = next->keys[next->had];
    turn->handed++;
    next->had++;
    if (waiter_go_on(waiters, next))
        list_append(completed, &next->link);
}

/* All keys are handed on before any `ready` runs, because that may change everything. */
void local_waiters_leave(struct local_waiters *waiters, struct local_waiter *waiter)
{
    struct list completed, *link = NULL;
    unsigned had = waiter->had;
    list_init(&completed);
    list_remove(&waiter->link);
    waiter->count = waiter->had = 0;
    for (unsigned i = 0; i < had; i++)
        turn_hand_on(waiters, waiter->turns[i], &completed);
    while ((link = list_take_first(&completed)) != NULL) {
        struct local_waiter *next = list_owner(link, struct local_waiter, link);
        if (next->ready != NULL)
            next->ready(next);
    }
}

struct local_waiter *local_waiters_owner(const struct local_waiters *waiters, struct local_key key)
{
    const struct turn *turn = turn_find(waiters, key, key_hash(waiters, key));
    return turn != NULL ? turn->owner : NULL;
}

struct local_waiter *local_waiter_blocker(const struct local_waiter *waiter)
{
    return waiter->had < waiter->count ? waiter->turns[waiter->had]->owner : NULL;
}

struct local_waiter *local_waiter_behind(const struct local_waiter *waiter)
{
    const struct list *waiters = &waiter->turns[0]->waiters;
    const struct list *at = waiter->had > 0 ? waiters : &waiter->link;
    return at->next != waiters ? list_owner(at->next, struct local_waiter, link) : NULL;
}

unsigned local_waiter_handed(const struct local_waiter *waiter)
{
    unsigned most = 0;
    for (unsigned i = 0; i < waiter->had; i++)
        if (waiter->turns[i]->handed > most)
            most = waiter->turns[i]->handed;
    return most;
}

void local_waiter_restart(struct local_waiter *waiter)
{
    for (unsigned i = 0; i < waiter->had; i++)
        waiter->turns[i]->handed = 0;
}
