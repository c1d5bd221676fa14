/* The marker: what a lock node says about itself, under the key `hf:lock:group` of its database, without a ttl.
 *
 * A lock group is N nodes that trust each other's memory. Its marker names the group, a generation that counts up with
 * every change of membership, the longest ttl that any lock of the group may have, the ids of all N places (a place
 * may be vacant in the middle of a replacement), which of them this node is, and the server run that is trusted (40
 * digits):
 *
 *     1 group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=60000 places=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=6d0f...
 *
 * One line, always written in exactly this form, so that scripts compare it byte for byte: a vote is given only where
 * the whole text is what the client saw when it inspected the node. `run` is the run_id of the server (INFO server)
 * that went through its quarantine, or nobody's: "-" when none did yet, 24 times f and a time when somebody saw a
 * reason to doubt the node then. A node whose server says another run_id than its marker has lost, or may have lost,
 * its memory.
 *
 * Pure: text to struct and back. Any thread. */
#ifndef REDLOCK_MARKER_H
#define REDLOCK_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define MARKER_KEY "hf:lock:group"
/* What scripts are told to find where there must be no marker. */
#define MARKER_NONE "-"

enum {
    MARKER_PLACES_MAX = 15,
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
    unsigned place_count;
    char places[MARKER_PLACES_MAX][MARKER_ID_DIGITS + 1]; /* "" = vacant */
    char self[MARKER_ID_DIGITS + 1];
    char run[MARKER_RUN_DIGITS + 1]; /* "" = nobody's ("-") */
};

/* False, with a reason, when the text is not exactly what marker_write makes of a sound marker: an odd number of
 * places, 3 to 15, no id twice, `self` one of them, a generation from 1, a max_ttl from 1 ms to a day, and digits in
 * lower case. */
bool marker_parse(struct marker *marker, const char *text, size_t length, struct error *error) MUST_CHECK;
/* Writes the text of a sound marker, NUL-terminated; returns its length. */
size_t marker_write(const struct marker *marker, char text[MARKER_TEXT_MAX]);

/* The same membership: group, generation, max_ttl and places; self and run may differ. */
bool marker_same_membership(const struct marker *a, const struct marker *b);
/* The same membership, or one that changes some of its places, each once. */
bool marker_follows(const struct marker *marker, const struct marker *before);
/* The place that has this id, or -1; a vacant place ("") is nobody's. */
int marker_place_of(const struct marker *marker, const char *id);
/* Exactly so many lower-case hexadecimal digits: what ids, groups and runs are made of. */
bool marker_is_hex(const char *text, size_t digits);

#endif
