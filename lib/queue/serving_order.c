#include "queue/serving_order.h"

#include <stddef.h>

static uint64_t weights_sum(const unsigned *order, const unsigned *weights, unsigned from, unsigned count)
{
    uint64_t sum = 0;
    for (unsigned i = from; i < count; i++)
        sum += weights[order[i]];
    return sum;
}

/* The index of the queue that the ticket selects. */
static unsigned ticket_position(const unsigned *order, const unsigned *weights, unsigned from, unsigned count,
                                uint64_t ticket)
{
    unsigned position = from;
    while (position + 1 < count && ticket >= weights[order[position]])
        ticket -= weights[order[position++]];
    return position;
}

void serving_order_draw(unsigned *order, const unsigned *weights, unsigned count,
                        uint64_t (*random)(void *context, uint64_t below), void *context)
{
    for (unsigned i = 0; i < count; i++)
        order[i] = i;
    for (unsigned i = 0; weights != NULL && i + 1 < count; i++) {
        uint64_t sum = weights_sum(order, weights, i, count);
        unsigned drawn = sum > 0 ? ticket_position(order, weights, i, count, random(context, sum)) : i;
        unsigned queue = order[drawn];
        order[drawn] = order[i];
        order[i] = queue;
    }
}
