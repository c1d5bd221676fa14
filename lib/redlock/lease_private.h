/* Private to the lease: what its three files share. lease.c has the terms, the inputs that every state has, and the
 * release; lease_pass.c the way to a hold; lease_hold.c the hold. */
#ifndef REDLOCK_LEASE_PRIVATE_H
#define REDLOCK_LEASE_PRIVATE_H

#include "redlock/lease.h"

static inline unsigned set_count(node_set set)
{
    return (unsigned)__builtin_popcount(set);
}

static inline node_set set_of(unsigned node)
{
    return (node_set)(1u << node);
}

static inline bool has_quorum(const struct lease_terms *terms, node_set set)
{
    return set_count(set) >= lease_quorum(terms);
}

/* Asked in this round, and not answered. */
static inline node_set outstanding(const struct lease *lease)
{
    return (node_set)(lease->asked & ~(lease->yes | lease->no | lease->foreign | lease->unknown));
}

/* What a grant, or an extension, of a round that began then is good for, guard not taken off (E6, E7). */
static inline struct instant validity_of(const struct lease_terms *terms, struct instant round_started)
{
    return instant_after(round_started, terms->ttl_ns - terms->drift_ns);
}

/* lease.c */
int64_t jitter_below(struct lease *lease, int64_t bound);
void round_next(struct lease *lease);
void round_begin(struct lease *lease, node_set asked, struct instant now);

/* lease_pass.c */
struct lease_step pass_start(struct lease *lease, const struct lease_terms *terms, struct instant now);
struct lease_step pass_judge(struct lease *lease, const struct lease_terms *terms,
                             struct instant now); /* ACQUIRING, FENCING */
struct lease_step pass_fail(struct lease *lease, const struct lease_terms *terms, struct instant now);
struct lease_step pass_cancel(struct lease *lease, const struct lease_terms *terms);

/* lease_hold.c */
struct lease_step hold_begin(struct lease *lease, const struct lease_terms *terms);
struct lease_step hold_judge(struct lease *lease, const struct lease_terms *terms, struct instant now);
struct lease_step hold_tick(struct lease *lease, const struct lease_terms *terms, struct instant now);
void hold_suspect(struct lease *lease, const struct lease_terms *terms, int64_t stood_ns, struct instant now);
struct lease_step hold_lose(struct lease *lease, enum lease_loss loss);
node_set hold_nodes(const struct lease *lease);
struct instant hold_next(const struct lease *lease, const struct lease_terms *terms);

#endif
