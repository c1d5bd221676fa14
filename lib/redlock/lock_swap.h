/* Private to lib/redlock: a held lock goes to the next one of the same process (swap.h), as the driver sees it. Runs
 * on the loop.
 *
 * The old lock is released while the next one's first grant gathers, in the same turn of the loop. From there on a
 * struct lock_swap has all that is needed to undo the old value: both locks may be released, destroyed and used for
 * something else before the last node has answered. It ends when the pass is decided and the grants are answered. */
#ifndef REDLOCK_LOCK_SWAP_H
#define REDLOCK_LOCK_SWAP_H

#include "redlock/group.h"
#include "redlock/swap.h"

struct lock_swap {
    struct list link; /* in group->swaps or group->idle_swaps */
    struct redlock_group *group;
    struct swap swap;
    struct redlock_lock *before; /* votes for its release are those of before_round */
    uint32_t before_round;
    struct redlock_lock *next; /* NULL once its pass is decided */
    bool is_sent;              /* a batch refers to it */
    int64_t ttl_ns;            /* of the old value */
    struct buffer keys;
    uint16_t key_ends[REDLOCK_RESOURCES_MAX];
    unsigned key_count;
    char value[VALUE_BYTES_MAX];
    size_t value_length;
};

/* Inside the release of `before`, before its lease knows of it: `next` is about to ask the nodes in its place. False,
 * and nothing is done, when what `before` has cannot be swapped: it is released, and `next` asks for what is free. */
bool lock_swap_begin(struct redlock_lock *before, struct redlock_lock *next);
/* The lease of `lock` wants it released at these nodes. False when nobody takes it over. */
bool lock_swap_holds_back(struct redlock_lock *lock, node_set nodes);
/* After each step of a lock that takes over: its pass may be decided. */
void lock_swap_follow(struct redlock_lock *next);
/* What a node, or nobody, answered to the grant: first what is known by it, then, once the grant's own vote is counted,
 * what follows from it. */
node_set lock_swap_answered(struct lock_swap *swap, unsigned node, enum swap_answer answer);
void lock_swap_conclude(struct lock_swap *swap, unsigned node, enum swap_answer answer, node_set release,
                        struct instant now);
/* Nothing more will be heard of the grants. */
void lock_swap_batch_over(struct lock_swap *swap);
void lock_swaps_dispose(struct redlock_group *group);

#endif
