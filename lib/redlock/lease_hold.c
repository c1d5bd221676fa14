/* The hold: extension, danger, loss. See lease.h for the rules. */
#include "redlock/lease_private.h"

/* Extensions are planned on a grid, so that those due within 10 ms of each other leave in one script call. */
#define EXTEND_GRID_NS (10 * NS_PER_MS)

struct instant lease_believed_until(const struct lease *lease, const struct lease_terms *terms)
{
    if (lease->state != LEASE_HELD)
        return (struct instant){0};
    return instant_earlier(instant_after(lease->valid_until, -terms->guard_ns), lease->hold_until);
}

/* Also when the maximum hold is near: by a third of the ttl, as for a validity that is not extended any more. */
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

struct lease_step hold_begin(struct lease *lease, const struct lease_terms *terms)
{
    lease->state = LEASE_HELD;
    lease->gone = lease->no;
    lease->confirmed = lease->validity_from;
    lease->valid_until = validity_of(terms, lease->validity_from);
    lease->hold_until =
        terms->max_hold_ns > 0 ? instant_after(lease->validity_from, terms->max_hold_ns) : INSTANT_NEVER;
    lease->extending = false;
    lease->in_danger = false;
    extension_plan(lease, terms);
    return (struct lease_step){.news = LEASE_NEWS_ACQUIRED};
}

/* A round that began before is no proof: what it would confirm counts from a time that may be wrong. */
void hold_suspect(struct lease *lease, const struct lease_terms *terms, int64_t stood_ns, struct instant now)
{
    struct instant less = instant_after(lease->valid_until, -stood_ns);
    struct instant grace = instant_after(now, terms->pass_limit_ns + terms->guard_ns);
    if (instant_before(less, grace))
        less = instant_earlier(grace, lease->valid_until);
    lease->valid_until = less;
    lease->extending = false;
    lease->act_at = instant_earlier(lease->act_at, now);
}

struct lease_step hold_lose(struct lease *lease, enum lease_loss loss)
{
    lease->state = LEASE_LOST;
    lease->extending = false;
    lease->asked = 0;
    round_next(lease);
    return (struct lease_step){.news = LEASE_NEWS_LOST, .loss = loss};
}

/* For the end that came first, however late it is seen. */
static struct lease_step hold_run_out(struct lease *lease, const struct lease_terms *terms)
{
    bool at_end_of_hold = lease_believed_until(lease, terms).ns == lease->hold_until.ns;
    return hold_lose(lease, at_end_of_hold ? LEASE_LOSS_MAX_HOLD : LEASE_LOSS_DEADLINE);
}

node_set hold_nodes(const struct lease *lease)
{
    return (node_set)(lease->reached & ~lease->gone);
}

/* A node that forgot would still keep our key, had it not: as long as that is true, nobody else can rightly have been
 * granted it there, and giving it back restores what would be (reference 5, conditions a and b). */
static node_set still_owed(const struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    node_set owed = 0;
    for (unsigned node = 0; node < terms->nodes; node++)
        if ((lease->forgot & set_of(node)) && instant_before(now, lease->kept_until[node]))
            owed |= set_of(node);
    return owed;
}

/* An unfenced hold can only extend what is still there: nothing would tell whether somebody else was there since. */
static struct lease_step extension_start(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    node_set owed = still_owed(lease, terms, now);
    lease->gone |= (node_set)(lease->forgot & ~owed);
    round_begin(lease, hold_nodes(lease), now);
    lease->extending = true;
    lease->act_at = instant_after(now, terms->extend_retry_ns + jitter_below(lease, terms->ttl_ns / 40));
    node_set replant = terms->fenced ? (node_set)(owed & lease->asked) : 0;
    return (struct lease_step){.extend = (node_set)(lease->asked & ~replant), .replant = replant};
}

static struct lease_step extension_win(struct lease *lease, const struct lease_terms *terms)
{
    lease->extending = false;
    lease->confirmed = lease->pass_started;
    lease->valid_until = validity_of(terms, lease->pass_started);
    lease->in_danger = lease->in_danger && instant_reached(lease->pass_started, lease_danger_from(lease, terms));
    extension_plan(lease, terms);
    return (struct lease_step){.news = LEASE_NEWS_EXTENDED};
}

struct lease_step hold_judge(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (instant_reached(now, lease_believed_until(lease, terms)))
        return hold_run_out(lease, terms);
    lease->gone |= lease->no;
    lease->forgot &= (node_set)~lease->yes;
    if (!has_quorum(terms, hold_nodes(lease)))
        return hold_lose(lease, LEASE_LOSS_TAKEN);
    if (lease->extending && has_quorum(terms, lease->yes))
        return extension_win(lease, terms);
    return (struct lease_step){0};
}

/* When DANGER is to be told; NEVER once it was. */
static struct instant danger_at(const struct lease *lease, const struct lease_terms *terms)
{
    return lease->in_danger ? INSTANT_NEVER : lease_danger_from(lease, terms);
}

struct lease_step hold_tick(struct lease *lease, const struct lease_terms *terms, struct instant now)
{
    if (instant_reached(now, lease_believed_until(lease, terms)))
        return hold_run_out(lease, terms);
    struct lease_step step = {0};
    if (instant_reached(now, lease->act_at)) {
        step = extension_start(lease, terms, now);
        if (!has_quorum(terms, hold_nodes(lease)))
            return hold_lose(lease, LEASE_LOSS_TAKEN);
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

struct instant hold_next(const struct lease *lease, const struct lease_terms *terms)
{
    return instant_earlier(lease_believed_until(lease, terms), instant_earlier(lease->act_at, danger_at(lease, terms)));
}
