/* The order in which one call looks at the queues. Pure, but for the random numbers it is given.
 *
 * Strict: as they are listed. By weight: drawn anew for each call, so that the first one is a queue with a probability
 * in proportion to its weight, the next likewise among the rest; the order that Sidekiq gets by shuffling a list in
 * which a queue stands as often as its weight says. */
#ifndef QUEUE_SERVING_ORDER_H
#define QUEUE_SERVING_ORDER_H

#include <stdint.h>

enum { SERVING_QUEUES_MAX = 64 };

/* `order` gets the numbers 0 to count - 1. `weights` NULL: strict. `random` is called with the sum of the weights that
 * are left and answers a number from 0 to less than that. */
void serving_order_draw(unsigned *order, const unsigned *weights, unsigned count,
                        uint64_t (*random)(void *context, uint64_t below), void *context);

#endif
