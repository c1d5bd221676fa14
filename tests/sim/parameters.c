#include "tests/sim/parameters.h"

#include "tests/sim/node_model.h"

#define TTL_MIN_NS    (500 * NS_PER_MS)
#define TTL_MAX_NS    (60 * NS_PER_S)
#define PASS_SLACK_NS (10 * NS_PER_MS) /* as in the driver */
#define WEEK_MS       (7 * 24 * 3600 * MS_PER_S)
/* A step that is allowed for by the rules of trust.h is no step: their rate, and twice that for two nodes. */
#define STEP_UNSEEN (4 * NS_PER_S)
/* Clocks that are further apart make one of them an outlier to whoever compares them for the first time. */
#define APART_MOST (1 * NS_PER_S)

static int64_t whole_ms(int64_t ns)
{
    return ns - ns % NS_PER_MS;
}

static bool has_fault(const struct parameters *p, enum fault fault)
{
    return (p->faults & 1u << fault) != 0;
}

/* --- who -------------------------------------------------------------------------------------------------------- */

const char *const profile_names[PROFILES] = {"steady", "loss", "steps", "wild", "ruin"};

static void profile_draw(struct parameters *p, struct chance *chance, enum profile forced)
{
    static const enum profile profiles[] = {PROFILE_STEADY, PROFILE_STEADY, PROFILE_STEADY, PROFILE_STEADY,
                                            PROFILE_LOSS,   PROFILE_LOSS,   PROFILE_LOSS,   PROFILE_STEPS,
                                            PROFILE_WILD,   PROFILE_RUIN};
    p->calm = chance_pick(chance, 5) == 0 && (forced == PROFILES || forced == PROFILE_STEADY);
    p->prompt = p->calm && chance_pick(chance, 2) == 0;
    p->abrupt = !p->calm && chance_pick(chance, 2) == 0;
    p->replies_first = chance_pick(chance, 2) == 0;
    p->late_votes = chance_pick(chance, 2) == 0;
    p->profile = p->calm ? PROFILE_STEADY : profiles[chance_pick(chance, sizeof profiles / sizeof profiles[0])];
    if (forced != PROFILES)
        p->profile = forced;
}

static void group_draw(struct parameters *p, struct chance *chance)
{
    static const unsigned any[] = {1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 5, 7}, odd[] = {3, 3, 3, 5, 5, 7};
    static const unsigned clients[] = {3, 3, 3, 4, 5};
    if (p->profile == PROFILE_STEPS)
        p->nodes = odd[chance_pick(chance, sizeof odd / sizeof odd[0])];
    else
        p->nodes = any[chance_pick(chance, sizeof any / sizeof any[0])];
    p->clients = clients[chance_pick(chance, sizeof clients / sizeof clients[0])];
    p->locks = chance_pick(chance, 3) == 0 ? SIM_LOCKS_MAX : 1;
    p->resources = 1 + chance_pick(chance, SIM_RESOURCES_MAX);
    p->herd = chance_pick(chance, 4) == 0;
}

/* --- terms ------------------------------------------------------------------------------------------------------ */

/* Some are held shorter than they would be, some longer than a few extensions. */
static int64_t max_hold_draw(const struct lease_terms *terms, struct chance *chance)
{
    return chance_pick(chance, 4) == 0 ? chance_between(chance, terms->ttl_ns / 2, 3 * terms->ttl_ns) : 0;
}

static void extremes_take(struct parameters *p, const struct lease_terms *terms, int64_t timeout_ns)
{
    if (terms->ttl_ns > p->longest_ttl_ns)
        p->longest_ttl_ns = terms->ttl_ns;
    if (terms->ttl_ns < p->shortest_ttl_ns)
        p->shortest_ttl_ns = terms->ttl_ns;
    if (timeout_ns > p->longest_timeout_ns)
        p->longest_timeout_ns = timeout_ns;
}

/* A prompt schedule keeps to what redlock_terms_check allows; the others go beyond, because the rules of the lock must
 * not depend on a well chosen timeout. */
static void terms_draw(struct parameters *p, struct chance *chance)
{
    int64_t ttl = whole_ms(chance_scale(chance, TTL_MIN_NS, TTL_MAX_NS));
    double drift = (double)chance_scale(chance, 1, 100) / 1000;
    bool generous = !p->prompt && chance_pick(chance, 3) == 0;
    bool mixed = !p->prompt && chance_pick(chance, 4) == 0;
    unsigned unfenced = chance_pick(chance, 8); /* 0: all, 1: some */
    p->shortest_ttl_ns = INT64_MAX;
    for (unsigned i = 0; i < p->clients; i++) {
        struct lease_terms *terms = &p->terms[i];
        *terms = (struct lease_terms){.nodes = p->nodes, .ttl_ns = ttl, .drift_factor = drift};
        if (mixed && ttl >= 4 * TTL_MIN_NS)
            terms->ttl_ns = whole_ms(ttl >> chance_pick(chance, 3));
        if (i == 0 || mixed)
            p->timeout_ns[i] = chance_scale(chance, terms->ttl_ns / 100, terms->ttl_ns / (generous ? 2 : 4));
        else
            p->timeout_ns[i] = p->timeout_ns[0];
        /* Of all but the prompt, every other client has nodes that are slower than their timeout of late. */
        terms->silence_limit_ns = p->timeout_ns[i] + PASS_SLACK_NS;
        terms->pass_limit_ns = (p->prompt || i % 2 == 0 ? p->timeout_ns[i] : p->timeout_ns[i] / 4) + PASS_SLACK_NS;
        terms->tries = 1 + chance_pick(chance, 4);
        terms->retry_delay_ns = chance_scale(chance, NS_PER_MS, terms->ttl_ns / 10);
        terms->retry_jitter_ns = chance_below(chance, terms->ttl_ns / 10);
        terms->fenced = unfenced > 1 || (unfenced == 1 && chance_pick(chance, 2) == 0);
        terms->max_hold_ns = p->prompt ? 0 : max_hold_draw(terms, chance);
        lease_terms_derive(terms);
        extremes_take(p, terms, p->timeout_ns[i]);
    }
    p->max_ttl_ns = whole_ms(p->longest_ttl_ns + chance_below(chance, p->longest_ttl_ns / 4));
    p->quarantine_ns = p->max_ttl_ns;
    p->pulse_ns = chance_between(chance, p->max_ttl_ns / 3, p->max_ttl_ns * 2 / 3);
}

/* --- the network and the faults --------------------------------------------------------------------------------- */

static int64_t shortest_timeout(const struct parameters *p)
{
    int64_t shortest = p->timeout_ns[0];
    for (unsigned i = 1; i < p->clients; i++)
        if (p->timeout_ns[i] < shortest)
            shortest = p->timeout_ns[i];
    return shortest;
}

static void network_draw(struct parameters *p, struct chance *chance)
{
    static const unsigned spikes[] = {0, 0, 5, 50};
    int64_t timeout = shortest_timeout(p);
    /* There and back: two delays and two jitters, and still within the timeout when prompt. A client that knows no node
     * in time does nothing at all. */
    int64_t most = p->prompt ? timeout / 5 : p->nodes % 2 == 1 ? timeout * 3 / 8 : timeout * 3 / 4;
    p->delay_ns = chance_scale(chance, chance_pick(chance, 2) == 0 ? most / 8 : p->shortest_ttl_ns / 10000, most);
    p->delay_jitter_ns = chance_below(chance, p->prompt ? timeout / 5 : 2 * p->delay_ns);
    p->spike_per_mille = p->prompt ? 0 : spikes[chance_pick(chance, 4)];
    p->spike_ns = p->shortest_ttl_ns;
    p->late_ns = chance_below(chance, p->longest_ttl_ns);
}

static unsigned faults_of_profile(const struct parameters *p, struct chance *chance)
{
    switch (p->profile) {
    case PROFILE_LOSS: /* without a group, a node that forgets stays away for a ttl: that is a crash */
        return parameters_grouped(p) && chance_pick(chance, 4) != 0 ? 1u << FAULT_LOSS : 1u << FAULT_CRASH;
    case PROFILE_STEPS:
        return 1u << FAULT_STEP | (unsigned)chance_pick(chance, 2) << FAULT_LOSS |
               (unsigned)chance_pick(chance, 2) << FAULT_FREEZE;
    case PROFILE_WILD:
        return (unsigned)chance_between(chance, 1, 3) << FAULT_STEP;
    case PROFILE_RUIN:
        return 1u << FAULT_LOSS;
    case PROFILE_STEADY:
    case PROFILES:
        break;
    }
    return 0;
}

static void faults_draw(struct parameters *p, struct chance *chance)
{
    p->fault_gap_ns = chance_between(chance, p->longest_ttl_ns / 20, p->longest_ttl_ns);
    if (p->calm)
        return;
    p->faults = (unsigned)chance_between(chance, 1, (1 << FAULT_LOSS) - 1) | faults_of_profile(p, chance);
    if (has_fault(p, FAULT_PAUSE))
        p->pause_per_mille = chance_pick(chance, 40);
    if (has_fault(p, FAULT_LOSS))
        p->save_ns = chance_scale(chance, NS_PER_MS, p->longest_ttl_ns / 2);
}

/* --- when ------------------------------------------------------------------------------------------------------- */

/* Until everybody who has to has waited through a quarantine that began with the calm. */
static int64_t quarantine_in_calm(const struct parameters *p)
{
    unsigned causes = 1u << FAULT_CRASH | 1u << FAULT_LOSS | 1u << FAULT_STEP | 1u << FAULT_FREEZE | 1u << FAULT_LEAVE;
    if (!parameters_grouped(p) || (p->faults & causes) == 0)
        return 0;
    return lease_wait_ns(p->max_ttl_ns, p->terms[0].drift_factor, 0) + p->max_ttl_ns / 100 + 3 * p->pulse_ns +
           5 * p->longest_timeout_ns + NS_PER_S;
}

static void times_draw(struct parameters *p, struct chance *chance)
{
    p->calm_from = instant_after(p->begin, chance_between(chance, 2, 7) * p->longest_ttl_ns / 2);
    p->progress_from = instant_after(p->calm_from, 2 * p->longest_ttl_ns + quarantine_in_calm(p));
    p->drain_from = instant_after(p->progress_from, p->longest_ttl_ns);
    if (p->abrupt)
        p->drain_from = p->calm_from;
    if (p->calm) /* without faults there is nothing to get over; a drain at any moment shows more leaks */
        p->drain_from = instant_after(p->begin, chance_below(chance, 3 * p->longest_ttl_ns));
}

/* --- clocks and promises ---------------------------------------------------------------------------------------- */

/* Far more than a schedule lasts, also when everybody waits for a drain. */
static int64_t longest_life(const struct parameters *p)
{
    return instant_since(p->begin, p->progress_from) + 6 * p->longest_ttl_ns;
}

/* How far the clocks of nodes may be from the right time at any time, where that matters. */
static int64_t clock_error(const struct parameters *p)
{
    if (p->profile == PROFILE_RUIN)
        return 5 * NS_PER_MS;
    return p->max_ttl_ns / 16 < 200 * NS_PER_MS ? p->max_ttl_ns / 16 : 200 * NS_PER_MS;
}

static bool clocks_matter(const struct parameters *p)
{
    return (p->profile == PROFILE_LOSS && !parameters_grouped(p)) || p->profile == PROFILE_RUIN;
}

static void clocks_draw(struct parameters *p, struct chance *chance)
{
    p->node_offset_ns = clocks_matter(p) || p->profile == PROFILE_LOSS || p->profile == PROFILE_STEPS || p->prompt
                            ? clock_error(p) / 2
                            : chance_scale(chance, NS_PER_MS, 3600 * NS_PER_S);
    if (p->profile == PROFILE_STEPS) {
        p->step_least_ns =
            STEP_UNSEEN + 4 * (int64_t)((double)longest_life(p) * p->terms[0].drift_factor) + 4 * p->longest_timeout_ns;
        p->step_most_ns = 4 * p->step_least_ns;
    } else {
        p->step_least_ns = NS_PER_MS;
        p->step_most_ns = 3600 * NS_PER_S;
    }
    p->exclusion = p->profile != PROFILE_WILD && p->profile != PROFILE_RUIN;
    p->fence_ttl_ms = WEEK_MS;
    /* A fence that expires is memory that is lost after a long idleness. */
    if (p->profile == PROFILE_RUIN && chance_pick(chance, 2) == 0)
        p->fence_ttl_ms = 2 * p->max_ttl_ns / NS_PER_MS;
    /* Where only clocks order: what they may be wrong by, and how well a client can know them. */
    if (p->profile == PROFILE_RUIN || (p->profile == PROFILE_LOSS && !parameters_grouped(p)))
        p->order_gap_ns = 4 * clock_error(p) + 2 * p->longest_timeout_ns;
    if (p->profile == PROFILE_STEPS && has_fault(p, FAULT_LOSS)) /* clocks that are wrong order nothing */
        p->order_gap_ns = longest_life(p);
}

void parameters_draw(struct parameters *p, struct chance *chance, enum profile forced)
{
    *p = (struct parameters){.begin = {NS_PER_S}};
    profile_draw(p, chance, forced);
    group_draw(p, chance);
    terms_draw(p, chance);
    network_draw(p, chance);
    faults_draw(p, chance);
    times_draw(p, chance);
    clocks_draw(p, chance);
}

/* Whoever is slow to know all clocks well compares them late: until the end of a prompt schedule they must not have
 * run apart, for what is refused then is no fault of anybody who is prompt. */
static double rate_most_prompt(const struct parameters *p)
{
    int64_t end = p->drain_from.ns + p->longest_ttl_ns;
    return (double)(APART_MOST / 2 - p->node_offset_ns) / (double)end;
}

static double rate_most(const struct parameters *p)
{
    double most = p->terms[0].drift_factor;
    if (p->prompt && rate_most_prompt(p) < most)
        most = rate_most_prompt(p);
    double error = (double)clock_error(p) / 2 / (double)longest_life(p);
    return clocks_matter(p) && error < most ? error : most;
}

int64_t parameters_node_rate(const struct parameters *p, struct chance *chance)
{
    /* Rounded down: exactly as fast as it may be. */
    int64_t most = (int64_t)(rate_most(p) * (double)MODEL_NORMAL_RATE);
    switch (chance_pick(chance, 4)) {
    case 0:
        return MODEL_NORMAL_RATE + most;
    case 1:
        return MODEL_NORMAL_RATE - most;
    default:
        return MODEL_NORMAL_RATE + chance_between(chance, -most, most);
    }
}
