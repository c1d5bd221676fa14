/* See lease.h for the rules. How this file is built: every public function is one input; it ends in exactly one of
 * the small transitions below (start a pass, fail a pass, hold, lose, end), and only those change `state`. */
#include "redlock/lease.h"

#include "base/invariant.h"

#define SPLIT_WAIT_MIN_NS (1 * NS_PER_MS)
#define SPLIT_WAIT_NS     (8 * NS_PER_MS)
#define SPLIT_WAIT_MAX_NS (100 * NS_PER_MS)
#define GUARD_MIN_NS      (50 * NS_PER_MS)
/* 1 ms precision of expiry on the node + 1 ms because a node rounds the ttl (E7). */
#define DRIFT_FLOOR_NS (2 * NS_PER_MS)
/* Extensions are planned on a grid, so that those due within 10 ms of each other leave in one script call. */
#define EXTEND_GRID_NS (10 * NS_PER_MS)

static unsigned set_count(node_set set)
{
    return (unsigned)__builtin_popcount(set);
}

static node_set set_of(unsigned node)
{
    return (node_set)(1u << node);
}

static node_set set_all(const struct lease_terms *terms)
{
    return (node_set)((1u << terms->nodes) - 1u);
}

static node_set outstanding(const struct lease *lease)
{
    return (node_set)(lease->asked & ~(lease->yes | lease->no | lease->foreign | lease->unknown));
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
    terms->drift_ns = (int64_t)((double)ttl * terms->drift_factor) + DRIFT_FLOOR_NS;
    terms->needed_ns = ttl / 2;
    terms->guard_ns = ttl / 100 > GUARD_MIN_NS ? ttl / 100 : GUARD_MIN_NS;
    if (terms->guard_ns > ttl / 10)
        terms->guard_ns = ttl / 10;
    terms->extend_after_ns = ttl / 3;
    /* A new round makes votes of the old one stale, so it must not start before those can have come. */
    terms->extend_retry_ns = ttl / 20 > terms->pass_limit_ns ? ttl / 20 : terms->pass_limit_ns;
    terms->danger_after_ns = ttl / 3 * 2;
}

/* Jitter without a source of randomness of its own: xorshift over the seed that the driver gave. */
static int64_t jitter_below(struct lease *lease, int64_t bound)
{
    if (bound <= 0)
        return 0;
    lease->noise ^= lease->noise << 13;
    lease->noise ^= lease->noise >> 17;
    lease->noise ^= lease->noise << 5;
    return (int64_t)(((uint64_t)lease->noise * (uint64_t)bound) >> 32);
}

/* Whatever still comes for the round before this is no vote. 0 is left to mean "no round". */
static void round_next(struct lease *lease)
{
    if (++lease->round == 0)
        lease->round = 1;
}

static void round_begin(struct lease *lease, node_set asked, struct instant now)
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

/* --- acquiring ---------------------------------------------------------------------------------------------- */

static struct lease_step pass_start(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    invariant(lease->tries_left > 0);
    lease->state = LEASE_ACQUIRING;
    lease->tries_left--;
    lease->reached = set_all(terms);
    lease->gone = 0;
    round_begin(lease, set_all(terms), now);
    return (struct lease_step){.grant = set_all(terms)};
}

/* Whether the owner that refused at `node` holds a majority, or could if every node that did not answer is its own.
 * A refusal that does not tell the owner may be anybody's. */
static bool owner_may_have_majority(const struct lease *lease, const struct lease_terms *terms, unsigned node)
{
    unsigned possible = terms->nodes - set_count(lease->yes) - set_count(lease->no);
    for (unsigned other = 0; other < terms->nodes; other++)
        if (lease->no & set_of(other))
            possible += lease->owners[other] == lease->owners[node] || lease->owners[other] == 0;
    return possible >= lease_quorum(terms);
}

static enum lease_refusal pass_refusal(const struct lease *lease, const struct lease_terms *terms)
{
    if (set_count(lease->yes) >= lease_quorum(terms))
        return LEASE_TOO_SLOW;
    /* Nodes whose answer the decision did not wait for are not silent: with one node down, two quick refusals of five
     * are still "somebody holds it". */
    if (set_count(lease->unknown) > terms->nodes - lease_quorum(terms))
        return LEASE_NO_QUORUM;
    for (unsigned node = 0; node < terms->nodes; node++)
        if ((lease->no & set_of(node)) && owner_may_have_majority(lease, terms, node))
            return LEASE_BUSY;
    return LEASE_SPLIT;
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

static struct lease_step pass_fail(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    enum lease_refusal refusal = pass_refusal(lease, terms);
    struct lease_step step = {.abandon = lease->reached};
    round_next(lease);
    lease->asked = 0;
    lease->reached = 0;
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

static void extension_plan(struct lease *lease, const struct lease_terms *terms)
{
    int64_t after = terms->extend_after_ns - jitter_below(lease, terms->extend_after_ns / 10); /* E33 */
    struct instant due = instant_after(lease->confirmed, after);
    lease->act_at = (struct instant){due.ns - due.ns % EXTEND_GRID_NS};
}

static struct lease_step pass_win(struct lease *lease, const struct lease_terms *terms)
{
    lease->state = LEASE_HELD;
    lease->gone = lease->no;
    lease->confirmed = lease->pass_started;
    lease->valid_until = instant_after(lease->pass_started, terms->ttl_ns - terms->drift_ns);
    lease->extending = false;
    lease->in_danger = false;
    lease->splits = 0;
    extension_plan(lease, terms);
    return (struct lease_step){.news = LEASE_NEWS_ACQUIRED};
}

static struct lease_step pass_judge(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    unsigned quorum = lease_quorum(terms);
    if (set_count(lease->yes) >= quorum) {
        struct instant valid_until = instant_after(lease->pass_started, terms->ttl_ns - terms->drift_ns);
        return instant_since(now, valid_until) >= terms->needed_ns ? pass_win(lease, terms)
                                                                   : pass_fail(lease, terms, now);
    }
    if (set_count(lease->yes) + set_count(outstanding(lease)) < quorum)
        return pass_fail(lease, terms, now);
    return (struct lease_step){0};
}

struct lease_step lease_acquire(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    invariant(lease->state == LEASE_FREE);
    lease->tries_left = terms->tries;
    lease->splits = 0;
    return pass_start(lease, terms, now);
}

/* --- holding ------------------------------------------------------------------------------------------------ */

struct instant lease_believed_until(const struct lease *lease, const struct lease_terms *terms)
{
    if (lease->state != LEASE_HELD)
        return (struct instant){0};
    return instant_after(lease->valid_until, -terms->guard_ns);
}

static struct lease_step hold_lose(struct lease *lease, enum lease_loss loss)
{
    lease->state = LEASE_LOST;
    lease->extending = false;
    lease->asked = 0;
    round_next(lease);
    return (struct lease_step){.news = LEASE_NEWS_LOST, .loss = loss};
}

static node_set perhaps_ours(const struct lease *lease)
{
    return (node_set)(lease->reached & ~lease->gone);
}

static struct lease_step extension_start(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    round_begin(lease, perhaps_ours(lease), now);
    lease->extending = true;
    lease->act_at = instant_after(now, terms->extend_retry_ns + jitter_below(lease, terms->ttl_ns / 40));
    return (struct lease_step){.extend = lease->asked};
}

static struct lease_step extension_win(struct lease *lease, const struct lease_terms *terms)
{
    lease->extending = false;
    lease->in_danger = false;
    lease->confirmed = lease->pass_started;
    lease->valid_until = instant_after(lease->pass_started, terms->ttl_ns - terms->drift_ns);
    extension_plan(lease, terms);
    return (struct lease_step){.news = LEASE_NEWS_EXTENDED};
}

static struct lease_step hold_judge(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (instant_reached(now, lease_believed_until(lease, terms)))
        return hold_lose(lease, LEASE_LOSS_DEADLINE);
    lease->gone |= lease->no;
    if (set_count(perhaps_ours(lease)) < lease_quorum(terms))
        return hold_lose(lease, LEASE_LOSS_TAKEN);
    if (lease->extending && set_count(lease->yes) >= lease_quorum(terms))
        return extension_win(lease, terms);
    return (struct lease_step){0};
}

static struct instant danger_at(const struct lease *lease, const struct lease_terms *terms)
{
    return lease->in_danger ? INSTANT_NEVER : instant_after(lease->confirmed, terms->danger_after_ns);
}

static struct lease_step hold_tick(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (instant_reached(now, lease_believed_until(lease, terms)))
        return hold_lose(lease, LEASE_LOSS_DEADLINE);
    struct lease_step step = {0};
    if (instant_reached(now, lease->act_at))
        step = extension_start(lease, terms, now);
    if (instant_reached(now, danger_at(lease, terms))) {
        lease->in_danger = true;
        step.news = LEASE_NEWS_DANGER;
    }
    return step;
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
    round_next(lease);
    return step;
}

static struct lease_step release_judge(struct lease *lease, const struct lease_terms *terms)
{
    if (set_count(lease->yes) >= lease_quorum(terms) || outstanding(lease) == 0)
        return release_end(lease, terms);
    return (struct lease_step){0};
}

static struct lease_step acquire_cancel(struct lease *lease)
{
    struct lease_step step = {.abandon = lease->reached, .news = LEASE_NEWS_REFUSED, .refusal = LEASE_CANCELLED};
    lease->state = LEASE_FREE;
    lease->asked = 0;
    lease->reached = 0;
    round_next(lease);
    return step;
}

struct lease_step lease_release(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    (void)terms;
    invariant(lease->state != LEASE_FREE && lease->state != LEASE_RELEASING);
    if (lease->state == LEASE_ACQUIRING || lease->state == LEASE_WAITING)
        return acquire_cancel(lease);
    lease->state = LEASE_RELEASING;
    lease->extending = false;
    round_begin(lease, lease->reached, now);
    return (struct lease_step){.release = lease->reached};
}

/* --- inputs that every state has ----------------------------------------------------------------------------- */

static void vote_count(struct lease *lease, unsigned node, enum lease_vote vote, uint64_t owner)
{
    switch (vote) {
    case LEASE_YES:
        lease->yes |= set_of(node);
        return;
    case LEASE_NO:
        lease->no |= set_of(node);
        lease->owners[node] = owner;
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
                             enum lease_vote vote, uint64_t owner, struct instant now)
{
    invariant(node < terms->nodes);
    if (round != lease->round || !(outstanding(lease) & set_of(node)))
        return (struct lease_step){0};
    vote_count(lease, node, vote, owner);
    switch (lease->state) {
    case LEASE_ACQUIRING:
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
    nodes &= outstanding(lease);
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
        lease->unknown |= outstanding(lease);
        return pass_fail(lease, terms, now);
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

struct instant lease_next(const struct lease *lease, const struct lease_terms *terms)
{
    switch (lease->state) {
    case LEASE_ACQUIRING:
    case LEASE_RELEASING:
        return instant_after(lease->pass_started, terms->pass_limit_ns);
    case LEASE_WAITING:
        return lease->act_at;
    case LEASE_HELD:
        return instant_earlier(lease_believed_until(lease, terms),
                               instant_earlier(lease->act_at, danger_at(lease, terms)));
    case LEASE_FREE:
    case LEASE_LOST:
        break;
    }
    return INSTANT_NEVER;
}
