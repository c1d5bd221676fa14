/* Places of a resource that several may hold at once (`limit` of a request). Each place is an ordinary exclusive lock
 * on a key of its own, with a fence of its own. A client asks for one place after another, each at most once in a pass,
 * and begins with the one that was free last.
 *
 *     place_pass_begin(&pass, limit, places_start(...));
 *     while ((place = place_pass_next(&pass)) != 0)
 *         ask there
 *
 * Holders are never counted by a majority: with quorum q of n nodes that would admit n * limit / q of them.
 *
 * The free place of PLACES_REMEMBERED resources is remembered. A resource may overwrite the entry of another one, which
 * then needs one more request. Pure; one thread. */
#ifndef REDLOCK_PLACES_H
#define REDLOCK_PLACES_H

#include <stdbool.h>
#include <stdint.h>

enum { PLACES_REMEMBERED = 1024 };

struct place_pass {
    uint8_t limit, next, left;
};

/* `start` is from 1 to `limit`. */
static inline void place_pass_begin(struct place_pass *pass, unsigned limit, unsigned start)
{
    *pass = (struct place_pass){.limit = (uint8_t)limit, .next = (uint8_t)start, .left = (uint8_t)limit};
}

/* 0 once all places have been tried. */
static inline unsigned place_pass_next(struct place_pass *pass)
{
    unsigned place = pass->next;
    if (pass->left == 0)
        return 0;
    pass->left--;
    pass->next = (uint8_t)(place % pass->limit + 1);
    return place;
}

/* Zeroed: nothing is known. `resource` is a hash of its name. */
struct places_seen {
    struct {
        uint64_t resource;
        unsigned place;
    } free[PLACES_REMEMBERED];
};

static inline void places_note_free(struct places_seen *seen, uint64_t resource, unsigned place)
{
    seen->free[resource % PLACES_REMEMBERED].resource = resource;
    seen->free[resource % PLACES_REMEMBERED].place = place;
}

static inline void places_note_taken(struct places_seen *seen, uint64_t resource, unsigned place)
{
    if (seen->free[resource % PLACES_REMEMBERED].resource == resource &&
        seen->free[resource % PLACES_REMEMBERED].place == place)
        seen->free[resource % PLACES_REMEMBERED].place = 0;
}

/* The place with which a pass begins: the one that was free last, else any. */
static inline unsigned places_start(const struct places_seen *seen, uint64_t resource, unsigned limit, uint64_t noise)
{
    unsigned place = seen->free[resource % PLACES_REMEMBERED].place;
    bool is_known = place != 0 && place <= limit && seen->free[resource % PLACES_REMEMBERED].resource == resource;
    return is_known ? place : (unsigned)(noise % limit) + 1;
}

#endif
