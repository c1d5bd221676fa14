/* The order in which one call looks at the queues. Pure, except for the random numbers that the caller supplies.
 *
 * Strict: in the order of the list. By weight: drawn for each call. Each queue is first with a probability in
 * proportion to its weight, and so on among the rest. Sidekiq gets the same order by shuffling a list that contains
 * each queue as often as its weight. */
#ifndef QUEUE_SERVING_ORDER_H
#define QUEUE_SERVING_ORDER_H

#include <stdint.h>

/* Fills `order` with the numbers 0 to count - 1. `weights` NULL: strict. `random` gets the sum of the remaining
 * weights and returns a number from 0 to below that. */
void serving_order_draw(unsigned *order, const unsigned *weights, unsigned count,
                        uint64_t (*random)(void *context, uint64_t below), void *context);

#endif
