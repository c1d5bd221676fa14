/* What has to be written next so that a lock group becomes the one that is wanted, as a pure function: from the markers
 * as they are to one write, or a wait, or the end. Nothing is remembered between two calls but how long was waited, so
 * whoever was killed in the middle, on whatever host, is followed by anybody who asks the same again.
 *
 * Giving a place of the group to another server takes two steps, because a majority with the old server and one with
 * the new server need not meet:
 *
 *   1. the place is made vacant in the markers of the other members, of a quorum of N at least (generation + 1).
 *      From then on whoever still works with the generation before finds less than a quorum of it. Then one longest
 *      ttl (lease_wait_ns) passes: what was granted with the old server's vote has expired.
 *   2. the newcomer's marker is written, with a fresh id in the vacant place (generation + 1), then those of the
 *      others. Any two quorums of N that matter now meet in the N - 1 that stay, whoever counts the newcomer.
 *
 * The invariants that the tests check over every interruption:
 *   - never can two disjoint quorums vote, be they of one generation or of two that follow each other;
 *   - an id is written to one server only: whoever draws an id writes it there first, before any other member knows it;
 *   - markers only go forward, by compare-and-set, one member after the other in the order of the configuration: of two
 *     operators who replace at the same time one is stopped where he meets the other;
 *   - what a member's marker says about its trusted run is left as it is.
 *
 * A node that lost its marker, and whose place cannot be proven, is treated like a newcomer at its own address: what it
 * forgot has expired when it votes again. Pure: no clock, no socket, no allocation. Any thread. */
#ifndef REDLOCK_MEMBERSHIP_H
#define REDLOCK_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock/marker.h"

/* What is known of a server. */
struct membership_node {
    const char *name;
    bool is_reached; /* what follows was just read */
    bool has_marker, bad_marker;
    struct marker marker;
    char text[MARKER_TEXT_MAX]; /* of the marker, as it is; "" = none */
    char run_id[MARKER_RUN_DIGITS + 1];
};

enum { MEMBERSHIP_NOBODY = -1 };

struct membership {
    unsigned nodes;                                 /* N as configured */
    struct membership_node node[MARKER_PLACES_MAX]; /* in the order of the configuration */
    int leaving;                                    /* whose place is given away, or MEMBERSHIP_NOBODY */
    const struct membership_node *newcomer;         /* who gets it: &node[leaving] itself, or a server outside */
    const char *new_id;                             /* fresh, MARKER_ID_DIGITS hexadecimal digits */
    uint32_t waited_for; /* the generation since whose quorum lease_wait_ns have passed; 0 = none */
};

enum membership_verdict {
    MEMBERSHIP_WRITE,   /* by compare-and-set; then look again and ask again */
    MEMBERSHIP_WAIT,    /* lease_wait_ns from now, unless this generation is being waited for already */
    MEMBERSHIP_DONE,    /* every member that is reached has the marker that it should have */
    MEMBERSHIP_TOO_FEW, /* members that are not reached are needed: the same may go on later */
    MEMBERSHIP_REFUSED, /* something has to be changed first */
};

enum { MEMBERSHIP_NEWCOMER = MARKER_PLACES_MAX }; /* as the index of a server: the newcomer, where he is outside */

struct membership_step {
    enum membership_verdict verdict;
    unsigned server; /* of WRITE: its index in `node`, or MEMBERSHIP_NEWCOMER */
    char expected[MARKER_TEXT_MAX], text[MARKER_TEXT_MAX];
    struct marker group; /* the membership that this step leads to, or that is there; self and run say nothing */
    bool has_group;
    char reason[400]; /* of TOO_FEW and REFUSED: for people */
};

struct membership_step membership_next(const struct membership *membership);

#endif
