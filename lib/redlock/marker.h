/* The marker: what a lock node says about itself, under the key `hf:lock:group` of its database, without a ttl.
 *
 * A lock group is N nodes that trust each other's memory. A marker names the group, its generation (which counts
 * changes of membership), the longest ttl of any of its locks, the ids of all N members (one may be vacant during a
 * replacement), the id of this node, and the server run that is trusted:
 *
 *     4 group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=6d0f...
 *
 * The number at its beginning is the scheme: the meaning of all that clients keep on the node. A client with another
 * one counts no vote there, so it never misreads what others keep.
 *
 * One line, always in exactly this form, because scripts compare it byte for byte: a vote counts only where the whole
 * text is what the client saw at its last inspection. `run` is the run of the server (inspect.lua) that went through
 * its quarantine, or no server's: "-" before the first quarantine; 24 times f and a time after a client found a reason
 * to doubt the node. A server with another run than its marker has lost its memory, or may have.
 *
 * A node that is used alone is no group and has no marker. Its id tells it from others: as many digits as that of a
 * group, under a key of its own, drawn by the client that meets it first. The scheme and a blank stand before it there.
 * It is lost with the node's memory.
 *
 * Pure: text to struct and back. Any thread. */
#ifndef REDLOCK_MARKER_H
#define REDLOCK_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define MARKER_KEY  "hf:lock:group"
#define NODE_ID_KEY "hf:lock:node"
#define MARKER_NONE "-" /* what scripts expect where there must be no marker */

enum {
    MARKER_SCHEME = 4,
    MARKER_MEMBERS_MAX = 15,
    MARKER_GROUP_DIGITS = 16,
    MARKER_ID_DIGITS = 8,
    MARKER_RUN_DIGITS = 40,
    MARKER_TEXT_MAX = 320,
    MARKER_TTL_MS_MAX = 24 * 60 * 60 * 1000,
};

struct marker {
    char group[MARKER_GROUP_DIGITS + 1];
    uint32_t generation;
    int64_t max_ttl_ms;
    unsigned member_count;
    char members[MARKER_MEMBERS_MAX][MARKER_ID_DIGITS + 1]; /* "" = vacant */
    char self[MARKER_ID_DIGITS + 1];
    char run[MARKER_RUN_DIGITS + 1]; /* "" = nobody's ("-") */
};

/* False unless the text is exactly what marker_write makes of a sound marker: our scheme, an odd number of members
 * (3 to 15), no id twice, `self` one of them, a generation from 1, a max_ttl from 1 ms to a day, and digits in lower
 * case. */
bool marker_parse(struct marker *marker, const char *text, size_t length) MUST_CHECK;
/* Whether the text is the marker of another scheme, of which only this much is known: it begins with a number that is
 * not ours, and names a group. */
bool marker_is_of_other_scheme(const char *text);
/* Writes the text of a sound marker; returns its length. */
size_t marker_write(const struct marker *marker, char text[MARKER_TEXT_MAX]);

/* The same membership: group, generation, max_ttl and members; self and run may differ. */
bool marker_same_membership(const struct marker *a, const struct marker *b);
/* The same membership, or one with some members changed, each once. */
bool marker_follows(const struct marker *marker, const struct marker *before);
/* The number of the member with this id, from 0, or -1; "" is no id. */
int marker_number_of(const struct marker *marker, const char *id);
/* Exactly so many lower-case hexadecimal digits: what ids, groups and runs are made of. */
bool marker_is_hex(const char *text, size_t digits);

#endif
