/* See lease.h for the rules. How this file is built: every public function is one input; it ends in exactly one of
 * the small transitions below (start a pass, fail a pass, hold, lose, end), and only those change `state`. */
#include "redlock/lease_private.h"

#include "base/invariant.h"

#define GUARD_MIN_NS (50 * NS_PER_MS)

int64_t lease_drift_ns(int64_t ttl_ns, double drift_factor)
{
    return (int64_t)((double)ttl_ns * drift_factor) + LEASE_FORGIVEN_NS + LEASE_PRECISION_NS;
}

int64_t lease_wait_ns(int64_t ttl_ns, double drift_factor, int64_t timeout_ns)
{
    int64_t on_the_node_ns = ttl_ns + LEASE_FORGIVEN_NS + LEASE_PRECISION_NS;
    return (int64_t)((double)on_the_node_ns / (1 - drift_factor)) + timeout_ns;
}

unsigned lease_quorum(const struct lease_terms *terms)
{
    return terms->nodes / 2 + 1;
}

void lease_terms_derive(struct lease_terms *terms)
{
    invariant(terms->nodes >= 1 && terms->nodes <= LEASE_NODES_MAX);
    invariant(terms->ttl_ns > 0 && terms->tries >= 1 && terms->pass_limit_ns > 0);
    int64_t ttl = terms->ttl_ns;
    if (terms->silence_limit_ns < terms->pass_limit_ns)
        terms->silence_limit_ns = terms->pass_limit_ns;
    terms->drift_ns = lease_drift_ns(ttl, terms->drift_factor);
    terms->needed_ns = ttl / 2;
    terms->guard_ns = ttl / 100 > GUARD_MIN_NS ? ttl / 100 : GUARD_MIN_NS;
    if (terms->guard_ns > ttl / 10)
        terms->guard_ns = ttl / 10;
    terms->extend_after_ns = ttl / 3;
    /* A new round makes votes of the old one stale, so it must not start before those can have come. */
    terms->extend_retry_ns = ttl / 20 > terms->silence_limit_ns ? ttl / 20 : terms->silence_limit_ns;
    terms->danger_after_ns = ttl / 3 * 2;
}

/* Jitter without a source of randomness of its own: xorshift over the seed that the driver gave. */
int64_t jitter_below(struct lease *lease, int64_t bound)
{
    if (bound <= 0)
        return 0;
    lease->noise ^= lease->noise << 13;
    lease->noise ^= lease->noise >> 17;
    lease->noise ^= lease->noise << 5;
    return (int64_t)(((uint64_t)lease->noise * (uint64_t)bound) >> 32);
}

/* Whatever still comes for the round before this is no vote. 0 is left to mean "no round". */
void round_next(struct lease *lease)
{
    if (++lease->round == 0)
        lease->round = 1;
}

void round_begin(struct lease *lease, node_set asked, struct instant now)
{
    round_next(lease);
    lease->asked = asked;
    lease->yes = lease->no = lease->foreign = lease->unknown = 0;
    lease->pass_started = now;
}

void lease_init(struct lease *lease, uint32_t noise)
{
    *lease = (struct lease){.state = LEASE_FREE, .noise = noise | 1u};
}

struct lease_step lease_acquire(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    invariant(lease->state == LEASE_FREE);
    lease->tries_left = terms->tries;
    lease->splits = 0;
    lease->may_obstruct = false;
    return pass_start(lease, terms, now);
}

void lease_wait_until(struct lease *lease, struct instant at)
{
    if (lease->state == LEASE_WAITING)
        lease->act_at = at;
}

struct lease_step lease_last_try(struct lease *lease)
{
    if (lease->state == LEASE_ACQUIRING || lease->state == LEASE_FENCING)
        lease->tries_left = 0;
    if (lease->state != LEASE_WAITING)
        return (struct lease_step){0};
    lease->state = LEASE_FREE;
    round_next(lease);
    return (struct lease_step){.news = LEASE_NEWS_REFUSED, .refusal = lease->refusal};
}

/* --- memory loss, and time that cannot be believed ------------------------------------------------------------- */

/* A vote for a pass that is not decided yet is void. What a hold does about it, its next extension decides. */
struct lease_step lease_forgot(struct lease *lease, const struct lease_terms *terms, unsigned node, struct instant now)
{
    invariant(node < terms->nodes);
    switch (lease->state) {
    case LEASE_ACQUIRING:
    case LEASE_FENCING:
        lease->yes &= (node_set)~set_of(node);
        lease->unknown |= (node_set)(set_of(node) & lease->asked);
        return pass_judge(lease, terms, now);
    case LEASE_HELD:
        if (!(hold_nodes(lease) & set_of(node)))
            break;
        lease->yes &= (node_set)~set_of(node);
        lease->unknown |= (node_set)(set_of(node) & lease->asked);
        lease->forgot |= set_of(node);
        lease->act_at = instant_earlier(lease->act_at, now);
        break;
    case LEASE_FREE:
    case LEASE_WAITING:
    case LEASE_LOST:
    case LEASE_RELEASING:
        break;
    }
    return (struct lease_step){0};
}

struct lease_step lease_doubt(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (lease->state == LEASE_HELD)
        return hold_lose(lease, LEASE_LOSS_CLOCK);
    if (lease->state == LEASE_ACQUIRING || lease->state == LEASE_FENCING)
        return pass_fail(lease, terms, now);
    return (struct lease_step){0};
}

void lease_suspect(struct lease *lease, const struct lease_terms *terms, int64_t stood_ns, struct instant now)
{
    invariant(stood_ns > 0);
    if (lease->state == LEASE_ACQUIRING || lease->state == LEASE_FENCING) {
        lease->pass_started = instant_after(lease->pass_started, -stood_ns);
        lease->validity_from = instant_after(lease->validity_from, -stood_ns);
    } else if (lease->state == LEASE_HELD) {
        hold_suspect(lease, terms, stood_ns, now);
    }
}

struct lease_step lease_forfeit(struct lease *lease)
{
    return lease->state == LEASE_HELD ? hold_lose(lease, LEASE_LOSS_FORFEIT) : (struct lease_step){0};
}

/* --- releasing ---------------------------------------------------------------------------------------------- */

static struct lease_step release_end(struct lease *lease, const struct lease_terms *terms)
{
    struct lease_step step = {.news = LEASE_NEWS_RELEASED};
    unsigned quorum = lease_quorum(terms);
    unsigned deleted = set_count(lease->yes), silent = set_count(lease->unknown) + set_count(outstanding(lease));
    if (deleted >= quorum)
        step.ending = LEASE_ENDED_RELEASED;
    else if (deleted + silent >= quorum) /* a node that was never reached is neither silent nor "gone already" */
        step.ending = LEASE_ENDED_UNKNOWN;
    else
        step.ending = lease->foreign ? LEASE_ENDED_FOREIGN : LEASE_ENDED_EXPIRED;
    lease->state = LEASE_FREE;
    lease->asked = 0;
    lease->reached = 0;
    lease->token = 0;
    round_next(lease);
    return step;
}

static struct lease_step release_judge(struct lease *lease, const struct lease_terms *terms)
{
    if (has_quorum(terms, lease->yes) || outstanding(lease) == 0)
        return release_end(lease, terms);
    return (struct lease_step){0};
}

struct lease_step lease_release(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    invariant(lease->state != LEASE_FREE && lease->state != LEASE_RELEASING);
    if (lease->state == LEASE_ACQUIRING || lease->state == LEASE_FENCING || lease->state == LEASE_WAITING)
        return pass_cancel(lease, terms);
    lease->state = LEASE_RELEASING;
    lease->extending = false;
    round_begin(lease, lease->reached, now);
    return (struct lease_step){.release = lease->reached};
}

/* --- inputs that every state has ----------------------------------------------------------------------------- */

static void vote_count(struct lease *lease, const struct lease_terms *terms, unsigned node, enum lease_vote vote,
                       uint64_t detail)
{
    switch (vote) {
    case LEASE_YES:
        lease->yes |= set_of(node);
        lease->details[node] = detail;
        if (lease->state != LEASE_RELEASING)
            lease->kept_until[node] = validity_of(terms, lease->pass_started);
        return;
    case LEASE_NO:
        lease->no |= set_of(node);
        lease->details[node] = detail;
        return;
    case LEASE_FOREIGN:
        lease->foreign |= set_of(node);
        return;
    case LEASE_UNKNOWN:
        lease->unknown |= set_of(node);
        return;
    case LEASE_UNSENT:
        lease->unknown |= set_of(node);
        if (lease->state == LEASE_ACQUIRING)
            lease->reached &= (node_set)~set_of(node);
        return;
    }
    invariant_unreachable("a vote outside its enum");
}

struct lease_step lease_vote(struct lease *lease, const struct lease_terms *terms, unsigned node, uint32_t round,
                             enum lease_vote vote, uint64_t detail, struct instant now)
{
    invariant(node < terms->nodes);
    if (round != lease->round || !(outstanding(lease) & set_of(node)))
        return (struct lease_step){0};
    vote_count(lease, terms, node, vote, detail);
    switch (lease->state) {
    case LEASE_ACQUIRING:
    case LEASE_FENCING:
        return pass_judge(lease, terms, now);
    case LEASE_HELD:
        return hold_judge(lease, terms, now);
    case LEASE_RELEASING:
        return release_judge(lease, terms);
    case LEASE_FREE:
    case LEASE_WAITING:
    case LEASE_LOST:
        break;
    }
    return (struct lease_step){0};
}

struct lease_step lease_unsent(struct lease *lease, const struct lease_terms *terms, node_set nodes, uint32_t round,
                               struct instant now)
{
    if (round != lease->round || lease->state != LEASE_ACQUIRING)
        return (struct lease_step){0};
    nodes &= (node_set)(lease->asked & ~(lease->yes | lease->no | lease->foreign)); /* unknown: it forgot meanwhile */
    lease->unknown |= nodes;
    lease->reached &= (node_set)~nodes;
    return pass_judge(lease, terms, now);
}

struct lease_step lease_tick(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (instant_before(now, lease_next(lease, terms)))
        return (struct lease_step){0};
    switch (lease->state) {
    case LEASE_ACQUIRING:
    case LEASE_FENCING:
        lease->unknown |= outstanding(lease);
        return pass_judge(lease, terms, now);
    case LEASE_WAITING:
        return pass_start(lease, terms, now);
    case LEASE_HELD:
        return hold_tick(lease, terms, now);
    case LEASE_RELEASING:
        return release_end(lease, terms);
    case LEASE_FREE:
    case LEASE_LOST:
        break;
    }
    return (struct lease_step){0};
}

/* Nodes that are slow of late are waited for while their votes are needed, and no longer: what a quorum has answered, a
 * silent minority must not delay. */
static int64_t round_limit(const struct lease *lease, const struct lease_terms *terms)
{
    bool is_answered = has_quorum(terms, (node_set)(lease->yes | lease->no | lease->foreign));
    return is_answered ? terms->pass_limit_ns : terms->silence_limit_ns;
}

struct instant lease_next(const struct lease *lease, const struct lease_terms *terms)
{
    switch (lease->state) {
    case LEASE_ACQUIRING:
    case LEASE_FENCING:
    case LEASE_RELEASING:
        return instant_after(lease->pass_started, round_limit(lease, terms));
    case LEASE_WAITING:
        return lease->act_at;
    case LEASE_HELD:
        return hold_next(lease, terms);
    case LEASE_FREE:
    case LEASE_LOST:
        break;
    }
    return INSTANT_NEVER;
}
