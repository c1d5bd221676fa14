#include "redlock/swap.h"

bool swap_may_begin(const struct lease *lease, const struct lease_terms *terms, struct instant cycle_began,
                    struct instant now)
{
    bool is_just_extending = lease->extending && !instant_before(lease->attempt_started, cycle_began);
    return instant_before(now, lease_believed_until(lease, terms)) && !is_just_extending;
}

void swap_begin(struct swap *swap, node_set reached)
{
    *swap = (struct swap){.unreleased = reached};
}

node_set swap_answered(struct swap *swap, unsigned node, enum swap_answer answer)
{
    node_set open = (node_set)(swap->unreleased & set_of(node));
    swap->unreleased &= (node_set)~set_of(node);
    if (answer == SWAP_TAKEN)
        swap->taken |= set_of(node);
    return answer == SWAP_NOT || answer == SWAP_UNKNOWN ? open : 0;
}

node_set swap_failed(struct swap *swap)
{
    node_set open = swap->unreleased;
    swap->unreleased = 0;
    return open;
}

enum lease_vote swap_vote(enum swap_answer answer)
{
    return answer == SWAP_TAKEN ? LEASE_YES : answer == SWAP_FREE ? LEASE_NO : LEASE_UNSENT;
}

enum lease_vote swap_release_vote(enum lease_vote answer, bool is_unsure)
{
    return is_unsure && answer != LEASE_YES ? LEASE_UNKNOWN : answer;
}
