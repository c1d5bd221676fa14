#include "redlock/lock_swap.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* --- its life ----------------------------------------------------------------------------------------------------- */

static struct lock_swap *swap_new(struct redlock_group *group)
{
    struct list *idle = list_take_first(&group->idle_swaps);
    struct lock_swap *swap = idle != NULL ? list_owner(idle, struct lock_swap, link) : memory_new(struct lock_swap);
    list_init(&swap->link);
    list_append(&group->swaps, &swap->link);
    swap->group = group;
    return swap;
}

static void swap_end_if_over(struct lock_swap *swap)
{
    if (swap->next != NULL || swap->is_sent)
        return;
    list_remove(&swap->link);
    list_append(&swap->group->idle_swaps, &swap->link);
}

static void swaps_free(struct list *swaps)
{
    struct list *link = NULL;
    while ((link = list_take_first(swaps)) != NULL) {
        struct lock_swap *swap = list_owner(link, struct lock_swap, link);
        buffer_fini(&swap->keys);
        free(swap);
    }
}

void lock_swaps_dispose(struct redlock_group *group)
{
    swaps_free(&group->swaps);
    swaps_free(&group->idle_swaps);
}

/* --- its beginning ------------------------------------------------------------------------------------------------ */

static bool have_equal_keys(const struct redlock_lock *a, const struct redlock_lock *b)
{
    return a->key_count == b->key_count && a->keys.length == b->keys.length &&
           memcmp(a->key_ends, b->key_ends, a->key_count * sizeof a->key_ends[0]) == 0 &&
           memcmp(a->keys.bytes, b->keys.bytes, a->keys.length) == 0;
}

bool lock_swap_begin(struct redlock_lock *before, struct redlock_lock *next)
{
    bool can_be_swapped =
        swap_may_begin(&before->lease, &before->terms, loop_now(before->group->loop), instant_now()) &&
        before->linger_ns == 0 && have_equal_keys(before, next);
    if (!can_be_swapped)
        return false;
    struct lock_swap *swap = swap_new(before->group);
    swap->before = before;
    swap->next = next;
    swap->is_sent = false;
    swap->ttl_ns = before->terms.ttl_ns;
    buffer_clear(&swap->keys);
    buffer_append(&swap->keys, before->keys.bytes, before->keys.length);
    memcpy(swap->key_ends, before->key_ends, sizeof swap->key_ends);
    swap->key_count = before->key_count;
    memcpy(swap->value, before->value, before->value_length);
    swap->value_length = before->value_length;
    before->swapped_out = next->swaps_in = swap;
    return true;
}

bool lock_swap_holds_back(struct redlock_lock *lock, node_set nodes)
{
    struct lock_swap *swap = lock->swapped_out;
    lock->swapped_out = NULL;
    if (swap == NULL)
        return false;
    swap_begin(&swap->swap, nodes);
    swap->before_round = lock->lease.round;
    return true;
}

/* --- what becomes of it ------------------------------------------------------------------------------------------- */

node_set lock_swap_answered(struct lock_swap *swap, unsigned node, enum swap_answer answer)
{
    return swap_answered(&swap->swap, node, answer);
}

/* Nobody is told that it is free: the next one has it, or still hopes. */
void lock_swap_conclude(struct lock_swap *swap, unsigned node, enum swap_answer answer, node_set release,
                        struct instant now)
{
    struct redlock_lock *before = swap->before;
    enum lease_vote vote = swap_vote(answer);
    batch_add_swapped(swap, release, answer == SWAP_UNKNOWN ? release : 0, NULL);
    if (vote != LEASE_UNSENT && before->lease.round == swap->before_round)
        lock_take_step(before, lease_vote(&before->lease, &before->terms, node, swap->before_round, vote, 0, now));
}

void lock_swap_follow(struct redlock_lock *next)
{
    struct lock_swap *swap = next->swaps_in;
    if (swap == NULL || next->lease.state == LEASE_ACQUIRING || next->lease.state == LEASE_FENCING)
        return;
    bool has_won = next->lease.state == LEASE_HELD;
    next->swaps_in = NULL;
    next->was_handed_over = has_won && swap->swap.taken != 0;
    if (!has_won) {
        node_set release = swap_failed(&swap->swap);
        batch_add_swapped(swap, release, swap->is_sent ? release : 0, next);
    }
    swap->next = NULL;
    swap_end_if_over(swap);
}

void lock_swap_batch_over(struct lock_swap *swap)
{
    swap->is_sent = false;
    swap_end_if_over(swap);
}
