/* The way to a hold: passes over the nodes, and the fencing token. See lease.h for the rules. */
#include "redlock/lease_private.h"

#include "base/invariant.h"

#define SPLIT_WAIT_MIN_NS (1 * NS_PER_MS)
#define SPLIT_WAIT_NS     (8 * NS_PER_MS)
#define SPLIT_WAIT_MAX_NS (100 * NS_PER_MS)

static node_set set_all(const struct lease_terms *terms)
{
    return (node_set)((1u << terms->nodes) - 1u);
}

struct lease_step pass_start(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    invariant(lease->tries_left > 0);
    lease->state = LEASE_ACQUIRING;
    lease->tries_left -= lease->tries_left != LEASE_TRIES_ENDLESS;
    lease->reached = set_all(terms);
    lease->gone = lease->forgot = 0;
    lease->token = 0;
    for (unsigned node = 0; node < terms->nodes; node++)
        lease->kept_until[node] = (struct instant){0};
    round_begin(lease, set_all(terms), now);
    lease->validity_from = now;
    return (struct lease_step){.grant = set_all(terms)};
}

/* How many refusals are by the owner that is named most often. One that names no owner may be anybody's. */
static unsigned refusals_by_one_owner(const struct lease *lease, const struct lease_terms *terms)
{
    unsigned most = 0;
    for (unsigned node = 0; node < terms->nodes; node++) {
        unsigned count = 0;
        for (unsigned other = 0; (lease->no & set_of(node)) && other < terms->nodes; other++)
            if (lease->no & set_of(other))
                count += lease->details[other] == lease->details[node] || lease->details[other] == 0;
        most = count > most ? count : most;
    }
    return most;
}

/* Who is refused by a holder waits for its end, so a split vote, which nobody ends, must not look like one: the nodes
 * that can still tell are waited for. */
static bool may_name_holder(const struct lease *lease, const struct lease_terms *terms)
{
    unsigned most = refusals_by_one_owner(lease, terms), quorum = lease_quorum(terms);
    return most < quorum && most + set_count(outstanding(lease)) >= quorum;
}

static enum lease_refusal pass_refusal(const struct lease *lease, const struct lease_terms *terms)
{
    if (has_quorum(terms, lease->yes))
        return LEASE_TOO_SLOW;
    /* Nodes whose answer the decision did not wait for are not silent. */
    if (set_count(lease->unknown) > terms->nodes - lease_quorum(terms))
        return LEASE_NO_QUORUM;
    return refusals_by_one_owner(lease, terms) >= lease_quorum(terms) ? LEASE_BUSY : LEASE_SPLIT;
}

/* Before the votes are forgotten. A raise that was denied does not take a grant back. */
static void obstruction_note(struct lease *lease, const struct lease_terms *terms, node_set granted)
{
    if (lease->state == LEASE_FENCING || has_quorum(terms, (node_set)(granted & lease->reached)))
        lease->may_obstruct = true;
}

/* A split vote resolves itself within a round trip or two, so its wait starts short; what is held takes longer. */
static int64_t pass_retry_wait(struct lease *lease, const struct lease_terms *terms, enum lease_refusal refusal)
{
    if (refusal != LEASE_SPLIT) {
        lease->splits = 0;
        return terms->retry_delay_ns + jitter_below(lease, terms->retry_jitter_ns + 1);
    }
    int64_t bound = SPLIT_WAIT_NS;
    for (unsigned i = 0; i < lease->splits && bound < SPLIT_WAIT_MAX_NS; i++)
        bound *= 2;
    lease->splits++;
    return SPLIT_WAIT_MIN_NS + jitter_below(lease, bound < SPLIT_WAIT_MAX_NS ? bound : SPLIT_WAIT_MAX_NS);
}

struct lease_step pass_fail(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    enum lease_refusal refusal = pass_refusal(lease, terms);
    struct lease_step step = {.abandon = lease->reached};
    /* Who was refused before all had answered will be refused by the others, too: no doubt worth looking into. */
    obstruction_note(lease, terms, (node_set)(lease->yes | lease->unknown));
    lease->refusal = refusal;
    round_next(lease);
    lease->asked = 0;
    lease->reached = 0;
    lease->token = 0;
    if (lease->tries_left > 0) {
        lease->state = LEASE_WAITING;
        lease->act_at = instant_after(now, pass_retry_wait(lease, terms, refusal));
        return step;
    }
    lease->state = LEASE_FREE;
    step.news = LEASE_NEWS_REFUSED;
    step.refusal = refusal;
    return step;
}

/* Won, but is enough of the ttl left (E5)? */
static struct lease_step pass_win(struct lease *lease, const struct lease_terms *terms, uint64_t token,
                                  struct instant now)
{
    if (instant_since(now, validity_of(terms, lease->validity_from)) < terms->needed_ns)
        return pass_fail(lease, terms, now);
    lease->token = token;
    return hold_begin(lease, terms);
}

static uint64_t token_highest(const struct lease *lease, const struct lease_terms *terms)
{
    uint64_t highest = 0;
    for (unsigned node = 0; node < terms->nodes; node++)
        if ((lease->yes & set_of(node)) && lease->details[node] > highest)
            highest = lease->details[node];
    return highest;
}

/* The nodes that granted, or hold by now, exactly this token. */
static node_set token_holders(const struct lease *lease, const struct lease_terms *terms, uint64_t token)
{
    node_set holders = 0;
    for (unsigned node = 0; node < terms->nodes; node++)
        if ((lease->yes & set_of(node)) && lease->details[node] == token)
            holders |= set_of(node);
    return holders;
}

/* The token that most nodes answered; of several the highest. */
static uint64_t token_commonest(const struct lease *lease, const struct lease_terms *terms)
{
    uint64_t best = 0;
    unsigned holders = 0;
    for (unsigned node = 0; node < terms->nodes; node++) {
        uint64_t token = lease->details[node];
        unsigned count = lease->yes & set_of(node) ? set_count(token_holders(lease, terms, token)) : 0;
        if (count > holders || (count == holders && token > best)) {
            best = token;
            holders = count;
        }
    }
    return best;
}

/* Raises the counters of the nodes that granted less than the highest token. Those that hold it count already: their
 * counters stand still while they hold our key. */
static struct lease_step fencing_start(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    uint64_t token = token_highest(lease, terms);
    node_set granted = lease->yes, level = token_holders(lease, terms, token), denied = lease->no;
    lease->state = LEASE_FENCING;
    lease->token = token;
    round_begin(lease, granted, now);
    lease->yes = level;
    lease->no = denied;
    return (struct lease_step){.raise = (node_set)(granted & ~level)};
}

static struct lease_step granting_judge(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    node_set open = outstanding(lease);
    if (!terms->fenced && has_quorum(terms, lease->yes))
        return pass_win(lease, terms, 0, now);
    if (set_count(lease->yes) + set_count(open) < lease_quorum(terms))
        return may_name_holder(lease, terms) ? (struct lease_step){0} : pass_fail(lease, terms, now);
    if (!terms->fenced)
        return (struct lease_step){0};
    uint64_t token = token_commonest(lease, terms);
    unsigned holders = set_count(token_holders(lease, terms, token));
    if (holders >= lease_quorum(terms))
        return pass_win(lease, terms, token, now);
    if (has_quorum(terms, lease->yes) && holders + set_count(open) < lease_quorum(terms))
        return fencing_start(lease, terms, now);
    return (struct lease_step){0};
}

/* A counter that was higher raises the token once more (F1); while we own the keys nobody else moves them, so this ends
 * with the highest. */
static struct lease_step fencing_judge(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (set_count(lease->yes) + set_count(outstanding(lease)) < lease_quorum(terms))
        return pass_fail(lease, terms, now);
    unsigned holders = set_count(token_holders(lease, terms, lease->token));
    if (holders >= lease_quorum(terms))
        return pass_win(lease, terms, lease->token, now);
    if (has_quorum(terms, lease->yes) && holders + set_count(outstanding(lease)) < lease_quorum(terms))
        return fencing_start(lease, terms, now);
    return (struct lease_step){0};
}

struct lease_step pass_judge(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    return lease->state == LEASE_ACQUIRING ? granting_judge(lease, terms, now) : fencing_judge(lease, terms, now);
}

struct lease_step pass_cancel(struct lease *lease, const struct lease_terms *terms)
{
    struct lease_step step = {.abandon = lease->reached, .news = LEASE_NEWS_REFUSED, .refusal = LEASE_CANCELLED};
    obstruction_note(lease, terms, (node_set)(lease->yes | lease->unknown | outstanding(lease)));
    lease->state = LEASE_FREE;
    lease->refusal = LEASE_CANCELLED;
    lease->asked = 0;
    lease->reached = 0;
    lease->token = 0;
    round_next(lease);
    return step;
}
