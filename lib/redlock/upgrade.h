/* What must be done next so that every node of a lock group keeps its fences in one sorted set (scheme MARKER_SET), as
 * a pure function: from the nodes as they are to one step. Only the time waited is remembered between two calls, so the
 * same command continues after a kill.
 *
 * A node goes from MARKER_STRINGS to MARKER_MOVING, its fences are moved, and it goes on to MARKER_SET; each change by
 * compare-and-set of its marker. Scripts compare the marker, so no string is written after the first change, and nobody
 * reads the set before all strings are in it. A server that restarts may have strings again, so the last change must
 * not outlive the connection on which they were moved. That makes it safe at every interruption, and beside clients of
 * earlier versions, which see no marker in the last two and count no vote there.
 *
 * The rest is about votes. A node that moves has none, so it begins only while all others vote: a majority stays, even
 * of three. The next node begins once every client had the time to see that the one before it votes again.
 *
 * Pure: no clock, no socket, no allocation. Any thread. */
#ifndef REDLOCK_UPGRADE_H
#define REDLOCK_UPGRADE_H

#include "redlock/membership.h"
#include "redlock/trust.h"

struct upgrade {
    unsigned nodes;
    struct membership_node node[MARKER_PLACES_MAX]; /* in the order of the configuration */
    node_set voters, members;                       /* as trust.h judges them */
    node_set wanted;
    bool is_settled; /* every client had the time to see the markers as they are */
};

enum upgrade_verdict {
    UPGRADE_WRITE, /* by compare-and-set; then look and ask again */
    UPGRADE_MOVE,  /* all strings, while the marker is the expected one; then write as above, on the same connection */
    UPGRADE_WAIT,  /* until it is settled */
    UPGRADE_DONE,  /* all wanted nodes have the set */
    UPGRADE_TOO_FEW, /* a node does not vote: the same may go on later */
};

struct upgrade_step {
    enum upgrade_verdict verdict;
    unsigned node; /* of WRITE, MOVE and TOO_FEW: the one in the way */
    char expected[MARKER_TEXT_MAX], text[MARKER_TEXT_MAX];
    char reason[200]; /* of TOO_FEW: text for people */
};

struct upgrade_step upgrade_next(const struct upgrade *upgrade);

#endif
