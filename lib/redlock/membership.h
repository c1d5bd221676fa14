/* What must be written next to turn a lock group into the wanted one, as a pure function: from the markers as they are
 * to one write, a wait, or the end. Only the time waited is remembered between two calls. So if an operator's process
 * is killed in the middle, the same command on any host continues its work.
 *
 * Giving a number of the group to another server takes two steps, because a majority with the old server and one with
 * the new server need not meet:
 *
 *   1. The number becomes vacant in the markers of the other members, of a quorum of N at least (generation + 1). From
 *      then on a client with the older generation finds less than a quorum of it. Then one longest ttl passes
 *      (lease_wait_ns): what was granted with the old server's vote has expired.
 *   2. The newcomer's marker is written, with a fresh id for the vacant number (generation + 1), then those of the
 *      rest. Any two quorums of N that matter now meet in the N - 1 that stay, even if one counts the newcomer.
 *
 * The tests check these invariants over every interruption:
 *   - two disjoint quorums can never vote, be they of one generation or of two that follow each other;
 *   - an id is written to one server only: the client that draws it writes it there before any other member knows it;
 *   - markers only go forward, by compare-and-set, one member after the other in the order of the configuration: of two
 *     operators who replace at the same time, one is stopped where their writes meet;
 *   - the trusted run in a member's marker stays as it is.
 *
 * Changes that met. Two records of one number, or a record and a change of an operator, can leave no membership with a
 * quorum. Markers do not tell which of them had one before some nodes were emptied. So none is chosen: with a quorum of
 * members whose numbers nobody contests, all contested numbers become vacant, one generation for each. Any majority
 * that counted servers at k contested numbers has quorum - k of the other members, and meets the new majority there.
 * Then the numbers are given anew. A membership that a quorum knows now is finished instead.
 *
 * A node that lost its marker, and whose number cannot be proven, gets a new id for its number, as clients record it
 * (trust.h): first in the markers of the others, then, once a quorum of them has it, in a marker of its own that names
 * no run yet. So it has no vote until one quarantine later. Nothing has to be waited for between the writes, and any
 * client finishes what was begun. Pure: no clock, no socket, no allocation. Any thread. */
#ifndef REDLOCK_MEMBERSHIP_H
#define REDLOCK_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock/marker.h"

struct membership_node {
    const char *name;
    bool is_reached; /* what follows was just read */
    bool has_marker, bad_marker, is_of_other_scheme;
    struct marker marker;
    char text[MARKER_TEXT_MAX]; /* of the marker, as it is; "" = none */
    char run_id[MARKER_RUN_DIGITS + 1];
};

enum { MEMBERSHIP_NOBODY = -1 };

struct membership {
    unsigned nodes;                                  /* N as configured */
    struct membership_node node[MARKER_MEMBERS_MAX]; /* in the order of the configuration */
    int leaving;                                     /* the node whose number is given away, or MEMBERSHIP_NOBODY */
    const struct membership_node *newcomer;          /* gets the number: &node[leaving] itself, or a server outside */
    /* MARKER_ID_DIGITS hexadecimal digits: fresh, or of a node that lost its marker the first of its run. */
    const char *new_id;
    uint32_t waited_for; /* the time of MEMBERSHIP_WAIT for this generation has passed; 0 = of none */
};

enum membership_verdict {
    MEMBERSHIP_WRITE,   /* by compare-and-set; then look and ask again */
    MEMBERSHIP_WAIT,    /* lease_wait_ns from when this generation was first waited for; if nobody leaves, as long as
                           others may need to finish a change */
    MEMBERSHIP_DONE,    /* every member that is reached has the right marker */
    MEMBERSHIP_TOO_FEW, /* members that are not reached are needed: the same may go on later */
    MEMBERSHIP_REFUSED, /* the operator has to change something first */
};

enum { MEMBERSHIP_NEWCOMER = MARKER_MEMBERS_MAX }; /* the index of a newcomer outside */

struct membership_step {
    enum membership_verdict verdict;
    unsigned server; /* of WRITE: its index in `node`, or MEMBERSHIP_NEWCOMER */
    bool gives_vote; /* to that server, which knows no token */
    char expected[MARKER_TEXT_MAX], text[MARKER_TEXT_MAX];
    struct marker group; /* the membership that this step leads to, or that is there; without self and run */
    bool has_group;
    char reason[400]; /* of TOO_FEW and REFUSED, and of WAIT if nobody leaves: text for people */
};

struct membership_step membership_next(const struct membership *membership);

#endif
