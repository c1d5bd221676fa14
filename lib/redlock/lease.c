/* See lease.h for the rules. How this file is built: every public function is one input; it ends in exactly one of
 * the small transitions below (start an attempt, fail an attempt, hold, lose, end), and only those change `state`. */
#include "redlock/lease.h"

#include "base/invariant.h"

#define GUARD_MIN_NS (50 * NS_PER_MS)

unsigned lease_quorum(const struct lease_terms *terms)
{
    return terms->nodes / 2 + 1;
}

static unsigned set_count(node_set set)
{
    return (unsigned)__builtin_popcount(set);
}

static bool has_quorum(const struct lease_terms *terms, node_set set)
{
    return set_count(set) >= lease_quorum(terms);
}

static node_set set_all(const struct lease_terms *terms)
{
    return (node_set)((1u << terms->nodes) - 1u);
}

/* The nodes that were asked in this round and have not answered. */
static node_set outstanding(const struct lease *lease)
{
    return (node_set)(lease->asked & ~(lease->yes | lease->no | lease->foreign | lease->unknown));
}

/* The end of the validity of a grant or extension whose round began then, guard not subtracted (E6, E7). */
static struct instant validity_of(const struct lease_terms *terms, struct instant round_started)
{
    return instant_after(round_started, terms->ttl_ns - terms->drift_ns);
}

/* A grant is valid for this much less than its ttl: the clock of its node may be fast. */
static int64_t lease_drift_ns(int64_t ttl_ns, double drift_factor)
{
    return (int64_t)((double)ttl_ns * drift_factor) + LEASE_FORGIVEN_NS + LEASE_PRECISION_NS;
}

int64_t lease_wait_ns(int64_t ttl_ns, double drift_factor, int64_t timeout_ns)
{
    int64_t on_the_node_ns = ttl_ns + LEASE_FORGIVEN_NS + LEASE_PRECISION_NS;
    return (int64_t)((double)on_the_node_ns / (1 - drift_factor)) + timeout_ns;
}

void lease_terms_derive(struct lease_terms *terms)
{
    invariant(terms->nodes >= 1 && terms->nodes <= LEASE_NODES_MAX);
    invariant(terms->ttl_ns > 0 && terms->tries >= 1 && terms->attempt_limit_ns > 0);
    int64_t ttl = terms->ttl_ns;
    if (terms->silence_limit_ns < terms->attempt_limit_ns)
        terms->silence_limit_ns = terms->attempt_limit_ns;
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

/* Jitter without a source of randomness of its own: xorshift over the seed from the driver. */
static int64_t jitter_below(struct lease *lease, int64_t bound)
{
    if (bound <= 0)
        return 0;
    lease->noise ^= lease->noise << 13;
    lease->noise ^= lease->noise >> 17;
    lease->noise ^= lease->noise << 5;
    return (int64_t)(((uint64_t)lease->noise * (uint64_t)bound) >> 32);
}

/* Later answers to the previous round are no votes. 0 means "no round". */
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
    lease->attempt_started = now;
}

/* --- the hold: extension, danger, loss ---------------------------------------------------------------------------- */

/* Extensions are planned on a grid, so that those due within 10 ms of each other leave in one script call. */
#define EXTEND_GRID_NS (10 * NS_PER_MS)

struct instant lease_believed_until(const struct lease *lease, const struct lease_terms *terms)
{
    if (lease->state != LEASE_HELD)
        return (struct instant){0};
    return instant_earlier(instant_after(lease->valid_until, -terms->guard_ns), lease->hold_until);
}

/* Also true when the maximum hold is near: by a third of the ttl, as for a validity that is no longer extended. */
struct instant lease_danger_from(const struct lease *lease, const struct lease_terms *terms)
{
    if (lease->state != LEASE_HELD)
        return (struct instant){0};
    struct instant end_is_near =
        lease->hold_until.ns == INSTANT_NEVER.ns ? INSTANT_NEVER : instant_after(lease->hold_until, -terms->ttl_ns / 3);
    return instant_earlier(instant_after(lease->confirmed, terms->danger_after_ns), end_is_near);
}

static void extension_plan(struct lease *lease, const struct lease_terms *terms)
{
    int64_t after = terms->extend_after_ns - jitter_below(lease, terms->extend_after_ns / 10); /* E33 */
    struct instant due = instant_after(lease->confirmed, after);
    lease->act_at = (struct instant){due.ns - due.ns % EXTEND_GRID_NS};
}

static struct lease_step hold_begin(struct lease *lease, const struct lease_terms *terms)
{
    lease->state = LEASE_HELD;
    lease->gone = (node_set)(set_all(terms) & (lease->no | ~lease->reached));
    lease->confirmed = lease->validity_from;
    lease->valid_until = validity_of(terms, lease->validity_from);
    lease->hold_until =
        terms->max_hold_ns > 0 ? instant_after(lease->validity_from, terms->max_hold_ns) : INSTANT_NEVER;
    lease->extending = false;
    lease->in_danger = false;
    extension_plan(lease, terms);
    return (struct lease_step){.news = LEASE_NEWS_ACQUIRED};
}

/* A round that began earlier proves nothing: what it would confirm counts from a time that may be wrong. */
static void hold_suspect(struct lease *lease, const struct lease_terms *terms, int64_t stood_ns, struct instant now)
{
    struct instant less = instant_after(lease->valid_until, -stood_ns);
    struct instant grace = instant_after(now, terms->attempt_limit_ns + terms->guard_ns);
    if (instant_before(less, grace))
        less = instant_earlier(grace, lease->valid_until);
    lease->valid_until = less;
    lease->extending = false;
    lease->act_at = instant_earlier(lease->act_at, now);
}

static struct lease_step hold_lose(struct lease *lease, enum redlock_loss loss)
{
    lease->state = LEASE_LOST;
    lease->extending = false;
    lease->asked = 0;
    round_next(lease);
    return (struct lease_step){.news = LEASE_NEWS_LOST, .loss = loss};
}

/* Reports the end that came first, however late it is noticed. */
static struct lease_step hold_run_out(struct lease *lease, const struct lease_terms *terms)
{
    bool at_end_of_hold = lease_believed_until(lease, terms).ns == lease->hold_until.ns;
    return hold_lose(lease, at_end_of_hold ? REDLOCK_LOST_MAX_HOLD : REDLOCK_LOST_DEADLINE);
}

static node_set hold_nodes(const struct lease *lease, const struct lease_terms *terms)
{
    return (node_set)(set_all(terms) & ~lease->gone);
}

/* A node that forgot would still keep our key otherwise. As long as that is true, the node cannot rightly have granted
 * it to anybody else, and giving it back restores the right state (reference 5, conditions a and b). */
static node_set still_owed(const struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    node_set owed = 0;
    for (unsigned node = 0; node < terms->nodes; node++)
        if ((lease->forgot & set_of(node)) && instant_before(now, lease->kept_until[node]))
            owed |= set_of(node);
    return owed;
}

/* An unfenced hold can only extend keys that still exist: nothing would tell whether another owner had them since. */
static struct lease_step extension_start(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    node_set owed = still_owed(lease, terms, now);
    lease->gone &= (node_set)~lease->yes; /* the last round gave it the key */
    lease->gone |= (node_set)(lease->forgot & ~owed);
    node_set ours = hold_nodes(lease, terms);
    node_set replant = terms->fenced ? (node_set)(owed & ours) : 0;
    node_set regrant = terms->fenced ? lease->gone : 0;
    round_begin(lease, (node_set)(ours | regrant), now);
    lease->extending = true;
    lease->act_at = instant_after(now, terms->extend_retry_ns + jitter_below(lease, terms->ttl_ns / 40));
    return (struct lease_step){.extend = (node_set)(ours & ~replant), .replant = replant, .regrant = regrant};
}

static struct lease_step extension_win(struct lease *lease, const struct lease_terms *terms)
{
    lease->extending = false;
    lease->confirmed = lease->attempt_started;
    lease->valid_until = validity_of(terms, lease->attempt_started);
    lease->in_danger = lease->in_danger && instant_reached(lease->attempt_started, lease_danger_from(lease, terms));
    extension_plan(lease, terms);
    return (struct lease_step){.news = LEASE_NEWS_EXTENDED};
}

static struct lease_step hold_judge(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (instant_reached(now, lease_believed_until(lease, terms)))
        return hold_run_out(lease, terms);
    lease->gone |= lease->no;
    lease->forgot &= (node_set)~lease->yes;
    if (!has_quorum(terms, hold_nodes(lease, terms)))
        return hold_lose(lease, REDLOCK_LOST_TAKEN);
    if (lease->extending && has_quorum(terms, (node_set)(lease->yes & hold_nodes(lease, terms))))
        return extension_win(lease, terms);
    return (struct lease_step){0};
}

/* When to report DANGER; NEVER once it was reported. */
static struct instant danger_at(const struct lease *lease, const struct lease_terms *terms)
{
    return lease->in_danger ? INSTANT_NEVER : lease_danger_from(lease, terms);
}

static struct lease_step hold_tick(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (instant_reached(now, lease_believed_until(lease, terms)))
        return hold_run_out(lease, terms);
    struct lease_step step = {0};
    if (instant_reached(now, lease->act_at)) {
        step = extension_start(lease, terms, now);
        if (!has_quorum(terms, hold_nodes(lease, terms)))
            return hold_lose(lease, REDLOCK_LOST_TAKEN);
    }
    if (instant_reached(now, danger_at(lease, terms))) {
        lease->in_danger = true;
        step.news = LEASE_NEWS_DANGER;
    }
    return step;
}

struct lease_step lease_verify(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (lease->state != LEASE_HELD)
        return (struct lease_step){0};
    lease->act_at = now;
    return hold_tick(lease, terms, now);
}

void lease_lengthen(struct lease *lease, struct lease_terms *terms, int64_t ttl_ns)
{
    invariant(lease->state == LEASE_HELD && ttl_ns >= terms->ttl_ns);
    terms->ttl_ns = ttl_ns;
    lease_terms_derive(terms);
    lease->valid_until = validity_of(terms, lease->confirmed);
    extension_plan(lease, terms);
}

static struct instant hold_next(const struct lease *lease, const struct lease_terms *terms)
{
    return instant_earlier(lease_believed_until(lease, terms), instant_earlier(lease->act_at, danger_at(lease, terms)));
}

/* --- the way to a hold: attempts at the nodes, and the fencing token ---------------------------------------------- */

#define SPLIT_WAIT_MIN_NS (1 * NS_PER_MS)
#define SPLIT_WAIT_NS     (8 * NS_PER_MS)
#define SPLIT_WAIT_MAX_NS (100 * NS_PER_MS)

static struct lease_step attempt_start(struct lease *lease, const struct lease_terms *terms, struct instant now)
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

/* Counts the refusals by the owner named most often. A refusal without an owner may be by any of them. */
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

/* An attempt that a holder refuses waits for that holder, but a split vote has none and must not look like one. So the
 * attempt waits for the nodes that can still tell them apart. */
static bool may_name_holder(const struct lease *lease, const struct lease_terms *terms)
{
    unsigned most = refusals_by_one_owner(lease, terms), quorum = lease_quorum(terms);
    return most < quorum && most + set_count(outstanding(lease)) >= quorum;
}

static enum redlock_answer attempt_refusal(const struct lease *lease, const struct lease_terms *terms)
{
    if (has_quorum(terms, lease->yes))
        return REDLOCK_TOO_SLOW;
    /* A node whose answer the decision did not wait for is not silent. */
    if (set_count(lease->unknown) > terms->nodes - lease_quorum(terms))
        return REDLOCK_NO_QUORUM;
    return refusals_by_one_owner(lease, terms) >= lease_quorum(terms) ? REDLOCK_BUSY : REDLOCK_SPLIT;
}

/* Call it before the votes are reset. A denied raise does not take a grant back. */
static void obstruction_note(struct lease *lease, const struct lease_terms *terms, node_set granted)
{
    if (lease->state == LEASE_FENCING || has_quorum(terms, (node_set)(granted & lease->reached)))
        lease->may_obstruct = true;
}

/* A split vote resolves itself within a round trip or two, so its wait starts short; what is held takes longer. */
static int64_t attempt_retry_wait(struct lease *lease, const struct lease_terms *terms, enum redlock_answer refusal)
{
    if (refusal != REDLOCK_SPLIT) {
        lease->splits = 0;
        return terms->retry_delay_ns + jitter_below(lease, terms->retry_jitter_ns + 1);
    }
    int64_t bound = SPLIT_WAIT_NS;
    for (unsigned i = 0; i < lease->splits && bound < SPLIT_WAIT_MAX_NS; i++)
        bound *= 2;
    lease->splits++;
    return SPLIT_WAIT_MIN_NS + jitter_below(lease, bound < SPLIT_WAIT_MAX_NS ? bound : SPLIT_WAIT_MAX_NS);
}

static struct lease_step attempt_fail(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    enum redlock_answer refusal = attempt_refusal(lease, terms);
    struct lease_step step = {.abandon = lease->reached};
    /* After an early refusal the remaining nodes would refuse as well: that doubt is not worth examining. */
    obstruction_note(lease, terms, (node_set)(lease->yes | lease->unknown));
    lease->refusal = refusal;
    round_next(lease);
    lease->asked = 0;
    lease->reached = 0;
    lease->token = 0;
    if (lease->tries_left > 0) {
        lease->state = LEASE_WAITING;
        lease->act_at = instant_after(now, attempt_retry_wait(lease, terms, refusal));
        return step;
    }
    lease->state = LEASE_FREE;
    step.news = LEASE_NEWS_REFUSED;
    step.refusal = refusal;
    return step;
}

/* Won, but is enough of the ttl left (E5)? */
static struct lease_step attempt_win(struct lease *lease, const struct lease_terms *terms, uint64_t token,
                                     struct instant now)
{
    if (instant_since(now, validity_of(terms, lease->validity_from)) < terms->needed_ns)
        return attempt_fail(lease, terms, now);
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

/* Raises the counters of the nodes that granted less than the highest token. The nodes that hold it already count:
 * their counters stand still while they hold our key. */
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
        return attempt_win(lease, terms, 0, now);
    if (set_count(lease->yes) + set_count(open) < lease_quorum(terms))
        return may_name_holder(lease, terms) ? (struct lease_step){0} : attempt_fail(lease, terms, now);
    if (!has_quorum(terms, lease->yes))
        return (struct lease_step){0};
    uint64_t token = token_commonest(lease, terms);
    unsigned holders = set_count(token_holders(lease, terms, token));
    if (holders >= lease_quorum(terms))
        return attempt_win(lease, terms, token, now);
    if (holders + set_count(open) < lease_quorum(terms))
        return fencing_start(lease, terms, now);
    return (struct lease_step){0};
}

/* A counter that was higher raises the token once more (F1). While we own the keys no other client moves the counters,
 * so this ends with the highest. */
static struct lease_step fencing_judge(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (set_count(lease->yes) + set_count(outstanding(lease)) < lease_quorum(terms))
        return attempt_fail(lease, terms, now);
    unsigned holders = set_count(token_holders(lease, terms, lease->token));
    if (holders >= lease_quorum(terms))
        return attempt_win(lease, terms, lease->token, now);
    if (has_quorum(terms, lease->yes) && holders + set_count(outstanding(lease)) < lease_quorum(terms))
        return fencing_start(lease, terms, now);
    return (struct lease_step){0};
}

static struct lease_step attempt_judge(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    return lease->state == LEASE_ACQUIRING ? granting_judge(lease, terms, now) : fencing_judge(lease, terms, now);
}

static struct lease_step attempt_cancel(struct lease *lease, const struct lease_terms *terms)
{
    struct lease_step step = {.abandon = lease->reached, .news = LEASE_NEWS_REFUSED, .refusal = REDLOCK_CANCELLED};
    obstruction_note(lease, terms, (node_set)(lease->yes | lease->unknown | outstanding(lease)));
    lease->state = LEASE_FREE;
    lease->refusal = REDLOCK_CANCELLED;
    lease->asked = 0;
    lease->reached = 0;
    lease->token = 0;
    round_next(lease);
    return step;
}

/* --- acquiring ---------------------------------------------------------------------------------------------------- */

void lease_init(struct lease *lease, uint32_t noise)
{
    *lease = (struct lease){.state = LEASE_FREE, .noise = noise | 1u, .refusal = REDLOCK_BUSY};
}

struct lease_step lease_acquire(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    invariant(lease->state == LEASE_FREE);
    lease->tries_left = terms->tries;
    lease->splits = 0;
    lease->may_obstruct = false;
    return attempt_start(lease, terms, now);
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

/* Voids the node's vote for an undecided attempt. For a hold, the next extension decides what to do. */
struct lease_step lease_forgot(struct lease *lease, const struct lease_terms *terms, unsigned node, struct instant now)
{
    invariant(node < terms->nodes);
    switch (lease->state) {
    case LEASE_ACQUIRING:
    case LEASE_FENCING:
        lease->yes &= (node_set)~set_of(node);
        lease->unknown |= (node_set)(set_of(node) & lease->asked);
        return attempt_judge(lease, terms, now);
    case LEASE_HELD:
        lease->yes &= (node_set)~set_of(node);
        lease->unknown |= (node_set)(set_of(node) & lease->asked);
        if (!(hold_nodes(lease, terms) & set_of(node)))
            break;
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

void lease_regranted(struct lease *lease, node_set nodes)
{
    invariant(lease->state == LEASE_HELD);
    lease->reached |= nodes;
}

struct lease_step lease_doubt(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (lease->state == LEASE_HELD)
        return hold_lose(lease, REDLOCK_LOST_CLOCK);
    if (lease->state == LEASE_ACQUIRING || lease->state == LEASE_FENCING)
        return attempt_fail(lease, terms, now);
    return (struct lease_step){0};
}

void lease_suspect(struct lease *lease, const struct lease_terms *terms, int64_t stood_ns, struct instant now)
{
    invariant(stood_ns > 0);
    if (lease->state == LEASE_ACQUIRING || lease->state == LEASE_FENCING) {
        lease->attempt_started = instant_after(lease->attempt_started, -stood_ns);
        lease->validity_from = instant_after(lease->validity_from, -stood_ns);
    } else if (lease->state == LEASE_HELD) {
        hold_suspect(lease, terms, stood_ns, now);
    }
}

struct lease_step lease_forfeit(struct lease *lease)
{
    return lease->state == LEASE_HELD ? hold_lose(lease, REDLOCK_LOST_FORFEIT) : (struct lease_step){0};
}

/* --- releasing ---------------------------------------------------------------------------------------------- */

static struct lease_step release_end(struct lease *lease, const struct lease_terms *terms)
{
    struct lease_step step = {.news = LEASE_NEWS_RELEASED};
    unsigned quorum = lease_quorum(terms);
    unsigned deleted = set_count(lease->yes), silent = set_count(lease->unknown) + set_count(outstanding(lease));
    if (deleted >= quorum)
        step.ending = REDLOCK_RELEASED;
    else if (deleted + silent >= quorum) /* a node that was never reached is neither silent nor "gone already" */
        step.ending = REDLOCK_UNKNOWN;
    else
        step.ending = lease->foreign ? REDLOCK_FOREIGN : REDLOCK_EXPIRED;
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
        return attempt_cancel(lease, terms);
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
            lease->kept_until[node] = validity_of(terms, lease->attempt_started);
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
        return attempt_judge(lease, terms, now);
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
    /* unknown: the node forgot meanwhile */
    nodes &= (node_set)(lease->asked & ~(lease->yes | lease->no | lease->foreign));
    lease->unknown |= nodes;
    lease->reached &= (node_set)~nodes;
    return attempt_judge(lease, terms, now);
}

struct lease_step lease_tick(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (instant_before(now, lease_next(lease, terms)))
        return (struct lease_step){0};
    switch (lease->state) {
    case LEASE_ACQUIRING:
    case LEASE_FENCING:
        lease->unknown |= outstanding(lease);
        return attempt_judge(lease, terms, now);
    case LEASE_WAITING:
        return attempt_start(lease, terms, now);
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

/* Waits for slow nodes while their votes are needed, and no longer: once a quorum has answered, a silent minority must
 * not delay the round. */
static int64_t round_limit(const struct lease *lease, const struct lease_terms *terms)
{
    bool is_answered = has_quorum(terms, (node_set)(lease->yes | lease->no | lease->foreign));
    return is_answered ? terms->attempt_limit_ns : terms->silence_limit_ns;
}

struct instant lease_next(const struct lease *lease, const struct lease_terms *terms)
{
    switch (lease->state) {
    case LEASE_ACQUIRING:
    case LEASE_FENCING:
    case LEASE_RELEASING:
        return instant_after(lease->attempt_started, round_limit(lease, terms));
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
