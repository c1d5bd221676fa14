/* Seats of a resource that several may hold at once (`limit` of a request). Each seat is an ordinary exclusive lock
 * on a key of its own, with a fence of its own. A client asks for one seat after another, each at most once in a pass,
 * and begins with the one that was free last.
 *
 *     seat_pass_begin(&pass, limit, seats_start(...));
 *     while ((seat = seat_pass_next(&pass)) != 0)
 *         ask there
 *
 * Holders are never counted by a majority: with quorum q of n nodes that would admit n * limit / q of them.
 *
 * The free seat of SEATS_REMEMBERED resources is remembered. A resource may overwrite the entry of another one, which
 * then needs one more request. Pure; one thread. */
#ifndef REDLOCK_SEATS_H
#define REDLOCK_SEATS_H

#include <stdbool.h>
#include <stdint.h>

enum { SEATS_REMEMBERED = 1024 };

struct seat_pass {
    uint8_t limit, next, left;
};

/* `start` is from 1 to `limit`. */
static inline void seat_pass_begin(struct seat_pass *pass, unsigned limit, unsigned start)
{
    *pass = (struct seat_pass){.limit = (uint8_t)limit, .next = (uint8_t)start, .left = (uint8_t)limit};
}

/* 0 once all seats have been tried. */
static inline unsigned seat_pass_next(struct seat_pass *pass)
{
    unsigned seat = pass->next;
    if (pass->left == 0)
        return 0;
    pass->left--;
    pass->next = (uint8_t)(seat % pass->limit + 1);
    return seat;
}

/* Zeroed: nothing is known. `resource` is a hash of its name. */
struct seats_seen {
    struct {
        uint64_t resource;
        unsigned seat;
    } free[SEATS_REMEMBERED];
};

static inline void seats_note_free(struct seats_seen *seen, uint64_t resource, unsigned seat)
{
    seen->free[resource % SEATS_REMEMBERED].resource = resource;
    seen->free[resource % SEATS_REMEMBERED].seat = seat;
}

static inline void seats_note_taken(struct seats_seen *seen, uint64_t resource, unsigned seat)
{
    if (seen->free[resource % SEATS_REMEMBERED].resource == resource &&
        seen->free[resource % SEATS_REMEMBERED].seat == seat)
        seen->free[resource % SEATS_REMEMBERED].seat = 0;
}

/* The seat with which a pass begins: the one that was free last, else any. */
static inline unsigned seats_start(const struct seats_seen *seen, uint64_t resource, unsigned limit, uint64_t noise)
{
    unsigned seat = seen->free[resource % SEATS_REMEMBERED].seat;
    bool is_known = seat != 0 && seat <= limit && seen->free[resource % SEATS_REMEMBERED].resource == resource;
    return is_known ? seat : (unsigned)(noise % limit) + 1;
}

#endif
