/* A lock that passes from one user of a process to the next without being free in between: on each node the next user's
 * value replaces the old value, if that is there. The nodes do it as part of the next grant. This decides what becomes
 * of the old value elsewhere, which nothing else releases. Pure: answers go in, and the nodes at which the old value
 * must be released come out.
 *
 *     swap_begin(&swap, reached);            the old lock is given up; its value may be at these nodes
 *     swap_answered(&swap, node, answer)     the outcome of the grant there, once per node, whatever became of the
 *                                            attempt meanwhile: also "was not sent" and "nobody knows"
 *     swap_failed(&swap)                     the next user did not get the lock, or gave it up before
 *
 * Each node that the old value reached either gets a release, once, or has answered that it put the new value in its
 * place or found the key free. Both go over one connection, so a release comes after the grant that it waited for. */
#ifndef REDLOCK_SWAP_H
#define REDLOCK_SWAP_H

#include "redlock/lease.h"

struct swap {
    node_set unreleased; /* the old value may be there, and no release was sent */
    node_set taken;      /* these put the new value in its place */
};

enum swap_answer {
    SWAP_TAKEN, /* granted in the place of the old value */
    SWAP_FREE,  /* granted, and the old value was gone */
    SWAP_NOT,   /* refused, or not sent */
    SWAP_UNKNOWN,
};

/* Whether the hold can pass on as it is: it is believed, and no extension of it began in this cycle of the loop, which
 * would leave only after the lock was given up (E30). */
bool swap_may_begin(const struct lease *lease, const struct lease_terms *terms, struct instant cycle_began,
                    struct instant now);
void swap_begin(struct swap *swap, node_set reached);
/* Where the old value must be released now. */
node_set swap_answered(struct swap *swap, unsigned node, enum swap_answer answer);
node_set swap_failed(struct swap *swap);
/* What the node's answer says about the release of the old value; LEASE_UNSENT = nothing. */
enum lease_vote swap_vote(enum swap_answer answer);
/* What the node's answer to that release means. `is_unsure`: it was sent before the outcome of the grant was known, so
 * a missing value may have been released or replaced. */
enum lease_vote swap_release_vote(enum lease_vote answer, bool is_unsure);

#endif
