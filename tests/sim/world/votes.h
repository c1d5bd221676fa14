/* Which lock nodes have voted for a hold, as they saw it: each planted or extended the value that was drawn for it. */
#ifndef SIM_VOTES_H
#define SIM_VOTES_H

#include "tests/sim/server/server.h"

enum { VOTES_NODES_MAX = 7 };

/* The votes for a user or a task. Their values tell earlier holds and failed attempts apart. */
struct votes {
    char values[VOTES_NODES_MAX][33]; /* what each node voted for last; "" = nothing */
};

/* The node has executed something that names this value, and has it now. */
void votes_note(struct votes *votes, unsigned node, struct text value);
bool votes_names(const struct server_event *event, struct text value);
/* For the last hold: somebody else's keys, of a pass that failed, were in its way, and its majority was one with nodes
 * that may be in trouble, which are the first ones. What is extended is only what was granted. */
bool votes_are_narrow(const struct votes *votes, unsigned node_count);

#endif
