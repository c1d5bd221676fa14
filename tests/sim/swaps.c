/* Hand-overs between the locks of a client: what lib/redlock/lock_swap.c does around swap.c, which is the product's.
 * What is known of a swap stays until the schedule ends: messages refer to it. */
#include "tests/sim/world.h"

#include <stdlib.h>

#include "base/memory.h"

static void old_value_release(struct sim_swap *swap, node_set nodes, node_set unsure)
{
    struct sim_lock *before = swap->before;
    if (before->value == swap->old)
        oracle_cleans_up(before, nodes);
    batch_add_swapped(before->client, swap, nodes, unsure);
}

bool swap_start(struct sim_lock *before, struct sim_lock *next)
{
    struct world *world = before->client->world;
    struct instant now = client_now(before->client);
    if (!swap_may_begin(&before->lease, before->client->terms, now, now))
        return false;
    struct sim_swap *swap = memory_new(struct sim_swap);
    *swap = (struct sim_swap){.before = before, .old = before->value, .resources = before->resources};
    list_init(&swap->link);
    list_append(&world->swaps, &swap->link);
    before->swapped_out = next->swaps_in = swap;
    return true;
}

bool swap_holds_back(struct sim_lock *lock, node_set nodes)
{
    struct sim_swap *swap = lock->swapped_out;
    lock->swapped_out = NULL;
    if (swap == NULL)
        return false;
    swap_begin(&swap->swap, nodes);
    swap->before_round = lock->lease.round;
    return true;
}

node_set swap_heard(struct sim_swap *swap, unsigned node, enum swap_answer answer)
{
    return swap_answered(&swap->swap, node, answer);
}

void swap_conclude(struct sim_swap *swap, unsigned node, enum swap_answer answer, node_set release)
{
    enum lease_vote vote = swap_vote(answer);
    old_value_release(swap, release, answer == SWAP_UNKNOWN ? release : 0);
    if (vote != LEASE_UNSENT)
        lock_voted(swap->before, node, swap->before_round, vote, 0);
}

void swap_follow(struct sim_lock *next)
{
    struct sim_swap *swap = next->swaps_in;
    if (swap == NULL || next->lease.state == LEASE_ACQUIRING || next->lease.state == LEASE_FENCING)
        return;
    struct counters *counters = next->client->world->counters;
    next->swaps_in = NULL;
    if (next->lease.state == LEASE_HELD) {
        counters->handed_over += swap->swap.taken != 0;
        counters->handed_over_where_free += swap->swap.taken == 0;
    } else {
        counters->hand_over_failed++;
        node_set release = swap_failed(&swap->swap);
        old_value_release(swap, release, swap->is_sent ? release : 0);
    }
}

void swaps_free(struct world *world)
{
    struct list *link = NULL;
    while ((link = list_take_first(&world->swaps)) != NULL)
        free(list_owner(link, struct sim_swap, link));
}
