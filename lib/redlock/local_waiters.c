/* A hash table of the keys that somebody wants, and for each a line of those who wait for it.
 *
 * A turn exists while it has an owner; it borrows the bytes of its key from the owner, so handing it on borrows them
 * anew. The last one to leave frees it, which also forgets how often it was handed on. */
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
    struct turn_key key;
    struct turn_claim *owner;
    struct list line; /* of claims */
    unsigned handed;
};

struct turns {
    uint64_t seed;
    struct turn **buckets;
    size_t bucket_count; /* a power of two */
    size_t count;
};

struct turns *turns_create(uint64_t seed)
{
    struct turns *turns = memory_new(struct turns);
    turns->seed = seed;
    turns->bucket_count = BUCKETS_MIN;
    turns->buckets = memory_zeroed(BUCKETS_MIN, sizeof(struct turn *));
    return turns;
}

/* --- the table ------------------------------------------------------------------------------------------------ */

static uint64_t key_hash(const struct turns *turns, struct turn_key key)
{
    uint64_t hash = hash_bytes(turns->seed, key.bytes, key.length);
    return hash ^ hash >> 32;
}

static struct turn **bucket_of(const struct turns *turns, uint64_t hash)
{
    return &turns->buckets[hash & (turns->bucket_count - 1)];
}

static struct turn *turn_find(const struct turns *turns, struct turn_key key, uint64_t hash)
{
    struct turn *turn = *bucket_of(turns, hash);
    while (turn != NULL && (turn->hash != hash || turn->key.length != key.length ||
                            memcmp(turn->key.bytes, key.bytes, key.length) != 0))
        turn = turn->next;
    return turn;
}

static void table_grow(struct turns *turns)
{
    struct turn **old = turns->buckets;
    size_t old_count = turns->bucket_count;
    turns->bucket_count *= 2;
    turns->buckets = memory_zeroed(turns->bucket_count, sizeof(struct turn *));
    for (size_t i = 0; i < old_count; i++) {
        for (struct turn *turn = old[i], *next = NULL; turn != NULL; turn = next) {
            struct turn **bucket = bucket_of(turns, turn->hash);
            next = turn->next;
            turn->next = *bucket;
            *bucket = turn;
        }
    }
    free(old);
}

static struct turn *turn_make(struct turns *turns, struct turn_key key, uint64_t hash, struct turn_claim *owner)
{
    if (turns->count == turns->bucket_count)
        table_grow(turns);
    struct turn *turn = memory_new(struct turn);
    struct turn **bucket = bucket_of(turns, hash);
    turn->hash = hash;
    turn->key = key;
    turn->owner = owner;
    list_init(&turn->line);
    turn->next = *bucket;
    *bucket = turn;
    turns->count++;
    return turn;
}

static void turn_drop(struct turns *turns, struct turn *turn)
{
    struct turn **place = bucket_of(turns, turn->hash);
    while (*place != turn)
        place = &(*place)->next;
    *place = turn->next;
    turns->count--;
    free(turn);
}

void turns_destroy(struct turns *turns)
{
    if (turns == NULL)
        return;
    for (size_t i = 0; i < turns->bucket_count; i++)
        while (turns->buckets[i] != NULL)
            turn_drop(turns, turns->buckets[i]);
    free(turns->buckets);
    free(turns);
}

/* --- claims --------------------------------------------------------------------------------------------------- */

void turn_claim_init(struct turn_claim *claim, void (*ready)(struct turn_claim *claim))
{
    *claim = (struct turn_claim){.ready = ready};
    list_init(&claim->link);
}

/* Takes one key after the other until somebody else has one; true when it has them all. */
static bool claim_go_on(struct turns *turns, struct turn_claim *claim)
{
    while (claim->had < claim->count) {
        struct turn_key key = claim->keys[claim->had];
        uint64_t hash = key_hash(turns, key);
        struct turn *turn = turn_find(turns, key, hash);
        claim->turns[claim->had] = turn != NULL ? turn : turn_make(turns, key, hash, claim);
        if (turn != NULL) {
            invariant(turn->owner != claim);
            list_append(&turn->line, &claim->link);
            return false;
        }
        claim->had++;
    }
    return true;
}

bool turns_want(struct turns *turns, struct turn_claim *claim, const struct turn_key *keys, unsigned count)
{
    invariant(claim->count == 0 && count >= 1 && count <= TURN_KEYS_MAX);
    claim->keys = keys;
    claim->count = count;
    claim->had = 0;
    return claim_go_on(turns, claim);
}

/* To the first in its line, which may have all its turns now. */
static void turn_hand_on(struct turns *turns, struct turn *turn, struct list *completed)
{
    struct list *first = list_take_first(&turn->line);
    if (first == NULL) {
        turn_drop(turns, turn);
        return;
    }
    struct turn_claim *next = list_owner(first, struct turn_claim, link);
    turn->owner = next;
    turn->key = next->keys[next->had];
    turn->handed++;
    next->had++;
    if (claim_go_on(turns, next))
        list_append(completed, &next->link);
}

/* All keys are handed on before anybody is told, who might change everything. */
void turns_leave(struct turns *turns, struct turn_claim *claim)
{
    struct list completed, *link = NULL;
    unsigned had = claim->had;
    list_init(&completed);
    list_remove(&claim->link);
    claim->count = claim->had = 0;
    for (unsigned i = 0; i < had; i++)
        turn_hand_on(turns, claim->turns[i], &completed);
    while ((link = list_take_first(&completed)) != NULL) {
        struct turn_claim *next = list_owner(link, struct turn_claim, link);
        next->ready(next);
    }
}

struct turn_claim *turns_owner(const struct turns *turns, struct turn_key key)
{
    const struct turn *turn = turn_find(turns, key, key_hash(turns, key));
    return turn != NULL ? turn->owner : NULL;
}

struct turn_claim *turn_claim_blocker(const struct turn_claim *claim)
{
    return claim->had < claim->count ? claim->turns[claim->had]->owner : NULL;
}

unsigned turn_claim_handed(const struct turn_claim *claim)
{
    unsigned most = 0;
    for (unsigned i = 0; i < claim->had; i++)
        if (claim->turns[i]->handed > most)
            most = claim->turns[i]->handed;
    return most;
}

void turn_claim_restart(struct turn_claim *claim)
{
    for (unsigned i = 0; i < claim->had; i++)
        claim->turns[i]->handed = 0;
}
