/* A lock that goes from one to the next of a process without being free in between: on each node the value of the next
 * one takes the place of the old value, if that is there. The nodes do it as part of the next one's grant; this decides
 * what becomes of the old value elsewhere, which nobody releases otherwise. Pure: what is heard goes in, the nodes at
 * which the old value is to be released come out.
 *
 *     swap_begin(&swap, reached);                  the old lock is given up; its value may be at these nodes
 *     swap_answered(&swap, node, answer)           the outcome of the grant there, once a node, whatever became of the
 *                                                  attempt meanwhile: also "was not sent" and "nobody knows"
 *     swap_failed(&swap)                           the next one did not get it, or gave it up before it had it
 *
 * Each node that the old value reached is either told to release it, once, or has said that it took the new value in
 * its place or found the key free. Both go over one connection, so a release comes after the grant it waited for. */
#ifndef REDLOCK_SWAP_H
#define REDLOCK_SWAP_H

#include "redlock/lease.h"

struct swap {
    node_set owed;  /* the old value may be there, and nobody was told to release it */
    node_set taken; /* these put the new value in its place */
};

enum swap_answer {
    SWAP_TAKEN, /* granted in the place of the old value */
    SWAP_FREE,  /* granted, and the old value was gone */
    SWAP_NOT,   /* refused, or not sent */
    SWAP_UNKNOWN,
};

/* Whether the hold can be given to the next one as it is: it is believed in, and no extension of it began in this
 * turn, which would leave only after it was given up (E30). */
bool swap_may_begin(const struct lease *lease, const struct lease_terms *terms, struct instant turn_began,
                    struct instant now);
void swap_begin(struct swap *swap, node_set reached);
/* Where the old value must be released now. */
node_set swap_answered(struct swap *swap, unsigned node, enum swap_answer answer);
node_set swap_failed(struct swap *swap);
/* What the node's answer says about the release of the old value; LEASE_UNSENT: nothing. */
enum lease_vote swap_vote(enum swap_answer answer);
/* What the node's answer to that release means, where the outcome of the grant may not have been known when it was
 * sent: whether the old value was gone, or has just been taken. */
enum lease_vote swap_release_vote(enum lease_vote answer, bool is_unsure);

#endif
