/* How long to wait before an attempt at the nodes, so that the many processes that want one lock do not collide: their
 * votes would split, and each split costs all of them an attempt. Waits are measured in attempts, because how long one
 * takes depends on the distance to the nodes and on the load of the machines.
 *
 * Pure. `draw` is a random number from 0 to 1. */
#ifndef REDLOCK_BACKOFF_H
#define REDLOCK_BACKOFF_H

#include <stdint.h>

/* The usual attempt, now that one has taken `took_ns`. `usual_ns`: before it; 0 = it is the first. */
int64_t backoff_attempt_ns(int64_t usual_ns, int64_t took_ns);

/* After a release that so many processes have heard of; 0 = not known. The first to ask wins, and its announcement
 * stops the others. Few draw a moment evenly, of a range that each of them widens. Of many that would let either some
 * ask at once or all wait long; so more and more of them ask the later it gets, and the first few are alone, however
 * many there are. */
int64_t backoff_after_release_ns(int64_t listeners, int64_t attempt_ns, double draw);

/* After so many split votes in a row, at least one. */
int64_t backoff_after_split_ns(unsigned splits, int64_t attempt_ns, double draw);

#endif
