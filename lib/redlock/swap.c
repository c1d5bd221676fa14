#include "redlock/swap.h"

#include "redlock/lease_private.h"

void swap_begin(struct swap *swap, node_set reached)
{
    *swap = (struct swap){.owed = reached};
}

node_set swap_answered(struct swap *swap, unsigned node, enum swap_answer answer)
{
    node_set open = (node_set)(swap->owed & set_of(node));
    swap->owed &= (node_set)~set_of(node);
    if (answer == SWAP_TAKEN)
        swap->taken |= set_of(node);
    return answer == SWAP_NOT ? open : 0;
}

node_set swap_failed(struct swap *swap)
{
    node_set open = swap->owed;
    swap->owed = 0;
    return open;
}

enum lease_vote swap_vote(enum swap_answer answer)
{
    switch (answer) {
    case SWAP_TAKEN:
        return LEASE_YES;
    case SWAP_FREE:
        return LEASE_NO;
    case SWAP_NOT:
        break;
    }
    return LEASE_UNSENT;
}
